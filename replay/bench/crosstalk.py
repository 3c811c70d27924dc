"""Cross-talk: how often a clean answer is taken for another's, and how often another's answer is recognised.

    python -m replay.bench.crosstalk --clean 100000          clean traffic alone (`clean_traffic.py`)
    python -m replay.bench.crosstalk --clean 0 --swaps 400   whole-slot swaps in the lab's own engine;
                                                             a minute; writes rules/quality.json

The last line is JSON. Clean: requests of many sessions run side by side, their answers cut into events, a
tick now and then. Swaps: both requests live beside ten others, all their prompts indexed; at a token the
pages of the other take the place of ours, in the target's pool alone or in both, and the answer goes on by
itself, as the donor's does beside it. The judge is the cross-talk detector with the fusion of the default
rules and nothing else: no acceptance, no text. `corrupt` is a verdict, `acted` that or a suspicion that has a
held answer made again. `shown` is how many bytes the answer came to show behind the swap.
"""

import argparse
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec
import numpy as np
import yaml

from replay.bench.clean_traffic import Request, World
from replay.bench.interval import wilson
from replay.bench.quality import publish
from replay.lab.quality import FAULTS, MAX_TOKENS, Run
from replay.lab.tasks import KINDS, Kind, Task, sample
from replay.lab.tokenizer import decode
from service.core.detectors.crosstalk import Crosstalk
from service.core.events import Delta, Judgement, Level, RequestFacts, WorkerFacts
from service.core.fusion import Fusion
from service.core.inspector import Inspector
from service.core.kgrams import folded
from service.core.party import Party
from service.core.provenance import Provenance

RULES: Final = Path(__file__).parents[2] / "rules" / "sets" / "default.yaml"
LIVE: Final = 24
"""Sessions side by side."""
EVENT_CHARS: Final = (4, 16)
BATCH: Final = 8
TICK_LOOKS: Final = 60
BYSTANDERS: Final = 10
ONSETS: Final = (4, 24)
SHOWN: Final = (0, 32, 48, 64, 96)
EQUAL: Final = ("swap-equal", "swap-equal-both")


@cache
def judge() -> tuple[Crosstalk, Fusion]:
    """The detector and the fusion as the default rules have them."""
    rules = yaml.safe_load(RULES.read_text(encoding="utf-8"))
    return Crosstalk(**rules["detectors"]["crosstalk"]), Fusion(**rules["fusion"])


def events(text: str, rng: Random) -> list[Delta]:
    """An answer as a stream brings it: a few characters an event."""
    cut: list[Delta] = []
    at = 0
    while at < len(text):
        size = rng.randint(*EVENT_CHARS)
        cut.append(Delta(text=text[at : at + size], tokens=(at + size) // 4 + 1))
        at += size
    return [*cut, Delta(tokens=len(text) // 4 + 1, finish="stop")]


def alone(facts: RequestFacts) -> Inspector:
    """The cross-talk detector and nobody else."""
    detector, fusion = judge()
    return Inspector(facts, WorkerFacts(), [detector], fusion)


class Stream:
    """One answer on its way."""

    def __init__(self, inspector: Inspector, party: Party, deltas: Sequence[Delta]) -> None:
        self.party = party
        self.inspector = inspector
        self._batches = [deltas[at : at + BATCH] for at in range(0, len(deltas), BATCH)][::-1]

    def step(self, now: float) -> bool:
        """One look; whether there is more."""
        self.inspector.read(self._batches.pop(), now)
        return bool(self._batches)


@dataclass(slots=True)
class Bench:
    """One index, and the answers that run on it."""

    seed: int
    bits: int = 20
    inspect: Callable[[RequestFacts], Inspector] = alone
    cut: Callable[[str, Random], list[Delta]] = events
    index: Provenance = field(init=False)
    rng: Random = field(init=False)
    looks: int = 0

    def __post_init__(self) -> None:
        self.index, self.rng = Provenance(b"bench", bits=self.bits), Random(self.seed)

    def __repr__(self) -> str:
        return f"<Bench {self.index!r}>"

    def enter(
        self, facts: RequestFacts, rid: str, tenant: str, session: str = ""
    ) -> tuple[Party, RequestFacts]:
        """A request comes: its prompt is indexed."""
        party = self.index.open(rid, tenant=tenant.encode(), session=session.encode())
        facts = msgspec.structs.replace(facts, origin=party)
        self.index.learn(party, facts)
        return party, facts

    def start(self, request: Request, rid: str) -> Stream:
        party, facts = self.enter(request.facts, rid, request.tenant, request.session)
        return Stream(self.inspect(facts), party, self.cut(request.answer, self.rng))

    def step(self, stream: Stream, now: float) -> bool:
        """One look at one stream, and a tick when it is time."""
        self.looks += 1
        if self.looks % TICK_LOOKS == 0:
            self.index.read(now)
        return stream.step(now)


def clean(requests: int, seed: int = 1, bench: Bench | None = None) -> dict[str, Any]:
    """Judge clean traffic."""
    bench, sessions = bench or Bench(seed), World(seed).sessions()
    running: list[tuple[Iterator[list[Request]], list[Stream]]] = []
    seen: Counter[str] = Counter()
    while seen["requests"] < requests:
        now = seen["requests"] * 0.05
        if len(running) < LIVE:
            running.append((next(sessions), []))
        place = bench.rng.randrange(len(running))
        turns, streams = running[place]
        if not streams:
            group = next(turns, None)
            if group is None:
                running.pop(place)
                continue
            streams += [bench.start(request, f"r{seen['requests'] + at}") for at, request in enumerate(group)]
            seen["requests"] += len(group)
        stream = bench.rng.choice(streams)
        if not bench.step(stream, now):
            streams.remove(stream)
            _end(bench, stream, now, seen)
    return {"seed": seed, **seen, "slots_used": round(bench.index.table.used(), 3)}


def _end(bench: Bench, stream: Stream, now: float, seen: Counter[str]) -> None:
    said = stream.inspector.finish(now, clean=True)
    bench.index.close(stream.party, now, clean=said.level is not Level.CORRUPT)
    seen["answers"] += 1
    seen["detector_faults"] += len(stream.inspector.faults)
    seen["one_gram"] += any(said.detector == Crosstalk.name for said in stream.inspector.findings())
    seen["suspected"] += said.level is Level.SUSPECT
    seen["corrupt"] += said.level is Level.CORRUPT


@dataclass(frozen=True, slots=True)
class Swap:
    """One struck answer and what was made of it."""

    victim: Kind
    donor: Kind
    fault: str
    shown: int  # normalised bytes behind the swap
    judgement: Judgement
    doubt: float

    @property
    def found(self) -> bool:
        return self.judgement.level is Level.CORRUPT

    @property
    def acted(self) -> bool:
        """As under `strict`, which has a held answer that is suspected made again."""
        _, fusion = judge()
        return self.judgement.level > Level.CLEAN and self.doubt >= fusion.second_opinion


def swaps(requests: int, seed: int = 1, onset: int | None = None) -> Iterator[Swap]:
    """Strike lab answers and judge them."""
    rng = np.random.default_rng(seed)
    for at in range(requests):
        task = sample(rng, KINDS[at % len(KINDS)])
        tokens = int(rng.integers(ONSETS[0], ONSETS[1] + 1)) if onset is None else onset
        run, other = Run(task).until(tokens), Run(_as_long(task, rng)).until(tokens)
        if run.is_over:
            continue
        before = len(decode(run.request.answer))
        FAULTS[EQUAL[at // len(KINDS) % 2]].strike(run, other, rng)
        text, theirs = (decode(one.until(MAX_TOKENS).answer()) for one in (run, other))
        others = [sample(rng).prompt for _ in range(BYSTANDERS)]
        judged = _judged(text, theirs, [*others, other.task.prompt, task.prompt], seed + at)
        shown = len(b" ".join(folded(text[before:]).split()))
        yield Swap(task.kind, other.task.kind, EQUAL[at // len(KINDS) % 2], shown, *judged)


def _as_long(task: Task, rng: np.random.Generator) -> Task:
    while True:
        other = sample(rng)
        if len(other.prompt_ids) == len(task.prompt_ids):
            return other


def _judged(text: str, theirs: str, prompts: Sequence[str], seed: int) -> tuple[Judgement, float]:
    """Judge an answer among live requests, of which the last is its own and the last but one the donor.

    The donor's own answer comes beside it, event by event, as it does where two share a slot.
    """
    bench, live = Bench(seed, bits=16), list[tuple[Party, RequestFacts]]()
    for place, prompt in enumerate(prompts):
        facts = RequestFacts(dialect="sglang_generate", prompt=prompt)
        rid = "donor" if place == len(prompts) - 2 else f"r{place}"
        live.append(bench.enter(facts, rid, f"tenant-{place}"))
    (donor, _), (party, facts) = live[-2:]
    stream, beside = Stream(alone(facts), party, events(text, bench.rng)), donor.speak()
    heard = events(theirs, bench.rng)[::-1]
    while stream.step(0.0):
        for delta in heard[: -BATCH - 1 : -1]:
            beside.hear(delta.text)
        del heard[-BATCH:]
        bench.index.read(0.0)
    judgement = stream.inspector.finish(0.0, clean=True)
    return judgement, judge()[1].doubt(stream.inspector.findings())


def table(found: Sequence[Swap]) -> dict[str, Any]:
    """Recall, over all and in parts."""
    groups: dict[str, list[Swap]] = {"all": list(found)}
    for swap in found:
        groups.setdefault(f"{swap.victim}<-{swap.donor}", []).append(swap)
        groups.setdefault(swap.fault, []).append(swap)
        groups.setdefault(f"victim {swap.victim}", []).append(swap)
        shown = max(least for least in SHOWN if swap.shown >= least)
        groups.setdefault(f"shown >= {shown}", []).append(swap)
    copies = [s for s in found if s.victim == s.donor == "copy"]
    groups["copy<-copy, shown >= 64"] = [swap for swap in copies if swap.shown >= SHOWN[3]]
    groups["victim copy, shown >= 64"] = [s for s in found if s.victim == "copy" and s.shown >= SHOWN[3]]
    return {name: _recall(swaps) for name, swaps in sorted(groups.items()) if swaps}


def _recall(found: Sequence[Swap]) -> dict[str, Any]:
    count = len(found)
    named = [swap for swap in found if swap.judgement.level > Level.CLEAN]
    return {
        "swaps": count,
        "corrupt": round(sum(swap.found for swap in found) / count, 3),
        "interval": wilson(sum(swap.found for swap in found), count),
        "suspected": round(sum(s.judgement.level is Level.SUSPECT for s in found) / count, 3),
        "acted": round(sum(swap.acted for swap in found) / count, 3),
        "acted_interval": wilson(sum(swap.acted for swap in found), count),
        "wrong_donor": sum(swap.judgement.unit != "donor" for swap in named),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="False alarms and recall of the cross-talk detector.")
    parser.add_argument("--clean", type=int, default=2000, help="clean requests")
    parser.add_argument("--swaps", type=int, default=0, help="lab answers to strike")
    parser.add_argument("--onset", type=int, default=None, help="answer tokens before the swap; 4 to 24")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--dry", action="store_true", help="write nothing")
    args = parser.parse_args()
    figures: dict[str, Any] = {}
    if args.clean:
        figures["clean"] = clean(args.clean, args.seed)
    if args.swaps:
        figures["swaps"] = table(list(swaps(args.swaps, args.seed, args.onset)))
        if not args.dry:
            publish({"swaps": figures["swaps"]})
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
