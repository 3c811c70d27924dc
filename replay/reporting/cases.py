"""Bad answers beside what should have been said, from the files of the run.

Texts are the user's own and stay in the report's file: the judgement and its JSON have none. `text=False`
leaves them out here as well. Two texts are told apart from the first character that differs.
"""

from collections.abc import Iterable
from pathlib import Path

import msgspec

from replay.judge import Judged
from replay.judging.observation import SHA, Index, prompt_text
from replay.plan import Send
from replay.results import results_of

MAX_CASES = 12
MAX_CHARS = 4_000
"""Of each text; a runaway answer shows what it is long before."""


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One bad answer and its like."""

    id: str
    arm: str
    at_s: float
    worker: str
    kinds: dict[str, int]
    together: int  # bad answers of the same incident
    prompt: str
    bad: str
    good: str
    good_from: str  # the expected answer, the control, or nothing
    same_chars: int  # how far both say the same


def cases(plan: Path, results: Path, found: Judged, *, text: bool = True) -> list[Case]:
    """The first answer of each of the first incidents."""
    index = Index(plan)
    try:
        chosen = {one.ids[0]: (one, index[one.ids[0]]) for one in found.incidents[:MAX_CASES]}
        controls = {send.control_of for _, send in chosen.values() if send.control_of}
        texts = _texts(results, {*chosen, *controls})
    finally:
        index.close()
    made = []
    for name, (incident, send) in chosen.items():
        bad = texts.get(name, "")
        good, source = _right(send, texts)
        made.append(
            Case(
                id=name,
                arm=incident.arm,
                at_s=incident.at_s,
                worker=incident.worker,
                kinds=incident.kinds,
                together=len(incident.ids),
                prompt=_shown(prompt_text(send), whole=text),
                bad=_shown(bad, whole=text),
                good=_shown(good, whole=text),
                good_from=source,
                same_chars=_same_chars(bad, good),
            )
        )
    return made


def _right(send: Send, texts: dict[str, str]) -> tuple[str, str]:
    if send.expected is not None and not send.expected.startswith(SHA):
        return send.expected, "expected"
    if send.control_of in texts:
        return texts[send.control_of], f"control {send.control_of}"
    return "", "nothing to compare with"


def _same_chars(one: str, other: str) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))


def _texts(results: Path, wanted: Iterable[str]) -> dict[str, str]:
    names = set(wanted)
    return {one.id: one.text for one in results_of(results) if one.id in names}


def _shown(text: str, *, whole: bool) -> str:
    if not whole:
        return f"[{len(text)} characters]"
    more = len(text) - MAX_CHARS
    return f"{text[:MAX_CHARS]} [... {more} more characters]" if more > 0 else text
