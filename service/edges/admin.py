"""The admin port's thread: a loop of its own, so that no query and no scrape ever delays a chunk."""

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable
from typing import Any, Final

import uvicorn

App = Callable[[Any, Any, Any], Awaitable[None]]

STOP_S: Final = 5.0


def listener(host: str, port: int) -> socket.socket:
    """A bound socket; raises OSError where the port is taken. Port 0 is any free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=1024)


class AdminServer:
    """Serves the admin app and runs `beside` on the same loop, until stopped."""

    def __init__(self, app: App, bound: socket.socket, *beside: Callable[[], Awaitable[None]]) -> None:
        self._bound = bound
        self.port = int(bound.getsockname()[1])
        self._beside = beside
        config = uvicorn.Config(
            app,
            loop="asyncio",
            http="httptools",
            ws="none",
            lifespan="off",
            access_log=False,
            log_config=None,
            server_header=False,
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._main, name="admin", daemon=True)

    def __repr__(self) -> str:
        return f"<AdminServer port={self.port} {'running' if self._thread.is_alive() else 'stopped'}>"

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join(STOP_S)

    def _main(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        async with asyncio.TaskGroup() as group:
            beside = [group.create_task(_as_coroutine(one), name="admin-beside") for one in self._beside]
            await self._server.serve(sockets=[self._bound])
            for task in beside:
                task.cancel()


async def _as_coroutine(work: Callable[[], Awaitable[None]]) -> None:
    await work()
