"""The admin app: health, metrics, incidents, cases, live streams. On its own port, thread and loop.

`/healthz` and `/readyz` are open; `/metrics` is open unless a metrics token is set; everything under `/api`
wants the admin token. Without one the port binds to the loopback, and requests must name a loopback host:
a web page that had a name resolve to 127.0.0.1 is no operator.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from hmac import compare_digest
from time import monotonic
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

import msgspec
import structlog
from fastapi import APIRouter, Depends, FastAPI, HTTPException, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, StreamingResponse

from service.config.settings import is_loopback
from service.core.cache_watch import CacheWatch
from service.core.changes import WHAT_CHARS
from service.core.fleet_watch import FleetWatch
from service.edges import replays
from service.edges.health import Health
from service.edges.live import EVERY_S, LiveBoard
from service.edges.metrics import CONTENT_TYPE, Metrics
from service.edges.records import CASE_FILTERS, CURSOR, FILTERS, Records, StoreAwayError, cursor_of
from service.edges.store import Store

_log = structlog.get_logger(__name__)

PAGE_MAX: Final = 500
FORGET_S: Final = 10.0
"""How long a deletion may wait for the writer."""
FIRST_S: Final = 0.05
"""How often a watcher asks for the first snapshot, which the data loop makes within a second."""

Limit = Annotated[int, Query(ge=1, le=PAGE_MAX)]
Word = Annotated[str | None, Query(max_length=256)]


@dataclass(frozen=True, slots=True)
class Admin:
    """What the admin app shows and asks."""

    health: Health
    metrics: Metrics
    records: Records
    store: Store
    board: LiveBoard
    watch: FleetWatch = field(default_factory=FleetWatch)
    cache: CacheWatch = field(default_factory=CacheWatch)
    admin_token: str | None = None
    metrics_token: str | None = None


def create_app(admin: Admin) -> FastAPI:
    """The ASGI app."""
    app = FastAPI(title="SpecGuard admin", docs_url=None, redoc_url=None, openapi_url=None)
    app.include_router(_open_paths(admin))
    app.include_router(_guarded_paths(admin))
    app.add_exception_handler(StoreAwayError, _store_away)
    app.add_exception_handler(RequestValidationError, _bad_request)
    return app


# --- who may ask ---


def _presents(request: Request, token: str) -> bool:
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    return scheme.lower() == "bearer" and compare_digest(given.strip().encode(), token.encode())


def _host_of(request: Request) -> str:
    """The host that the client asked for, without its port; "" where that is no host at all."""
    try:
        return urlsplit(f"//{request.headers.get('host', '')}").hostname or ""
    except ValueError:
        return ""


def _refusal() -> HTTPException:
    return HTTPException(401, "a bearer token is needed", {"www-authenticate": "Bearer"})


class _Guarded:
    """The dependency of everything under /api."""

    def __init__(self, token: str | None) -> None:
        self._token = token

    def __call__(self, request: Request) -> None:
        if self._token is None:
            if not is_loopback(_host_of(request)):
                raise HTTPException(403, "without an admin token only a loopback host is answered")
        elif not _presents(request, self._token):
            raise _refusal()


# --- errors: said in one line, and nothing of the request repeated ---


async def _store_away(_: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"detail": str(error)}, 503, {"retry-after": "5"})


async def _bad_request(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - registered for nothing else
    wrong = [{"at": ".".join(map(str, one["loc"])), "expected": one["msg"]} for one in error.errors()]
    return JSONResponse({"detail": wrong}, 400)


def _found(value: Any, what: str) -> Any:  # noqa: ANN401 - whatever was looked for
    if value is None:
        raise HTTPException(404, f"no such {what}")
    return value


# --- open paths ---


def _open_paths(admin: Admin) -> APIRouter:
    router = APIRouter()

    @router.get("/healthz")
    async def healthz() -> JSONResponse:
        return JSONResponse({"alive": admin.health.alive}, 200 if admin.health.alive else 503)

    @router.get("/readyz")
    async def readyz() -> JSONResponse:
        return JSONResponse(admin.health.describe(), 200 if admin.health.ready else 503)

    @router.get("/metrics")
    async def metrics(request: Request) -> Response:
        if admin.metrics_token is not None and not _presents(request, admin.metrics_token):
            raise _refusal()
        return Response(admin.metrics.exposition(), media_type=CONTENT_TYPE)

    return router


# --- behind the token ---


def _guarded_paths(admin: Admin) -> APIRouter:
    router = APIRouter(prefix="/api", dependencies=[Depends(_Guarded(admin.admin_token))])
    _incident_paths(router, admin)
    _case_paths(router, admin)
    replays.add_paths(router, admin)
    _fleet_paths(router, admin.watch)
    _cache_path(router, admin.cache)

    @router.get("/streams")
    async def streams() -> StreamingResponse:
        if admin.board.full:
            raise HTTPException(503, "enough watchers already", {"retry-after": "5"})
        headers = {"cache-control": "no-cache"}
        return StreamingResponse(_snapshots(admin.board), media_type="text/event-stream", headers=headers)

    return router


def _incident_paths(router: APIRouter, admin: Admin) -> None:
    @router.get("/incidents")
    async def incidents(
        request: Request,
        limit: Limit = 50,
        before: Word = None,
        since_ms: Annotated[int, Query(ge=0, le=1 << 53)] = 0,
    ) -> dict[str, Any]:
        wanted = _filters(request, FILTERS, {"limit", "before", "since_ms"})
        found = await admin.records.incidents(wanted, before=before or "", since_ms=since_ms, limit=limit)
        return {"incidents": found, "next_before": found[-1]["id"] if len(found) == limit else None}

    @router.get("/incidents/{own_id}")
    async def incident(own_id: str) -> Any:  # noqa: ANN401 - a row as JSON
        return _found(await admin.records.incident(own_id), "incident")

    @router.delete("/incidents/{own_id}")
    async def forget_incident(own_id: str, request: Request) -> dict[str, int]:
        removed = await _forgotten(admin.store, incident=own_id)
        _log.info("incident_deleted", id=own_id, peer=_peer(request))
        return {"removed": removed}


def _case_paths(router: APIRouter, admin: Admin) -> None:
    @router.get("/cases")
    async def cases(
        request: Request, limit: Limit = 50, before: Annotated[str, Query(pattern=CURSOR)] = ""
    ) -> dict[str, Any]:
        wanted = _filters(request, CASE_FILTERS, {"limit", "before"})
        found = await admin.records.cases(wanted, before=before, limit=limit)
        return {"cases": found, "next_before": cursor_of(found[-1]) if len(found) == limit else None}

    @router.get("/cases/{own_id}")
    async def case(own_id: str, *, text_free: bool = False) -> Response:
        bundle: bytes = _found(await admin.records.bundle(own_id, without_text=text_free), "case")
        return Response(bundle, media_type="application/json")

    @router.delete("/cases/{own_id}")
    async def forget_case(own_id: str, request: Request) -> dict[str, int]:
        removed = await _forgotten(admin.store, case=own_id)
        _log.info("case_deleted", id=own_id, peer=_peer(request))
        return {"removed": removed}


def _fleet_paths(router: APIRouter, watch: FleetWatch) -> None:
    @router.get("/workers")
    async def workers() -> Response:
        """What is known of each worker, who is suspect and why, and every group against its peers."""
        return Response(msgspec.json.encode(watch.view), media_type="application/json")

    @router.post("/workers/relearn")
    async def relearn(worker: Annotated[str, Query(max_length=256)]) -> dict[str, str]:
        """After a deploy: what this worker accepts from now on is its baseline."""
        if not watch.relearn(worker):
            raise HTTPException(404, "no such worker")
        return {"learning": worker}

    @router.get("/changes")
    async def changes() -> Response:
        """What changed lately, seen or told; `age_s` from now."""
        now = monotonic()
        told = [
            {
                "age_s": round(now - one.at, 3),
                "what": one.what,
                "worker": one.worker or None,
                "told": one.told,
            }
            for one in watch.changes.since(float("-inf"))
        ]
        return Response(msgspec.json.encode({"changes": told}), media_type="application/json")

    @router.post("/changes")
    async def tell(
        what: Annotated[str, Query(min_length=1, max_length=WHAT_CHARS)],
        worker: Annotated[str, Query(max_length=256)] = "",
    ) -> dict[str, str]:
        """Say that something was changed now: incidents near it are held against it."""
        watch.changes.tell(monotonic(), what, worker)
        return {"noted": what}


def _cache_path(router: APIRouter, cache: CacheWatch) -> None:
    @router.get("/cache")
    async def findings() -> Response:
        """Turns that missed their prefix or whose prompts drifted, newest first."""
        told = {"counts": cache.counts, "findings": [*reversed(cache.findings)]}
        return Response(msgspec.json.encode(told), media_type="application/json")


def _filters(request: Request, known: tuple[str, ...], others: set[str]) -> dict[str, str]:
    """The filters asked for; one that we lack is an error, or its results would be taken for filtered."""
    unknown = set(request.query_params) - set(known) - others
    if unknown:
        raise HTTPException(400, f"unknown filter; known are: {', '.join(known)}")
    return {key: value for key, value in request.query_params.items() if key in known}


def _peer(request: Request) -> str:
    """Who asked, for the audit line."""
    return request.client.host if request.client else "unknown"


async def _forgotten(store: Store, *, incident: str = "", case: str = "") -> int:
    try:
        async with asyncio.timeout(FORGET_S):
            removed = await asyncio.wrap_future(store.forget(incident=incident, case=case))
    except Exception:  # noqa: BLE001 - whatever the database raised, and the time that ran out
        raise StoreAwayError("the store cannot be written now") from None
    if not removed:
        raise HTTPException(404, f"no such {'incident' if incident else 'case'}")
    return removed


async def _snapshots(board: LiveBoard) -> AsyncIterator[bytes]:
    """Server-sent events: one snapshot a second, from the first that is made for this watcher."""
    board.enter()
    try:
        while True:
            latest = board.latest
            if latest is not None:
                yield b"data: " + msgspec.json.encode(latest) + b"\n\n"
            await asyncio.sleep(FIRST_S if latest is None else EVERY_S)
    finally:
        board.leave()
