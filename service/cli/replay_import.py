"""`specguard replay import`: traffic of any format, made one trace."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from service.cli.exits import DONE, Unfit
from service.cli.options import JsonFlag, print_json, print_line

if TYPE_CHECKING:
    from replay.importers import Format, Imported, Spread


def import_(
    file: Path,
    *,
    out: Path | None = None,
    form: Annotated[str | None, Parameter(name="--format")] = None,
    unit: Literal["s", "ms", "us", "ns"] | None = None,
    block_tokens: Annotated[int | None, Parameter(validator=Number(gte=1))] = None,
    session_rows: Literal["auto", "delta", "cumulative"] = "auto",
    json_output: JsonFlag = False,
) -> int:
    """Read traffic that was recorded elsewhere into a trace, and say what was read and assumed.

    Example: specguard replay import mooncake_conversation.jsonl --out day.trace

    Formats are told by the file itself: SGLang's request log (--log-requests-level 3, JSON), its exported
    metrics and its dumps (pickles, of which nothing is run), SpecGuard's case bundles, Mooncake, Bailian,
    Azure, BurstGPT, OpenAI batches and bodies, ShareGPT, OpenTelemetry gen_ai spans, aiperf's and guidellm's
    traces. A file whose units can be read in two ways stops with a question; nothing is written then.

    Exit codes: 0 done, 2 the file cannot be read, or a question is open.

    Parameters
    ----------
    file
        What to read.
    out
        Where the trace goes; the file's name with .trace where nothing is said.
    form
        The format, where the file does not show it.
    unit
        Unit of a column of plain numbers that tells times.
    block_tokens
        Tokens that a block hash stands for.
    session_rows
        Whether a row of a session holds its new messages alone (delta) or all (cumulative).
    """
    from replay.importers import Source, SourceError, import_trace

    target = out or file.with_suffix(".trace")
    source = Source(file, unit=unit, block_tokens=block_tokens, session_rows=session_rows)
    try:
        imported = import_trace(source, _format(file, form), target)
    except SourceError as error:
        raise Unfit(f"import: {error}") from None
    except OSError as error:
        raise Unfit(f"import: {error.filename or target}: {error.strerror}") from None
    if json_output:
        print_json({"trace": str(target), **_plain(imported)})
    else:
        _show(imported, target)
    return DONE


def _format(file: Path, name: str | None) -> "Format":
    from replay.importers import FORMATS, sniff

    if name is None:
        return sniff(file)
    if name not in FORMATS:
        raise Unfit(f"import: no format is called {name!r}; there are {', '.join(sorted(FORMATS))}")
    return FORMATS[name]


def _plain(imported: "Imported") -> dict[str, object]:
    import msgspec

    plain: dict[str, object] = msgspec.to_builtins(imported)
    return plain


def _show(imported: "Imported", target: Path) -> None:
    summary = imported.summary
    print_line(f"format      {imported.format}")
    print_line(f"requests    {summary.rows:,} in {summary.span_s:,.1f} s: {summary.rate_per_s:,.3g} a second")
    print_line(f"arrivals    {summary.moments:,} different times, {summary.most_at_once:,} at most at once")
    print_line(f"sessions    {summary.sessions:,}, the longest of {summary.longest_session:,} requests")
    print_line(f"with text   {summary.with_body:,} requests, {summary.with_answer:,} recorded answers")
    print_line(f"aborted     {summary.aborted:,}")
    _show_spread("prompt", summary.prompt_tokens)
    _show_spread("output", summary.output_tokens)
    for column, unit in imported.units.items():
        print_line(f"unit        {column}: {unit}")
    if imported.block_tokens:
        print_line(f"blocks      of {imported.block_tokens} tokens")
    for field, count in imported.dropped.items():
        print_line(f"left out    {field} ({count:,})")
    for reason, count in imported.skipped.items():
        print_line(f"skipped     {count:,}: {reason}")
    for note in imported.notes:
        print_line(f"note        {note}")
    print_line(f"written     {target}")


def _show_spread(name: str, spread: "Spread | None") -> None:
    if spread is None:
        print_line(f"{name:<6}      lengths unknown")
        return
    percentiles = f"p50 {spread.p50:,.0f}, p90 {spread.p90:,.0f}, p99 {spread.p99:,.0f}, most {spread.most:,}"
    print_line(f"{name:<6}      {percentiles} tokens")
