"""What a client calls its request is kept only where it looks like an id."""

import msgspec
import pytest

from service.core.events import Channel, Finding, Judgement, Kind, Level
from service.edges.rid import HIDDEN, ODD, anonymous, kept_model, kept_rid, shown_rid
from tests.service.edges.kept import incident

SALT = b"salt"


@pytest.mark.parametrize(
    "rid",
    ["r1", "req-8f3a", "of-the-client", "0b54c2e6-6b1e-4a4e-9f3f-0a8f7f0f3b0d", "chatcmpl-9x.A:2", "a1" * 32],
)
def test_what_looks_like_an_id_is_kept_as_it_is(rid: str) -> None:
    assert (kept_rid(rid, SALT), shown_rid(rid)) == (rid, rid)


@pytest.mark.parametrize(
    "rid",
    [
        "Jane Doe 1",
        "jane1@example.com",
        "+49 170 1234567",
        "4111111111111111",
        "555-123-4567",
        "a1" * 33,
        "wie1\u00fc",
        "r1\n",
        "\ud800x1",
    ],
)
def test_anything_else_is_kept_as_a_hash_and_shown_to_nobody(rid: str) -> None:
    kept = kept_rid(rid, SALT)
    assert rid not in kept
    assert len(kept) == 34
    assert kept_rid(kept, SALT) == kept
    assert shown_rid(rid) == HIDDEN


def test_the_hash_is_the_same_for_the_same_id_and_salt_alone() -> None:
    assert kept_rid("Jane Doe", SALT) == kept_rid("Jane Doe", SALT)
    assert kept_rid("Jane Doe", SALT) != kept_rid("Jane Doe", b"other")
    assert kept_rid("Jane Doe", SALT) != kept_rid("John Doe", SALT)
    assert kept_rid("Jane Doe", b"k" * 500)
    assert not kept_rid("", SALT)


def test_no_id_of_an_incident_is_left_out() -> None:
    whose = Finding("crosstalk", Channel.PROVENANCE, Kind.CROSSTALK, 9.0, 90, 40, "John Doe")
    judged = Judgement(Level.CORRUPT, Kind.CROSSTALK, "crosstalk", 9.0, 90, 40, "John Doe")
    made = incident("Jane Doe", judged)
    bad = msgspec.structs.replace(made.attempts[0], findings=(whose, *made.attempts[0].findings))
    kept = anonymous(msgspec.structs.replace(made, attempts=(bad, made.attempts[1])), SALT)
    assert "Doe" not in repr(kept)
    assert kept.judgement.unit == kept.attempts[0].findings[0].unit == kept_rid("John Doe", SALT)


def test_what_names_nobody_stays() -> None:
    made = incident("r1")
    assert anonymous(made, SALT) == made


@pytest.mark.parametrize("model", ["", "glm-5", "Qwen/Qwen3-235B-A22B@main", "base:lora-1", "gpt-4.1"])
def test_a_models_name_is_kept(model: str) -> None:
    assert kept_model(model) == model


@pytest.mark.parametrize("model", ["Jane Doe", "m\n", "-x", "\u00e4", "m" * 129, 'a"b'])
def test_what_is_no_models_name_is_not(model: str) -> None:
    assert kept_model(model) == ODD
