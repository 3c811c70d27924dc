"""What judging costs, and how often it is right.

    python -m replay.bench.detectors                     us a token, last line JSON
    python -m replay.bench.detectors --corpus FILE...    the score sheet over labelled JSONL texts as well

Cost is that of `Inspector.read` with all detectors of the default rule set, events already read by a dialect:
64 streams in turn, so that each look finds its state out of the cache as in a busy sidecar; 8 events of about
2.5 tokens to a look; English, code and Chinese; token growth of a drafting worker, so that every detector
works. CPU time of this thread, the best of the rounds (the machine is shared).
"""

import argparse
import json
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import thread_time
from typing import Any, Final

import yaml

from service.core.detectors import build
from service.core.events import Delta, Drafter, Kind, Level, RequestFacts, WorkerFacts
from service.core.fusion import Fusion
from service.core.inspector import Inspector
from service.core.recorded import PSEUDO_TOKEN, Rules, judge_text

RULES: Final = Path(__file__).parents[2] / "rules" / "sets" / "default.yaml"
STREAMS: Final = 64
BATCH: Final = 8
TOKENS: Final = 400
"""Tokens of one stream: a usual answer."""

ENGLISH: Final = """
    The night train leaves the old station at ten and reaches the coast before the first ferry. Most of its
    passengers sleep, a few read, and one writes letters that she never sends. When the guard walks through
    the cars he counts the empty seats and notes them in a small grey book, because the company wants to know.
    Every spring the river rises over the lower road, and the school bus has to take the long way round.
    """
CODE: Final = """
    def windows(values: list[float], size: int) -> Iterator[list[float]]:
        if size < 1:
            raise ValueError(f"size must be positive, got {size}")
        for start in range(len(values) - size + 1):
            yield values[start : start + size]

    class Ledger:
        def __init__(self) -> None:
            self.rows: dict[str, int] = {}

        def add(self, key: str, amount: int = 1) -> None:
            self.rows[key] = self.rows.get(key, 0) + amount
    """
CHINESE: Final = (
    "清晨的市场里已经有不少人，卖菜的老人把新摘的青菜摆得整整齐齐。有人问价，有人挑拣，也有人只是路过看看。"  # noqa: RUF001 - Chinese has commas of its own
    "服务重启之后需要检查连接池的大小，如果日志里仍然出现超时，就把最大连接数调低一些，再观察十分钟。"  # noqa: RUF001
)
CLAUSE: Final = re.compile("[^\\uff0c\\u3002\n]+[\\uff0c\\u3002\n]?")


def load() -> tuple[tuple[Any, ...], Fusion]:
    """The default rule set, as shipped."""
    return build(yaml.safe_load(RULES.read_text(encoding="utf-8")))


def text_of(rng: random.Random, pieces: Sequence[str], tokens: int) -> list[str]:
    """Pseudo-tokens that go on without a loop: the source's clauses shuffled, a made-up name after each."""
    clauses = [PSEUDO_TOKEN.findall(clause) for clause in pieces]
    out: list[str] = []
    while len(out) < tokens:
        rng.shuffle(clauses)
        for clause in clauses:
            out += [
                *clause,
                f" {rng.choice('BDFGKLMN')}{rng.choice('aeiou')}{rng.choice('lnrst')}{rng.choice('ey')}",
            ]
    return out[:tokens]


def stream(rng: random.Random, index: int) -> list[Delta]:
    """One healthy stream: 60 % English, 20 % code, 20 % Chinese; 1 to 4 tokens an event."""
    source = (ENGLISH, ENGLISH, ENGLISH, CODE, CHINESE)[index % 5]
    pieces = [piece for piece in CLAUSE.findall(source) if piece.strip()]
    tokens, done, deltas = text_of(rng, pieces, TOKENS), 0, []
    while done < len(tokens):
        size = rng.choice((1, 2, 3, 4))
        deltas.append(Delta(text="".join(tokens[done : done + size]), tokens=min(done + size, len(tokens))))
        done += size
    return deltas


def cost(rounds: int) -> dict[str, float]:
    """CPU time of judging 64 streams in turn."""
    detectors, fusion = load()
    rng = random.Random(5)
    streams = [stream(rng, index) for index in range(STREAMS)]
    batches = [[d[at : at + BATCH] for at in range(0, len(d), BATCH)] for d in streams]
    best, looks, alarms = 1e9, sum(map(len, batches)), 0
    for _ in range(rounds):
        seconds, inspectors = _round(batches, detectors, fusion)
        best, alarms = min(best, seconds), sum(i.judgement.level > Level.CLEAN for i in inspectors)
    events = sum(map(len, streams))
    tokens = sum(d[-1].tokens for d in streams)
    return {
        "us_per_token": round(best / tokens * 1e6, 3),
        "us_per_event": round(best / events * 1e6, 3),
        "us_per_look": round(best / looks * 1e6, 2),
        "tokens": tokens,
        "alarms_on_clean": alarms,
    }


def _round(
    batches: list[list[list[Delta]]], detectors: tuple[Any, ...], fusion: Fusion
) -> tuple[float, list[Inspector]]:
    facts, worker = RequestFacts(dialect="bench"), WorkerFacts(drafter=Drafter.MODEL, draft_tokens=3)
    inspectors = [Inspector(facts, worker, detectors, fusion) for _ in batches]
    started = thread_time()
    for turn in range(max(map(len, batches))):
        for inspector, own in zip(inspectors, batches, strict=True):
            if turn < len(own):
                inspector.read(own[turn], turn * 0.05)
    return thread_time() - started, inspectors


def rows(files: Sequence[Path]) -> Iterator[dict[str, Any]]:
    """The labelled texts of some JSONL files."""
    for file in files:
        with file.open(encoding="utf-8") as lines:
            yield from (json.loads(line) for line in lines if line.strip())


def score(files: Sequence[Path]) -> dict[str, Any]:
    """Recall by kind, right kind among the flagged, and the normals that were flagged."""
    rules = Rules(*load())
    seen: Counter[str] = Counter()
    flagged: Counter[str] = Counter()
    suspected: Counter[str] = Counter()
    right: Counter[str] = Counter()
    false_alarms: list[str] = []
    for row in rows(files):
        kind, verdict = row["kind"], judge_text(row["text"], rules, prompt=row.get("prompt", ""))
        seen[kind] += 1
        suspected[kind] += verdict.level is Level.SUSPECT
        flagged[kind] += verdict.kind is not Kind.NORMAL
        right[kind] += verdict.kind == kind
        if kind == Kind.NORMAL and verdict.kind is not Kind.NORMAL:
            false_alarms.append(row["id"])
    print(f"{'kind':12} {'texts':>6} {'flagged':>8} {'right kind':>11} {'suspected':>10}")
    for kind in sorted(seen):
        counts = f"{seen[kind]:6} {flagged[kind]:8} {right[kind]:11} {suspected[kind]:10}"
        print(f"{kind:12} {counts}")
    return {
        "recall": {kind: round(flagged[kind] / seen[kind], 3) for kind in seen if kind != Kind.NORMAL},
        "false_alarms": false_alarms,
        "normals": seen[Kind.NORMAL],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Cost and score of the detectors.")
    parser.add_argument("--corpus", type=Path, nargs="+", default=[], metavar="FILE")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    figures: dict[str, Any] = {"corpus": score(args.corpus)} if args.corpus else {}
    print(json.dumps(cost(args.rounds) | figures))


if __name__ == "__main__":
    main()
