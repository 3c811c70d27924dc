"""The data port: a raw ASGI app that lets allowed paths through and puts the inspected ones under guard.

    allowed path? -> headers within limits -> body within limits -> dialect reads it -> Guard, else Relay

What is not on the list does not exist here: the router's admin paths stay its own. Fails open where a request
cannot be read or the process is full (`observe`, `protect`): it goes through uninspected and is counted.
`strict` routes are refused instead.
"""

import asyncio
import re
from collections.abc import Mapping
from secrets import token_hex
from time import monotonic
from typing import Any, Final, NamedTuple

import msgspec

from service.config.routes import RouteTable
from service.config.settings import Limits, Timeouts
from service.core.dialects.protocol import BadRequest, Dialect
from service.core.events import Guilty, Outcome, Policy, RequestFacts
from service.core.policy import RoutePolicy
from service.edges.body import CLOSE, ClientGoneError, read_body
from service.edges.guard import Guard
from service.edges.headers import POLICY, REQUEST_ID, Headers, size_of, towards_router, value_of
from service.edges.outlet import Receive, Send
from service.edges.refusals import RETRY_AFTER_S, RefusedError, refusal_body, refusal_headers
from service.edges.relay import TICK_S, UNAVAILABLE, Means, Relay
from service.edges.rid import kept_model
from service.edges.upstream import Request

READ: Final = frozenset({"GET", "HEAD"})
WRITE: Final = frozenset({"POST"})
ALLOWED: Final[Mapping[bytes, frozenset[str]]] = {
    b"/v1/chat/completions": WRITE,
    b"/generate": WRITE,
    b"/v1/completions": WRITE,
    b"/v1/responses": WRITE,
    b"/v1/messages": WRITE,
    b"/v1/messages/count_tokens": WRITE,
    b"/v1/models": READ,
    b"/health": READ,
    b"/readiness": READ,
    b"/liveness": READ,
    b"/server_info": READ,
    b"/get_server_info": READ,
    b"/model_info": READ,
    b"/get_model_info": READ,
}
HEADERS_MAX: Final = 100
"""Lines in a request head; Envoy's edge guide, and no SDK sends a third of it."""
HOST: Final = re.compile(rb"[\w.~!$&'()*+,;=%:\[\]-]*")
"""A name or an address and a port (RFC 3986, 3.2); empty for who has none to name."""


class Inspected(NamedTuple):
    """A request that a dialect has read."""

    facts: RequestFacts
    dialect: Dialect
    route: RoutePolicy


class Proxy:
    """The ASGI app. `tick` it, and `drain` it before the server stops."""

    def __init__(
        self,
        means: Means,
        *,
        dialects: Mapping[bytes, Dialect],
        routes: RouteTable,
        limits: Limits,
        timeouts: Timeouts,
        session_header: str = "x-session-id",
    ) -> None:
        self.means = means
        self._session = session_header.lower().encode()
        self._dialects = dialects
        self._routes = routes
        self._limits = limits
        self._timeouts = timeouts
        self.accepting = True

    def __repr__(self) -> str:
        return f"<Proxy {len(self.means.live)} live{'' if self.accepting else ', draining'}>"

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError("the data port speaks HTTP alone; switch lifespan and websockets off")
        try:
            request = await self._read(scope, receive)
            relay = self._relay(scope, send, request)
        except ClientGoneError:
            return
        except RefusedError as refused:
            await self._refuse(scope["raw_path"], send, refused)
            return
        await relay.run(receive)

    def tick(self, now: float) -> None:
        """Tell the requests whose beat it is that time has passed."""
        for relay in [relay for relay in self.means.live if relay.tick_at <= now]:
            relay.tick_at = now + TICK_S
            try:
                relay.tick(now)
            except Exception as error:  # noqa: BLE001 - one request's defect is not the others'
                relay.crash(error)
        upstream = self.means.upstream
        upstream.sweep()
        if upstream.counts.stale_retries:
            self.means.desk.count(
                "retries", "stale_connection", "restarted", by=upstream.counts.stale_retries
            )
            upstream.counts.stale_retries = 0

    async def drain(self, grace_s: float) -> None:
        """Take nothing new, let streams end, and after the grace time end the rest loudly."""
        self.accepting = False
        if self.means.live:
            await asyncio.wait([relay.over for relay in self.means.live], timeout=grace_s)
        for relay in tuple(self.means.live):
            relay.stop(monotonic())

    # --- taking a request in ---

    async def _read(self, scope: Mapping[str, Any], receive: Receive) -> Request:
        headers: Headers = scope["headers"]
        path: bytes = scope["raw_path"]
        self._check(path, scope["method"], headers)
        self._check_head(scope, headers)
        body = await read_body(
            receive, headers, most_bytes=self._limits.body_bytes, within_s=self._timeouts.body_s
        )
        query: bytes = scope["query_string"]
        onward = towards_router(headers)
        if value_of(onward, REQUEST_ID) is None:
            onward.append((REQUEST_ID, token_hex(16).encode()))
        target = path + b"?" + query if query else path
        return Request(scope["method"].encode(), target, onward, body)

    def _check(self, path: bytes, method: str, headers: Headers) -> None:
        """Refuse before the body is read what need not be read."""
        methods = ALLOWED.get(path)
        if methods is None:
            raise RefusedError(404, "path_not_allowed", "this path is not served here", Guilty.CLIENT, CLOSE)
        if method not in methods:
            allow = [(b"allow", ", ".join(sorted(methods)).encode()), *CLOSE]
            raise RefusedError(
                405, "method_not_allowed", "this path takes another method", Guilty.CLIENT, allow
            )
        if not self.accepting:
            message = "the proxy is shutting down"
            raise RefusedError(UNAVAILABLE, "shutting_down", message, Guilty.OURS, CLOSE)

    def _check_head(self, scope: Mapping[str, Any], headers: Headers) -> None:
        """Refuse a head that is too large, names no one host, or announces a body that we cannot read."""
        line_bytes = len(scope["method"]) + len(scope["raw_path"]) + len(scope["query_string"])
        if len(headers) > HEADERS_MAX or line_bytes + size_of(headers) > self._limits.header_bytes:
            message = "the request head is too large"
            raise RefusedError(431, "headers_too_large", message, Guilty.CLIENT, CLOSE)
        hosts = [value for name, value in headers if name == b"host"]
        needed = scope["http_version"] != "1.0"
        if len(hosts) > 1 or (needed and not hosts) or not all(map(HOST.fullmatch, hosts)):
            message = "the client must send one valid Host header"
            raise RefusedError(400, "bad_host", message, Guilty.CLIENT, CLOSE)
        codings = [value.strip().lower() for name, value in headers if name == b"transfer-encoding"]
        if codings not in (
            [],
            [b"chunked"],
        ):  # the parser takes others in front of it, and leaves them undone
            message = "no transfer coding but chunked is understood"
            raise RefusedError(501, "unknown_coding", message, Guilty.CLIENT, CLOSE)

    def _relay(self, scope: Mapping[str, Any], send: Send, request: Request) -> Relay:
        inspected = self._inspect(scope, request)
        if inspected is not None and self._full(inspected.route):
            inspected = None
        if inspected is None:
            return Relay(self.means, send, request)
        facts, dialect, route = inspected
        if session := value_of(request.headers, self._session):
            facts = msgspec.structs.replace(facts, session=session.decode("latin-1"))
        return Guard(self.means, send, request, facts=facts, dialect=dialect, route=route)

    def _inspect(self, scope: Mapping[str, Any], request: Request) -> Inspected | None:
        """Read the request; None where it goes through unread."""
        dialect = self._dialects.get(scope["raw_path"])
        if dialect is None:
            if request.method == b"POST":
                self.means.desk.count("uninspected", "path")
            return None
        try:
            facts = dialect.request(request.body)
        except BadRequest:  # the engine knows better what is wrong with it, and says so with its own 400
            if self._routes.may_be_strict(_path(scope), _wish(scope)):
                message = "the request body cannot be read, and this route inspects every answer"
                raise RefusedError(400, "unreadable_body", message, Guilty.CLIENT) from None
            self.means.desk.count("uninspected", "malformed")
            return None
        route = self._route(scope, facts.model)
        if (model := kept_model(facts.model)) != facts.model:
            facts = msgspec.structs.replace(facts, model=model)
        return Inspected(facts, dialect, route)

    def _route(self, scope: Mapping[str, Any], model: str) -> RoutePolicy:
        return self._routes.find(_path(scope), model, _wish(scope))

    def _full(self, route: RoutePolicy) -> bool:
        if len(self.means.live) < self._limits.streams:
            return False
        if route.policy is Policy.STRICT:
            raise RefusedError(UNAVAILABLE, "streams_full", "too many streams are open", Guilty.OURS)
        self.means.desk.count("uninspected", "streams")
        return True

    async def _refuse(self, path: bytes, send: Send, refused: RefusedError) -> None:
        route = self._routes.find(path.decode("latin-1"), "")
        self.means.desk.count("streams", route.name, route.policy, Outcome.REFUSED)
        dialect = self._dialects.get(path)
        body = refusal_body(path, dialect, refused.status, refused.reason, refused.message)
        retry_after_s = RETRY_AFTER_S if refused.status == UNAVAILABLE else -1
        headers = [*refusal_headers(body, retry_after_s), *refused.headers]
        await send({"type": "http.response.start", "status": refused.status, "headers": headers})
        await send({"type": "http.response.body", "body": body, "more_body": False})


def _path(scope: Mapping[str, Any]) -> str:
    path: bytes = scope["raw_path"]
    return path.decode("latin-1")


def _wish(scope: Mapping[str, Any]) -> str:
    """The policy that the client asks for."""
    return (value_of(scope["headers"], POLICY) or b"").decode("latin-1").strip()
