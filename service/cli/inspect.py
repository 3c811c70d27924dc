"""`specguard inspect`: judge recorded answers and captured responses."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final

import msgspec
from cyclopts import Parameter

from service.cli.exits import BAD_INPUT, DONE, FOUND, Unfit
from service.cli.options import JsonFlag, print_line
from service.core.events import UNKNOWN, Kind
from service.core.recorded import Rules, Verdict, judge_capture, judge_text

STDIN: Final = "stdin"


class Record(msgspec.Struct):
    """One line of JSONL input; other keys are let be."""

    text: str
    id: str | int = ""
    prompt: str = ""
    steps: list[tuple[int, int]] | None = None  # (drafted, accepted) of each verify step

    def __post_init__(self) -> None:
        if any(not 0 <= accepted <= drafted for drafted, accepted in self.steps or ()):
            raise ValueError("a step is [drafted, accepted] with 0 <= accepted <= drafted")


class Mistake(msgspec.Struct, frozen=True):
    """Input that could not be judged."""

    where: str
    what: str


Judged = tuple[str | int, Verdict] | Mistake


def inspect(
    *files: str,
    json_output: JsonFlag = False,
    rules: Annotated[str, Parameter(help="A packaged rule set's name, or a file.")] = "default",
) -> int:
    """Judge recorded answers: JSONL texts, captured SSE, or a captured JSON response.

    Example: specguard inspect answers.jsonl capture.sse --json

    A JSONL line is {"id", "text"[, "prompt"][, "steps": [[drafted, accepted], ...]]}. The answer to each is
    {"id", "kind", "score", "detector", "at_token", "level"}: kind is normal, garbled, repetition, rare_char,
    crosstalk, truncated or silent; score is log10 of the evidence; level tells a mere suspicion.

    Exit codes: 0 all normal, 1 something was found, 2 some input could not be read.

    Parameters
    ----------
    files
        Files to read; with none, standard input.
    """
    from service.config import load_rules

    loaded = load_rules(rules)
    judges = Rules(loaded.detectors, loaded.fusion)
    if not files and sys.stdin.isatty():
        raise Unfit("inspect: name a file, or pipe one in")
    shown = _Lines() if json_output else _Table()
    for name in files or (STDIN,):
        for judged in _judged(name, judges):
            shown.add(judged)
    return shown.close()


def _judged(name: str, rules: Rules) -> Iterator[Judged]:
    """What one file holds, judged."""
    data = _read(name)
    if not data.strip():
        yield Mistake(name, "is empty")
    elif _is_capture(data):
        yield name, judge_capture(data, rules)
    elif data.lstrip()[:1] == b"{":
        yield from _lines(name, data, rules)
    else:
        yield Mistake(name, "is neither JSONL nor captured SSE nor a captured JSON response")


def _read(name: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if name == STDIN else Path(name).read_bytes()
    except OSError as broken:
        raise Unfit(f"{name}: cannot be read: {broken.strerror or broken}") from None


def _is_capture(data: bytes) -> bool:
    """SSE has a data line; a response body is one JSON object with choices or meta_info."""
    if data.lstrip()[:1] != b"{":
        return b"data:" in data
    try:
        body = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return isinstance(body, dict) and bool({"choices", "meta_info"} & body.keys())


def _lines(name: str, data: bytes, rules: Rules) -> Iterator[Judged]:
    for number, line in enumerate(data.splitlines(), 1):
        if not line.strip():
            continue
        try:
            record = msgspec.json.decode(line, type=Record)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as wrong:
            yield Mistake(f"{name}:{number}", str(wrong))
            continue
        yield record.id or number, judge_text(record.text, rules, prompt=record.prompt, steps=record.steps)


class _Lines:
    """JSON: one object a line, as they come; mistakes on stderr."""

    def __init__(self) -> None:
        self._code = DONE

    def add(self, judged: Judged) -> None:
        self._code = max(self._code, code_of(judged))
        if isinstance(judged, Mistake):
            sys.stderr.write(f"specguard: {judged.where}: {judged.what}\n")
            return
        own_id, verdict = judged
        print_line(msgspec.json.encode(answer(own_id, verdict)).decode())

    def close(self) -> int:
        return self._code


PIPED_CHARS: Final = 400
"""Where no terminal says how wide it is, a row is a line."""


class _Table(_Lines):
    """For people: a table at the end, and a line that counts."""

    def __init__(self) -> None:
        from rich.table import Column, Table

        super().__init__()
        self._rows = 0
        self._found = 0
        whole = Column("id", overflow="fold")  # files are told apart by the ends of their names
        self._table = Table(whole, "kind", "score", "detector", "at token", "level", box=None)

    def add(self, judged: Judged) -> None:
        if isinstance(judged, Mistake):
            super().add(judged)
            return
        self._code = max(self._code, code_of(judged))
        own_id, verdict = judged
        self._rows += 1
        self._found += verdict.kind is not Kind.NORMAL
        at_token = "" if verdict.at_token == UNKNOWN else str(verdict.at_token)
        level = verdict.level.name.lower()
        self._table.add_row(
            str(own_id), verdict.kind, f"{verdict.score:.2f}", verdict.detector, at_token, level
        )

    def close(self) -> int:
        from rich.console import Console

        if self._rows:
            width = None if sys.stdout.isatty() else PIPED_CHARS
            Console(markup=False, highlight=False, width=width).print(self._table)
        print_line(f"{self._rows} judged, {self._found} corrupted")
        return self._code


def answer(own_id: str | int, verdict: Verdict) -> dict[str, object]:
    """One output line."""
    return {
        "id": own_id,
        "kind": verdict.kind,
        "score": verdict.score,
        "detector": verdict.detector,
        "at_token": None if verdict.at_token == UNKNOWN else verdict.at_token,
        "level": verdict.level.name.lower(),
    }


def code_of(judged: Judged) -> int:
    if isinstance(judged, Mistake):
        return BAD_INPUT
    return DONE if judged[1].kind is Kind.NORMAL else FOUND
