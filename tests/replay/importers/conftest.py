"""Files to import, and what comes of them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from replay.importers import FORMATS, Imported, Source, import_trace, sniff
from replay.trace import TraceHeader, TraceRequest, read_trace


class Read:
    """An import, done."""

    def __init__(self, imported: Imported, header: TraceHeader, requests: list[TraceRequest]) -> None:
        self.imported, self.header, self.requests = imported, header, requests

    def __getitem__(self, index: int) -> TraceRequest:
        return self.requests[index]


Importing = Callable[..., Read]


@pytest.fixture
def importing(tmp_path: Path) -> Importing:
    """Import text (or bytes) in the format that the file itself shows, which must be the one expected."""

    def run(form: str, text: str | bytes, **choices: Any) -> Read:  # noqa: ANN401 - options of any type
        path = tmp_path / "given"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        assert sniff(path).name == form
        out = tmp_path / "out.trace"
        imported = import_trace(Source(path, **choices), FORMATS[form], out)
        header, requests = read_trace(out)
        return Read(imported, header, list(requests))

    return run
