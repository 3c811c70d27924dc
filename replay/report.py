"""The report: one HTML file that opens offline, and tells its story from the verdict down.

    verdict, and why                        charts: rate against load, timeline, acceptance, latencies
    levels in a table                       other questions, adjusted
    cases side by side                      what was run: plan, schedule, coverage, notes

No script, nothing to load; light and dark. JSON is the judgement itself, JUnit for CI is in
`replay.reporting.junit`.
"""

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Final

from replay.judge import Judged
from replay.judging.verdict import Outcome
from replay.plan import read_header
from replay.reporting.cases import Case, cases
from replay.reporting.charts import acceptance_chart, latency_chart, rate_chart, timeline
from replay.reporting.svg import hue, number
from replay.results import Metric, read

COLOURS: Final = {
    Outcome.LOAD_DEPENDENT: "bad",
    Outcome.NOT_LOAD_DEPENDENT: "good",
    Outcome.UNDECIDED: "open",
    Outcome.SCHEDULE_NOT_KEPT: "open",
    Outcome.BACKEND_FAILING: "open",
}

STYLE: Final = """
:root{color-scheme:light dark;--ink:#1b1f24;--soft:#6a737d;--line:#d8dee4;--paper:#fff;--panel:#f6f8fa;
--bad:#b3261e;--good:#1a7f37;--arm0:#3b6fb6;--arm1:#d1711a;--arm2:#7b5ea7;--arm3:#2a9d8f;--arm4:#b5477a;
--arm5:#7d7a2c}
@media(prefers-color-scheme:dark){:root{--ink:#e6e8ea;--soft:#9aa4ae;--line:#30363d;--paper:#0f1216;
--panel:#171b21;--bad:#ff7b72;--good:#56d364;--arm0:#6ea8fe;--arm1:#f0a04b;--arm2:#b79cea;--arm3:#5fd0c2;
--arm4:#ee8fb7;--arm5:#c9c46a}}
*{box-sizing:border-box}body{margin:0;background:var(--paper);color:var(--ink);
font:15px/1.5 system-ui,sans-serif}main{max-width:1080px;margin:0 auto;padding:24px 20px 64px}
h1{font-size:15px;font-weight:600;color:var(--soft);margin:0}h2{font-size:18px;margin:36px 0 8px}
.verdict{font-size:30px;font-weight:700;margin:2px 0}.bad{color:var(--bad)}.good{color:var(--good)}
.open{color:var(--soft)}.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(420px,1fr));gap:20px}
figure{margin:0;padding:12px;background:var(--panel);border:1px solid var(--line);border-radius:8px}
figcaption{font-size:13px;color:var(--soft);margin-bottom:4px}svg{width:100%;height:auto;display:block}
.tick{font-size:11px;fill:var(--soft)}.axis{font-size:11px;fill:var(--ink)}.value{font-size:12px;fill:var(--ink)}
.grid{stroke:var(--line);stroke-width:1}table{border-collapse:collapse;width:100%;font-size:14px}
th,td{text-align:right;white-space:nowrap;padding:5px 10px;border-bottom:1px solid var(--line)}
th:first-child,td:first-child{text-align:left;white-space:normal}.about td{white-space:normal;
overflow-wrap:anywhere;text-align:left}th{font-weight:600;color:var(--soft)}.scroll{overflow-x:auto}
.case{border:1px solid var(--line);border-radius:8px;margin:14px 0;overflow:hidden}
.case header{background:var(--panel);padding:8px 12px;font-size:13px}.pair{display:grid;
grid-template-columns:1fr 1fr}.pair>div{padding:10px 12px;min-width:0}.pair>div+div{border-left:1px solid
var(--line)}pre{white-space:pre-wrap;overflow-wrap:anywhere;margin:4px 0 0;font:13px/1.45 ui-monospace,
monospace;max-height:320px;overflow-y:auto}mark{background:none;color:var(--bad);font-weight:600}
summary{cursor:pointer;color:var(--soft);font-size:13px;padding:6px 12px}small,.note{color:var(--soft);
font-size:13px}@media(max-width:700px){.pair,.charts{grid-template-columns:1fr}.pair>div+div
{border-left:0;border-top:1px solid var(--line)}figure{overflow-x:auto}svg{min-width:520px}}
"""


def report(plan: Path, results: Path, found: Judged, *, text: bool = True) -> str:
    """The page."""
    header = read_header(plan)
    metrics = [line for line in read(results) if isinstance(line, Metric)]
    charts = [
        ("Rate against load, exact 95 % intervals; the dashed height is the margin", rate_chart(found)),
        ("Timeline: a triangle is an incident, a band a block", timeline(header, found, metrics)),
        ("Accept length of good answers and of bad ones", acceptance_chart(found)),
        ("Time to first token, from the scheduled time", latency_chart(found, "ttft_s", "TTFT")),
        ("Gap between tokens, median of each answer", latency_chart(found, "itl_s", "ITL")),
        ("Whole answer, from the scheduled time", latency_chart(found, "total_s", "Latency")),
    ]
    parts = [
        _head(found),
        _legend(found),
        f'<div class="charts">{"".join(_figure(*chart) for chart in charts if chart[1])}</div>',
        _levels(found),
        _questions(found),
        _cases(cases(plan, results, found, text=text)),
        _about(found),
    ]
    title = f"{found.verdict.verdict} - {found.target}"
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width,initial-scale=1"><style>{STYLE}</style></head>'
        f"<body><main>{''.join(parts)}</main></body></html>\n"
    )


def _head(found: Judged) -> str:
    verdict = found.verdict
    lines = [verdict.why, _counts(found)]
    if not verdict.reproduced:
        lines.append("Not reproduced: no arm had an event. What was reported was not seen here.")
    if verdict.more_requests is not None:
        lines.append(f"Some {verdict.more_requests:,} more requests an arm would likely decide.")
    if verdict.reproduced and verdict.ratio_low is not None:
        high = "infinity" if verdict.ratio_high is None else number(verdict.ratio_high)
        lines.append(f"Rate ratio: 95 % between {number(verdict.ratio_low)} and {high}, by incidents.")
    told = "".join(f"<p>{escape(line)}</p>" for line in lines)
    asked = f"{found.contrast.event} answers, {found.contrast.high} against {found.contrast.low}"
    colour = COLOURS[verdict.verdict]
    return f'<h1>{escape(asked)}</h1><p class="verdict {colour}">{verdict.verdict}</p>{told}'


def _counts(found: Judged) -> str:
    """The two numbers that the verdict is about."""
    asked = found.contrast
    named = {one.arm: one for one in found.levels}
    low, high = (
        f"{one.arm} {one.events:,} of {one.trials:,} in {one.incidents:,} incidents"
        for one in (named[asked.low], named[asked.high])
    )
    return f"{asked.event.capitalize()} answers: {low}; {high}."


def _legend(found: Judged) -> str:
    marks = "".join(
        f'<span style="color:{hue(place)}">&#9632;</span> {escape(one.arm)} &#160; '
        for place, one in enumerate(found.levels)
    )
    return f'<p class="note">{marks}</p>'


def _figure(caption: str, chart: str) -> str:
    return f"<figure><figcaption>{escape(caption)}</figcaption>{chart}</figure>"


def _levels(found: Judged) -> str:
    head = (
        "level",
        "load",
        "sent",
        "answers",
        "bad",
        "incidents",
        "per 10,000",
        "95 %",
        "per million tokens",
        "failed",
    )
    named = [(one.arm, one) for one in found.levels]
    named += [("return", found.returned)] if found.returned else []
    rows = [
        (
            name,
            number(one.load),
            *(f"{count:,}" for count in (one.sent, one.trials, one.events, one.incidents)),
            _known(one.per_10k),
            "" if one.low_per_10k is None else f"{_known(one.low_per_10k)} to {_known(one.high_per_10k)}",
            _known(one.per_million_tokens),
            ", ".join(f"{count} {kind}" for kind, count in one.failures.items()),
        )
        for name, one in named
    ]
    return f"<h2>Levels</h2>{_table(head, rows)}"


def _questions(found: Judged) -> str:
    verdict = found.verdict
    rows = [
        ("declared: by incidents, exact", _p(verdict.p_incidents), ""),
        ("declared: by blocks dealt anew, exact", _p(verdict.p_blocks), ""),
        ("as if events were independent (not used)", _p(verdict.p_events), ""),
    ]
    if found.trend is not None:
        rows.append(("trend over all levels", _p(found.trend.p), ""))
    rows += [
        (f"{one.name}: {one.low} against {one.high}", _p(one.p), _p(one.p_adjusted))
        for one in found.questions
    ]
    note = (
        f"e-value {number(found.e_value)}: 20 and more would have stopped the run early. "
        f"Design effect {verdict.design_effect:.2f}."
    )
    table = _table(("question", "p", "p adjusted (Holm)"), rows)
    return f'<h2>Tests</h2>{table}<p class="note">{note}</p>'


def _cases(found: Sequence[Case]) -> str:
    if not found:
        return ""
    return f"<h2>Cases</h2>{''.join(map(_case, found))}"


def _case(one: Case) -> str:
    kinds = ", ".join(f"{count} {kind}" for kind, count in one.kinds.items())
    where = f"{one.arm} at {one.at_s:.1f} s, {one.worker or 'worker unknown'}; in this incident: {kinds}"
    same = one.same_chars if not one.bad.startswith("[") else len(one.bad)
    marked = f"{escape(one.bad[:same])}<mark>{escape(one.bad[same:])}</mark>"
    return (
        f'<section class="case"><header><b>{escape(one.id)}</b> {escape(where)}</header>'
        f'<div class="pair"><div><small>answered</small><pre>{marked}</pre></div>'
        f"<div><small>{escape(one.good_from)}</small><pre>{escape(one.good)}</pre></div></div>"
        f"<details><summary>prompt</summary><pre>{escape(one.prompt)}</pre></details></section>"
    )


def _about(found: Judged) -> str:
    schedule, coverage, birds = found.schedule, found.coverage, found.canaries
    rows = [
        ("target", found.target),
        ("started", found.started_at),
        ("plan", found.plan_hash),
        ("sends planned, results, cut off", f"{coverage.planned}, {coverage.results}, {coverage.cut_off}"),
        (
            "client late at p99",
            f"{schedule.p99_s * 1e3:.1f} ms in {schedule.arm}, {schedule.limit_s * 1e3:.1f} allowed",
        ),
        ("canaries sent, answered, mark lost", f"{birds.sent}, {birds.answered}, {birds.lost}"),
        ("answers with another's mark", str(len(birds.leaks))),
        *(("note", note) for note in found.notes),
    ]
    return f"<h2>The run</h2>{_table(('', ''), rows, kind='about')}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], kind: str = "numbers") -> str:
    top = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return (
        f'<div class="scroll {kind}"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def _known(value: float | None) -> str:
    return "" if value is None else number(value)


def _p(value: float) -> str:
    return f"{value:.2g}"
