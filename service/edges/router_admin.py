"""What the router and its workers say of themselves: who is there, who drafts, who can be pinned.

    GET ROUTER/workers        -> URLs and roles (smg and sglang-router; another router has no such path)
    GET WORKER/server_info    -> speculative_algorithm, speculative_num_steps, speculative_num_draft_tokens
    GET ROUTER-METRICS        -> by which policy smg has chosen, once it has; told nowhere else

Asked slowly and off the stream path. Everything here is optional: a router without the path, or workers that
only it can reach, leave workers unknown and pins off, and streams do not notice.
"""

import asyncio
from collections.abc import Iterable
from typing import Any, Final

import httpx
import msgspec
import structlog

from service.core.doctor.facts import ROUTER_FAMILIES, counted_of
from service.core.events import UNKNOWN, Drafter
from service.core.exposition import read
from service.core.fleet import Fleet
from service.edges.asking import UnansweredError, ask
from service.edges.pins import PinBook
from service.edges.scene import Engine, engine_of

EVERY_S: Final = 10.0
FIRST_S: Final = 1.0
"""Until the router has answered once: at start-up it may come after us."""
TIMEOUT_S: Final = 5.0
PINNED_ROLES: Final = ("decode", "regular", "")
"""A pin picks among decode workers in prefill/decode mode, among all otherwise; never a prefill worker."""
MODEL_DRAFTERS: Final = frozenset({"EAGLE", "EAGLE3", "NEXTN", "STANDALONE", "DSPARK"})

_log = structlog.get_logger(__name__)


class Worker(msgspec.Struct, frozen=True):
    """An entry of `GET /workers`; unknown fields are left alone."""

    url: str
    worker_type: str = ""
    is_healthy: bool = True


class _Workers(msgspec.Struct):
    workers: list[Worker]


class ServerInfo(msgspec.Struct, frozen=True):
    """The part of `GET /server_info` that says how a worker speculates."""

    speculative_algorithm: str | None = None
    speculative_num_steps: int | None = None
    speculative_num_draft_tokens: int | None = None

    @property
    def drafter(self) -> Drafter:
        if not self.speculative_algorithm:
            return Drafter.NONE
        name = self.speculative_algorithm.upper()
        if name in MODEL_DRAFTERS:
            return Drafter.MODEL
        return Drafter.NGRAM if name == "NGRAM" else Drafter.UNKNOWN

    @property
    def draft_tokens(self) -> int:
        """The most drafts that one verify step can accept.

        The draft tokens of a verify step hold its root as well, and with a tree more than one path; the
        steps of the draft model are the length of a path.
        """
        if self.speculative_num_steps:
            return self.speculative_num_steps
        if self.speculative_num_draft_tokens and self.speculative_num_draft_tokens > 1:
            return self.speculative_num_draft_tokens - 1
        return UNKNOWN


class RouterAdmin:
    """Keeps the fleet and the pins up to date; `run` it as a task."""

    def __init__(
        self,
        router: str,
        fleet: Fleet,
        pins: PinBook,
        *,
        hinted: Iterable[str] = (),
        metrics: str = "",
        client: httpx.AsyncClient,
    ) -> None:
        """`metrics`: URL of the router's own; without it, its policy stays unknown."""
        self._router = router.rstrip("/")
        self._fleet = fleet
        self._pins = pins
        self._hinted = frozenset(hinted)  # workers that the owner described: their word stands
        self._metrics = metrics
        self._client = client
        self.policy = ""  # of the workers that answer, by the router's metrics; "" for unknown
        self.reachable = False
        self.engines: dict[str, Engine] = {}  # what each worker last said of itself
        self.workers: tuple[Worker, ...] = ()

    def __repr__(self) -> str:
        return f"<RouterAdmin {len(self.workers)} workers, {self._pins!r}>"

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self.poll()
            await asyncio.sleep(EVERY_S if self.reachable else FIRST_S)

    async def poll(self) -> None:
        """Ask once. Never raises: what cannot be asked stays unknown."""
        if self._metrics:
            await self._ask_policy()
        listed = await self._get(f"{self._router}/workers", _Workers)
        self.reachable = listed is not None
        if listed is None:
            return
        self.workers = tuple(listed.workers)
        present = {worker.url for worker in self.workers}
        self._pins.pool(frozenset(w.url for w in self.workers if w.worker_type in PINNED_ROLES))
        for gone in set(self._fleet.urls()) - present - self._hinted:
            self._fleet.forget(gone)
        for gone in set(self.engines) - present:
            del self.engines[gone]
        await asyncio.gather(*[self._describe(url) for url in present])

    async def _ask_policy(self) -> None:
        """What it was before stands while the router has not chosen since its start."""
        body = await self._body(self._metrics)
        policy, _ = await asyncio.to_thread(_counted, body or b"")
        self.policy = policy or self.policy

    async def _describe(self, url: str) -> None:
        told = await self._get(f"{url.rstrip('/')}/server_info", dict[str, Any])
        if told is None:
            return
        self.engines[url] = engine_of(told)
        if url in self._hinted:
            return
        try:
            info = msgspec.convert(told, ServerInfo)
        except msgspec.ValidationError as error:
            _log.debug("router_admin_unanswered", url=url, error=type(error).__name__)
            return
        self._fleet.know(url, info.drafter, info.draft_tokens)

    async def _get(self, url: str, kind: type[Any]) -> Any:  # noqa: ANN401 - of the kind given, or None
        body = await self._body(url)
        if body is None:
            return None
        try:
            return msgspec.json.decode(body, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            _log.debug("router_admin_unanswered", url=url, error=type(error).__name__)
            return None

    async def _body(self, url: str) -> bytes | None:
        try:
            return await ask(self._client, url, within_s=TIMEOUT_S)
        except UnansweredError as error:
            _log.debug("router_admin_unanswered", url=url, error=str(error))
            return None


def _counted(body: bytes) -> tuple[str, float]:
    return counted_of(read(body.decode("utf-8", "replace"), ROUTER_FAMILIES))


def admin_client() -> httpx.AsyncClient:
    """A client for slow, small questions on the inside: no proxies from the environment, no redirects."""
    return httpx.AsyncClient(timeout=TIMEOUT_S, trust_env=False, follow_redirects=False)
