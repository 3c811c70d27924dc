"""Reading a client's request body: whole, within a cap and a time, and noticing a client that leaves."""

import asyncio

from service.core.events import Guilty
from service.edges.headers import Headers, value_of
from service.edges.outlet import Receive
from service.edges.refusals import RefusedError

CLOSE: Headers = [(b"connection", b"close")]
"""What is left of an unread body must not be taken for the next request."""


class ClientGoneError(Exception):
    """The client left before its request was complete."""


async def read_body(receive: Receive, headers: Headers, *, most_bytes: int, within_s: float) -> bytes:
    """The body. Raises `RefusedError` (413, 408) or `ClientGoneError`."""
    if _declared(headers) > most_bytes:
        raise _too_large(most_bytes)
    try:
        async with asyncio.timeout(within_s):
            return await _read(receive, most_bytes)
    except TimeoutError:
        message = f"the request body did not arrive within {within_s:g} s"
        raise RefusedError(408, "body_timeout", message, Guilty.CLIENT, CLOSE) from None


async def _read(receive: Receive, most_bytes: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        part: bytes = message.get("body", b"")
        size += len(part)
        if size > most_bytes:
            raise _too_large(most_bytes)
        parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts)


def _declared(headers: Headers) -> int:
    length = value_of(headers, b"content-length") or b"0"
    return int(length) if length.isdigit() else 0


def _too_large(most_bytes: int) -> RefusedError:
    message = f"the request body is larger than {most_bytes} bytes"
    return RefusedError(413, "body_too_large", message, Guilty.CLIENT, CLOSE)
