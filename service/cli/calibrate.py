"""`specguard calibrate`: learn baselines of acceptance from clean traffic, recorded or live."""

import sys
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
from cyclopts import Parameter
from cyclopts.validators import Number

from service.cli.exits import DONE, FOUND, INTERRUPTED, Unfit
from service.cli.options import JsonFlag, print_json, print_line

if TYPE_CHECKING:
    from service.core.baseline import Baselines, Key
    from service.core.recorded import Rules

Drafts = Annotated[int, Parameter(validator=Number(gte=1, lte=256))]
Seconds = Annotated[float, Parameter(validator=Number(gt=0))]
STEPS_MIN: Final = 8
"""Verify steps under which a stream says too little."""


class Record(msgspec.Struct):
    """One line of JSONL input; other keys are let be."""

    steps: list[tuple[int, int]]  # (drafted, accepted) of each verify step
    model: str = ""
    worker: str = ""
    temperature: float = 1.0
    grammar: bool = False
    prompt: str = ""
    text: str = ""

    def __post_init__(self) -> None:
        if any(not 0 <= accepted <= drafted for drafted, accepted in self.steps):
            raise ValueError("a step is [drafted, accepted] with 0 <= accepted <= drafted")


class Tally(msgspec.Struct):
    """What a run took in."""

    streams: int = 0
    too_short: int = 0
    not_clean: int = 0
    unreadable: int = 0


def calibrate(
    *files: Path,
    out: Path = Path("specguard-baselines.json"),
    start_from: Annotated[Path | None, Parameter(name="--from")] = None,
    live: str = "",
    token: str = "",
    seconds: Seconds = 600.0,
    draft_tokens: Drafts = 3,
    json_output: JsonFlag = False,
) -> int:
    """Learn what acceptance is healthy, by model, worker, temperature, grammar and content.

    From files: a JSONL line is {"steps": [[drafted, accepted], ...][, "model", "worker", "temperature",
    "grammar", "prompt", "text"]}. A text in which the detectors find something is left out; with a prompt it
    is also told whether the answer copies it. Live: from the streams of a running sidecar, whose accept
    lengths are watched; a stream that is suspected of anything is left out.

    Example: specguard calibrate clean.jsonl --out baselines.json
    Example: specguard calibrate --live http://127.0.0.1:8401 --token $TOKEN --draft-tokens 3 --seconds 900

    The file goes into the settings as `baselines: baselines.json`. Nothing is written into rules.

    Exit codes: 0 written, 1 nothing to learn from, 2 bad input, 130 Ctrl-C (what was learned is written).

    Parameters
    ----------
    files
        Recorded streams.
    out
        Where the baselines are written.
    start_from
        Baselines of an earlier run to go on from.
    live
        Admin URL of a running sidecar.
    token
        Its admin token.
    seconds
        How long to watch.
    draft_tokens
        Drafts that a verify step can accept, where `--live` cannot know.
    json_output
        Print the summary as JSON.
    """
    from service.core.baseline import Baselines

    if not files and not live:
        raise Unfit("calibrate: name a file, or --live with the URL of a sidecar's admin port")
    baselines, tally = _load(start_from) if start_from else Baselines(), Tally()
    rules = _rules()
    for file in files:
        _learn_file(file, baselines, rules, tally)
    code = _watch(baselines, tally, live, token, seconds, draft_tokens) if live else DONE
    if not tally.streams:
        raise Unfit("calibrate: no clean stream to learn from", FOUND)
    try:
        out.write_bytes(baselines.dump() + b"\n")
    except OSError as broken:
        raise Unfit(f"{out}: cannot be written: {broken.strerror or broken}") from None
    _tell(baselines, tally, out, as_json=json_output)
    return code


def _rules() -> "Rules":
    from service.config import load_rules
    from service.core.recorded import Rules

    loaded = load_rules("default")
    return Rules(loaded.detectors, loaded.fusion)


def _load(path: Path) -> "Baselines":
    from service.core.baseline import Baselines

    try:
        return Baselines.load(path.read_bytes())
    except OSError as broken:
        raise Unfit(f"{path}: cannot be read: {broken.strerror or broken}") from None
    except msgspec.DecodeError as wrong:
        raise Unfit(f"{path}: is no file of baselines: {wrong}") from None


# --- files ---


def _learn_file(path: Path, baselines: "Baselines", rules: "Rules", tally: Tally) -> None:
    for record in _records(path, tally):
        if len(record.steps) < STEPS_MIN:
            tally.too_short += 1
        elif not _is_clean(record, rules):
            tally.not_clean += 1
        elif baselines.learn(_key(record), record.steps):
            tally.streams += 1


def _records(path: Path, tally: Tally) -> Iterator[Record]:
    try:
        data = path.read_bytes()
    except OSError as broken:
        raise Unfit(f"{path}: cannot be read: {broken.strerror or broken}") from None
    for number, line in enumerate(data.splitlines(), 1):
        if not line.strip():
            continue
        try:
            yield msgspec.json.decode(line, type=Record)
        except (msgspec.DecodeError, UnicodeDecodeError) as wrong:
            tally.unreadable += 1
            sys.stderr.write(f"specguard: {path}:{number}: {wrong}\n")


def _is_clean(record: Record, rules: "Rules") -> bool:
    from service.core.events import Kind
    from service.core.recorded import judge_text

    return not record.text or judge_text(record.text, rules, prompt=record.prompt).kind is Kind.NORMAL


def _key(record: Record) -> "Key":
    from service.core.baseline import key_of
    from service.core.copying import is_copy

    return key_of(
        record.model,
        record.worker,
        max(drafted for drafted, _ in record.steps),
        record.temperature,
        grammar=record.grammar,
        copying=is_copy(record.prompt, record.text),
    )


# --- live ---


def _watch(
    baselines: "Baselines", tally: Tally, url: str, token: str, seconds: float, draft_tokens: int
) -> int:
    """Watch the live streams; what was learned is kept whatever ends it."""
    import httpx

    from service.core.watching import Watch

    watch = Watch(draft_tokens)
    headers = {"authorization": f"Bearer {token}"} if token else {}
    ends_at, code = monotonic() + seconds, DONE
    try:
        with httpx.stream("GET", f"{url.rstrip('/')}/api/streams", headers=headers, timeout=30.0) as answer:
            if answer.status_code != httpx.codes.OK:
                raise Unfit(f"{url}: answered {answer.status_code} to /api/streams")
            for line in answer.iter_lines():
                if line.startswith("data:"):
                    watch.see(msgspec.json.decode(line[5:]))
                if monotonic() > ends_at:
                    break
    except httpx.HTTPError as broken:
        raise Unfit(f"{url}: {broken}") from None
    except KeyboardInterrupt:
        code = INTERRUPTED
    for key, steps in watch.clean():
        tally.streams += baselines.learn_mean(key, *steps)
    tally.not_clean += watch.not_clean
    return code


# --- what is said ---


def _tell(baselines: "Baselines", tally: Tally, out: Path, *, as_json: bool) -> None:
    rows = [_row(baselines, key) for key in baselines.sheets]
    if as_json:
        print_json({"written": str(out), "strata": rows, **msgspec.to_builtins(tally)})
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("model", "worker", "drafts", "stratum", "streams", "windows", "anchor", box=None)
    for row in rows:
        table.add_row(
            *(str(row[key]) for key in ("model", "worker", "depth", "stratum", "streams", "windows")),
            row["anchor_text"],
        )
    Console(markup=False, highlight=False).print(table)
    skipped = f"{tally.too_short} too short, {tally.not_clean} not clean, {tally.unreadable} unreadable"
    print_line(f"{tally.streams} streams learned ({skipped}); written to {out}")


def _row(baselines: "Baselines", key: "Key") -> dict[str, Any]:
    sheet = baselines.sheets[key]
    anchors = baselines.anchors(key.worker, key.depth)
    found = anchors.by_kind.get((key.model, key.stratum), ()) if anchors else ()
    return {
        **msgspec.to_builtins(key),
        "streams": round(sheet.streams, 1),
        "windows": round(sum(sheet.windows), 1),
        "anchor": [round(one, 3) for one in found],
        "anchor_text": " ".join(f"{one:.2f}" for one in found) or "too few",
    }
