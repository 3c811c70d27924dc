"""Settings are frozen, hide their secrets and refuse what cannot stand."""

import pytest
from pydantic import ValidationError

from service.config.settings import Settings, WorkerHint, is_loopback
from service.core.events import Drafter

ROUTER = "http://127.0.0.1:30000/"


def refused(**values: object) -> str:
    with pytest.raises(ValidationError) as caught:
        Settings.model_validate({"router": ROUTER, **values})
    return str(caught.value)


def test_only_the_router_must_be_named() -> None:
    settings = Settings(router=ROUTER)
    assert settings.router == "http://127.0.0.1:30000"
    assert (settings.policy, settings.capture) == ("observe", "hashes")


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Settings(router=ROUTER).data_port = 1  # type: ignore[misc]


@pytest.mark.parametrize(
    "url", ["127.0.0.1:30000", "ftp://a", "http://", "http://u:p@a", "http://a/?q=1", "http://a#x"]
)
def test_a_router_url_is_a_bare_base_url(url: str) -> None:
    assert "router" in refused(router=url)


@pytest.mark.parametrize("url", ["specguard.db", "postgresql+asyncpg://a/b", "sqlite:///x.db"])
def test_a_store_this_version_cannot_open_is_refused(url: str) -> None:
    assert "sqlite+aiosqlite:///" in refused(store=url)


def test_without_a_token_the_admin_port_stays_on_the_loopback() -> None:
    assert "without admin_token only a loopback" in refused(admin_host="0.0.0.0")  # noqa: S104 - the refusal
    guarded = Settings.model_validate({"router": ROUTER, "admin_host": "::", "admin_token": "hunter2hunter2"})
    assert guarded.admin_host == "::"


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (
            {"data_port": 9000, "admin_port": 9000},
            "admin_port: expected another one than data_port's, got 9000",
        ),
        ({"router": "http://127.0.0.1:8400"}, "router: is our own data_port"),
        ({"router": "http://localhost:8401"}, "router: is our own admin_port"),
        ({"router": "http://127.0.0.1:8400", "data_host": "0.0.0.0"}, "router: is our own data_port"),  # noqa: S104
    ],
)
def test_ports_that_would_meet_are_named(more: dict[str, object], told: str) -> None:
    assert told in refused(**more)


def test_ports_that_do_not_meet_may_be_the_same_number() -> None:
    assert Settings(router="http://10.0.0.9:8400").data_port == 8400
    assert Settings(router="http://10.0.0.9:8400", data_host="0.0.0.0").data_port == 8400  # noqa: S104
    assert Settings(router=ROUTER, data_port=0, admin_port=0).admin_port == 0
    apart = {"data_host": "10.0.0.1", "admin_host": "127.0.0.1", "admin_port": 8400}
    assert Settings.model_validate({"router": ROUTER, **apart}).admin_port == 8400


def test_route_names_are_labels_and_stand_once() -> None:
    assert "stands twice" in refused(routes=[{"name": "a"}, {"name": "a"}])
    assert "is taken" in refused(routes=[{"name": "default"}])
    assert "name" in refused(routes=[{"name": "No label"}])


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1])
def test_a_time_is_a_finite_number(value: float) -> None:
    assert "connect_s" in refused(timeouts={"connect_s": value})


@pytest.mark.parametrize(
    ("host", "loop"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("10.0.0.1", False), ("a", False)],
)
def test_a_loopback_is_recognised(host: str, loop: bool) -> None:
    assert is_loopback(host) is loop


def test_a_secret_shows_nowhere() -> None:
    settings = Settings.model_validate({"router": ROUTER, "admin_token": "hunter2hunter2"})
    assert "hunter2" not in repr(settings) + str(settings) + settings.model_dump_json()


@pytest.mark.parametrize("secret", ["admin_token", "metrics_token", "capture_salt"])
def test_an_empty_secret_would_be_everybodys(secret: str) -> None:
    assert secret in refused(**{secret: ""})


def test_the_digest_changes_with_any_setting() -> None:
    digests = {Settings(router=ROUTER).digest(), Settings(router=ROUTER, data_port=1).digest()}
    assert {len(digest) for digest in digests} == {12}
    assert len(digests) == 2


def test_a_worker_hint_names_its_worker() -> None:
    hint = WorkerHint(url="http://w:1/", drafter=Drafter.MODEL, draft_tokens=4)
    assert (hint.url, hint.drafter, hint.draft_tokens) == ("http://w:1", "model", 4)
    assert WorkerHint(url="http://w:1").draft_tokens is None


@pytest.mark.parametrize(
    ("udp", "why"), [("127.0.0.1:9811", "needs key_file"), ("9811", "HOST:PORT"), ("a:99999", "HOST:PORT")]
)
def test_probes_over_udp_need_an_address_and_a_key(udp: str, why: str) -> None:
    key = {} if "key" in why else {"key_file": "key"}
    assert why in refused(telemetry={"udp": udp, **key})
    heard = Settings.model_validate({"router": ROUTER, "telemetry": {"udp": "[::1]:0", "key_file": "key"}})
    assert heard.telemetry.udp == "[::1]:0"
