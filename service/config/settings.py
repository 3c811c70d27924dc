"""Settings: parsed once at the edge into one frozen object; nothing below reads environment or YAML.

Order of precedence: command line, then `SPECGUARD_*` environment, then the YAML file, then the defaults
here. A nested key is written `SPECGUARD_LIMITS__STREAMS=500`. An unknown key is an error wherever it stands.
"""

import ipaddress
from hashlib import sha256
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr, model_validator

from service.config.routes import DEFAULT_ROUTE, RouteSettings, RouteTable, Seconds, Strict
from service.core.events import Drafter, Policy
from service.core.governor import AbortMode

MIB = 1 << 20

Port = Annotated[int, Field(ge=0, le=65_535)]  # 0: any free one
Capture = Literal["off", "hashes", "full"]


def _base_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError(f"expected a URL such as http://127.0.0.1:30000, got {url!r}")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError("expected a bare base URL: no credentials, query or fragment in it")
    return url.rstrip("/")


def _store_url(url: str) -> str:
    if (
        not url.startswith("sqlite+aiosqlite:///")
        or not url.split(":///", 1)[1].strip("/")
        or ":memory:" in url
    ):
        raise ValueError("expected a URL such as sqlite+aiosqlite:///specguard.db")
    return url


BaseUrl = Annotated[str, AfterValidator(_base_url)]
StoreUrl = Annotated[str, AfterValidator(_store_url)]


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a listener on this host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class Limits(Strict):
    """What one process takes on; beyond it `protect` passes through and marks, `strict` answers 503."""

    body_bytes: Annotated[int, Field(ge=1024)] = 10 * MIB
    header_bytes: Annotated[int, Field(ge=1024)] = 32 * 1024  # Envoy's edge guide
    held_bytes: Annotated[int, Field(ge=0)] = 256 * MIB  # by all streams together
    streams: Annotated[int, Field(ge=1)] = 2048


class Timeouts(Strict):
    connect_s: Seconds = 2.0
    body_s: Seconds = 30.0  # for a client to send its whole request
    first_byte_s: Seconds = 600.0  # from request to response head; long prompts prefill for minutes
    pool_idle_s: Seconds = 4.0  # below the router's own: SGLang closes after 5, and a POST would meet that
    drain_s: Seconds = 30.0  # for open streams to end after SIGTERM


class Retention(Strict):
    """What the store keeps; older or more is removed by its writer."""

    days: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 14.0
    incidents: Annotated[int, Field(ge=1)] = 100_000
    cases: Annotated[int, Field(ge=1)] = 10_000


class WorkerHint(Strict):
    """What the owner knows of a worker and no interface tells."""

    url: BaseUrl
    drafter: Drafter = Drafter.UNKNOWN
    draft_tokens: Annotated[int, Field(ge=1, le=256)] | None = None  # drafts a verify step accepts at most


class Settings(Strict):
    """Everything `specguard serve` can be told."""

    router: BaseUrl  # where requests go
    data_host: str = "127.0.0.1"
    data_port: Port = 8400
    admin_host: str = "127.0.0.1"
    admin_port: Port = 8401
    admin_token: SecretStr | None = None  # without one the admin port binds to the loopback only
    metrics_token: SecretStr | None = None  # without one /metrics is open
    upstream: Literal["raw", "aiohttp"] = "raw"
    store: StoreUrl = "sqlite+aiosqlite:///specguard.db"
    retention: Retention = Retention()
    capture: Capture = "hashes"  # of request text in cases
    capture_salt: SecretStr | None = None  # the same on all replicas makes their hashes comparable
    rules: str = "default"  # a packaged rule set's name, or a file
    policy: Policy = Policy.OBSERVE  # where no route says otherwise
    routes: tuple[RouteSettings, ...] = ()
    allow_policy_header: tuple[Policy, ...] = ()  # what a client may ask for by x-specguard-policy
    workers: tuple[WorkerHint, ...] = ()
    ask_growth: bool = True  # have the engine report tokens in every chunk; off where the probe tells more
    abort: AbortMode = AbortMode.DRAIN  # a bad stream runs out unread, or is closed within a budget
    limits: Limits = Limits()
    timeouts: Timeouts = Timeouts()
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    @model_validator(mode="after")
    def _names_are_labels(self) -> Self:
        names = [route.name for route in self.routes]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"routes: the name {twice[0]!r} stands twice; expected each once")
        if DEFAULT_ROUTE in names:
            raise ValueError(f"routes: the name {DEFAULT_ROUTE!r} is taken by what no route matches")
        return self

    @model_validator(mode="after")
    def _admin_is_guarded(self) -> Self:
        if self.admin_token is None and not is_loopback(self.admin_host):
            raise ValueError(
                f"admin_host: without admin_token only a loopback address may listen, got {self.admin_host!r}"
            )
        return self

    def route_table(self) -> RouteTable:
        return RouteTable(self.routes, self.policy, self.allow_policy_header)

    def digest(self) -> str:
        """Twelve hex digits that change with any setting; secrets count only as set or not."""
        return sha256(self.model_dump_json().encode()).hexdigest()[:12]
