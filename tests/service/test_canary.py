"""No word of a prompt, an answer or a credential leaves the data port but to its own client.

One canary goes in by every door: prompts, keys, names, headers, paths, query strings, answers, engine errors,
broken bytes, and a detector that raises with it in hand. It must be in no log line, no metric, no admin
answer, and, but for `full` capture, not in the store's files.
"""

import asyncio
import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest
import structlog

from service.config import RuleSet, load_rules
from service.config.settings import Capture
from service.core.events import Channel, Finding, Look, RequestFacts, WorkerFacts
from service.edges.logs import configure
from tests.fakes import Script, Stop, answer
from tests.guarding import CHAT, body, chat, event, head, pieces
from tests.service.running import Running, running

pytestmark = pytest.mark.anyio

CANARY = "Jane Doe 12345678"
WORDS = (b"Jane", b"Doe", b"12345678", b"SECRETKEY")
KEY = b"authorization: Bearer SECRETKEY-" + b"9" * 24


class Clumsy:
    """A detector that fails with the text in its hands."""

    name: ClassVar[str] = "clumsy"
    channel: ClassVar[Channel] = Channel.TEXT

    def start(self, facts: RequestFacts, worker: WorkerFacts) -> str:
        return facts.prompt

    def look(self, state: str, look: Look) -> Finding | None:
        raise ValueError(f"cannot read {look.text!r} after {state!r}")


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    handlers, level = logging.root.handlers[:], logging.root.level
    configure("debug", stream)
    yield stream
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)
    structlog.reset_defaults()


def rules() -> RuleSet:
    usual = load_rules()
    detectors = (*usual.detectors, Clumsy())
    return RuleSet("clumsy", usual.source, usual.digest, detectors, usual.fusion)


LOOP = [head(), *pieces(*chat(*[f"{CANARY} sat on the mat. "] * 120))]
ANSWERS: tuple[Script, ...] = (
    LOOP,  # a corrupted generation, delivered: the retries below find the same
    LOOP,
    LOOP,
    [head(), *pieces(*chat(CANARY, " and more"))],
    [head(), *pieces(f"data: {{broken {CANARY}\n\n".encode(), event(CANARY, 1), end=False), Stop.RESET],
    [answer(json.dumps({"error": CANARY}).encode(), b"HTTP/1.1 400 Bad Request\r\n", b"application/json")],
    [answer(CANARY.encode(), b"HTTP/1.1 500 Oops\r\n", b"text/plain")],
    [f"HTTP/1.1 {CANARY}\r\n\r\n".encode(), Stop.CLOSE],
    [answer(b"[]", kind=b"application/json")],
)
"""What the router says, request by request."""

ASKS = (
    (CHAT, body(messages=[{"role": "user", "content": CANARY}], user=CANARY, rid=CANARY, model=CANARY)),
    (CHAT, body(messages=[{"role": CANARY, "content": [{"type": "text", "text": CANARY}]}])),
    (CHAT, body(messages=[{"role": "user", "content": CANARY}], stop=[CANARY])),
    (CHAT, body(messages=[{"role": "user", "content": CANARY}])),
    (CHAT, body(messages=[{"role": "user", "content": CANARY}])),
    (CHAT, body(messages=[{"role": "user", "content": CANARY}])),
    (CHAT, f'{{"messages": "{CANARY}", broken'.encode()),
    (b"/v1/" + CANARY.replace(" ", "%20").encode() + b"?q=" + CANARY.replace(" ", "+").encode(), b"{}"),
    (b"/generate?user=" + CANARY.replace(" ", "+").encode(), json.dumps({"text": [CANARY, 3]}).encode()),
)


async def asked(sidecar: Running) -> None:
    """Send everything; what comes back is the client's own affair."""
    for path, sent in ASKS:
        try:
            await sidecar.ask(path, sent, KEY, b"x-specguard-policy: " + CANARY.encode())
        except (OSError, EOFError, TimeoutError, ValueError, IndexError):
            continue


async def told(sidecar: Running) -> bytes:
    """Everything the admin port says, its refusals included."""
    await asyncio.sleep(1.6)  # a tick for the counters, a second for the writer
    own_ids: list[str] = []
    while not own_ids:
        own_ids = [one["id"] for one in (await sidecar.admin.get("/api/cases")).json()["cases"]]
    paths = [
        "/metrics",
        "/api/incidents",
        "/api/cases",
        "/readyz",
        f"/api/incidents?{CANARY}",
        "/api/incidents?limit=x",
    ]
    answers = [await sidecar.admin.get(path) for path in [*paths, *(f"/api/cases/{one}" for one in own_ids)]]
    return b"".join(one.content for one in answers)


def found(data: bytes) -> list[bytes]:
    return [word for word in WORDS if word in data]


@pytest.mark.parametrize("capture", ["hashes", "off"])
async def test_the_canary_is_heard_nowhere(tmp_path: Path, log: io.StringIO, capture: Capture) -> None:
    async with running(tmp_path, *ANSWERS, rules=rules(), policy="protect", capture=capture) as sidecar:
        await asked(sidecar)
        said = await told(sidecar)
    stored = b"".join(path.read_bytes() for path in tmp_path.iterdir())  # noqa: ASYNC240 - a test's own folder
    assert b'detector_faults_total{detector="clumsy"}' in said
    assert len(stored) > 10_000
    assert {"said": found(said), "logged": found(log.getvalue().encode()), "stored": found(stored)} == {
        "said": [], "logged": [], "stored": [],
    }  # fmt: skip


async def test_full_capture_keeps_the_text_and_no_credential(tmp_path: Path, log: io.StringIO) -> None:
    """The control: where it is asked for, the text does reach the store; so silence above says something."""
    async with running(tmp_path, *ANSWERS, rules=rules(), policy="protect", capture="full") as sidecar:
        await asked(sidecar)
        await told(sidecar)
    stored = b"".join(path.read_bytes() for path in tmp_path.iterdir())  # noqa: ASYNC240 - a test's own folder
    assert found(stored) == [b"Jane", b"Doe", b"12345678"]
    assert found(log.getvalue().encode()) == []
