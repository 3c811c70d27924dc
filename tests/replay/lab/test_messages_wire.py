"""`/v1/messages` as SGLang 0.5.23 writes it: started, filled, stopped; silent while there is no text."""

import json

from replay.lab.messages_wire import MessagesWire
from replay.lab.scheduler import RUNNING_ABORT, Cached
from replay.lab.tokenizer import PAD
from tests.replay.lab.wirekit import ANSWER, FAILED, WORDS, events, generation, spoken


def test_a_message_is_started_filled_and_stopped() -> None:
    made = generation()
    made.cached = Cached(device=1)
    got = spoken(made, MessagesWire(made), *ANSWER)
    names = [name for name, _ in got]
    assert names[:2] == ["message_start", "content_block_start"]
    assert set(names[2:-3]) == {"content_block_delta"}
    assert names[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    assert all(name == data["type"] for name, data in got)
    message = got[0][1]["message"]
    assert list(message) == ["id", "type", "role", "content", "model", "usage"]
    assert message["usage"] == {"input_tokens": 2, "cache_read_input_tokens": 1, "output_tokens": 0}
    assert "".join(d["delta"]["text"] for n, d in got if n == "content_block_delta") == made.text
    assert got[-2][1]["delta"] == {"stop_reason": "end_turn"}
    assert got[-2][1]["usage"] == {"output_tokens": 7}


def test_a_message_of_pads_is_silent_until_its_end() -> None:
    made, quiet = generation(max_new_tokens=8), generation(max_new_tokens=99)
    wire = MessagesWire(quiet)
    quiet.say([PAD] * 9)
    assert wire.chunks() == []
    got = spoken(made, MessagesWire(made), [PAD] * 4, [PAD] * 4)
    assert [name for name, _ in got] == ["message_start", "message_delta", "message_stop"]
    assert got[1][1]["delta"]["stop_reason"] == "max_tokens"


def test_a_failed_message_closes_its_block_and_does_not_name_the_cause() -> None:
    made = generation()
    wire = MessagesWire(made)
    made.say(WORDS[:2])
    first = wire.chunks()
    made.end(FAILED)
    got = events(b"".join([*first, *wire.chunks()]))
    assert [name for name, _ in got][-3:] == ["content_block_stop", "error", "message_stop"]
    assert got[-2][1]["error"] == {"type": "api_error", "message": "Internal server error"}
    status, raw = wire.whole()
    assert (status, json.loads(raw)["error"]["type"]) == (500, "api_error")


def test_a_whole_message_has_a_block_even_without_text() -> None:
    made = generation(stream=False, max_new_tokens=3)
    made.say([PAD] * 3)
    made.end(RUNNING_ABORT)
    told = json.loads(MessagesWire(made).whole()[1])
    assert told["content"] == [{"type": "text", "text": ""}]
    assert (told["stop_reason"], told["usage"]["output_tokens"]) == ("max_tokens", 3)
