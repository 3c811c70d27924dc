"""Whose words are whose: enrols guarded requests in the index, and has their prompts read off the data loop.

    request --enrol--> Party --prompt--> thread `provenance` --learn--> index <--read-- tick (answers)

Long prompts wait in a queue bounded in number and size; one that finds it full is not read, so that its
request is not judged by this detector and its words are nobody's. A tenant is told by a header, of which only
a salted hash is kept; a session too, where the client names one. The salt is the process's own and dies with
it. The thread lets the loop in every half millisecond (`SWITCH_S`) and holds the interpreter for no longer.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Final, NamedTuple

import msgspec
import structlog

from service.core.events import RequestFacts
from service.core.party import Party
from service.core.provenance import Provenance
from service.edges.headers import Headers, value_of

AT_ONCE_CHARS: Final = 4096
"""Read on the loop, in a third of a millisecond: to another thread and back costs as much."""
QUEUE_MAX: Final = 1024
QUEUE_CHARS: Final = 32 * 1024 * 1024
"""Prompts that wait, as text: two seconds of the thread."""
READ_TOGETHER: Final = 8
"""Short prompts that a pass reads in a row, in a millisecond; nobody's first byte waits for us to read. Whose
answer ends sooner is read by then (`read_now`)."""
AGAIN_S: Final = 0.02
"""How soon the next pass over answers follows one that left some."""
STOP_S: Final = 5.0

_log = structlog.get_logger(__name__)


class Enrolled(NamedTuple):
    """A request in the index."""

    party: Party
    facts: RequestFacts


class Origins:
    """Made on the data loop and used there; `start` before traffic, `stop` after the last stream."""

    def __init__(
        self,
        index: Provenance,
        count: Callable[..., None],
        *,
        tenant_header: str = "authorization",
        session_header: str = "x-session-id",
    ) -> None:
        self.index = index
        self._count = count
        self._tenant, self._session = tenant_header.lower().encode(), session_header.lower().encode()
        self._queue: deque[Enrolled] = deque()
        self._short: deque[Enrolled] = deque()  # emptied by ticks
        self._queued_chars = 0  # by the data loop alone
        self._taken_chars = 0  # by the thread alone
        self._again: asyncio.TimerHandle | None = None
        self._wake = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._main, name="provenance", daemon=True)

    def __repr__(self) -> str:
        return f"<Origins {len(self._queue)} waiting, {self.index!r}>"

    def start(self) -> None:
        self._thread.start()

    async def stop(self) -> None:
        self._stopping = True
        self._wake.set()
        if self._again is not None:
            self._again.cancel()
        if self._thread.is_alive():
            await asyncio.to_thread(self._thread.join, STOP_S)

    # --- on the data loop ---

    def enrol(self, rid: str, facts: RequestFacts, headers: Headers, *, thorough: bool = True) -> Enrolled:
        """A request has come. Its facts lead to its place in the index, unless it reads what we cannot."""
        party = self.index.open(
            rid,
            tenant=value_of(headers, self._tenant) or b"",
            session=value_of(headers, self._session) or b"",
            thorough=thorough,
        )
        enrolled = Enrolled(party, facts)
        if len(facts.prompt) <= AT_ONCE_CHARS:
            self._short.append(enrolled)
        elif len(self._queue) < QUEUE_MAX and self._waiting_chars + len(facts.prompt) <= QUEUE_CHARS:
            self._queued_chars += len(facts.prompt)
            self._queue.append(enrolled)
            self._wake.set()
        if facts.sealed:
            return enrolled
        return Enrolled(party, msgspec.structs.replace(facts, origin=party))

    def read_now(self, enrolled: Enrolled) -> None:
        """The answer is at its end: a short prompt that still waits for its time is read."""
        party = enrolled.party
        if not party.ready and not party.over and len(enrolled.facts.prompt) <= AT_ONCE_CHARS:
            self._learn(enrolled)

    def leave(self, enrolled: Enrolled, *, clean: bool) -> None:
        """The request is over."""
        coverage = "sealed" if enrolled.facts.sealed else "judged" if enrolled.party.ready else "unread"
        self._count("provenance", coverage)
        self.index.close(enrolled.party, monotonic(), clean=clean)

    def tick(self, now: float) -> None:
        """Read short prompts, then look at what all answers have said; soon again where that was too much."""
        for _ in range(min(len(self._short), READ_TOGETHER)):
            self.read_now(self._short.popleft())
        self.index.read(now)
        if (self._short or self.index.backlog) and self._again is None:
            self._again = asyncio.get_running_loop().call_later(AGAIN_S, self._read_on)

    def _read_on(self) -> None:
        self._again = None
        self.tick(monotonic())

    @property
    def _waiting_chars(self) -> int:
        return self._queued_chars - self._taken_chars

    # --- on the thread ---

    def _main(self) -> None:
        while not self._stopping:
            self._wake.wait()
            self._wake.clear()
            while self._queue and not self._stopping:
                enrolled = self._queue.popleft()
                self._learn(enrolled)
                self._taken_chars += len(enrolled.facts.prompt)

    def _learn(self, enrolled: Enrolled) -> None:
        try:
            self.index.learn(*enrolled)
        except Exception as error:  # noqa: BLE001 - one prompt unread must not leave all that follow unread
            _log.error("prompt_not_read", error=type(error).__name__)
