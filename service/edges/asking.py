"""One question beside the streams, to a worker or a router: bounded in bytes and in time, whoever answers.

A read timeout alone bounds neither: a target that sends a byte now and then, or does not stop, would hold up
everybody who is asked in the same round. Of an answer that is too long the beginning is returned: half an
exposition is worth reading, and half a JSON object is found out by its reader. One that breaks off is none.
"""

import asyncio
from typing import Final

import httpx

WITHIN_S: Final = 10.0
"""For one whole answer; `/server_info` makes a round trip through the scheduler."""
MOST_BYTES: Final = 4 << 20
"""A worker's `/server_info` has some 20 kB, a busy one's `/metrics` 100."""


class UnansweredError(Exception):
    """There is no answer; the text is the kind of failure, and nothing that the other side said."""

    def __init__(self, kind: str, status: int = 0) -> None:
        super().__init__(kind)
        self.status = status  # by which the other side refused; 0: it said nothing of HTTP


async def ask(
    client: httpx.AsyncClient, url: str, *, most_bytes: int = MOST_BYTES, within_s: float = WITHIN_S
) -> bytes:
    """The body of a success, `most_bytes` of it at most. Raises `UnansweredError`."""
    try:
        async with asyncio.timeout(within_s):
            return await _read(client, url, most_bytes)
    except httpx.HTTPStatusError as refused:
        raise UnansweredError(type(refused).__name__, refused.response.status_code) from refused
    except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, UnicodeError) as error:
        raise UnansweredError(type(error).__name__) from error


async def _read(client: httpx.AsyncClient, url: str, most_bytes: int) -> bytes:
    # Raw, and never compressed: a few bytes must not become many.
    parts, size = [], 0
    async with client.stream("GET", url, headers={"accept-encoding": "identity"}) as response:
        response.raise_for_status()
        async for part in response.aiter_raw():
            parts.append(part)
            size += len(part)
            if size >= most_bytes:
                break
    return b"".join(parts)[:most_bytes]
