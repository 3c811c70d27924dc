"""Runs an ASGI app behind the real server on a free port, inside the test's loop."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from uvicorn.server import ServerState

from service.edges.server import App, data_config
from tests.waiting import farewells


class Serving:
    """A listening app; `close` stops listening and waits for its requests."""

    def __init__(self, server: asyncio.Server, state: ServerState) -> None:
        self._server = server
        self._state = state
        self.port: int = server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        self._server.close()
        for connection in list(self._state.connections):
            connection.shutdown()
        if self._state.tasks:
            await asyncio.wait(self._state.tasks, timeout=2)
        for task in list(self._state.tasks):
            task.cancel()
        for connection in list(self._state.connections):
            connection.transport.abort()
        await farewells()


@asynccontextmanager
async def serving(app: App) -> AsyncIterator[Serving]:
    config: uvicorn.Config = data_config(app, host="127.0.0.1", port=0)
    config.load()
    state = ServerState()
    server = await asyncio.get_running_loop().create_server(
        lambda: config.http_protocol_class(config=config, server_state=state, app_state={}),  # type: ignore[call-arg]
        "127.0.0.1",
        0,
    )
    running = Serving(server, state)
    try:
        yield running
    finally:
        await running.close()
