"""What Grafana refuses, and what is no Grafana, is told in one line that names the guilty side."""

import socket
from collections.abc import Iterator

import pytest

from service.edges.grafana import Grafana, GrafanaProblem
from tests.service.grafana_running import EDITOR, TOKEN, GrafanaRunning, grafana


@pytest.fixture
def running() -> Iterator[GrafanaRunning]:
    with grafana() as one:
        yield one


def told(problem: pytest.ExceptionInfo[GrafanaProblem]) -> str:
    line = str(problem.value)
    assert "\n" not in line
    assert TOKEN not in line
    return line


def test_what_was_written_is_there(running: GrafanaRunning) -> None:
    one = Grafana(running.url, TOKEN)
    assert not one.has_folder("ours")
    assert one.dashboard("board") is None
    one.make_folder("ours", "Ours")
    one.save_dashboard({"id": None, "uid": "board", "title": "Board"}, "ours", "first")
    one.annotate(1000, 2000, ("specguard", "incident", "incident:1"), "it happened")
    assert one.has_folder("ours")
    found = one.dashboard("board")
    assert found is not None
    assert found["meta"]["folderUid"] == "ours"
    assert one.has_annotation(("incident:1",))
    assert not one.has_annotation(("incident:2",))
    one.close()


def test_a_grafana_under_a_sub_path_is_found() -> None:
    with grafana(prefix="/grafana") as running:
        Grafana(running.url, TOKEN).make_folder("ours", "Ours")
        Grafana(f"{running.url}/", TOKEN).has_folder("ours")
        assert running.folders == {"ours": "Ours"}


def test_a_token_that_is_refused_is_blamed(running: GrafanaRunning) -> None:
    with pytest.raises(GrafanaProblem, match="refused the token") as problem:
        Grafana(running.url, "glsa_old").has_folder("ours")
    assert not problem.value.theirs
    assert "glsa_old" not in told(problem)


def test_a_permission_that_lacks_is_named(running: GrafanaRunning) -> None:
    running.may = EDITOR - {"folders:create"}
    with pytest.raises(GrafanaProblem, match=r"lacks folders:create$") as problem:
        Grafana(running.url, TOKEN).make_folder("ours", "Ours")
    assert told(problem)


def test_a_root_that_is_wrong_is_blamed(running: GrafanaRunning) -> None:
    with pytest.raises(GrafanaProblem, match="name its root, with its sub-path") as problem:
        Grafana(f"{running.url}/elsewhere", TOKEN).make_folder("ours", "Ours")
    assert not problem.value.theirs


def test_a_login_page_is_no_grafana() -> None:
    with grafana(html=True) as running:
        one = Grafana(running.url, TOKEN)
        with pytest.raises(GrafanaProblem, match="not Grafana's API"):
            one.has_folder("ours")
        with pytest.raises(GrafanaProblem, match="not Grafana's API"):
            one.has_annotation(("a",))


def test_what_grafana_says_of_a_failure_is_passed_on(running: GrafanaRunning) -> None:
    with pytest.raises(GrafanaProblem, match="answered 400: folder not found") as problem:
        Grafana(running.url, TOKEN).save_dashboard({"id": None, "uid": "b", "title": "B"}, "nowhere", "")
    assert problem.value.theirs


def test_a_dead_host_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    with pytest.raises(GrafanaProblem, match="no Grafana answers there") as problem:
        Grafana(f"http://127.0.0.1:{port}", TOKEN).has_folder("ours")
    assert problem.value.theirs


def test_a_silent_host_is_not_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(GrafanaProblem, match=r"no answer within 0\.2 s"):
            Grafana(url, TOKEN, timeout_s=0.2).has_folder("ours")


@pytest.mark.parametrize("url", ["127.0.0.1:3000", "ftp://host", "http://", "http://host:x", "http://host:0"])
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(GrafanaProblem, match="expected a URL"):
        Grafana(url, TOKEN)


@pytest.mark.parametrize("url", ["http://ann:secret@host", "https://host/?verify=false", "http://host/#x"])
def test_a_url_carries_no_password_and_turns_no_check_off(url: str) -> None:
    with pytest.raises(GrafanaProblem, match="no password, query or fragment") as problem:
        Grafana(url, TOKEN)
    assert "secret" not in told(problem)
