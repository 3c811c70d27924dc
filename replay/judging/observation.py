"""One observation a request: what became of it, and whether its answer is bad, in each sense of bad.

    corrupt    the detectors of the sidecar's core say so, on the whole text; or it holds a canary's mark
    wrong      it is not the answer that the trace calls right (a text, or `sha256:` of one)
    changed    it is not what the low arm answered to the same request; at temperature 0 a machine without
               load should say the same twice, but batches change the order of sums, so a change alone is weak

Texts are looked at and let go: an observation keeps a digest. Plans are indexed, not held: a request's prompt
is read again from the plan's file when its answer is judged.
"""

from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b, sha256
from pathlib import Path
from statistics import median
from typing import Any, BinaryIO, Final

import msgspec

from replay import canary
from replay.plan import PlanHeader, Role, Send, placed, read_header
from replay.planning.bodies import prompt_of
from replay.results import CUT_OFF, Result
from service.core.events import Kind
from service.core.recorded import Rules, judge_text

SHA: Final = "sha256:"
OK: Final = 200
FIRST_ERROR: Final = 500
"""From here on a status is the backend's fault; below, the request's."""

_send = msgspec.json.Decoder(Send)


class Planned(msgspec.Struct, frozen=True, gc=False):
    """What the judge keeps of a send."""

    offset: int  # of its line in the plan's file
    role: Role
    control_of: str | None


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """One request, without its text."""

    id: str
    arm: str
    block: int
    round: int
    role: Role
    at_s: float
    session: str = ""
    group: str = ""
    worker: str = ""
    failure: str = ""  # "" for an answer that came whole; "cut off" and "aborted" are nobody's failure
    kind: Kind = Kind.NORMAL
    detector: str = ""
    score: float = 0.0
    at_token: int = -1
    wrong: bool | None = None
    changed: bool | None = None
    leaks: tuple[str, ...] = ()  # canaries whose mark it holds
    own_mark: bool = True  # a canary's mark has come back
    tokens: int = 0
    late_s: float = 0.0
    scheduled_s: float = 0.0
    ttft_s: float | None = None  # from the scheduled time: waiting counts
    itl_s: float | None = None  # median
    total_s: float | None = None
    accept_length: float | None = None
    digest: bytes = b""

    @property
    def judged(self) -> bool:
        """Whether it is a trial: a sample with a whole answer."""
        return self.role == "sample" and not self.failure

    def bad(self, event: str) -> bool | None:
        """Whether it is an event; None where that cannot be told."""
        match event:
            case "wrong":
                return self.wrong
            case "changed":
                return self.changed
            case _:
                return self.kind is not Kind.NORMAL


class Index:
    """A plan's sends by id, bodies left in the file; PlanError for one that was changed or is not whole."""

    def __init__(self, path: Path) -> None:
        self.header: PlanHeader = read_header(path)
        self.sends: dict[str, Planned] = {}
        self.marks: dict[str, str] = {}  # mark -> canary
        self.rounds = {block.index: block.round for block in self.header.blocks}
        self._path = path
        self._file: BinaryIO | None = None
        for offset, send in placed(path):
            self.sends[send.id] = Planned(offset, send.role, send.control_of)
            if send.canary:
                self.marks[send.canary] = send.id

    def __repr__(self) -> str:
        return f"<Index {len(self.sends)} sends>"

    def __getitem__(self, name: str) -> Send:
        if self._file is None:
            self._file = self._path.open("rb")
        self._file.seek(self.sends[name].offset)
        return _send.decode(self._file.readline())

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def observe(index: Index, results: Iterable[Result], rules: Rules) -> list[Observation]:
    """Every result that the plan knows, judged; then compared with its control."""
    seen = {one.id: _observed(index, one, rules) for one in results if one.id in index.sends}
    whole = {name: one.digest for name, one in seen.items() if not one.failure}
    return [_compared(index, one, whole) for one in seen.values()]


def prompt_text(send: Send) -> str:
    """All text that the model reads, as far as the body shows it."""
    if send.body is None:
        return prompt_of(send.recipe, send.id) if send.recipe is not None else ""
    return "\n".join(_texts(send.body))


def failure_of(result: Result) -> str:
    """How a request failed; "" for a whole answer."""
    if result.ending == "aborted":
        return CUT_OFF if result.error == CUT_OFF else "aborted"
    if result.ending != "complete":
        return result.ending
    if result.status is not None and result.status != OK:
        return "error" if result.status >= FIRST_ERROR else "refused by the backend"
    return "error" if result.error else ""


def accept_length_of(result: Result) -> float | None:
    """Tokens a verify step, as the engine told it, or from the steps themselves."""
    told = (result.spec or {}).get("spec_accept_length")
    if isinstance(told, int | float):
        return float(told)
    steps = result.steps
    return 1 + sum(accepted for _, accepted in steps) / len(steps) if steps else None


def _observed(index: Index, result: Result, rules: Rules) -> Observation:
    planned, send = index.sends[result.id], index[result.id]
    failure = failure_of(result)
    judged = {} if failure else _judged(index, result, send, rules)
    first = result.chunk_s[0] if result.chunk_s else None
    gaps = [after - before for before, after in zip(result.chunk_s, result.chunk_s[1:], strict=False)]
    late_s = result.sent_s - result.scheduled_s
    return Observation(
        id=result.id,
        arm=send.arm,
        block=send.block,
        round=index.rounds.get(send.block, 0),
        role=planned.role,
        at_s=result.sent_s,
        session=send.session,
        group=send.group,
        worker=result.decode or "",
        failure=failure,
        tokens=result.completion_tokens or 0,
        late_s=late_s,
        scheduled_s=result.scheduled_s,
        ttft_s=first + late_s if first is not None else None,
        itl_s=median(gaps) if gaps else None,
        total_s=None if failure else result.ended_s - result.scheduled_s,
        accept_length=accept_length_of(result),
        **judged,
    )


def _judged(index: Index, result: Result, send: Send, rules: Rules) -> dict[str, Any]:
    """What the text says."""
    found = judge_text(result.text, rules, prompt=prompt_text(send), steps=_steps(result))
    leaks = canary.foreign([(result.id, result.text)], index.marks).get(result.id, set())
    kind, detector = (Kind.CROSSTALK, "canary") if leaks else (found.kind, found.detector)
    return {
        "kind": kind,
        "detector": detector if kind is not Kind.NORMAL else "",
        "score": found.score,
        "at_token": found.at_token,
        "leaks": tuple(sorted(leaks)),
        "own_mark": send.canary is None or send.canary in result.text,
        "wrong": None if send.expected is None else not is_right(result.text, send.expected),
        "digest": blake2b(result.text.strip().encode(), digest_size=8).digest(),
    }


def is_right(text: str, expected: str) -> bool:
    """Whether a text is the expected one; blank space at its ends does not count."""
    text = text.strip()
    if expected.startswith(SHA):
        return sha256(text.encode()).hexdigest() == expected.removeprefix(SHA)
    return text == expected.strip()


def _steps(result: Result) -> list[tuple[int, int]] | None:
    steps = result.steps
    if not steps or any(not 0 <= accepted <= drafted for drafted, accepted in steps):
        return None
    return steps


def _compared(index: Index, one: Observation, whole: Mapping[str, bytes]) -> Observation:
    control = index.sends[one.id].control_of
    if one.failure or control is None or control not in whole:
        return one
    return msgspec.structs.replace(one, changed=whole[control] != one.digest)


def _texts(value: Any) -> Iterator[str]:  # noqa: ANN401 - any JSON value
    """Texts of messages, prompts and parts, in their order."""
    match value:
        case str():
            yield value
        case list():
            for one in value:
                yield from _texts(one)
        case dict():
            for name in ("messages", "prompt", "text", "content"):
                if name in value:
                    yield from _texts(value[name])
        case _:
            return
