"""What all detectors together see of KV faults: the lab's fault matrix under the real monitor.

    python -m replay.bench.joint --requests 8           two minutes of CPU; writes rules/quality.json
    python -m replay.bench.joint --requests 1 --dry     writes nothing

Each fault of `replay.lab.matrix` strikes each request at each onset; the answer with its verify steps goes
through the monitor under each policy. The truth is the lab's: an answer is wrong when its task's check fails,
bad from the first token that differs from the answer without the fault. `acted` is a verdict, or a second
generation asked for at the end of a held answer. A fault in the draft's pool alone changes no answer: what is
acted upon there is a false alarm, though most of it is a second generation asked for, and no verdict.

The other two requests of the pool are what a sidecar would have heard of them: the former tenant's answer
whole, the donor's as far as it has come. What an answer became is told apart by what can be told: `leak` is
eight words of another request in a row, `few words` fewer; `healed` a fluent answer whose KV was right again
after four steps. `decidable` is what is silent, loops or leaks: what a look at stream and neighbours can see.

Three settings: `usual`, without the index of who said what; `all`, with it; and
`calibrated`, that with baselines learned from clean requests of another seed. 25 ms a walk, 3 ms a judgement.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from replay.bench.detectors import load
from replay.bench.guarded import STEP_S, Client, Seen, Setting, request
from replay.bench.interval import wilson
from replay.bench.quality import publish
from replay.lab.canary import TextClass, Witness, classify
from replay.lab.corruption import Fault
from replay.lab.matrix import ONSETS_TOKENS, SEED, Bench, Walk, cells, drawn
from replay.lab.speculation import DRAFT_TOKENS
from replay.lab.tasks import Task
from replay.lab.tokenizer import FIXED, decode
from service.core.baseline import Baselines, key_of
from service.core.dialects import OPENAI_CHAT
from service.core.events import Drafter, Level, Policy, WorkerFacts
from service.core.provenance import Provenance

WORKER: Final = "http://lab"
CALIBRATION: Final = 300
"""Requests that baselines are learned from: answers are short, and 200 windows are asked for."""

LEAK_WORDS: Final = 8
"""Some 50 bytes: what the cross-talk detector is made for."""

Run = tuple[int, ...]
LEAK: Final = "leak"
FEW_WORDS: Final = "leak of few words"
HEALED: Final = "fluent, healed"
DECIDABLE: Final = (TextClass.SILENT, TextClass.LOOP, LEAK)
CLASSES: Final = (
    TextClass.RIGHT, *DECIDABLE, FEW_WORDS, TextClass.GARBLED, HEALED, TextClass.FLUENT,
)  # fmt: skip
PACE_TOKENS: Final = 3
"""Tokens a step that the donor is taken to say."""

BEST: Final = "calibrated"
CALIBRATION_SEED: Final = 99
INDEX_BITS: Final = 14


class Case(NamedTuple):
    """One struck answer, judged."""

    fault: Fault
    text: str  # what became of it
    wrong: bool
    bad_from: int  # token; the answer's length where nothing differs
    by_setting: dict[str, Seen]  # under strict
    by_policy: dict[Policy, Seen]  # of all detectors, calibrated


def settings(calibration: int = CALIBRATION) -> dict[str, Setting]:
    """What is compared."""
    detectors, fusion = load()
    usual = tuple(one for one in detectors if one.name != "crosstalk")
    plain = WorkerFacts(WORKER, Drafter.MODEL, DRAFT_TOKENS)
    learned = Baselines()
    for tasks in drawn(calibration, CALIBRATION_SEED):
        steps = Bench(tasks, 1).run(None)[0].accepted
        learned.learn(
            key_of("lab", WORKER, DRAFT_TOKENS, 0.0, grammar=False), [(DRAFT_TOKENS, n) for n in steps]
        )
    held = WorkerFacts(WORKER, Drafter.MODEL, DRAFT_TOKENS, learned.anchors(WORKER, DRAFT_TOKENS))
    return {
        "usual": Setting(usual, fusion, plain),
        "all": Setting(detectors, fusion, plain),
        BEST: Setting(detectors, fusion, held),
    }


def judged(walk: Walk, tasks: Sequence[Task], setting: Setting, policy: Policy) -> Seen:
    """One answer among the requests of its pool, whose prompts are indexed; the first is its own."""
    index, own, donor, former = Provenance(b"bench", bits=INDEX_BITS), *map(_Neighbour, tasks)
    for place, one in ((2, former), (1, donor), (0, own)):
        one.enter(index, place)
    former.say(len(former.answer))
    index.read(0.0)
    index.close(former.party, 0.0, clean=True)

    def tick(now: float) -> None:
        donor.say(int(now / STEP_S) * PACE_TOKENS)
        index.read(now)

    return Client(own.body, own.facts, setting, policy, tick).run(walk.answer, walk.accepted)


class _Neighbour:
    """One request of the pool in the index of who said what."""

    def __init__(self, task: Task) -> None:
        self.body = request(task.prompt)
        self.facts = OPENAI_CHAT.request(self.body)
        self.answer = task.answer_ids
        self._said = 0

    def enter(self, index: Provenance, place: int) -> None:
        """It comes, and its prompt is read."""
        self.party = index.open(f"r{place}", tenant=b"%d" % place)
        self.facts = msgspec.structs.replace(self.facts, origin=self.party)
        index.learn(self.party, self.facts)
        self._speech = self.party.speak()

    def say(self, tokens: int) -> None:
        """Its answer has come to so many tokens."""
        if tokens > self._said < len(self.answer):
            self._speech.hear(decode(self.answer[:tokens])[len(decode(self.answer[: self._said])) :])
            self._said = tokens


def strike(
    tasks: tuple[Task, Task, Task], onset: int, faults: Sequence[Fault], known: dict[str, Setting]
) -> Iterator[Case]:
    """One request at one onset under every fault."""
    bench, witness = Bench(tasks, onset), Witness()
    for walk in bench.walks:
        witness.know(walk.rid, walk.task)
    clean, _ = bench.run(None)
    for fault in faults:
        walk, touch = bench.run(fault, (SEED, onset))
        if touch is None or bench.victim.is_over:
            continue
        owner = witness.leaked_from(walk.rid, walk.task, walk.answer)
        text = became(fault, classify(walk.task, walk.answer, owner), walk.answer, tasks)
        strict = {name: judged(walk, tasks, one, Policy.STRICT) for name, one in known.items()}
        rest = (Policy.OBSERVE, Policy.PROTECT)
        by_policy = {policy: judged(walk, tasks, known[BEST], policy) for policy in rest}
        yield Case(
            fault=fault,
            text=text,
            wrong=text != TextClass.RIGHT,
            bad_from=_parts_at(walk.answer, clean.answer),
            by_setting=strict,
            by_policy={**by_policy, Policy.STRICT: strict[BEST]},
        )


def became(fault: Fault, text: TextClass, answer: Sequence[int], tasks: Sequence[Task]) -> str:
    """The lab's class of an answer, told apart by what can be told of it."""
    if text is TextClass.LEAK:
        own, *others = tasks
        theirs = frozenset[Run]().union(*(runs(one.prompt_ids) | runs(one.answer_ids) for one in others))
        return LEAK if runs(answer) & theirs - runs(own.prompt_ids) else FEW_WORDS
    return HEALED if text is TextClass.FLUENT and fault.transient else str(text)


def runs(ids: Sequence[int]) -> frozenset[Run]:
    """All rows of so many words, signs and numbers left out."""
    words = [token for token in ids if token >= len(FIXED)]
    return frozenset(tuple(words[at : at + LEAK_WORDS]) for at in range(len(words) - LEAK_WORDS + 1))


def _parts_at(answer: Sequence[int], clean: Sequence[int]) -> int:
    same = (at for at, (one, other) in enumerate(zip(answer, clean, strict=False)) if one != other)
    return next(same, min(len(answer), len(clean)))


def measure(
    requests: int,
    *,
    faults: Sequence[Fault] = (),
    onsets: Sequence[int] = ONSETS_TOKENS,
    calibration: int = CALIBRATION,
) -> dict[str, Any]:
    """All figures."""
    known, found = settings(calibration), list[Case]()
    for tasks, onset in product(drawn(requests), onsets):
        found += strike(tasks, onset, faults or cells(), known)
    return {
        "requests": requests,
        "struck": len(found),
        "recall": {name: _recall(found, name) for name in known},
        "by_fault": {name: _row(cases) for name, cases in _groups(found).items()},
        "by_text": {text: _row([case for case in found if case.text == text]) for text in CLASSES},
        "decidable": _recall([case for case in found if case.text in DECIDABLE], BEST),
        "delivered_bad_tokens": _delivered(found),
    }


def _groups(found: Sequence[Case]) -> dict[str, list[Case]]:
    """By source and place, and by extent."""
    groups: dict[str, list[Case]] = {}
    for case in found:
        fault = case.fault
        groups.setdefault(f"{fault.source}@{fault.place}", []).append(case)
        groups.setdefault("transient" if fault.transient else f"extent {fault.extent}", []).append(case)
    return groups


def _recall(found: Sequence[Case], setting: str) -> dict[str, Any]:
    """Of wrong answers those acted upon, and of right ones as well."""
    wrong = [case.by_setting[setting] for case in found if case.wrong]
    right = [case.by_setting[setting] for case in found if not case.wrong]
    acted, needless = sum(seen.acted for seen in wrong), sum(seen.acted for seen in right)
    return {
        "wrong": len(wrong),
        "acted": acted,
        "recall": round(acted / max(len(wrong), 1), 4),
        "interval": wilson(acted, len(wrong)),
        "suspected": sum(seen.level is Level.SUSPECT for seen in wrong),
        "right": len(right),
        "acted_on_right": needless,
        "verdicts_on_right": sum(seen.level is Level.CORRUPT for seen in right),
    }


def _row(cases: Sequence[Case]) -> dict[str, Any]:
    """One line of the table: recall in every setting."""
    wrong = [case for case in cases if case.wrong]
    settings = cases[0].by_setting if cases else ()
    return {
        "struck": len(cases),
        "wrong": len(wrong),
        **{name: sum(case.by_setting[name].acted for case in wrong) for name in settings},
        "acted_on_right": sum(case.by_setting[BEST].acted for case in cases if not case.wrong),
        "interval": wilson(sum(case.by_setting[BEST].acted for case in wrong), len(wrong)) if wrong else [],
    }


def _delivered(found: Sequence[Case]) -> dict[str, Any]:
    """Tokens that went out past the first wrong one, by what the answer was and by policy."""
    out: dict[str, Any] = {}
    wrong = [case for case in found if case.wrong]
    for text in sorted({case.text for case in wrong}):
        for policy in Policy:
            bad = [
                max(case.by_policy[policy].delivered_tokens - case.bad_from, 0)
                for case in wrong
                if case.text == text
            ]
            p50, p99 = np.percentile(bad, (50, 99))
            out.setdefault(text, {})[str(policy)] = {"p50": round(p50), "p99": round(p99)}
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description="Recall of all detectors together on the lab's faults.")
    parser.add_argument("--requests", type=int, default=8)
    parser.add_argument("--dry", action="store_true", help="write nothing")
    args = parser.parse_args()
    figures = measure(args.requests)
    if not args.dry:
        publish({"joint": figures})
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
