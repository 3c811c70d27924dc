"""What judging costs, and how often it is right: `make bench-detectors`.

    python -m replay.bench.detectors                     everything but a corpus; writes rules/quality.json
    python -m replay.bench.detectors --corpus FILE...    the score sheet over labelled JSONL texts as well
    python -m replay.bench.detectors --bulk 20000        so many windows of files of this machine; 0 for none
    python -m replay.bench.detectors --quick             a look of some seconds; writes nothing

The last line is one JSON object. Two minutes. Cost is that of `Inspector.read` with all detectors of the
default rule set, events already read by a dialect: 64 streams in turn, so that each look finds its state out
of the cache as in a busy sidecar; 8 events of about 2.5 tokens to a look; English, code and Chinese; token
growth of a drafting worker, so that every detector works. CPU time of this thread, the best of the rounds
(the machine is shared).
"""

import argparse
import json
import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import thread_time
from typing import Any, Final

import yaml

from replay.bench import bulk, delays, quality, telemetry
from replay.bench.footprint import state_bytes
from service.core.detectors import build
from service.core.events import Delta, Drafter, Level, RequestFacts, WorkerFacts
from service.core.fusion import Fusion
from service.core.inspector import Inspector
from service.core.recorded import PSEUDO_TOKEN, Rules

RULES: Final = Path(__file__).parents[2] / "rules" / "sets" / "default.yaml"
STREAMS: Final = 64
BATCH: Final = 8
TOKENS: Final = 400
"""Tokens of one stream: a usual answer."""

LONG_TOKENS: Final = (1000, 8000)
"""Tokens of the streams whose cost a token is compared: it must not grow with the text."""

RUNS: Final = 20_000
QUICK_RUNS: Final = 2000
WINDOWS: Final = 13_000
"""More than the 10,000 that are judged: not every class has files enough."""

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


def stream(rng: random.Random, index: int, length: int = TOKENS) -> list[Delta]:
    """One healthy stream: 60 % English, 20 % code, 20 % Chinese; 1 to 4 tokens an event."""
    source = (ENGLISH, ENGLISH, ENGLISH, CODE, CHINESE)[index % 5]
    pieces = [piece for piece in CLAUSE.findall(source) if piece.strip()]
    tokens, done, deltas = text_of(rng, pieces, length), 0, []
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


def growth(rounds: int) -> dict[str, float]:
    """CPU time a token at both lengths, the end of the stream included, their ratio, and the state then."""
    detectors, fusion = load()
    found = []
    for length in LONG_TOKENS:
        rng, best = random.Random(7), 1e9
        streams = [stream(rng, index, length) for index in range(5)]
        batches = [[d[at : at + BATCH] for at in range(0, len(d), BATCH)] for d in streams]
        for _ in range(rounds):
            started = thread_time()
            _, inspectors = _round(batches, detectors, fusion)
            for inspector in inspectors:
                inspector.finish(0.0, clean=True)
            best = min(best, thread_time() - started)
        found.append(best / (length * len(streams)) * 1e6)
    short, long = found
    return {
        f"state_bytes_at_{LONG_TOKENS[1]}": max(map(state_bytes, inspectors)),
        f"us_per_token_at_{LONG_TOKENS[0]}": round(short, 3),
        f"us_per_token_at_{LONG_TOKENS[1]}": round(long, 3),
        "growth": round(long / short, 3),
    }


def rows(files: Sequence[Path]) -> Iterator[dict[str, Any]]:
    """The labelled texts of some JSONL files."""
    for file in files:
        with file.open(encoding="utf-8") as lines:
            yield from (json.loads(line) for line in lines if line.strip())


def show(name: str, score: dict[str, Any]) -> None:
    shares = " ".join(f"{key} {score[key]:.3f}" for key in ("precision", "recall", "right_kind"))
    print(f"{name:24} corrupted {score['corrupted']:4} normals {score['normals']:4} {shares}")
    if score["false_alarms"]:
        print(f"{'':24} false alarms: {', '.join(score['false_alarms'])}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Cost, delays and score of the detectors.")
    parser.add_argument("--corpus", type=Path, nargs="+", default=[], metavar="FILE")
    parser.add_argument("--skip", nargs="+", default=[], metavar="ID", help="texts that are not counted")
    parser.add_argument("--bulk", type=int, default=WINDOWS, metavar="WINDOWS")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    detectors, fusion = load()
    rules = Rules(detectors, fusion)
    figures: dict[str, Any] = {
        "telemetry": telemetry.figures(QUICK_RUNS if args.quick else RUNS, rare=not args.quick),
        "loops": delays.table(detectors, fusion),
        "made": quality.made(rules, 1 if args.quick else quality.MADE_ROUNDS),
    }
    show("texts made to order", figures["made"])
    if args.corpus:
        figures["corpus"] = quality.corpus(rows(args.corpus), rules, args.skip)
        for name, score in figures["corpus"].items():
            show(f"corpus, {name}", score)
    if args.bulk and not args.quick:
        figures["bulk"] = bulk.score(rules, args.bulk)
    figures["cost"] = cost(args.rounds) | growth(min(args.rounds, 3))
    if not args.quick:
        quality.publish(figures)
    print(json.dumps(figures["telemetry"] | figures["cost"] | figures))


if __name__ == "__main__":
    main()
