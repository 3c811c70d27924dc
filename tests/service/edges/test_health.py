"""Alive is the loop's beat; ready is the data port, and the router only where a route fails closed."""

from time import monotonic

import pytest

from service.edges.health import STALE_S, Health


def health(*, fails_closed: bool = False, accepting: bool = True, router_up: bool | None = None) -> Health:
    made = Health(fails_closed=fails_closed)
    made.accepting, made.router_up = accepting, router_up
    return made


def test_a_loop_that_stopped_beating_is_not_alive() -> None:
    made = health()
    made.beat(monotonic() - STALE_S - 1)
    assert (made.alive, made.ready) == (False, False)
    made.beat(monotonic())
    assert (made.alive, made.ready) == (True, True)


@pytest.mark.parametrize(
    ("fails_closed", "accepting", "router_up", "ready"),
    [
        (False, True, False, True),
        (False, True, None, True),
        (False, False, True, False),
        (True, True, True, True),
        (True, True, False, False),
        (True, True, None, False),
    ],
)
def test_readiness_follows_from_the_policies(
    fails_closed: bool, accepting: bool, router_up: bool | None, ready: bool
) -> None:
    made = health(fails_closed=fails_closed, accepting=accepting, router_up=router_up)
    assert made.ready is ready
    assert made.describe()["ready"] is ready


@pytest.mark.parametrize(
    ("router_up", "said"), [(None, "unknown"), (True, "reachable"), (False, "unreachable")]
)
def test_the_router_is_named_in_any_case(router_up: bool | None, said: str) -> None:
    assert health(router_up=router_up).describe()["router"] == said
