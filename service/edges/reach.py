"""Whether the router accepts connections: one short TCP connection every two seconds, off the data loop."""

import asyncio
from typing import Final
from urllib.parse import urlsplit

from service.edges.health import Health

EVERY_S: Final = 2.0
TIMEOUT_S: Final = 2.0


async def watch_router(router: str, health: Health, *, every_s: float = EVERY_S) -> None:
    """Until cancelled."""
    parts = urlsplit(router)
    port = parts.port or {"http": 80, "https": 443}[parts.scheme]
    while True:
        health.router_up = await accepts(parts.hostname or "", port)
        await asyncio.sleep(every_s)


async def accepts(host: str, port: int) -> bool:
    try:
        async with asyncio.timeout(TIMEOUT_S):
            _, writer = await asyncio.open_connection(host, port)
            writer.close()
            await writer.wait_closed()
    except (OSError, TimeoutError):
        return False
    return True
