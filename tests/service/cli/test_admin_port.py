"""Whoever is to blame for an answer that did not come is named: address, token or sidecar."""

import json
from pathlib import Path

import pytest

from service.cli import run
from service.cli.admin_port import AdminPort, Where, hint_lines, table
from service.cli.exits import BAD_INPUT, DONE, FOUND, Unfit
from tests.service.admin_running import admin_port


def test_the_token_comes_from_the_option_or_the_environment(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPECGUARD_ADMIN_TOKEN", raising=False)
    with admin_port(tmp_path, token="right-token") as port:
        words = ["cases", "list", "--json", "--admin", port.url]
        assert run(words) == BAD_INPUT
        assert "wants its admin token" in capsys.readouterr().err
        assert run([*words, "--token", "wrong-token"]) == BAD_INPUT
        assert "wrong-token" not in capsys.readouterr().err
        assert run([*words, "--token", "right-token"]) == DONE
        monkeypatch.setenv("SPECGUARD_ADMIN_TOKEN", "right-token")
        assert run(words) == DONE
        assert json.loads(capsys.readouterr().out.splitlines()[-1]) == []


def test_nobody_shows_the_token() -> None:
    where = Where(token="right-token")
    with AdminPort(where) as port:
        assert "right-token" not in repr(where) + repr(port)


@pytest.mark.parametrize(
    ("url", "code", "said"),
    [
        ("http://127.0.0.1:1", FOUND, "no admin port answers there (ConnectError)"),
        ("http://[::1", BAD_INPUT, "expected a URL"),
        ("nonsense", FOUND, "no admin port answers there (UnsupportedProtocol)"),
    ],
)
def test_an_address_where_nobody_answers_is_named(
    url: str, code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["cases", "list", "--admin", url]) == code
    (line,) = capsys.readouterr().err.splitlines()
    assert url in line
    assert said in line


def test_pages_are_turned_until_there_is_enough(tmp_path: Path) -> None:
    with admin_port(tmp_path) as running, AdminPort(Where(running.url), page_rows=2) as port:
        running.keep("r1", "r2", "r3", "r4", "r5")
        assert len(list(port.rows("/api/cases", {}, most=9))) == 5
        assert len({row["id"] for row in port.rows("/api/cases", {}, most=3)}) == 3
        assert [row["rid"] for row in port.rows("/api/incidents", {}, most=3)] == ["r5", "r4", "r3"]
        assert list(port.rows("/api/incidents", {}, most=0)) == []


def test_an_answer_that_nobody_expected_is_told(tmp_path: Path) -> None:
    with (
        admin_port(tmp_path) as running,
        AdminPort(Where(running.url)) as port,
        pytest.raises(Unfit, match="answered 400 to /api/cases"),
    ):
        list(port.rows("/api/cases", {"no_such": "filter"}, most=1))


def test_columns_are_as_wide_as_they_need_to_be() -> None:
    assert table(("a", "b"), [("long", "x"), ("s", "yy")]) == "a     b\nlong  x\ns     yy"


def test_hints_stand_below_each_other_with_what_is_to_be_done() -> None:
    told = {"strength": "likely", "cause": "nan", "evidence": ["token 0", "slow"], "next_step": "take it out"}
    silent = told | {"strength": "none", "cause": "nothing", "evidence": []}
    assert hint_lines({"hints": [told, silent]}, width=8) == [
        "likely  nan: token 0",
        "        slow",
        "        next: take it out",
        "none    nothing",
        "        next: take it out",
    ]
    assert hint_lines({"hints": None}, width=8) == hint_lines({}, width=8) == []
