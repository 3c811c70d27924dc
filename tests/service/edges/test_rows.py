"""Rows are bounded and plain; a case is made only where a verdict stood."""

import json

from service.edges.case import Kept
from service.edges.rid import kept_rid
from service.edges.rows import NAME_CHARS, RID_CHARS, Rows, Waiting, is_corrupt, new_id, plain
from tests.service.edges.kept import SUSPECT, facts, incident

KEPT = Kept(facts(), b"{}")


def rows(*waiting: Waiting) -> Rows:
    made = Rows()
    for one in waiting:
        made.add(one, "hashes", b"salt")
    return made


def test_an_incident_becomes_one_row_and_one_for_each_attempt() -> None:
    made = rows(Waiting(5, incident(), KEPT))
    (row,) = made.incidents
    assert (row["kind"], row["level"], row["outcome"], row["at_token"]) == (
        "repetition",
        "corrupt",
        "recovered",
        90,
    )
    assert [(one["ordinal"], one["worker"]) for one in made.attempts] == [(1, "http://w:1"), (2, "unknown")]
    assert {one["incident_id"] for one in made.attempts} == {row["id"]}
    assert json.loads(made.attempts[0]["findings"])[0]["detector"] == "loop"
    assert row["case_id"] == made.cases[0]["id"]


def test_a_suspicion_alone_makes_no_case() -> None:
    made = rows(Waiting(5, incident(judgement=SUSPECT), KEPT), Waiting(6, incident()))
    assert made.cases == []
    assert [row["case_id"] for row in made.incidents] == [None, None]
    assert not is_corrupt(incident(judgement=SUSPECT))


def test_a_clients_names_are_cut_and_made_valid() -> None:
    (row,) = rows(Waiting(5, incident(rid="ask Jane", model="\ud800" * 500))).incidents
    assert row["rid"] == kept_rid("ask Jane", b"salt")
    assert len(plain("r1" * 500, RID_CHARS)) == RID_CHARS
    assert row["model"] == "?" * NAME_CHARS
    assert plain("ä\udfff", 9) == "ä?"


def test_what_is_not_a_number_is_null() -> None:
    made = rows(Waiting(5, incident()))
    assert made.attempts[1]["accept_length"] is None
    assert made.attempts[1]["tokens"] is None


def test_ids_sort_by_time() -> None:
    assert new_id(1_764_000_000_000) < new_id(1_764_000_000_001)
    made = [new_id(1) for _ in range(100)]
    assert made == sorted(set(made))
    assert {len(one) for one in made} == {24}


def test_a_case_names_its_request_as_its_row_does() -> None:
    made = rows(Waiting(5, incident("ask Jane"), KEPT))
    bundle = json.loads(made.cases[0]["bundle"])
    assert bundle["rid"] == made.cases[0]["rid"] == made.incidents[0]["rid"]
    assert b"Jane" not in made.cases[0]["bundle"]
