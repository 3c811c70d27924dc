import pytest

from service.core.events import Policy
from service.core.policy import RoutePolicy


@pytest.mark.parametrize("policy", list(Policy))
def test_only_observe_lets_bytes_go_unjudged(policy: Policy) -> None:
    assert RoutePolicy(policy=policy).holds is (policy is not Policy.OBSERVE)


def test_observe_is_what_a_route_does_unless_told() -> None:
    assert RoutePolicy().policy is Policy.OBSERVE


def test_a_heartbeat_comes_before_the_strictest_client_gives_up() -> None:
    route = RoutePolicy()
    assert max(route.commit_wait_s, route.beat_every_s) <= 10  # Claude Code flags 20 s without bytes


def test_what_waits_for_a_look_fits_into_what_may_be_held() -> None:
    route = RoutePolicy()
    assert route.look_events >= 1
    assert route.stream_bytes >= 64 * 1024
