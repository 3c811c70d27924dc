"""A fake HTTP server on the loopback that answers GETs by their path, and closes after each answer."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from email.utils import format_datetime

from tests.fakes import Stop

Answer = tuple[int, bytes] | Stop


class Paths:
    """What it answers, and what it was asked."""

    def __init__(self, answers: Mapping[str, Answer], date: str | None = None) -> None:
        self._answers = answers
        self._date = date
        self.asked: dict[str, bytes] = {}
        self.url = ""

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        path = head.split(b" ")[1].decode()
        self.asked[path] = head
        found = self._answers.get(path, (404, b"{}"))
        if isinstance(found, Stop):
            if found is Stop.FOREVER:
                await asyncio.sleep(60)
            writer.transport.abort()
            return
        status, body = found
        date = self._date if self._date is not None else format_datetime(datetime.now(UTC), usegmt=True)
        writer.write(
            b"HTTP/1.1 %d X\r\ndate: %b\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%b"
            % (status, date.encode(), len(body), body)
        )
        await writer.drain()
        writer.close()


@asynccontextmanager
async def paths(answers: Mapping[str, Answer], date: str | None = None) -> AsyncIterator[Paths]:
    served = Paths(answers, date)
    server = await asyncio.start_server(served.answer, "127.0.0.1", 0)
    served.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield served
    finally:
        server.close()
