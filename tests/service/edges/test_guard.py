"""A request under guard, over real sockets: bytes, retries, loud ends, and clients that leave at any time."""

import asyncio
import gzip
from functools import partial

import msgspec
import pytest

from service.core.events import Kind, Outcome, Policy
from service.edges.guard import Guard
from service.edges.outlet import Sending
from service.edges.scene import Engine
from tests.fakes import BrokenEndError, Script, Stop
from tests.guarding import CHAT, ROUTED, Port, body, chat, event, guarded, head, pieces
from tests.waiting import steady, until

WAYS = pytest.mark.parametrize("sending", [*Sending])
HOLDING = pytest.mark.parametrize("policy", [Policy.PROTECT, Policy.STRICT])
GOOD = chat("all ", "is ", "well")
BAD = chat("BAD ", "words")


def on(worker: str, *events: bytes) -> Script:
    return [head(ROUTED + worker.encode()), *pieces(*events)]


def asks_for_growth(sent: bytes) -> bool:
    options = msgspec.json.decode(sent).get("stream_options") or {}
    return bool(options.get("continuous_usage_stats"))


# --- bytes ---


@WAYS
@pytest.mark.parametrize("policy", [*Policy])
async def test_a_clean_answer_is_what_the_router_would_have_sent(policy: Policy, sending: Sending) -> None:
    """We ask for growth on top; the client did not, and does not see it."""
    async with guarded([head(), *pieces(*GOOD)], policy=policy, sending=sending) as port:
        status, headers, received = await port.ask()
        assert (status, headers[b"content-type"]) == (200, b"text/event-stream")
        assert received == b"".join(chat("all ", "is ", "well", usage=False))
        assert asks_for_growth(port.upstream.bodies()[0])
        assert b"x-specguard-attempts" not in headers
        assert port.kept == []


@pytest.mark.parametrize("policy", [*Policy])
async def test_what_the_client_asked_for_itself_stays(policy: Policy) -> None:
    asked = body(stream_options={"include_usage": True, "continuous_usage_stats": True})
    async with guarded([head(), *pieces(*GOOD)], policy=policy) as port:
        assert (await port.ask(asked))[2] == b"".join(GOOD)


@pytest.mark.parametrize("cut", [1, 3, 50])
@pytest.mark.parametrize("policy", [Policy.OBSERVE, Policy.PROTECT])
async def test_the_cuts_of_the_wire_do_not_show(policy: Policy, cut: int) -> None:
    wire = b"".join(GOOD)
    script = [head(), *pieces(*[wire[start : start + cut] for start in range(0, len(wire), cut)])]
    async with guarded(script, policy=policy) as port:
        assert (await port.ask())[2] == b"".join(chat("all ", "is ", "well", usage=False))


@pytest.mark.parametrize("policy", [*Policy])
async def test_a_whole_response_keeps_its_bytes_and_its_length(policy: Policy) -> None:
    choice = {"index": 0, "message": {"role": "assistant", "content": "fine"}, "finish_reason": "stop"}
    said = msgspec.json.encode({"id": "r", "choices": [choice], "usage": {"completion_tokens": 1}})
    wire = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (
        len(said),
        said,
    )
    async with guarded([wire], policy=policy) as port:
        _, headers, received = await port.ask(body(stream=False))
        assert received == said
        assert headers[b"content-length"] == b"%d" % len(said)


async def test_the_routers_own_headers_reach_the_client() -> None:
    script: Script = [head(ROUTED + b"http://w:1", b"date: today", b"server: engine"), *pieces(*GOOD)]
    async with guarded(script) as port:
        _, headers, _ = await port.ask()
        assert headers[b"x-smg-routed-worker-id"] == b"http://w:1"
        assert (headers[b"date"], headers[b"server"]) == (b"today", b"engine")


@pytest.mark.parametrize("policy", [*Policy])
@pytest.mark.parametrize("status", [b"400 Bad Request", b"401 Unauthorized", b"429 Too Many"])
async def test_a_refusal_of_the_engine_is_passed_on(policy: Policy, status: bytes) -> None:
    script = [head(kind=b"application/json", status=status), *pieces(b'{"error": 1}')]
    async with guarded(script, policy=policy) as port:
        got, _, received = await port.ask()
        assert (got, received) == (int(status[:3]), b'{"error": 1}')
        assert len(port.upstream.requests) == 1


@pytest.mark.parametrize(
    ("policy", "status"), [(Policy.OBSERVE, 200), (Policy.PROTECT, 200), (Policy.STRICT, 502)]
)
async def test_a_compressed_answer_that_nobody_asked_for_goes_through_unless_strict(
    policy: Policy, status: int
) -> None:
    wire = gzip.compress(b"".join(GOOD))
    async with guarded([head(b"content-encoding: gzip"), *pieces(wire)], policy=policy) as port:
        got, headers, received = await port.ask()
        assert got == status
        if status == 200:
            assert (headers[b"content-encoding"], received) == (b"gzip", wire)
        assert port.desk.counts["uninspected", "encoding"] >= 1
        assert not any(key[0] == "verdicts" for key in port.desk.counts)


# --- taking back and generating again ---


@HOLDING
async def test_a_bad_answer_is_never_seen_and_generated_again_elsewhere(policy: Policy) -> None:
    async with guarded(on("http://w:1", *BAD), on("http://w:2", *GOOD), policy=policy, pins=(1,)) as port:
        status, headers, received = await port.ask()
        assert (status, headers[b"x-specguard-attempts"]) == (200, b"2")
        assert received == b"".join(chat("all ", "is ", "well", usage=False))
        first, second = port.upstream.heads()
        assert b"x-smg-target-worker" not in first
        assert second[b"x-smg-target-worker"] == b"1"
        assert port.pins.avoided == [frozenset({"http://w:1"})]
        assert port.pins.answers == [(None, "http://w:1"), (1, "http://w:2")]
        (incident,) = port.kept
        assert (incident.outcome, incident.judgement.kind) == (Outcome.RECOVERED, Kind.GARBLED)
        assert ("retry_same_worker",) not in port.desk.counts


async def test_a_retry_that_lands_where_it_must_not_is_counted() -> None:
    async with guarded(on("http://w:1", *BAD), on("http://w:1", *GOOD), policy=Policy.PROTECT) as port:
        assert (await port.ask())[0] == 200
        assert port.desk.counts["retry_same_worker",] == 1


async def test_a_clients_own_id_is_kept_once_and_every_retry_has_a_new_one() -> None:
    async with guarded(
        on("a", *BAD), on("b", *chat("BAD other")), on("c", *GOOD), policy=Policy.STRICT
    ) as port:
        await port.ask(body(rid="client-rid"))
        first, second, third = (msgspec.json.decode(sent)["rid"] for sent in port.upstream.bodies())
        assert first == "client-rid"
        assert len(second) == len(third) == 32
        assert second != third


async def test_an_absent_id_is_random_and_of_fixed_width() -> None:
    async with guarded(on("a", *GOOD)) as port:
        await port.ask()
        await port.ask()
        one, other = (msgspec.json.decode(sent)["rid"] for sent in port.upstream.bodies())
        assert len(one) == len(other) == 32
        assert one != other


async def test_observe_lets_the_bad_answer_through_and_keeps_it() -> None:
    async with guarded(on("w", *BAD)) as port:
        status, _, received = await port.ask()
        assert (status, received) == (200, b"".join(chat("BAD ", "words", usage=False)))
        assert len(port.upstream.requests) == 1
        (incident,) = port.kept
        assert incident.outcome is Outcome.MARKED


async def test_out_of_means_protect_delivers_and_strict_fails() -> None:
    async with guarded(on("w", *BAD), policy=Policy.PROTECT) as port:
        assert (await port.ask())[0] == 200
        assert port.kept[-1].outcome is Outcome.MARKED
    async with guarded(on("w", *BAD), policy=Policy.STRICT) as port:
        status, headers, received = await port.ask()
        assert (status, headers[b"x-specguard-attempts"]) == (502, b"2")  # the same finding twice is enough
        assert b"corrupted" in received
        assert b"BAD" not in received
        assert port.kept[-1].outcome is Outcome.FAILED


async def test_a_bad_whole_response_is_taken_back_too() -> None:
    def whole(text: str) -> Script:
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        said = msgspec.json.encode({"choices": [choice], "usage": {"completion_tokens": 3}})
        return [head(kind=b"application/json"), *pieces(said)]

    async with guarded(whole("BAD"), whole("good"), policy=Policy.PROTECT) as port:
        status, headers, received = await port.ask(body(stream=False))
        assert (status, headers[b"x-specguard-attempts"]) == (200, b"2")
        assert b"good" in received


async def test_what_comes_too_late_ends_in_the_stream_and_never_cleanly() -> None:
    long = [event(f"w{place} ", place + 1) for place in range(200)]
    bad = [event("BAD", 201), *[event("more", 202 + place) for place in range(30)]]
    async with guarded(on("w", *long, *bad), policy=Policy.PROTECT) as port:
        client = await port.client()
        await client.post(CHAT, body())
        status, headers = await client.head()
        assert status == 200
        with pytest.raises(BrokenEndError) as broken:
            await client.body(headers)
        assert b"BAD" not in broken.value.received
        assert b'"error"' in broken.value.received.rpartition(b"data: ")[2]
        assert b"[DONE]" not in broken.value.received
        client.leave()


@HOLDING
@pytest.mark.parametrize("status", [b"500 Error", b"503 Busy"])
async def test_a_failing_router_is_asked_again(policy: Policy, status: bytes) -> None:
    failing = [head(kind=b"application/json", status=status), *pieces(b"{}")]
    async with guarded(failing, on("w", *GOOD), policy=policy) as port:
        assert (await port.ask())[0] == 200
        assert len(port.upstream.requests) == 2


# --- broken upstreams ---


@pytest.mark.parametrize("stop", [Stop.CLOSE, Stop.RESET])
async def test_a_stream_that_breaks_off_in_observe_breaks_off_for_the_client(stop: Stop) -> None:
    script = [head(), *pieces(*GOOD[:2], end=False), 0.02, stop]
    async with guarded(script) as port:
        client = await port.client()
        await client.post(CHAT, body())
        _, headers = await client.head()
        with pytest.raises(BrokenEndError) as broken:
            await client.body(headers)
        assert broken.value.received == b"".join(chat("all ", "is ", usage=False)[:2])
        client.leave()


async def test_a_stream_that_breaks_off_unseen_is_generated_again() -> None:
    broken: Script = [head(), *pieces(*GOOD[:2], end=False), 0.02, Stop.RESET]
    async with guarded(broken, on("w", *GOOD), policy=Policy.PROTECT) as port:
        status, _, received = await port.ask()
        assert status == 200
        assert received.endswith(b"data: [DONE]\n\n")


async def test_no_answer_at_all_is_a_real_error_in_the_dialects_shape() -> None:
    async with guarded([Stop.CLOSE], policy=Policy.PROTECT) as port:
        status, headers, received = await port.ask()
        assert (status, headers[b"retry-after"]) == (503, b"1")
        assert msgspec.json.decode(received)["error"]["message"]


async def test_a_head_that_never_comes_times_out() -> None:
    async with guarded([Stop.FOREVER], first_byte_s=0.1) as port:
        assert (await port.ask())[0] == 504
        await asyncio.wait_for(port.upstream.gone.wait(), 50)


# --- clients that leave, clients that are slow ---


async def _left(port: Port) -> None:
    """Everything was given back and the upstream closed."""
    await port.settled()
    assert port.desk.held_bytes == 0
    await until(lambda: len(port.proxy.means.tasks) == 1)


STAGES: dict[str, Script] = {
    "before the head": [Stop.FOREVER],
    "before the first byte": [head(), Stop.FOREVER],
    "in mid stream": [head(), *pieces(*chat(*"abcdefgh")[:8], end=False), Stop.FOREVER],
}


@pytest.mark.parametrize("policy", [Policy.OBSERVE, Policy.STRICT])
@pytest.mark.parametrize("stage", STAGES)
async def test_a_client_that_leaves_gives_everything_back(policy: Policy, stage: str) -> None:
    script = STAGES[stage]
    async with guarded(script, policy=policy) as port:
        client = await port.client()
        await client.post(CHAT, body())
        await until(lambda: port.upstream.requests)
        said = sum(len(piece) for piece in script if isinstance(piece, bytes))
        await until(lambda: port.upstream.written == said)
        client.leave()
        await _left(port)
        assert sum(by for key, by in port.desk.counts.items() if key[0] == "aborts") == 1


async def test_a_client_that_leaves_after_the_first_item_closes_the_upstream_at_once() -> None:
    async with guarded(STAGES["in mid stream"]) as port:
        client = await port.client()
        await client.post(CHAT, body())
        await client.head()
        client.leave()
        await asyncio.wait_for(port.upstream.gone.wait(), 50)
        await _left(port)


async def test_a_client_that_leaves_during_a_retry_gives_everything_back() -> None:
    async with guarded(on("a", *BAD), [Stop.FOREVER], policy=Policy.STRICT) as port:
        client = await port.client()
        await client.post(CHAT, body())
        await until(lambda: len(port.upstream.requests) == 2)
        client.leave()
        await _left(port)


@WAYS
async def test_a_slow_client_pauses_the_upstream_and_loses_nothing(sending: Sending) -> None:
    many = [event("x" * 2000, place + 1) for place in range(4000)]
    wire = b"".join(b"%x\r\n%b\r\n" % (len(one), one) for one in many) + b"0\r\n\r\n"
    script: Script = [head(), *[wire[start : start + 65_536] for start in range(0, len(wire), 65_536)]]
    asked = body(stream_options={"include_usage": True, "continuous_usage_stats": True})
    async with guarded(script, sending=sending) as port:
        client = await port.client(receive_buffer=8192)
        await client.post(CHAT, asked)
        _, headers = await client.head()
        assert await steady(lambda: port.upstream.written) < len(wire)
        assert await asyncio.wait_for(client.body(headers), 50) == b"".join(many)
        client.leave()


async def test_a_client_that_leaves_while_it_is_blocked_is_noticed() -> None:
    flood: Script = [head(), *pieces(*[event("x" * 20_000, place + 1) for place in range(800)])]
    async with guarded(flood) as port:
        client = await port.client(receive_buffer=8192)
        await client.post(CHAT, body())
        await until(lambda: port.upstream.requests)
        await steady(lambda: port.upstream.written)
        client.leave()
        await _left(port)


# --- our own defects ---


async def test_a_defect_of_ours_costs_one_request_and_is_loud() -> None:
    async with guarded([head(), Stop.FOREVER], on("w", *GOOD), policy=Policy.PROTECT) as port:
        client = await port.client()
        await client.post(CHAT, body())
        await until(lambda: port.upstream.written)
        (guard,) = port.proxy.means.live
        guard.crash(RuntimeError("a defect"))
        assert (await client.response())[0] == 500
        client.leave()
        assert (await port.ask())[0] == 200


def begun(port: Port, requests: int) -> bool:
    """Whether the router has said of so many requests in flight where they are."""
    guards = [relay for relay in port.proxy.means.live if isinstance(relay, Guard)]
    return sum(bool(guard.monitor.generation.worker.url) for guard in guards) == requests


async def test_a_case_tells_the_engine_and_who_was_on_the_same_worker() -> None:
    slow = on("http://w:1", *GOOD[:2])[:-1]
    elsewhere = on("http://w:2", *GOOD[:2])[:-1]
    bad, again = on("http://w:1", *BAD), on("http://w:2", *GOOD)
    scripts = ([*slow, Stop.FOREVER], [*elsewhere, Stop.FOREVER], bad, again)
    async with guarded(*scripts, policy=Policy.PROTECT) as port:
        port.proxy.means.engines = {"http://w:1": Engine("sglang", "0.5.23")}
        clients = [await port.client(), await port.client()]
        for place, client in enumerate(clients, 1):
            await client.post(CHAT, body(rid=f"r{place}"))
            await until(partial(begun, port, place))
        assert (await port.ask())[0] == 200
        (case,) = port.cases
        assert case.scene.engine.version == "0.5.23"
        assert case.scene.beside == ("r1",)
        assert 0 < case.scene.head_s <= case.scene.first_byte_s < 60
        for client in clients:
            client.leave()


async def test_a_router_that_names_no_worker_leaves_neighbours_unknown() -> None:
    async with guarded([head(), *pieces(*BAD)], policy=Policy.OBSERVE) as port:
        await port.ask()
        (case,) = port.cases
        assert case.scene.beside is None
        assert case.scene.engine == Engine()
