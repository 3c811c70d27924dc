"""What the path of a chunk costs inside the core, part by part: `make bench-path`.

    python -m replay.bench.path [--rounds 5] [--json]

No socket and no second process, so that a busy machine disturbs little: 64 monitors are fed the chunks of the
gateway bench's worker, usage in each, and asked for the looks that are due as the proxy asks for them. CPU of
this thread, the best of the rounds, in us a chunk. Parts by difference, each from runs of their own:

    feed      split, and cut out what only we asked for: what a byte waits for
    look      decode and note, with no detector; the end of the stream
    NAME      what one detector adds to that; `all` what they add together

Twice: `hot`, one chunk after the other, and `cold`, where 2 MiB of other memory are read between arrivals,
as the kernel and other processes do between two reads of a busy sidecar. Staggered arrivals bring 13 chunks
at a time, lockstep all 64. `protect` is the whole with hold-back, observe the whole without.
"""

import argparse
import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import thread_time
from typing import Any, Final

import yaml

from replay.bench.load import request
from replay.bench.mock_worker import Schedule, Stream
from replay.bench.texts import streams
from service.core.desk import Desk
from service.core.detectors import build
from service.core.dialects import OPENAI_CHAT
from service.core.events import Drafter, Ending, Policy, WorkerFacts
from service.core.fusion import Fusion
from service.core.monitor import Monitor
from service.core.policy import RoutePolicy

RULES: Final = Path(__file__).parents[2] / "rules" / "sets" / "default.yaml"
STREAMS: Final = 64
STAGGERED: Final = 13
"""Chunks that come together: 64 streams over five phases."""
PERIOD_S: Final = 0.005
TICK_S: Final = 0.25
OTHERS_BYTES: Final = 2 * 1024 * 1024
"""Twice the second-level cache of a core."""
WORKER: Final = WorkerFacts(drafter=Drafter.MODEL, draft_tokens=3)

Detectors = Sequence[Any]


class _Taken(asyncio.Transport):
    """Keeps the last chunk that was written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.last = b""

    def write(self, data: Any) -> None:  # noqa: ANN401 - as the transport has it
        self.last = bytes(data)


def chunks_of(pieces: Sequence[Any]) -> list[bytes]:
    """The events of one answer, as they leave HTTP's framing: one a read; the last ends the answer."""
    transport = _Taken()
    stream = Stream(transport, list(pieces), Schedule(), usage=True)
    found = []
    for _ in range(len(pieces) + 1):
        stream.write()
        size, _, rest = transport.last.partition(b"\r\n")
        found.append(rest[: int(size, 16)])
    return found


def traffic(count: int = STREAMS) -> list[list[bytes]]:
    """By stream, what comes."""
    return [chunks_of(pieces) for pieces in streams(count)]


class Run:
    """All streams once through, with these detectors."""

    def __init__(self, detectors: Detectors, fusion: Fusion, policy: Policy) -> None:
        body = request("", asked=False).partition(b"\r\n\r\n")[2]
        facts = OPENAI_CHAT.request(body)
        outgoing = OPENAI_CHAT.outgoing(body, facts, "0" * 32, ask_growth=True)
        self._desk = Desk(detectors, fusion)
        self._make: Callable[[], Monitor] = lambda: Monitor(
            facts=facts,
            dialect=OPENAI_CHAT,
            outgoing=outgoing,
            route=RoutePolicy(policy=policy),
            desk=self._desk,
            rid="0" * 32,
            now=0.0,
        )
        self.findings = 0  # of the last run

    def seconds(self, chunks: list[list[bytes]], together: int, others: bytes, *, looks: bool) -> float:
        """CPU seconds from the first chunk to the last; `together` chunks come in one turn of the loop."""
        monitors = [self._make() for _ in chunks]
        for monitor in monitors:
            monitor.defers = True
            monitor.head(200, WORKER, True, 0.0)  # noqa: FBT003 - as the proxy calls it
        spent = now = 0.0
        for now, arrivals in _arrivals(monitors, chunks, together):
            others.count(b"\x01")
            started = thread_time()
            for monitor, data in arrivals:
                monitor.feed(data, now)
            for monitor, _ in arrivals if looks else ():
                if monitor.look_due:
                    monitor.look(now)
            spent += thread_time() - started
        started = thread_time()
        for monitor in monitors if looks else ():
            monitor.end(Ending.COMPLETE, now)
        spent += thread_time() - started
        self.findings = sum(len(m.generation.attempt().findings) for m in monitors)
        return spent


def _arrivals(
    monitors: list[Monitor], chunks: list[list[bytes]], together: int
) -> Iterator[tuple[float, list[tuple[Monitor, bytes]]]]:
    """What comes in one turn of the loop, turn by turn."""
    for place in range(max(map(len, chunks))):
        for start in range(0, len(monitors), together):
            now = PERIOD_S * (place + start / len(monitors))
            group = zip(monitors[start : start + together], chunks[start : start + together], strict=True)
            yield now, [(monitor, own[place]) for monitor, own in group if place < len(own)]


def variants(detectors: Detectors) -> dict[str, tuple[Detectors, Policy, bool]]:
    """What is run: by name the detectors, the policy, and whether anybody looks."""
    alone = {one.name: ((one,), Policy.OBSERVE, True) for one in detectors}
    return {
        "feed": ((), Policy.OBSERVE, False),
        "look": ((), Policy.OBSERVE, True),
        **alone,
        "all": (detectors, Policy.OBSERVE, True),
        "protect": (detectors, Policy.PROTECT, True),
    }


def measure(rounds: int, together: int, others: bytes, chunks: list[list[bytes]]) -> dict[str, float]:
    """Us a chunk by part; the variants are interleaved."""
    detectors, fusion = build(yaml.safe_load(RULES.read_text(encoding="utf-8")))
    count = sum(map(len, chunks))
    runs = {
        name: (Run(own, fusion, policy), looks) for name, (own, policy, looks) in variants(detectors).items()
    }
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(rounds):
        for name, (run, looks) in runs.items():
            best[name] = min(best[name], run.seconds(chunks, together, others, looks=looks))
    return parts({name: seconds / count * 1e6 for name, seconds in best.items()})


def parts(whole: dict[str, float]) -> dict[str, float]:
    """Differences where a variant holds another."""
    bare = {"feed": 0.0, "look": whole["feed"], "observe": 0.0, "protect": 0.0}
    told = whole | {"observe": whole["all"]}
    return {name: round(us - bare.get(name, whole["look"]), 2) for name, us in told.items()}


def table(figures: dict[str, dict[str, float]]) -> str:
    head = "us a chunk  " + "".join(f"{name:>18}" for name in figures)
    rows = (
        f"{part:12}" + "".join(f"{figure[part]:18.2f}" for figure in figures.values())
        for part in next(iter(figures.values()))
    )
    return "\n".join([head, *rows])


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="replay.bench.path", description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--streams", type=int, default=STREAMS)
    parser.add_argument("--json", action="store_true", help="the last line alone")
    told = parser.parse_args(words)
    chunks = traffic(told.streams)
    figures = {
        f"{arrivals}_{cache}": measure(told.rounds, together, others, chunks)
        for arrivals, together in (("staggered", STAGGERED), ("lockstep", STREAMS))
        for cache, others in (("hot", b""), ("cold", bytes(OTHERS_BYTES)))
    }
    if not told.json:
        print(table(figures))
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
