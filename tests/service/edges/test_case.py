"""A case says what happened; what it holds of text is what the capture mode allows, and not one word more."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.config.settings import Capture
from service.core.events import RequestFacts
from service.edges.case import BLOCK_BYTES, Kept, blocks, case_id, case_of, messages, text_free
from service.edges.rid import kept_rid
from service.edges.scene import Scene, engine_of
from tests.service.edges.kept import facts, incident

CANARY = "Jane Doe 12345678"
SALT = b"salt"
AT_MS = 1_764_000_000_123
CAPTURES: tuple[Capture, ...] = ("off", "hashes", "full")
CHAT: dict[str, Any] = {
    "model": "glm-5",
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": CANARY, "content": [{"type": "text", "text": f"I am {CANARY}, password=hunter2hunter2"}]},
    ],
    "temperature": 0,
    "user": CANARY,
    "stop": [CANARY],
    "top_p": CANARY,
    "max_tokens": 200,
}


def bundle(
    capture: Capture, body: dict[str, Any] | bytes = CHAT, answers: tuple[str, ...] = ()
) -> dict[str, Any]:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    kept = Kept(facts(prompt=CANARY), raw, answers)
    found: dict[str, Any] = msgspec.json.decode(case_of(incident(), kept, AT_MS, capture, SALT))
    return found


@pytest.mark.parametrize("capture", ["off", "hashes"])
def test_without_full_capture_no_text_is_kept(capture: Capture) -> None:
    text = json.dumps(bundle(capture, answers=(f"hello {CANARY}",)))
    for word in ("Jane", "12345678", "Be brief", "hunter2", "hello"):
        assert word not in text


def test_off_keeps_facts_and_no_hash() -> None:
    request = bundle("off")["request"]
    assert "messages" not in request
    assert "sampling" not in request
    assert request["max_tokens"] == 200


def test_hashes_keep_roles_lengths_and_numbers() -> None:
    request = bundle("hashes")["request"]
    assert [message["role"] for message in request["messages"]] == ["system", "other"]
    assert request["messages"][0]["chars"] == len("Be brief.\n")
    assert request["sampling"] == {"max_tokens": 200, "temperature": 0}


def test_full_keeps_the_request_without_its_secrets() -> None:
    case = bundle("full", answers=("the the the token=abcdefgh",))
    assert case["request"]["body"]["messages"][0] == {"role": "system", "content": "Be brief."}
    assert CANARY in json.dumps(case)
    assert "hunter2" not in json.dumps(case)
    assert case["attempts"][0]["answer"] == "the the the token=abcdefgh"
    assert "answer" not in case["attempts"][1]


@pytest.mark.parametrize("capture", ["off", "hashes", "full"])
@pytest.mark.parametrize(
    "body", [b"", b"not json", b"[1]", b'{"messages": 3}', b'{"messages": [3]}', b"\xff"]
)
def test_a_body_nobody_can_read_still_makes_a_case(capture: Capture, body: bytes) -> None:
    assert bundle(capture, body)["judgement"]["kind"] == "repetition"


def test_a_full_case_without_its_text_is_what_hashes_would_have_kept() -> None:
    clean = {**CHAT, "messages": [{"role": "user", "content": "a b c " * 200}], "user": "u1", "stop": []}
    answers = ("the cat sat " * 40,)
    kept = Kept(facts(), json.dumps(clean).encode(), answers)
    full = case_of(incident(), kept, AT_MS, "full", SALT)
    hashes = json.loads(case_of(incident(), kept, AT_MS, "hashes", SALT))
    assert json.loads(text_free(full, SALT)) == hashes | {"text_free_of": case_id(full)}


def test_no_word_of_a_full_case_is_left_in_it_without_text() -> None:
    kept = Kept(facts(prompt=CANARY), json.dumps(CHAT).encode(), (f"hello {CANARY}",))
    full = case_of(incident(), kept, AT_MS, "full", SALT)
    assert b"Jane" in full
    left = text_free(full, SALT).decode()
    for word in ("Jane", "12345678", "Be brief", "hunter2", "hello"):
        assert word not in left


@pytest.mark.parametrize("capture", ["off", "hashes"])
def test_a_case_that_holds_no_text_stays_as_it_is(capture: Capture) -> None:
    made = case_of(incident(), Kept(facts(), json.dumps(CHAT).encode()), AT_MS, capture, SALT)
    assert text_free(made, SALT) == made


def test_a_full_case_of_an_unreadable_body_has_nothing_to_take_out() -> None:
    full = case_of(incident(), Kept(facts(), b"\xff"), AT_MS, "full", SALT)
    assert json.loads(text_free(full, SALT))["capture"] == "hashes"


def test_what_is_not_known_says_so() -> None:
    case = bundle("hashes")
    assert set(case["engine"].values()) == {"unknown"}
    assert case["timing"]["head_s"] == case["co_batched"] == case["router"]["policy"] == "unknown"
    assert case["attempts"][1]["worker"] == "unknown"
    assert case["attempts"][1]["accept_length"] is None
    assert case["attempts"][1]["tokens"] is None
    assert case["attempts"][1]["accepted"] == []


def test_the_rank_that_a_probe_named_is_the_engines_and_the_attempts() -> None:
    told = incident()
    worst, *others = told.attempts
    told = msgspec.structs.replace(told, attempts=(msgspec.structs.replace(worst, dp_rank=3), *others))
    case = json.loads(case_of(told, Kept(facts()), AT_MS, "off", SALT))
    assert case["engine"]["dp_rank"] == case["attempts"][0]["dp_rank"] == 3
    assert case["attempts"][1]["dp_rank"] is None


def test_the_routers_policy_is_kept_where_its_metrics_told_it() -> None:
    kept = Kept(facts(), scene=Scene(policy="round_robin"))
    case = json.loads(case_of(incident(), kept, AT_MS, "off", SALT))
    assert case["router"] == {"policy": "round_robin"}


def test_a_case_is_named_by_its_content() -> None:
    kept = Kept(facts(), b"{}")
    one = case_of(incident(), kept, AT_MS, "hashes", SALT)
    assert case_id(one) == case_id(case_of(incident(), kept, AT_MS, "hashes", SALT))
    assert case_id(one) != case_id(case_of(incident(), kept, AT_MS + 1, "hashes", SALT))


def test_the_stamp_is_utc() -> None:
    assert bundle("off")["at"] == "2025-11-24T16:00:00.123+00:00"


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ({"text": "one"}, [("user", "one\n")]),
        ({"text": ["one", "two"]}, [("user", "one\ntwo\n")]),
        ({"input_ids": [1, 2]}, [("user", "1\n2\n")]),
        ({"messages": [{"role": "tool", "content": None}]}, [("tool", "None\n")]),
        ({"messages": [], "tools": [{"name": "f"}]}, [("tools", "f\n")]),
    ],
)  # fmt: skip
def test_every_dialects_text_is_found(body: dict[str, Any], found: list[tuple[str, str]]) -> None:
    assert list(messages(body)) == found


@given(st.text(max_size=2000), st.text(max_size=300), st.text(max_size=300))
def test_equal_prefixes_have_equal_hashes_and_others_do_not(common: str, one: str, other: str) -> None:
    whole = len(common.encode("utf-8", "surrogatepass")) // BLOCK_BYTES
    first, second = blocks(common + one, SALT), blocks(common + other, SALT)
    assert first[:whole] == second[:whole]
    assert (first == second) == (one == other)


def test_another_salt_gives_other_hashes() -> None:
    assert blocks("text", b"a") != blocks("text", b"b")


def test_nothing_shows_the_text() -> None:
    kept = Kept(RequestFacts("openai_chat", prompt=CANARY), CANARY.encode(), (CANARY,))
    assert CANARY not in repr(kept)
    assert kept.size_bytes == 3 * len(CANARY)
    assert kept.without_text().size_bytes == 0


def test_the_scene_is_kept_in_every_mode_and_names_nobody() -> None:
    scene = Scene(engine_of({"version": "0.5.23", "tp_size": 8}), ("r2", "ask Jane"), 0.25, 0.5)
    for capture in CAPTURES:
        kept = Kept(facts(), b"{}", scene=scene)
        kept = kept.without_text() if capture == "off" else kept
        case = json.loads(case_of(incident(), kept, AT_MS, capture, SALT))
        assert case["engine"]["arguments"] == {"tp_size": 8}
        assert case["co_batched"] == ["r2", kept_rid("ask Jane", SALT)]
        assert case["timing"] == {
            "begun_at": "2025-11-24T15:59:58.873+00:00",
            "head_s": 0.25,
            "first_byte_s": 0.5,
        }
