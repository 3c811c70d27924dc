"""Options that several commands share."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

from cyclopts import Parameter

JsonFlag = Annotated[bool, Parameter(name="--json", negative=(), help="Print JSON instead of text.")]


def print_json(value: Any) -> None:  # noqa: ANN401 - any JSON value
    sys.stdout.write(json.dumps(value, indent=2) + "\n")


def print_line(text: str) -> None:
    sys.stdout.write(text + "\n")


@contextmanager
def read_or_not() -> Iterator[None]:
    """Printing whose reader may leave (`| head`) where the exit code has to tell the verdict all the same."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
