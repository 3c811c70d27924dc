"""The first fitting route wins, and a client's header is heard only where the owner allows it."""

import msgspec
import pytest

from service.config.routes import Match, RouteSettings, RouteTable
from service.core.events import Policy
from service.core.policy import RoutePolicy

CHAT = "/v1/chat/completions"
AGENTS = RouteSettings(
    name="agents", match=Match(path=CHAT, model="glm-*"), policy=Policy.STRICT, window_tokens=9
)
CHATS = RouteSettings(name="chats", match=Match(path=CHAT))


@pytest.fixture
def table() -> RouteTable:
    return RouteTable([AGENTS, CHATS], Policy.PROTECT, [Policy.OBSERVE])


@pytest.mark.parametrize(
    ("path", "model", "name"),
    [(CHAT, "glm-5", "agents"), (CHAT, "qwen", "chats"), ("/generate", "glm-5", "default")],
)
def test_the_first_fitting_route_wins(table: RouteTable, path: str, model: str, name: str) -> None:
    assert table.find(path, model).name == name


def test_a_knob_left_out_keeps_the_cores_value(table: RouteTable) -> None:
    agents = table.find(CHAT, "glm-5")
    assert agents == RoutePolicy(name="agents", policy=Policy.STRICT, window_tokens=9)


def test_a_route_without_policy_takes_the_default(table: RouteTable) -> None:
    assert table.find(CHAT, "qwen").policy is Policy.PROTECT
    assert table.find("/generate", "").policy is Policy.PROTECT


def test_an_allowed_header_changes_the_policy_and_nothing_else(table: RouteTable) -> None:
    wished = table.find(CHAT, "glm-5", "observe")
    assert wished == RoutePolicy(name="agents", policy=Policy.OBSERVE, window_tokens=9)


@pytest.mark.parametrize("header", ["strict", "protect", "", "nonsense"])
def test_any_other_header_is_not_heard(table: RouteTable, header: str) -> None:
    assert table.find(CHAT, "glm-5", header).policy is Policy.STRICT


@pytest.mark.parametrize(
    ("routes", "strict"),
    [
        ([AGENTS, CHATS], True),
        ([CHATS, AGENTS], False),
        ([RouteSettings(name="all", match=Match(path=CHAT, model="*")), AGENTS], False),
        ([RouteSettings(name="some", match=Match(path=CHAT, model="q*")), AGENTS], True),
        ([RouteSettings(name="other", match=Match(path="/generate"), policy=Policy.STRICT)], False),
    ],
    ids=["strict_first", "never_reached", "star_first", "another_model_first", "another_path"],
)
def test_a_request_of_unknown_model_may_be_meant_for_any_strict_route_it_can_reach(
    routes: list[RouteSettings], strict: bool
) -> None:
    assert RouteTable(routes, Policy.PROTECT, []).may_be_strict(CHAT) is strict


def test_strict_by_default_or_by_an_allowed_header_counts_too() -> None:
    assert RouteTable([], Policy.STRICT, []).may_be_strict(CHAT)
    assert RouteTable([], Policy.OBSERVE, [Policy.STRICT]).may_be_strict(CHAT, "strict")
    assert not RouteTable([], Policy.OBSERVE, []).may_be_strict(CHAT, "strict")
    assert not RouteTable([AGENTS], Policy.STRICT, [Policy.OBSERVE]).may_be_strict(CHAT, "observe")


def test_every_knob_of_the_core_can_be_set_and_no_other() -> None:
    knobs = {field.name for field in msgspec.structs.fields(RoutePolicy)}
    assert set(RouteSettings.model_fields) - {"match"} == knobs


def test_the_names_are_the_label_values(table: RouteTable) -> None:
    assert table.names == ("agents", "chats", "default")


def test_the_policies_are_those_of_the_routes(table: RouteTable) -> None:
    assert tuple(table.policies) == table.names
    assert table.policies["default"] == table.find("/elsewhere", "m").policy
    assert repr(table) == "<RouteTable agents, chats, default>"
