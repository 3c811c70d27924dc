"""A real admin port over a real store, for commands that ask one."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from service.config.settings import Capture, Retention
from service.core.events import Hint
from service.edges.admin import AdminServer, listener
from service.edges.api import Admin, create_app
from service.edges.case import Kept
from service.edges.health import Health
from service.edges.live import LiveBoard
from service.edges.metrics import Metrics
from service.edges.records import Records
from service.edges.store import Store
from service.edges.writer import Writer
from tests.service.edges.kept import Counts, facts, incident

SALT = b"s"
PROMPT = "Jane Doe asks"
HINT = Hint("bad_gpu", "possible", 3, ("token 0",), (), "take it out")


@dataclass
class AdminPortRunning:
    """Where it is, and how to fill it."""

    url: str
    store: Store

    def keep(self, *rids: str) -> None:
        """One corrupted request each, written when this returns."""
        for rid in rids:
            body = msgspec.json.encode({"messages": [{"role": "user", "content": f"{PROMPT} {rid}"}]})
            made = incident(rid)
            first = msgspec.structs.replace(made.attempts[0], prefill="http://p:1", engine_said=("nan",))
            bad = msgspec.structs.replace(made, hints=(HINT,), attempts=(first, *made.attempts[1:]))
            self.store.keep(bad, Kept(facts(), body, (f"answer to {PROMPT}",)))
        self.store.forget(case="nobody").result(10)


@contextmanager
def admin_port(
    folder: Path, *, token: str | None = None, capture: Capture = "full"
) -> Iterator[AdminPortRunning]:
    url = f"sqlite+aiosqlite:///{folder / 'specguard.db'}"
    counts = Counts()
    store = Store(
        Writer(url, counts, capture=capture, salt=SALT, retention=Retention()), counts, capture=capture
    )
    store.start()
    admin = Admin(
        Health(fails_closed=False), Metrics(), Records(url, SALT), store, LiveBoard(), admin_token=token
    )

    async def close_at_the_end() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await admin.records.close()

    with listener("127.0.0.1", 0) as bound:
        server = AdminServer(create_app(admin), bound, close_at_the_end)
        server.start()
        running = AdminPortRunning(f"http://127.0.0.1:{server.port}", store)
        try:
            running.keep()  # the store is there
            yield running
        finally:
            server.stop()
            store.stop()
