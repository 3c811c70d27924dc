"""Plans and runs for tests: small, against servers that follow a script or the mock."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from replay.mock import Mock, serve
from replay.plan import Arm, Block, PlanHeader, Send, write_plan
from replay.results import Result, results_of
from replay.runner import Options

LOCAL = ("127.0.0.1",)
BODY: dict[str, Any] = {"model": "mock", "stream": True, "messages": [{"role": "user", "content": "hi"}]}


def send(name: str, at_s: float, **more: Any) -> Send:  # noqa: ANN401 - fields of a send
    return Send(id=name, at_s=at_s, **{"arm": "idle", "block": 0, "body": BODY, **more})


def evenly(count: int, every_s: float) -> list[Send]:
    return [send(f"r{number}", number * every_s) for number in range(count)]


def plan_of(path: Path, sends: Sequence[Send], **header: Any) -> Path:  # noqa: ANN401 - fields of the header
    arms = [Arm(name="idle"), Arm(name="peak", load=4.0)]
    blocks = [Block(index=0, arm="idle", start_s=0.0, end_s=1.0)]
    write_plan(path, PlanHeader(**{"arms": arms, "blocks": blocks, **header}), sends)
    return path


def options(url: str, **more: Any) -> Options:  # noqa: ANN401 - fields of the options
    return Options(target=url, allow=LOCAL, **more)


def by_id(results: Path) -> dict[str, Result]:
    found = list(results_of(results))
    assert len({one.id for one in found}) == len(found)
    return {one.id: one for one in found}


@asynccontextmanager
async def mocking(chunks: int = 4, pace_ms: float = 1.0) -> AsyncIterator[tuple[str, Mock]]:
    mock = Mock(chunks, pace_ms)
    server = await serve(mock)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", mock
    finally:
        server.close()
