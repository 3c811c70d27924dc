"""Traffic of any origin, read into one trace (`replay.trace`).

A file is read twice: once to count, so that a wrong unit stops with a question before anything is written,
and once to write. What is kept of a request while it passes is its time; a file may be larger than memory,
unless its format is one JSON value or a pickle.
"""

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from replay.importers import (
    bodies,
    case,
    chats,
    mooncake,
    otel,
    sglang_dump,
    sglang_log,
    sglang_metrics,
    tables,
)
from replay.importers.source import Question, Source, SourceError, Tally
from replay.importers.summary import Counting, Spread, Summary
from replay.importers.units import mixed, odd_rate
from replay.trace import FORMAT, TraceHeader, TraceRequest, write_trace

__all__ = (
    "FORMATS",
    "Format",
    "Imported",
    "Question",
    "Source",
    "SourceError",
    "Spread",
    "Summary",
    "import_trace",
    "sniff",
)

HEAD_CHARS: Final = 65_536
BLOCKS_WITHIN: Final = 2.0
"""The last block of a prompt may be hardly begun, and some fleets hash whole blocks alone."""


@dataclass(frozen=True, slots=True)
class Format:
    """One kind of file."""

    name: str
    says: str  # for people
    fits: Callable[[str], bool]  # of the first characters of a file
    read: Callable[[Source], Iterator[TraceRequest]]


FORMATS: Final = {
    found.name: found
    for found in (
        Format(
            "sglang-dump", "SGLang's request and crash dumps (pickle)", sglang_dump.fits, sglang_dump.read
        ),
        Format("case", "case bundles of SpecGuard", case.fits, case.read),
        Format("sglang-log", "SGLang's request log, JSON, level 3", sglang_log.fits, sglang_log.read),
        Format(
            "sglang-metrics", "SGLang's --export-metrics-to-file", sglang_metrics.fits, sglang_metrics.read
        ),
        Format("openai-batch", "OpenAI batch input", bodies.fits_batch, bodies.read_batch),
        Format("timed-bodies", "bodies with times, a line each", bodies.fits_timed, bodies.read_timed),
        Format("bailian", "Qwen-Bailian's usage traces", chats.fits_bailian, chats.read_bailian),
        Format("weka", "agentic traces as aiperf and guidellm read them", chats.fits_weka, chats.read_weka),
        Format("mooncake", "Mooncake's traces, and aiperf's and guidellm's", mooncake.fits, mooncake.read),
        Format("azure", "Azure's LLM inference traces (CSV)", tables.fits_azure, tables.read_azure),
        Format("burstgpt", "BurstGPT (CSV)", tables.fits_burstgpt, tables.read_burstgpt),
        Format("sharegpt", "ShareGPT's conversations", bodies.fits_sharegpt, bodies.read_sharegpt),
        Format("aiperf-inputs", "aiperf's inputs.json", bodies.fits_inputs, bodies.read_inputs),
        Format("otel", "OpenTelemetry gen_ai spans (JSON)", otel.fits, otel.read),
        Format("bodies", "request bodies, a line each", bodies.fits_bodies, bodies.read_bodies),
    )
}


class Imported(msgspec.Struct, frozen=True):
    """What an import did."""

    format: str
    summary: Summary
    units: dict[str, str]
    block_tokens: int | None
    dropped: dict[str, int]
    skipped: dict[str, int]
    notes: list[str]


def sniff(path: Path) -> Format:
    """The format of a file; raises SourceError where none fits or the file is empty."""
    with path.open("rb") as file:
        start = file.read(HEAD_CHARS)
    if not start.strip():
        raise SourceError(f"{path.name}: is empty")
    head = start.decode("utf-8", "replace").removeprefix("\ufeff")
    found = next((one for one in FORMATS.values() if one.fits(head)), None)
    if found is None:
        raise SourceError(
            f"{path.name}: is in no format that is known; say --format, one of {', '.join(sorted(FORMATS))}"
        )
    return found


def import_trace(source: Source, form: Format, out: Path) -> Imported:
    """Read a file and write the trace; raises SourceError, and Question where its user has to say more."""
    counting = _counted(source, form)
    summary, tally = counting.summary(), source.tally
    if not summary.in_order:
        tally.note("rows were out of order: sorted by time")
    header = TraceHeader(
        format=FORMAT, source=form.name, block_tokens=tally.block_tokens, units=tally.units, notes=tally.notes
    )
    start_s = min(counting.at_s)
    again = replace(source, tally=Tally())
    rows = (msgspec.structs.replace(one, at_s=one.at_s - start_s) for one in form.read(again))
    write_trace(out, header, rows if summary.in_order else _sorted(rows, out.parent))
    return Imported(
        format=form.name,
        summary=summary,
        units=tally.units,
        block_tokens=tally.block_tokens,
        dropped=dict(tally.dropped.most_common()),
        skipped=dict(tally.skipped.most_common()),
        notes=tally.notes,
    )


def _counted(source: Source, form: Format) -> Counting:
    """The first reading: whether all of it can be had, and what it adds up to."""
    counting, seen = Counting(), set[str]()
    try:
        for number, request in enumerate(form.read(source), 1):
            if request.id in seen:
                raise source.fault(f"request {number}: its id {request.id!r} is there twice")
            seen.add(request.id)
            counting.add(request)
    except Question:  # two units may be why the format has one of its own
        _ask_of_two_units(source, counting)
        raise
    if not seen:
        raise source.fault("holds no request" + _why(source.tally))
    _ask_of_two_units(source, counting)
    _ask_of_rate(source, counting)
    _ask_of_blocks(source, counting)
    return counting


def _ask_of_two_units(source: Source, counting: Counting) -> None:
    """Stop where a column of numbers, whose unit nobody tells, seems to hold two."""
    column = "" if counting.by_session else source.tally.guessed_unit
    if column and (found := mixed(np.frombuffer(counting.at_s))):
        raise Question(
            f"{source.name}: {column} seems to hold two units: {found}. Bring all rows to one unit; or, if"
            " they are in one, name it with --unit"
        )


def _ask_of_rate(source: Source, counting: Counting) -> None:
    """Stop where it seems to hold one, and another than is usual for the format."""
    column = source.tally.guessed_unit
    if column and (found := odd_rate(np.frombuffer(counting.at_s))):
        raise Question(
            f"{source.name}: with {column} read as {source.tally.units[column]}, {found}. Name its unit with"
            " --unit s, ms, us or ns"
        )


def _ask_of_blocks(source: Source, counting: Counting) -> None:
    """A wrong size makes prompts many times too short, and every percentile still reads well."""
    assumed, found = source.tally.block_tokens, counting.tokens_a_block()
    if not source.tally.guessed_blocks or assumed is None or found is None:
        return
    if not 1 / BLOCKS_WITHIN <= found / assumed <= BLOCKS_WITHIN:
        raise Question(
            f"{source.name}: prompts have some {found:,.0f} tokens a block hash, not {assumed} as is usual"
            " for this format. Say --block-tokens N"
        )


def _why(tally: Tally) -> str:
    return (
        f": {', '.join(f'{count} x {reason}' for reason, count in tally.skipped.items())}"
        if tally.skipped
        else ""
    )


def _sorted(rows: Iterator[TraceRequest], beside: Path) -> Iterator[TraceRequest]:
    """By time, through a file: requests with their prompts may not fit in memory."""
    with tempfile.TemporaryFile(dir=beside) as file:
        times, starts = list[float](), [0]
        for row in rows:
            file.write(msgspec.json.encode(row))
            times.append(row.at_s)
            starts.append(file.tell())
        for index in np.argsort(np.array(times), kind="stable"):
            file.seek(starts[index])
            yield msgspec.json.decode(file.read(starts[index + 1] - starts[index]), type=TraceRequest)
