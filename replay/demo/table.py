"""The score as a table by fault for people, and as one JSON object for programs."""

import msgspec
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from replay.demo.score import FaultRow, Score

COLUMNS = {field: field.replace("_", " ") for field in FaultRow.__struct_fields__}


def to_json(score: Score) -> str:
    """One line."""
    return msgspec.json.encode(score).decode()


def by_fault(score: Score) -> Table:
    """A row for each fault; a request that two faults hit is in both rows, so the last row is no sum."""
    table = Table(title="Requests by fault", title_justify="left")
    table.add_column("fault")
    for name in COLUMNS.values():
        table.add_column(name, justify="right")
    for kind, row in score.by_fault.items():
        table.add_row(kind, *(str(getattr(row, field)) for field in COLUMNS))
    table.add_section()
    total = msgspec.structs.asdict(score)
    total |= {"hit": score.requests - score.clean_requests, "answer_changed": score.corrupted_upstream}
    table.add_row("any", *(str(total[field]) for field in COLUMNS), style="bold")
    return table


def facts(score: Score) -> list[str]:
    """What the table leaves out, a line each."""
    right = "-" if score.answer_check_clean is None else f"{score.answer_check_clean:.2%}"
    cpu = ", ".join(f"{name} {seconds:.1f}" for name, seconds in score.cpu_seconds.items())
    requests = (
        f"{score.requests}, {score.strict_requests} strict; {score.clean_requests} untouched by a fault"
    )
    untouched = (
        f"{right} of clean ends right; {score.false_alarms} false alarms, "
        f"{score.second_opinions_clean} second opinions, {score.failed_clean} loud ends without a cause"
    )
    loud = (
        f"{score.loud_caught} of {score.loud_corrupted} requests recovered or failed loudly; "
        f"{score.loud_escaped} delivered what a loud fault wrote"
    )
    escapes = (
        f"{score.escaped}: {score.escaped_marked} with a verdict and out of means, "
        f"{score.escaped_hit_again} struck again after a retry"
    )
    return [
        f"requests         {requests}",
        f"untouched        {untouched}",
        f"loud faults      {loud}",
        f"escapes          {escapes}",
        f"retries          {score.retries}, {score.retries_same_worker} of them on the same worker again",
        f"bad tokens       {score.delivered_bad_tokens} reached a client",
        f"cases            {score.cases_saved} saved",
        f"time             {score.traffic_seconds} s of traffic, {score.seconds} s in all; CPU s: {cpu}",
        f"bar              {'missed: ' + '; '.join(score.bar_missed) if score.bar_missed else 'reached'}",
    ]


def render(score: Score) -> RenderableType:
    """Everything for a person to read."""
    return Group(by_fault(score), *(Text(line) for line in facts(score)))
