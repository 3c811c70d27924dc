"""First come, first served for KV pages: a request waits here until the pool has room for its whole slot.

Strict order on purpose: a large request at the head holds back small ones behind it rather than starve. A
waiter that is cancelled leaves the line.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from replay.lab.kvpool import PageTable, PoolExhaustedError, Slot, pages_for


class SlotQueue:
    """The page table of one pool with a waiting line in front."""

    def __init__(self, table: PageTable) -> None:
        """Start with an empty line."""
        self.table = table
        self.reclaim: Callable[[int], int] = lambda _pages: 0
        """Asked for pages that are missing, before anybody waits for them: a cache gives up its coldest."""
        self.evictable: Callable[[], int] = lambda: 0
        """How many pages a cache would give up."""
        self._line: deque[tuple[int, asyncio.Future[Slot]]] = deque()

    def __repr__(self) -> str:
        """Show the table and the line."""
        return f"<SlotQueue {len(self)} waiting, {self.table}>"

    def __len__(self) -> int:
        """Return how many wait."""
        return sum(not place.done() for _, place in self._line)

    @property
    def available_pages(self) -> int:
        """Pages that a request could have now: the free ones, and those that a cache would give up."""
        return self.table.free_pages + self.evictable()

    async def take(self, tokens: int) -> Slot:
        """Return a slot for that many tokens, now or when it is this caller's turn."""
        if pages_for(tokens) > self.table.pages:
            raise PoolExhaustedError(f"{tokens} tokens never fit into {self.table.pages} pages")
        place: asyncio.Future[Slot] = asyncio.get_running_loop().create_future()
        self._line.append((tokens, place))
        self._serve()
        try:
            return await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self.give(place.result())
            self._serve()
            raise

    def give(self, slot: Slot) -> None:
        """Take a slot back and serve the line."""
        self.table.free(slot)
        self._serve()

    def _serve(self) -> None:
        while self._line:
            tokens, place = self._line[0]
            if not place.done():
                missing = pages_for(tokens) - self.table.free_pages
                if missing > 0 and self.reclaim(missing) < missing:
                    return
                place.set_result(self.table.alloc(tokens))
            self._line.popleft()
