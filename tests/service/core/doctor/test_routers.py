"""Where the router sends a retry, how often it retries itself, and what it cannot carry."""

import pytest

from service.core.doctor.facts import Listed, RouterFlags, RouterKind
from service.core.doctor.finding import Severity
from service.core.doctor.routers import Steering, steering
from tests.service.core.doctor.clinic import found, pair, router

SMG, OLD, OTHER = RouterKind.SMG, RouterKind.SGLANG_ROUTER, RouterKind.OTHER


@pytest.mark.parametrize(
    ("kind", "policy", "where"),
    [
        (SMG, "consistent_hashing", Steering.PINNED),
        (OLD, "consistent_hashing", Steering.CHANCE),
        (SMG, "round_robin", Steering.CHANCE),
        (SMG, "cache_aware", Steering.SAME_WORKER),
        (OLD, "manual", Steering.SAME_WORKER),
        (SMG, "", Steering.UNKNOWN),
        (SMG, "of-tomorrow", Steering.UNKNOWN),
        (OTHER, "cache_aware", Steering.UNKNOWN),
    ],
)
def test_a_retry_lands_where_the_policy_sends_it(kind: RouterKind, policy: str, where: Steering) -> None:
    assert steering(kind, policy) is where


def test_a_sound_router_gives_no_finding() -> None:
    assert found(pair(), router=router()) == {}


@pytest.mark.parametrize(
    ("policy", "code", "severity"),
    [
        ("cache_aware", "retry_same_worker", Severity.ERROR),
        ("round_robin", "retry_by_chance", Severity.WARNING),
    ],
)
def test_a_policy_that_keeps_a_retry_near_the_bad_worker_is_named(
    policy: str, code: str, severity: Severity
) -> None:
    finding = found(pair(), router=router(flags=RouterFlags(policy, retries_max=1)))[code]
    assert finding.severity is severity
    assert "--decode-policy consistent_hashing" in finding.fix


def test_retries_of_the_router_multiply_ours() -> None:
    flags = RouterFlags("consistent_hashing", retries_max=5)
    finding = found(pair(), router=router(flags=flags), generations=3)["retries_multiply"]
    assert "15 times" in finding.why
    assert "retries_multiply" not in found(pair(), router=router(flags=flags), generations=1)


def test_what_no_interface_tells_is_asked_of_the_operator() -> None:
    ill = found(pair(), router=router(flags=None))
    assert ill["router_flags_untold"].severity is Severity.INFO
    assert "--router-flags" in ill["router_flags_untold"].fix


def test_metrics_that_do_not_answer_are_a_finding_of_their_own() -> None:
    ill = found(
        pair(), router=router(flags=None, metrics_url="http://r:29000/metrics", metrics_trouble="HTTP 404")
    )
    assert ill["unreachable"].severity is Severity.ERROR
    assert ill["unreachable"].subject == "http://r:29000/metrics"
    assert "HTTP 404" in ill["unreachable"].what


def test_metrics_that_have_counted_nothing_yet_are_to_be_asked_again() -> None:
    ill = found(pair(), router=router(flags=None, metrics_url="http://r:29000/metrics"))
    assert "after some traffic" in ill["router_flags_untold"].fix


def test_counted_retries_and_the_counted_policy_stand_in_for_the_command_line() -> None:
    ill = found(pair(), router=router(flags=None, counted_policy="cache_aware", retried=7.0))
    assert "retry_same_worker" in ill
    assert "7 retries" in ill["retries_multiply"].what


@pytest.mark.parametrize(
    ("ill", "code", "severity"),
    [
        ({"trouble": "no connection"}, "unreachable", Severity.ERROR),
        ({"ready": False}, "no_healthy_worker", Severity.ERROR),
        ({"workers": ()}, "no_healthy_worker", Severity.ERROR),
        ({"workers": (Listed("u", "decode"),)}, "one_worker", Severity.WARNING),
        ({"workers": (Listed("u", is_healthy=False), Listed("v"))}, "worker_unhealthy", Severity.WARNING),
        ({"workers": (Listed("u", connection_mode="gRPC"), Listed("v"))}, "grpc", Severity.ERROR),
        ({"workers": (Listed("http://h:1@0"), Listed("http://h:1@1"))}, "dp_aware", Severity.ERROR),
        (
            {"flags": RouterFlags("consistent_hashing", retries_max=1, dp_aware=True)},
            "dp_aware",
            Severity.ERROR,
        ),
        ({"kind": OLD}, "chat_fields_dropped", Severity.WARNING),
        ({"kind": OTHER}, "router_unknown", Severity.INFO),
    ],
)
def test_what_a_router_cannot_carry_is_named(ill: dict[str, object], code: str, severity: Severity) -> None:
    assert found(pair(), router=router(**ill))[code].severity is severity
