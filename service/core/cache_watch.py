"""Whether sessions find in the prefix cache what their turn before left there, and whose doing it is if not.

    expected tokens = characters shared with the turn before, from the first on  x  tokens a character
    reported tokens = the engine's own `cached_tokens`

A prompt is remembered as hashes alone: of each `BLOCK` characters, of the same without white space, and of
its lines. What two turns share is counted in blocks; where they part, the other two say how:

    whitespace   the same words go on after the bytes have parted: a client that formats its history anew
    order        most of the same lines, in another order: tools or files listed otherwise
    edited       most of the same lines, in their order: near the beginning something was put in or changed
    rewritten    none of these: a history that was compacted (said only of a session that has a name)

These are the client's doing, and no cache can help. Where the bytes are the same and little or nothing was
found, it is the cache's: `zero_hit`, `short_hit`. Another worker answered, or a giant prompt pushed it
out: said where it is known, for a miss explained is no fault.

A session is known by its header, else by where its first words begin, white space apart; of several that
begin alike the nearest is taken. Tools are put first, as chat templates do; the engine's template is not
known, so that the number expected is a floor reckoned in characters, good to a few per cent.

Bounds: `TURNS_MAX` turns, about 60 kB each; `MAX_CHARS` of a prompt are read. Cost: 2 ms for 100 kB, off the
data loop.
"""

from array import array
from bisect import bisect_right
from collections import Counter, OrderedDict, deque
from collections.abc import Iterable
from enum import StrEnum
from itertools import accumulate, takewhile
from typing import Final

import msgspec

from service.core.events import UNKNOWN, Cached
from service.core.prefix_cache import GIANT_TOKENS, MIN_TOKENS

BLOCK: Final = 64
"""Characters: 16 tokens or so, the resolution of what is expected."""
MAX_CHARS: Final = 1 << 18
LINES_CHARS: Final = 1 << 16
"""Of a prompt, what is read for its order."""
KEY_CHARS: Final = 512
TURNS_MAX: Final = 1024
ALIKE_MAX: Final = 8
"""Turns kept of sessions that begin alike."""
MIN_CHARS: Final = 16 * BLOCK
"""Of a prompt: less has little to share. A miss must weigh `MIN_TOKENS` before it is called one."""
CONTINUES: Final = 0.5
"""Share of the turn before that must stand at the beginning of this one: clients replace the last part."""
GAP_CHARS: Final = 4 * BLOCK
GAP: Final = 0.1
"""Words that go on after the bytes parted: so many characters, and this share of the turn before."""
MOST_LINES: Final = 0.6
SHORT: Final = 0.5
FINDINGS_MAX: Final = 256
WORKERS_MAX: Final = 1024


class CacheKind(StrEnum):
    """What is wrong with a turn."""

    ZERO_HIT = "zero_hit"
    SHORT_HIT = "short_hit"
    WHITESPACE = "whitespace"
    ORDER = "order"
    EDITED = "edited"
    REWRITTEN = "rewritten"


class SessionTurn(msgspec.Struct, frozen=True):
    """A request that is over, as far as its prefix matters."""

    prompt: str
    model: str
    cached: Cached
    at: float  # s, monotonic
    worker: str = ""
    session: str = ""  # as the client names it; "" for unnamed
    preamble_chars: int = 0
    tools_chars: int = 0

    def __repr__(self) -> str:
        return f"<SessionTurn {len(self.prompt)} chars {self.cached}>"


class CacheFinding(msgspec.Struct, frozen=True):
    """One turn that did not find what it should, or could not have. No text."""

    kind: CacheKind
    at: float
    session: str  # a hash, of this process only
    worker: str
    age_s: float  # of the turn before
    shared_chars: int  # with the turn before
    parted_at: int  # character at which they part, blocks apart; UNKNOWN where they do not
    expected_tokens: int
    cached_tokens: int
    explained_by: str = ""  # other_worker, giant_prefill_nearby; "" for nothing


class _Print(msgspec.Struct):
    """What is remembered of a turn."""

    at: float
    worker: str
    chars: int
    blocks: "array[int]"
    bare: "array[int]"  # without white space
    bare_chars: "array[int]"  # other characters than white space up to the end of each block
    lines: "array[int]"  # each once, in their order
    prompt_tokens: int


class CacheWatch:
    """Sessions and what was found of them."""

    __slots__ = ("_reporting", "_sessions", "_turns", "counts", "findings")

    def __init__(self) -> None:
        self._sessions: OrderedDict[int, list[_Print]] = OrderedDict()
        self._turns = 0
        self._reporting: set[str] = set()  # workers that have told of a hit: their silence means none
        self.counts: Counter[str] = Counter()  # turns, first, continued, untold; kinds of findings
        self.findings: deque[CacheFinding] = deque(maxlen=FINDINGS_MAX)

    def __repr__(self) -> str:
        return f"<CacheWatch {len(self._sessions)} sessions, {len(self.findings)} findings>"

    def read(self, turn: SessionTurn) -> CacheFinding | None:
        """One more turn of some session."""
        key = key_of(turn)
        mine = _print(turn)
        told = self._told(turn)
        before = self._nearest(self._sessions.get(key, ()), mine, named=bool(turn.session))
        self._remember(key, mine, named=bool(turn.session))
        self.counts["turns"] += 1
        if before is None or before.chars < MIN_CHARS:
            self.counts["first"] += 1
            return None
        finding = self._judge(turn, mine, before, told, f"{key & 0xFFFFFFFF:08x}")
        if finding is not None:
            self.counts[finding.kind] += 1
            self.findings.append(finding)
        return finding

    # --- inside ---

    def _told(self, turn: SessionTurn) -> int:
        """Cached tokens; of a worker that tells its hits, silence means none."""
        told = turn.cached.tokens
        if told > 0 and len(self._reporting) < WORKERS_MAX:
            self._reporting.add(turn.worker)
        return 0 if told == UNKNOWN and turn.worker in self._reporting else told

    def _judge(
        self, turn: SessionTurn, mine: _Print, before: _Print, told: int, session: str
    ) -> CacheFinding | None:
        shared = _shared(before.blocks, mine.blocks) * BLOCK
        continues = shared >= CONTINUES * len(before.blocks) * BLOCK
        drift = _drift(before, mine, shared, continues=continues, named=bool(turn.session))
        if drift is None and not continues:
            self.counts["first"] += 1  # another session that begins alike
            return None
        expected = int(shared / max(mine.chars, 1) * max(mine.prompt_tokens, 0))
        kind = drift
        if drift is None:
            self.counts["continued"] += 1
            kind = self._miss(told, expected)
        if kind is None:
            return None
        return CacheFinding(
            kind=kind,
            at=turn.at,
            session=session,
            worker=turn.worker,
            age_s=turn.at - before.at,
            shared_chars=shared,
            parted_at=UNKNOWN if drift is None else shared,
            expected_tokens=expected,
            cached_tokens=told,
            explained_by="" if drift else _explained(mine, before),
        )

    def _miss(self, told: int, expected: int) -> CacheKind | None:
        if told == UNKNOWN:
            self.counts["untold"] += 1
            return None
        if expected < MIN_TOKENS:
            return None
        if told == 0:
            return CacheKind.ZERO_HIT
        return CacheKind.SHORT_HIT if told < SHORT * expected else None

    def _nearest(self, before: Iterable[_Print], mine: _Print, *, named: bool) -> _Print | None:
        """The turn that this one most likely goes on from."""
        if named:
            return next(iter(before), None)
        return max(before, key=lambda one: (_shared(one.bare, mine.bare), one.at), default=None)

    def _remember(self, key: int, mine: _Print, *, named: bool) -> None:
        alike = self._sessions.setdefault(key, [])
        self._sessions.move_to_end(key)
        keep = 1 if named else ALIKE_MAX
        self._turns += 1 - max(len(alike) + 1 - keep, 0)
        alike.insert(0, mine)
        del alike[keep:]
        while self._turns > TURNS_MAX:
            _, oldest = self._sessions.popitem(last=False)
            self._turns -= len(oldest)


def key_of(turn: SessionTurn) -> int:
    """A session, by its name or by its first words; `hash` is salted anew in each process."""
    if turn.session:
        return hash((turn.model, turn.session))
    words = turn.prompt[turn.preamble_chars : turn.preamble_chars + KEY_CHARS].split()
    return hash((turn.model, "".join(words)[: KEY_CHARS // 2]))


def _print(turn: SessionTurn) -> _Print:
    prompt = turn.prompt
    if turn.tools_chars:
        prompt = prompt[-turn.tools_chars :] + prompt[: -turn.tools_chars]
    prompt = prompt[:MAX_CHARS]
    bare, bare_chars = _bare(prompt)
    return _Print(
        at=turn.at,
        worker=turn.worker,
        chars=len(turn.prompt),
        blocks=_blocks(prompt),
        bare=_blocks(bare),
        bare_chars=bare_chars,
        lines=array(
            "q", dict.fromkeys(hash(line) for line in prompt[:LINES_CHARS].splitlines() if line.strip())
        ),
        prompt_tokens=turn.cached.prompt_tokens,
    )


def _bare(text: str) -> tuple[str, "array[int]"]:
    """The text without white space, and how much of it stands before the end of each block."""
    pieces = ["".join(text[at : at + BLOCK].split()) for at in range(0, len(text), BLOCK)]
    return "".join(pieces), array("q", accumulate(map(len, pieces)))


def _blocks(text: str) -> "array[int]":
    """A hash for each whole block; what is left over at the end is the part that goes on."""
    return array("q", [hash(text[at : at + BLOCK]) for at in range(0, len(text) - BLOCK + 1, BLOCK)])


def _shared(before: "array[int]", now: "array[int]") -> int:
    """Blocks that are the same from the first on."""
    pairs = zip(before, now, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _drift(before: _Print, mine: _Print, shared: int, *, continues: bool, named: bool) -> CacheKind | None:
    """How a prompt's bytes have changed under the same content; None: not at all, or it is another's."""
    same_words = bisect_right(mine.bare_chars, _shared(before.bare, mine.bare) * BLOCK) * BLOCK
    if same_words - shared >= max(GAP_CHARS, GAP * before.chars):
        return CacheKind.WHITESPACE
    if continues:
        return None
    old, new = set(before.lines), set(mine.lines)
    if len(old) > 1 and len(old & new) >= MOST_LINES * len(old):
        stayed = [line for line in before.lines if line in new]
        return CacheKind.EDITED if stayed == [line for line in mine.lines if line in old] else CacheKind.ORDER
    return CacheKind.REWRITTEN if named else None


def _explained(mine: _Print, before: _Print) -> str:
    if mine.worker and before.worker and mine.worker != before.worker:
        return "other_worker"
    return "giant_prefill_nearby" if mine.prompt_tokens >= GIANT_TOKENS else ""
