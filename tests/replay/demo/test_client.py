"""How a request ended, as a careful client sees it; the server says exactly what a test tells it."""

import msgspec
import pytest

from replay.demo.client import Delivery, End, http_client, send
from replay.demo.sessions import Ask, Shape
from service.core.events import Policy
from tests.fakes import Script, ScriptedUpstream, Stop, answer, stream
from tests.replay.demo.made import TASK

DONE = b"data: [DONE]\n\n"
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
PATHS: dict[Shape, str] = {
    "chat": "/v1/chat/completions",
    "whole": "/v1/chat/completions",
    "generate": "/generate",
}


def event(body: object) -> bytes:
    return b"data: " + msgspec.json.encode(body) + b"\n\n"


def chat(text: str, finish: str | None = None, rid: str = "a") -> bytes:
    return event({"id": rid, "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": finish}]})


def generate(text: str, finish: str | None = None, rid: str = "a") -> bytes:
    reason = {"type": finish} if finish else None
    return event({"text": text, "meta_info": {"id": rid, "finish_reason": reason}})


def whole(text: str, finish: str = "stop", rid: str = "a") -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}
    return msgspec.json.encode({"id": rid, "choices": [choice]})


async def got(script: Script, shape: Shape = "chat", patience_s: float = 10.0) -> Delivery:
    async with ScriptedUpstream(script) as server, http_client() as http:
        asked = Ask("a", 0, shape, Policy.STRICT, TASK, PATHS[shape], b"{}", 0.0)
        delivery = await send(http, server.url, asked, patience_s=patience_s)
        assert server.heads()[0][b"x-specguard-policy"] == b"strict"
        return delivery


async def test_a_finish_reason_and_a_complete_body_are_a_clean_end() -> None:
    delivery = await got([stream(chat("one"), chat(" two"), chat("", "stop"), DONE)])
    assert (delivery.end, delivery.text, delivery.finish) == (End.CLEAN, "one two", "stop")


async def test_generate_repeats_its_text_and_the_last_word_counts() -> None:
    delivery = await got([stream(generate("one"), generate("one two", "stop"), DONE)], "generate")
    assert (delivery.end, delivery.text, delivery.finish) == (End.CLEAN, "one two", "stop")


async def test_an_answer_in_one_piece_is_read_whole() -> None:
    delivery = await got([answer(whole("one two"), kind=b"application/json")], "whole")
    assert (delivery.end, delivery.text) == (End.CLEAN, "one two")


async def test_the_attempt_that_answered_is_named_by_its_id() -> None:
    assert (await got([stream(chat("x", "stop", rid="b"), DONE)])).answered_by == "b"
    assert (await got([stream(generate("x", "stop", rid="b"))], "generate")).answered_by == "b"
    assert (await got([answer(whole("x", rid="b"))], "whole")).answered_by == "b"


async def test_done_without_a_finish_reason_is_a_broken_end() -> None:
    assert (await got([stream(chat("one"), DONE)])).end is End.BROKEN


async def test_an_abort_is_no_clean_end() -> None:
    assert (await got([stream(chat("one"), chat("", "abort"), DONE)])).end is End.BROKEN


async def test_an_error_in_the_stream_is_loud_even_with_a_done_behind_it() -> None:
    error = event({"error": {"message": "taken back", "type": "corrupted"}})
    delivery = await got([stream(chat("one"), error, DONE)])
    assert (delivery.end, delivery.error, delivery.text) == (End.ERROR, "corrupted", "one")


async def test_an_error_is_loud_even_after_a_finish_reason() -> None:
    error = event({"error": {"message": "stream error", "type": "stream_error"}})
    assert (await got([stream(chat("one", "stop"), error, DONE)])).end is End.ERROR


async def test_an_error_counts_though_the_body_is_cut_right_behind_it() -> None:
    pieces = (chat("one"), event({"error": {"type": "corrupted"}}))
    cut = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
    delivery = await got([HEAD + cut, Stop.CLOSE])
    assert (delivery.end, delivery.error, delivery.text) == (End.ERROR, "corrupted", "one")


async def test_an_error_object_in_a_success_is_loud() -> None:
    body = msgspec.json.encode({"object": "error", "message": "no", "type": "BadRequestError", "code": 400})
    delivery = await got([answer(body)], "whole")
    assert (delivery.end, delivery.error) == (End.ERROR, "BadRequestError")


async def test_a_status_is_loud_and_keeps_its_reason() -> None:
    body = b'{"error":{"message":"no clean generation","type":"corrupted_silent","code":502}}'
    delivery = await got([answer(body, head=b"HTTP/1.1 502 Bad Gateway\r\n")])
    assert (delivery.end, delivery.status, delivery.error) == (End.STATUS, 502, "corrupted_silent")


async def test_a_body_that_stops_short_is_a_broken_end() -> None:
    piece = chat("one")
    delivery = await got([HEAD + b"%x\r\n%b\r\n" % (len(piece), piece), 0.05, Stop.CLOSE])
    assert (delivery.end, delivery.text) == (End.BROKEN, "one")


async def test_a_reset_is_a_broken_end() -> None:
    assert (await got([HEAD, 0.05, Stop.RESET])).end is End.BROKEN


async def test_a_body_that_stops_short_is_broken_even_after_a_finish_reason() -> None:
    piece = chat("one", "stop")
    delivery = await got([HEAD + b"%x\r\n%b\r\n" % (len(piece), piece), 0.05, Stop.CLOSE])
    assert delivery.end is End.BROKEN


async def test_no_server_is_a_broken_end() -> None:
    async with ScriptedUpstream([b""]) as server:
        url = server.url
        await server.stop()
        async with http_client() as http:
            asked = Ask("a", 0, "chat", Policy.PROTECT, TASK, "/v1/chat/completions", b"{}", 0.0)
            delivery = await send(http, url, asked)
    assert (delivery.end, delivery.status) == (End.BROKEN, 0)


async def test_a_client_gives_up_on_silence() -> None:
    assert (await got([HEAD, Stop.FOREVER], patience_s=0.1)).end is End.GAVE_UP


@pytest.mark.parametrize("junk", [b"data: {\n\n", b"data: \xff\xfe\n\n", b"data: 7\n\n"])
async def test_what_cannot_be_read_is_an_error_and_no_clean_end(junk: bytes) -> None:
    assert (await got([stream(chat("one"), junk, chat("", "stop"), DONE)])).end is End.ERROR


async def test_comments_are_no_events() -> None:
    assert (await got([stream(b": ping\n\n", chat("one", "stop"), b": ping\n\n")])).end is End.CLEAN
