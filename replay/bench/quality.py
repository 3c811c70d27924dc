"""What is published about the detectors: `rules/quality.json`, and the tables of `rules/README.md`.

Each figure stands with the data it was measured on and, where it is a share, its 95 % interval. A corpus that
is not at hand keeps the figures of the last run that had it. A labelled corpus is split in two halves by a
hash of the ids and the halves are told apart: rules were developed with one of them in view.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from replay.bench.interval import wilson
from replay.bench.made import samples
from service.core.events import Kind
from service.core.recorded import Rules, judge_text

RULES_HOME: Final = Path(__file__).parents[2] / "rules"
QUALITY: Final = "quality.json"
README: Final = "README.md"
BEGIN: Final = "<!-- figures: written by `make bench-detectors` -->"
END: Final = "<!-- end of figures -->"
MADE_ROUNDS: Final = 8


class Tally:
    """Recall, precision and right kinds over labelled texts."""

    def __init__(self) -> None:
        self.seen: Counter[Kind] = Counter()
        self.hit: Counter[Kind] = Counter()
        self.right: Counter[Kind] = Counter()
        self.false_alarms: list[str] = []
        self.confused: Counter[str] = Counter()

    def __repr__(self) -> str:
        return f"<Tally {sum(self.seen.values())} texts, {len(self.false_alarms)} false alarms>"

    def add(self, own_id: str, truth: Kind, found: Kind) -> None:
        self.seen[truth] += 1
        self.hit[truth] += found is not Kind.NORMAL
        self.right[truth] += found is truth
        if truth is Kind.NORMAL and found is not Kind.NORMAL:
            self.false_alarms.append(own_id)
        if found is not truth:
            self.confused[f"{truth} as {found}"] += 1

    def figures(self) -> dict[str, Any]:
        kinds = [kind for kind in self.seen if kind is not Kind.NORMAL]
        hits, corrupted = sum(self.hit[kind] for kind in kinds), sum(self.seen[kind] for kind in kinds)
        right = sum(self.right[kind] for kind in kinds)
        flagged = hits + len(self.false_alarms)
        return {
            "texts": sum(self.seen.values()),
            "corrupted": corrupted,
            "normals": self.seen[Kind.NORMAL],
            "precision": round(hits / max(flagged, 1), 4),
            "precision_interval": wilson(hits, flagged),
            "recall": round(hits / max(corrupted, 1), 4),
            "recall_interval": wilson(hits, corrupted),
            "right_kind": round(right / max(hits, 1), 4),
            "by_kind": {
                str(kind): {
                    "texts": self.seen[kind],
                    "recall": round(self.hit[kind] / self.seen[kind], 4),
                    "interval": wilson(self.hit[kind], self.seen[kind]),
                }
                for kind in sorted(kinds)
            },
            "false_alarms": self.false_alarms,
            "confusions": dict(self.confused.most_common()),
        }


def half(own_id: str) -> str:
    """Which half of a corpus a text is in."""
    return "ab"[sha256(own_id.encode()).digest()[0] & 1]


def corpus(rows: Iterable[Mapping[str, Any]], rules: Rules, skip: Collection[str] = ()) -> dict[str, Any]:
    """The score over labelled texts: all, and each half; without those that are told to be undecidable."""
    tallies = {name: Tally() for name in ("all", "half_a", "half_b")}
    for row in rows:
        own_id = str(row["id"])
        if own_id in skip:
            continue
        found = judge_text(row["text"], rules, prompt=row.get("prompt", "")).kind
        for name in ("all", f"half_{half(own_id)}"):
            tallies[name].add(own_id, Kind(row["kind"]), found)
    return {name: tally.figures() for name, tally in tallies.items()}


def made(rules: Rules, rounds: int = MADE_ROUNDS, seed: int = 2026) -> dict[str, Any]:
    """The same over texts made to order, and what is missed most."""
    tally, missed = Tally(), Counter[str]()
    for number, sample in enumerate(samples(seed, rounds)):
        found = judge_text(sample.text, rules).kind
        tally.add(f"{sample.cat}#{number}", sample.kind, found)
        missed[sample.cat] += (found is Kind.NORMAL) != (sample.kind is Kind.NORMAL)
    return tally.figures() | {"missed": {cat: count for cat, count in missed.most_common(8) if count}}


def publish(figures: Mapping[str, Any], home: Path = RULES_HOME) -> None:
    """Write both files; figures that this run did not measure stay."""
    file, readme = home / QUALITY, home / README
    kept: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    whole: dict[str, Any] = json.loads(json.dumps({**kept, **figures}))
    file.write_text(json.dumps(whole, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    before, _, rest = readme.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    readme.write_text(before + BEGIN + "\n\n" + tables(whole) + "\n" + END + after, encoding="utf-8")


def tables(figures: Mapping[str, Any]) -> str:
    """The figures for people."""
    parts = [_delays(figures["telemetry"]), _false_alarms(figures["telemetry"]), _loops(figures["loops"])]
    labelled = [("texts made to order", figures["made"])]
    labelled += [
        (f"development corpus, {name}", figures["corpus"][name]) for name in figures.get("corpus", {})
    ]
    parts.append(_scores(labelled))
    if "bulk" in figures:
        parts.append(_bulk(figures["bulk"]))
    if "joint" in figures:
        parts.append(_joint(figures["joint"]))
    if "swaps" in figures:
        parts.append(_swaps(figures["swaps"]))
    if "clean_requests" in figures:
        parts.append(_clean(figures["clean_requests"]))
    parts.append(_cost(figures["cost"]))
    return "\n".join(parts)


def _table(title: str, head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [f"**{title}**", "", "| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(map(_cell, row)) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _cell(value: object) -> str:
    """A figure, or an interval."""
    return " to ".join(map(str, value)) if isinstance(value, list) else str(value)


def _delays(figures: Mapping[str, Any]) -> str:
    known, last = figures["delay_steps_mean"], figures["delay_steps_p99"]
    rows = [
        ("horizon known (2,000 tokens), onset at step 200", known, last, "20.8"),
        ("the same, onset at the start", figures["delay_start_mean"], "", "15.7"),
        ("no horizon, onset at step 1,000", figures["delay_free_mean"], "", "24.3"),
        ("safe anchor .35, onset at step 1,000", figures["delay_safe_anchor_mean"], "", "115"),
        ("the public rule, onset at token 0", figures["zai_steps_from_start"], "", ""),
        ("the public rule, onset at token 2,000", figures["zai_steps_from_token_2000"], "", ""),
    ]  # fmt: skip
    title = f"Verify steps from a collapse (.7 to .1, k = 3) to R = 1e6, {figures['runs']} simulated streams"
    return _table(title, ("setting", "mean", "p99", "bound"), rows)


def _false_alarms(figures: Mapping[str, Any]) -> str:
    if "false_alarms" not in figures:
        return ""
    rows: list[tuple[object, ...]] = [
        (name, figures["false_alarms_streams"], rates["0.001"], rates["0.0001"])
        for name, rates in figures["false_alarms"].items()
    ]
    rows += [
        (name, figures["spread_streams"], rates["0.001"], "")
        for name, rates in figures["spread_false_alarms"].items()
    ]
    title = (
        "False alarms over 2,000 steps: at the anchor (promised), and where requests differ (not promised)"
    )
    promised = _table(title, ("streams", "n", "alpha 1e-3", "alpha 1e-4"), rows)
    if "learned" not in figures:
        return promised
    head = ("anchor", "0.001", "delay_steps_mean")
    held = [(name, *(row[key] for key in head)) for name, row in figures["learned"].items()]
    title = "Anchors learned from 1,000 clean streams, false alarms at 1e-3, steps from a collapse to R = 1e6"
    return promised + "\n" + _table(title, ("streams", *head), held)


def _loops(figures: Mapping[str, Any]) -> str:
    periods = [period for period in figures["exact"] if period in figures["counted"]]
    rows = [
        (period, max(96, 4 * int(period)), figures["exact"][period], figures["counted"][period])
        for period in periods
    ]
    first = _table(
        "Tokens from the onset of a loop of words to the verdict",
        ("period", "limit", "exact", "with a counter"),
        rows,
    )
    return (
        first + "\n" + _table("The same for other classes", ("class", "tokens"), figures["classes"].items())
    )


def _scores(labelled: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    head = ("data", "corrupted", "normals", "precision", "recall", "interval", "right kind")
    keys = ("corrupted", "normals", "precision", "recall", "recall_interval", "right_kind")
    rows = [(name, *(score[key] for key in keys)) for name, score in labelled]
    kinds = [
        (name, kind, row["texts"], row["recall"], row["interval"])
        for name, score in labelled
        for kind, row in score["by_kind"].items()
    ]
    return (
        _table("Finished texts", head, rows)
        + "\n"
        + _table("Recall by kind", ("data", "kind", "texts", "recall", "interval"), kinds)
    )


def _bulk(figures: Mapping[str, Any]) -> str:
    rows = [
        (cls, row["windows"], row["flagged"], row["share_interval"], row["per_million_tokens"])
        for cls, row in figures.items()
    ]
    head = ("class", "windows", "flagged", "interval of the share", "per million tokens")
    return _table("Windows of 2,000 characters of ordinary files, judged as finished answers", head, rows)


def _joint(figures: Mapping[str, Any]) -> str:
    """The lab's fault matrix: by setting, by fault, by text, and what went out by policy."""
    settings = figures["recall"]
    head = (
        "wrong",
        "acted",
        "recall",
        "interval",
        "suspected",
        "right",
        "acted_on_right",
        "verdicts_on_right",
    )
    told = {**settings, "calibrated, what is decidable": figures["decidable"]}
    rows = [(name, *(row[key] for key in head)) for name, row in told.items()]
    parts = [
        _table("Faults of the lab's KV, all detectors together, held to strict", ("setting", *head), rows)
    ]
    keys = ("struck", "wrong", *settings, "interval", "acted_on_right")
    for title, group in (("fault", figures["by_fault"]), ("what the answer became", figures["by_text"])):
        lines = [(name, *(row.get(key, 0) for key in keys)) for name, row in group.items() if row["struck"]]
        parts.append(_table(f"The same by {title}: answers acted upon", (title, *keys), lines))
    delivered = [
        (text, policy, row["p50"], row["p99"])
        for text, policies in figures["delivered_bad_tokens"].items()
        for policy, row in policies.items()
    ]
    title = "Tokens delivered past the first wrong one"
    return "\n".join([*parts, _table(title, ("what the answer became", "policy", "p50", "p99"), delivered)])


def _swaps(figures: Mapping[str, Any]) -> str:
    """Whole-slot swaps, and nobody but the cross-talk detector to see them."""
    head = ("swaps", "corrupt", "interval", "acted", "acted_interval", "wrong_donor")
    rows = [(name, *(row[key] for key in head)) for name, row in figures.items()]
    title = (
        "Whole-slot swaps in the lab, the cross-talk detector alone: verdicts, and with second generations"
    )
    return _table(title, ("which", *head), rows)


def _clean(figures: Mapping[str, Any]) -> str:
    return _table(
        "Clean requests of many sessions, all detectors with the index of who said what",
        ("figure", "value"),
        figures.items(),
    )


def _cost(figures: Mapping[str, Any]) -> str:
    return _table("CPU of all detectors together, CPython, one core", ("figure", "value"), figures.items())
