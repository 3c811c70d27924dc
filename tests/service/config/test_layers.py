"""Command line over environment over file, and a wrong key is named with its source."""

from pathlib import Path

import pytest

from service.config import ConfigProblem, Settings, load_settings

ROUTER = {"SPECGUARD_ROUTER": "http://127.0.0.1:30000"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "sidecar.yaml"
    path.write_text("router: http://file:1\ncapture: off\nlimits: {streams: 7, held_bytes: 9}\n")
    return path


def problem(file: Path | None = None, env: dict[str, str] | None = None, **overrides: object) -> str:
    with pytest.raises(ConfigProblem) as caught:
        load_settings(file, env=env or {}, overrides=overrides)
    return str(caught.value)


def test_the_nearest_source_wins_key_by_key(file: Path) -> None:
    env = {"SPECGUARD_DATA_PORT": "9000", "SPECGUARD_LIMITS__STREAMS": "8"}
    settings = load_settings(file, env=env, overrides={"data_port": 9001})
    assert settings.router == "http://file:1"
    assert settings.data_port == 9001
    assert (settings.limits.streams, settings.limits.held_bytes) == (8, 9)
    assert settings.capture == "off"


def test_lists_may_come_from_the_environment() -> None:
    env = {**ROUTER, "SPECGUARD_ROUTES": '[{"name": "agents", "policy": "strict", "window_tokens": 64}]'}
    assert load_settings(env=env).routes[0].window_tokens == 64


def test_an_unknown_key_in_the_file_is_named_with_file_and_neighbour(file: Path) -> None:
    file.write_text("router: http://a\ndta_port: 1\nlimits: {streems: 1}\n")
    text = problem(file)
    assert f"{file}: dta_port: unknown key; did you mean data_port? known here: abort, admin_host" in text
    assert f"{file}: limits.streems: unknown key; did you mean streams? known here: body_bytes" in text


def test_an_unknown_key_inside_a_list_entry_is_found() -> None:
    routes = [{"name": "a", "match": {"pth": "/x"}}]
    assert "routes[0].match.pth: unknown key; did you mean path?" in problem(env=ROUTER, routes=routes)


@pytest.mark.parametrize("name", ["SPECGUARD_ROUTR", "SPECGUARD_ADMIN", "SPECGUARD_SERVICE"])
def test_an_unknown_name_in_the_environment_is_an_error(name: str) -> None:
    assert f"environment: {name}: unknown key" in problem(env={**ROUTER, name: "x"})


def test_a_wrong_value_says_source_expected_and_got() -> None:
    text = problem(env={**ROUTER, "SPECGUARD_LIMITS__STREAMS": "many"}, data_port=70_000)
    assert "environment: limits.streams: expected a valid integer" in text
    assert "got 'many'" in text
    assert "command line: data_port: expected less than or equal to 65535, got 70000" in text


def test_a_list_in_the_environment_that_is_no_json_is_named() -> None:
    assert "environment: routes: expected JSON" in problem(env={**ROUTER, "SPECGUARD_ROUTES": "nope"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SPECGUARD_PORT", "tcp://10.0.0.7:8400"),
        ("SPECGUARD_SERVICE_HOST", "10.0.0.7"),
        ("SPECGUARD_SERVICE_PORT_HTTP", "8400"),
        ("SPECGUARD_PORT_8400_TCP_PROTO", "tcp"),
        ("SPECGUARD_DATA_PORT", "tcp://10.0.0.7:8400"),
        ("SPECGUARD_CONFIG", "sidecar.yaml"),
        ("SPECGUARD_PROBE", "unix:/run/x,meta"),
        ("SPECGUARD_PROBE_NAME", "http://w:1"),
        ("SPECGUARD_WORKER_API_KEY", "k"),
    ],
)
def test_what_kubernetes_and_other_parts_set_is_let_be(name: str, value: str) -> None:
    assert load_settings(env={**ROUTER, name: value}).data_port == Settings.model_fields["data_port"].default


def test_a_missing_router_is_asked_for() -> None:
    assert problem() == "settings: router: missing; expected a value"


def test_a_secret_is_never_repeated() -> None:
    text = problem(env=ROUTER, admin_token=["hunter2"])
    assert "hunter2" not in text
    assert "command line: admin_token" in text
