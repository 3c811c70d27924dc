"""The report's charts: rate against load, the timeline, accept lengths, latencies.

rate        each level's events per 10,000 with the exact 95 % interval, the return beside them, and the
            margin above the low level that was planned to matter
timeline    the blocks of the run, each incident where it began, and the queues that were scraped
acceptance  accept lengths of good answers and of bad ones, each as a share of its own
latency     median to 99 % of each level, from the scheduled time
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from replay.judge import Judged
from replay.judging.levels import Level, Spread
from replay.plan import RETURN, Block, PlanHeader
from replay.reporting.svg import TOP, Frame, hue, nice_ticks, number
from replay.results import Metric

QUEUES = ("num_queue_reqs", "num_prefill_inflight_queue_reqs", "num_running_reqs", "num_requests_waiting")
"""Families whose growth is the load that was made, the telling ones first."""

MAX_SERIES = 4
MAX_POINTS = 600
"""A point for each pixel."""

DASHES = ("", "6 3", "2 2", "8 3 2 3")
"""One a series."""

MARK_PX = 9
"""Width of a key's stroke that stands for a bar."""

LABEL_PX = 12
"""Numbers that stand closer than this cannot be read."""

BIN = 0.25
"""Tokens a step that one bar of the acceptance chart spans."""


def rate_chart(found: Judged) -> str:
    """Events per 10,000 by level."""
    levels = [*found.levels, *([found.returned] if found.returned else [])]
    names = [one.arm for one in found.levels] + ["return"] * (found.returned is not None)
    top = max([one.high_per_10k or 0.0 for one in levels] + [found.contrast.margin_per_10k])
    frame = Frame("Anomalies per 10,000 by load", len(levels), top)
    frame.y_axis("anomalies per 10,000 answers")
    low = next(one for one in found.levels if one.arm == found.contrast.low)
    margin = (low.per_10k or 0.0) + found.contrast.margin_per_10k
    frame.line(
        [(0, margin), (len(levels), margin)],
        hue="var(--soft)",
        title=f"margin: {number(margin)} per 10,000",
        dash="6 4",
    )
    for place, (name, one) in enumerate(zip(names, levels, strict=True)):
        _rate_point(frame, place, name, one)
    frame.x_axis(
        "level, and its load",
        [
            (at + 0.5, f"{name} ({one.load:g})")
            for at, (name, one) in enumerate(zip(names, levels, strict=True))
        ],
    )
    return frame.svg()


def _rate_point(frame: Frame, place: int, name: str, one: Level) -> None:
    if one.per_10k is None or one.low_per_10k is None or one.high_per_10k is None:
        return
    colour, middle = "var(--soft)" if name == "return" else hue(place), place + 0.5
    bounds = f"{number(one.low_per_10k)} to {number(one.high_per_10k)}"
    title = f"{name}: {one.events} of {one.trials}, {number(one.per_10k)} per 10,000, 95 % {bounds}"
    frame.line([(middle, one.low_per_10k), (middle, one.high_per_10k)], hue=colour, title=title, width=2)
    frame.add("circle", title=title, cx=frame.x(middle), cy=frame.y(one.per_10k), r=5, fill=colour)
    frame.label(
        frame.x(middle) + 10, frame.y(one.per_10k) + 4, number(one.per_10k), anchor="start", kind="value"
    )


def timeline(plan: PlanHeader, found: Judged, metrics: Sequence[Metric]) -> str:
    """Blocks, incidents and queues over the run."""
    series = _queues(metrics)
    top = max((value for points in series.values() for _, value in points), default=1.0)
    frame = Frame("The run: blocks, incidents, queues", plan.duration_s, top, keys=len(series))
    places = {arm.name: place for place, arm in enumerate(plan.arms)}
    for block in plan.blocks:
        _band(frame, block, hue(places[block.arm]))
    frame.y_axis("requests waiting or running" if series else "no metrics were scraped")
    for place, (name, points) in enumerate(series.items()):
        frame.line(points, hue="var(--ink)", title=name, width=1 + 0.5 * (place == 0), dash=DASHES[place])
        frame.key(place, name, hue="var(--ink)", dash=DASHES[place])
    for one in found.incidents:
        _incident(
            frame,
            one.at_s,
            f"{one.arm}, {one.at_s:.1f} s: {len(one.ids)} bad, {one.worker or 'worker unknown'}",
        )
    ticks = [(at, number(at)) for at in nice_ticks(plan.duration_s) if at <= plan.duration_s]
    frame.x_axis("seconds from the start", ticks)
    return frame.svg()


def _band(frame: Frame, block: Block, colour: str) -> None:
    left, right = frame.x(block.start_s), frame.x(block.end_s)
    title = f"{block.arm}, {'return' if block.round == RETURN else f'round {block.round + 1}'}"
    frame.add(
        "rect",
        title=title,
        x=left,
        y=TOP,
        width=max(0.5, right - left),
        height=frame.base - TOP,
        fill=colour,
        opacity=0.22,
    )


def _incident(frame: Frame, at_s: float, title: str) -> None:
    frame.add("path", title=title, d=f"M{frame.x(at_s)} {frame.base}l-4 9h8z", fill="var(--bad)")


def _queues(metrics: Sequence[Metric]) -> Mapping[str, list[tuple[float, float]]]:
    """The telling families, thinned to what a screen can show."""
    series: dict[str, list[tuple[float, float]]] = {}
    for family in QUEUES:
        for one in metrics:
            if family in one.values:
                series.setdefault(f"{family} of {one.url}", []).append(
                    (max(0.0, one.at_s), one.values[family])
                )
    alive = {name: points for name, points in series.items() if any(value for _, value in points)}
    return {
        name: points[:: len(points) // MAX_POINTS + 1] for name, points in list(alive.items())[:MAX_SERIES]
    }


def acceptance_chart(found: Judged) -> str:
    """Accept lengths of good answers against those of bad ones; empty without either."""
    good = Counter(int(value / BIN) for one in found.levels for value in one.accept_clean)
    bad = Counter(int(value / BIN) for one in found.levels for value in one.accept_bad)
    if not good and not bad:
        return ""
    last = max([*good, *bad]) + 1
    shares = [(good, "var(--arm0)", "good"), (bad, "var(--bad)", "bad")]
    top = max(
        count / total
        for counts, _, _ in shares
        for total in [sum(counts.values())]
        for count in counts.values()
    )
    frame = Frame("Accept length of good and of bad answers", last * BIN, top, keys=len(shares))
    frame.y_axis("share of answers")
    for line, (counts, colour, name) in enumerate(shares):
        total = sum(counts.values())
        frame.key(line, f"{total:,} {name} answers", hue=colour, width=MARK_PX)
        for place, count in sorted(counts.items()):
            title = f"{name}: {count} of {total} at {place * BIN:g} to {(place + 1) * BIN:g} tokens a step"
            left, height = frame.x(place * BIN), frame.y(0) - frame.y(count / total)
            width = frame.x((place + 1) * BIN) - left - 1
            frame.add(
                "rect",
                title=title,
                x=left,
                y=frame.y(count / total),
                width=width,
                height=height,
                fill=colour,
                opacity=0.55,
            )
    frame.x_axis(
        "tokens a verify step", [(at, number(at)) for at in nice_ticks(last * BIN) if at <= last * BIN]
    )
    return frame.svg()


def latency_chart(found: Judged, name: str, what: str) -> str:
    """Median, 90 % and 99 % of one latency by level; empty where nobody measured it."""
    spreads: list[tuple[Level, Spread]] = [
        (one, spread) for one in found.levels if (spread := getattr(one, name)) is not None
    ]
    if not spreads:
        return ""
    frame = Frame(what, len(spreads), max(spread.p99 for _, spread in spreads) * 1e3, height=200)
    frame.y_axis(f"{what}, ms")
    for place, (one, spread) in enumerate(spreads):
        middle, colour = place + 0.5, hue(place)
        p50, p90, p99 = (value * 1e3 for value in (spread.p50, spread.p90, spread.p99))
        title = f"{one.arm}: median {number(p50)}, 90 % {number(p90)}, 99 % {number(p99)} ms"
        frame.line([(middle, p50), (middle, p99)], hue=colour, title=title, width=2)
        for value, radius in ((p50, 5), (p90, 3.5), (p99, 3.5)):
            frame.add("circle", title=title, cx=frame.x(middle), cy=frame.y(value), r=radius, fill=colour)
        frame.label(frame.x(middle) + 10, frame.y(p50) + 4, number(p50), anchor="start", kind="value")
        if frame.y(p50) - frame.y(p99) > LABEL_PX:
            frame.label(frame.x(middle) + 10, frame.y(p99) + 4, number(p99), anchor="start", kind="value")
    frame.x_axis("", [(at + 0.5, one.arm) for at, (one, _) in enumerate(spreads)])
    return frame.svg()
