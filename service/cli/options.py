"""Options that several commands share."""

import json
import sys
from typing import Annotated, Any

from cyclopts import Parameter

JsonFlag = Annotated[bool, Parameter(name="--json", negative=(), help="Print JSON instead of text.")]


def print_json(value: Any) -> None:  # noqa: ANN401 - any JSON value
    sys.stdout.write(json.dumps(value, indent=2) + "\n")


def print_line(text: str) -> None:
    sys.stdout.write(text + "\n")
