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
MAX_PORT = 65_535

Port = Annotated[int, Field(ge=0, le=MAX_PORT)]  # 0: any free one
Capture = Literal["off", "hashes", "full"]
Secret = Annotated[SecretStr, Field(min_length=8)]  # an empty token would be everybody's


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


def _listens(host: str, at: str) -> bool:
    """Whether a listener on this host is met at that address, as far as names tell."""
    everywhere = host in {"0.0.0.0", "::"}  # noqa: S104 - they are only compared
    return host == at or (is_loopback(at) and (everywhere or is_loopback(host)))


class Limits(Strict):
    """What one process takes on. Beyond it `protect` passes through and marks, `strict` answers 503."""

    body_bytes: Annotated[int, Field(ge=1024)] = 10 * MIB
    """Of one request; larger gets a 413."""
    header_bytes: Annotated[int, Field(ge=1024)] = 32 * 1024
    """Of one request head; Envoy's edge guide."""
    held_bytes: Annotated[int, Field(ge=0)] = 256 * MIB
    """Held back by all streams together."""
    streams: Annotated[int, Field(ge=1)] = 2048
    """Open at once."""


class Timeouts(Strict):
    """How long is waited for whom, in seconds."""

    connect_s: Seconds = 2.0
    """For the router to accept a connection."""
    body_s: Seconds = 30.0
    """For a client to send its whole request."""
    first_byte_s: Seconds = 600.0
    """From request to response head; long prompts prefill for minutes."""
    pool_idle_s: Seconds = 4.0
    """That a pooled connection may idle: below the router's own, or a POST meets a closing socket."""
    drain_s: Seconds = 30.0
    """For open streams to end after SIGTERM, and for an unread one to run out."""


class Retention(Strict):
    """What the store keeps; older or more is removed by its writer."""

    days: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 14.0
    """Age of incidents and cases."""
    incidents: Annotated[int, Field(ge=1)] = 100_000
    """At most so many."""
    cases: Annotated[int, Field(ge=1)] = 10_000
    """At most so many."""


class ProvenanceSettings(Strict):
    """The index of who said what, by which cross-talk is seen."""

    on: bool = False
    """Keep it, for 3 to 5 us a chunk and 0.5 us a word of prompt; off, cross-talk is not looked for."""
    slots_log2: Annotated[int, Field(ge=16, le=28)] = 22
    """Size: 22 is 32 MiB and holds some 25 MB of distinct text of prompts and answers."""
    recent_s: Seconds = 600.0
    """How long the words of a request that is over are known as its own."""
    tenant_header: str = "authorization"
    """Request header that tells tenants apart; only a salted hash is kept."""
    session_header: str = "x-session-id"
    """Request header by which a client names its session, if it does; used with the index off, too."""


class WorkerHint(Strict):
    """What the owner knows of a worker and no interface tells."""

    url: BaseUrl
    """As the router names it."""
    drafter: Drafter = Drafter.UNKNOWN
    """Who drafts: slow growth is evidence only where a model does."""
    draft_tokens: Annotated[int, Field(ge=1, le=256)] | None = None
    """Drafts that one verify step can accept."""


class EngineLog(Strict):
    """A log file of an engine on this machine."""

    path: str
    """The file; it may be rotated, cut short, or not be there yet."""
    worker: BaseUrl
    """The worker that writes it, as the router names it."""


class TelemetrySettings(Strict):
    """What is heard beside the streams; none of it can stop one."""

    socket: str | None = None
    """Socket file, 0600, on which probes of this machine report every verify step; none without."""
    udp: str | None = None
    """HOST:PORT on which probes of other machines do; needs the key file."""
    key_file: str | None = None
    """File with the key that signs their datagrams, as theirs: 16 bytes at least, 0600."""
    logs: tuple[EngineLog, ...] = ()
    """Log files of engines, followed for what their own checks find."""
    scrape_s: Seconds = 15.0
    """How often /metrics of the router's workers is read; 0: never."""
    router_metrics: BaseUrl | None = None
    """URL of the router's own metrics, as http://127.0.0.1:29000/metrics: they alone tell its policy."""

    @model_validator(mode="after")
    def _udp_is_signed(self) -> Self:
        if self.udp is None:
            return self
        if self.key_file is None:
            raise ValueError("udp: needs key_file; anybody can send to a UDP port")
        host, _, port = self.udp.rpartition(":")
        if not host or not port.isdigit() or int(port) > MAX_PORT:
            raise ValueError(f"udp: expected HOST:PORT, got {self.udp!r}")
        return self


class Settings(Strict):
    """Everything `specguard serve` can be told."""

    router: BaseUrl
    """Base URL of the router that requests go to."""
    data_host: str = "127.0.0.1"
    """Address that clients connect to."""
    data_port: Port = 8400
    """Port that clients connect to; 0 is any free one."""
    admin_host: str = "127.0.0.1"
    """Address of health, metrics and API; without a token it must be a loopback."""
    admin_port: Port = 8401
    """Port of health, metrics and API; 0 is any free one."""
    admin_token: Secret | None = None
    """Bearer token of everything under /api."""
    metrics_token: Secret | None = None
    """Bearer token of /metrics, which is open without one."""
    upstream: Literal["raw", "aiohttp"] = "raw"
    """The client towards the router: our own protocol, or aiohttp's."""
    store: StoreUrl = "sqlite+aiosqlite:///specguard.db"
    """Where incidents and cases are kept."""
    retention: Retention = Retention()
    """What the store keeps."""
    capture: Capture = "hashes"
    """What cases keep of requests: nothing, salted hashes and lengths, or the text less its secrets."""
    capture_salt: Secret | None = None
    """Salt of the hashes: the same on all replicas to compare theirs; by default it dies with the process."""
    rules: str = "default"
    """A packaged rule set's name, or a file."""
    offline: tuple[str, ...] = ("saturation", "stutter", "rarity", "salad", "seam", "structure")
    """Detectors that streams under `observe` do without, to save CPU. All else gets them all."""
    policy: Policy = Policy.OBSERVE
    """What to do about a verdict where no route says."""
    routes: tuple[RouteSettings, ...] = ()
    """Policy and knobs by path and model; the first that matches wins."""
    allow_policy_header: tuple[Policy, ...] = ()
    """Policies that a client may ask for by `x-specguard-policy`."""
    workers: tuple[WorkerHint, ...] = ()
    """What the owner knows of workers."""
    baselines: str | None = None
    """A file that `specguard calibrate` wrote: what acceptance is healthy here."""
    ask_growth: bool = True
    """Have the engine report tokens in every chunk: verify steps, hold-back and silence are told by them."""
    abort: AbortMode = AbortMode.DRAIN
    """Let a bad stream run out unread, or close it within a budget."""
    provenance: ProvenanceSettings = ProvenanceSettings()
    """The index of who said what."""
    telemetry: TelemetrySettings = TelemetrySettings()
    """Probes, logs and metrics of the engines."""
    limits: Limits = Limits()
    """What one process takes on."""
    timeouts: Timeouts = Timeouts()
    """How long is waited for whom."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Of our own lines; other libraries speak from `warning` on."""

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

    @model_validator(mode="after")
    def _nobody_talks_to_himself(self) -> Self:
        """Port 0 is any free one, and collides with nobody."""
        data, admin, router = self.data_host, self.admin_host, urlsplit(self.router)
        if self.data_port == self.admin_port != 0 and (_listens(data, admin) or _listens(admin, data)):
            raise ValueError(f"admin_port: expected another one than data_port's, got {self.admin_port}")
        for name, host, port in (("data_port", data, self.data_port), ("admin_port", admin, self.admin_port)):
            if router.port == port != 0 and _listens(host, router.hostname or ""):
                raise ValueError(f"router: is our own {name}, expected the router's, got {self.router!r}")
        return self

    def route_table(self) -> RouteTable:
        return RouteTable(self.routes, self.policy, self.allow_policy_header)

    def digest(self) -> str:
        """Twelve hex digits that change with any setting; secrets count only as set or not."""
        return sha256(self.model_dump_json().encode()).hexdigest()[:12]
