"""The small requests beside the load: pages that are read, orders that are posted, over the same client."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from replay.answer import Answer
from replay.client import Call, RawClient
from replay.target import check_allowed, target_of

PAGE_S: Final = 5.0
"""A page that takes longer is not worth waiting for."""
ORDER_S: Final = 30.0
"""An order is: the run stands still meanwhile, and ends without it."""
OK: Final = 200


Starter = Callable[["asyncio.Future[Call]"], Call]


class Page(Answer):
    """Keeps the body as it is."""

    __slots__ = ("body",)

    def __init__(self) -> None:
        super().__init__()
        self.body = b""

    def whole(self, body: bytes, at: float) -> None:
        self.body = body


class Site:
    """One URL of an allowed host."""

    def __init__(self, url: str, allowed: Sequence[str], authorities: str | None = None) -> None:
        target = target_of(url)
        check_allowed(target, allowed)
        self.url = url
        self._path = "" if target.prefix else "/"
        self._client = RawClient(target, authorities=authorities, connect_s=PAGE_S)

    def __repr__(self) -> str:
        return f"<Site {self.url}>"

    async def get(self) -> bytes | None:
        """The page; None where there is none, within `PAGE_S`."""
        page = Page()
        call = await self._asked(PAGE_S, lambda over: self._client.get(self._path, page, over.set_result))
        return page.body if call.ending == "complete" and call.status == OK else None

    async def post(self, body: bytes) -> str | None:
        """Post an order; None where it was taken, else why not."""
        call = await self._asked(ORDER_S, lambda over: self._client.start(self._path, body, over.set_result))
        return None if call.status == OK else call.error or f"http {call.status}"

    async def close(self) -> None:
        await self._client.close()

    async def _asked(self, within_s: float, start: Starter) -> Call:
        over: asyncio.Future[Call] = asyncio.get_running_loop().create_future()
        call = start(over)
        try:
            async with asyncio.timeout(within_s):
                return await asyncio.shield(over)
        except TimeoutError:
            call.stop("timeout", "no answer in time")
            return await over
        except asyncio.CancelledError:
            call.stop("aborted")
            raise
