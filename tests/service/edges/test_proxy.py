"""The data port's door: what comes in, what is refused and in which words."""

import asyncio
from itertools import pairwise

import msgspec
import pytest

from service.config.routes import Match, RouteSettings
from service.config.settings import Limits, Timeouts
from service.core.events import Policy
from service.edges.proxy import ALLOWED
from tests.fakes import BrokenEndError, Stop, answer
from tests.guarding import CHAT, body, chat, guarded, head, pieces
from tests.waiting import until

HELLO = [head(), *pieces(*chat("hello"))]


@pytest.mark.parametrize("path", sorted(path for path, methods in ALLOWED.items() if "POST" in methods))
async def test_allowed_posts_reach_the_router(path: bytes) -> None:
    async with guarded([answer(b"{}", kind=b"application/json")]) as port:
        status, _, received = await port.ask(b'{"a": 1}', path=path)
        assert (status, received) == (200, b"{}")
        assert port.upstream.requests[0].startswith(b"POST %b HTTP/1.1\r\n" % path)


@pytest.mark.parametrize("path", sorted(path for path, methods in ALLOWED.items() if "GET" in methods))
async def test_allowed_gets_reach_the_router_with_their_query(path: bytes) -> None:
    async with guarded([answer(b"fine", kind=b"text/plain")]) as port:
        client = await port.client()
        await client.get(path + b"?deep=1")
        assert (await client.response())[2] == b"fine"
        assert port.upstream.requests[0].startswith(b"GET %b?deep=1 HTTP/1.1\r\n" % path)
        client.leave()


@pytest.mark.parametrize(
    "path",
    [
        b"/workers",
        b"/flush_cache",
        b"/abort_request",
        b"/metrics",
        b"/",
        b"/v1/chat/completions/",
        b"/v1/../workers",
        b"/%76%31/chat/completions",
        b"//generate",
    ],
)
async def test_every_other_path_does_not_exist(path: bytes) -> None:
    async with guarded([answer(b"{}")]) as port:
        status, _, received = await port.ask(b"{}", path=path)
        assert status == 404
        assert msgspec.json.decode(received)["error"]["code"] == "path_not_allowed"
        assert port.upstream.requests == []


async def test_the_wrong_method_is_told_the_right_one() -> None:
    async with guarded([answer(b"{}")]) as port:
        client = await port.client()
        await client.get(CHAT)
        status, headers, _ = await client.response()
        assert (status, headers[b"allow"]) == (405, b"POST")
        client.leave()


async def test_a_body_over_the_cap_is_refused_before_it_is_read() -> None:
    async with guarded([answer(b"{}")], limits=Limits(body_bytes=1024)) as port:
        client = await port.client()
        await client.send(b"POST %b HTTP/1.1\r\nhost: t\r\ncontent-length: 999999\r\n\r\n" % CHAT)
        status, headers, _ = await client.response()
        assert (status, headers[b"connection"]) == (413, b"close")
        assert port.upstream.requests == []
        client.leave()


async def test_a_chunked_body_over_the_cap_is_refused_too() -> None:
    async with guarded([answer(b"{}")], limits=Limits(body_bytes=1024)) as port:
        client = await port.client()
        await client.send(b"POST %b HTTP/1.1\r\nhost: t\r\ntransfer-encoding: chunked\r\n\r\n" % CHAT)
        await client.send(b"800\r\n" + b"x" * 2048 + b"\r\n")
        assert (await client.response())[0] == 413
        client.leave()


async def test_a_request_head_over_the_limits_is_refused() -> None:
    async with guarded([answer(b"{}")]) as port:
        many = [b"x-%d: 1" % line for line in range(120)]
        assert (await port.ask(body(), *many))[0] == 431
        assert (await port.ask(body(), b"x-large: " + b"v" * 40_000))[0] == 431


async def test_the_request_line_counts_towards_the_head() -> None:
    async with guarded([answer(b"{}")], limits=Limits(header_bytes=2048)) as port:
        client = await port.client()
        await client.get(b"/health?q=" + b"x" * 1500)
        assert (await client.response())[0] == 200
        await client.get(b"/health?q=" + b"x" * 3000)
        status, headers, _ = await client.response()
        assert (status, headers[b"connection"]) == (431, b"close")
        client.leave()


@pytest.mark.parametrize(
    "lines",
    [
        b" HTTP/1.1\r\n",
        b" HTTP/1.1\r\nhost: a\r\nhost: a\r\n",
        b" HTTP/1.1\r\nhost: a, b\r\n",
        b" HTTP/1.1\r\nhost: a/b\r\n",
        b" HTTP/1.0\r\nhost: a\r\nhost: b\r\n",
    ],
    ids=["none", "two", "list", "path", "two_old"],
)
async def test_a_request_without_one_host_is_the_clients_mistake(lines: bytes) -> None:
    async with guarded([answer(b"{}")]) as port:
        client = await port.client()
        await client.send(b"GET /health" + lines + b"\r\n")
        status, headers, received = await client.response()
        assert (status, headers[b"connection"]) == (400, b"close")
        assert msgspec.json.decode(received)["error"] == {
            "message": "the client must send one valid Host header",
            "type": "invalid_request_error",
            "code": "bad_host",
        }
        assert port.upstream.requests == []
        client.leave()


async def test_a_transfer_coding_that_we_do_not_undo_is_not_taken_for_the_body() -> None:
    async with guarded([answer(b"{}")]) as port:
        client = await port.client()
        coded = b"transfer-encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
        await client.send(b"POST %b HTTP/1.1\r\nhost: t\r\n" % CHAT + coded)
        assert (await client.response())[0] == 501
        assert port.upstream.requests == []
        client.leave()


@pytest.mark.parametrize(
    "lines",
    [b" HTTP/1.1\r\nhost: [::1]:8400\r\n", b" HTTP/1.1\r\nhost:\r\n", b" HTTP/1.0\r\n"],
    ids=["address", "empty", "none_old"],
)
async def test_a_host_that_http_allows_is_taken(lines: bytes) -> None:
    async with guarded([answer(b"fine")]) as port:
        client = await port.client()
        await client.send(b"GET /health" + lines + b"\r\n")
        assert (await client.response())[0] == 200
        client.leave()


async def test_a_body_that_does_not_come_times_out() -> None:
    async with guarded([answer(b"{}")], timeouts=Timeouts(body_s=0.05)) as port:
        client = await port.client()
        await client.send(b"POST %b HTTP/1.1\r\nhost: t\r\ncontent-length: 10\r\n\r\nabc" % CHAT)
        status, _, received = await client.response()
        assert status == 408
        assert b"0.05 s" in received
        client.leave()


async def test_a_client_that_leaves_while_it_sends_costs_nothing() -> None:
    async with guarded([answer(b"{}")]) as port:
        client = await port.client()
        await client.send(b"POST %b HTTP/1.1\r\nhost: t\r\ncontent-length: 10\r\n\r\nabc" % CHAT)
        await asyncio.sleep(0.02)
        client.leave()
        await port.settled()
        assert port.upstream.requests == []


async def test_what_the_client_may_not_steer_is_taken_out_and_the_rest_passes() -> None:
    async with guarded([*HELLO]) as port:
        await port.ask(
            body(),
            b"authorization: Bearer secret",
            b"x-smg-target-worker: 1",
            b"accept-encoding: gzip",
            b"connection: keep-alive, x-hop",
            b"x-hop: 1",
            b"traceparent: 00-a-b-01",
        )
        (sent,) = port.upstream.heads()
        assert sent[b"authorization"] == b"Bearer secret"
        assert sent[b"traceparent"] == b"00-a-b-01"
        assert not {b"x-smg-target-worker", b"accept-encoding", b"x-hop", b"connection"} & sent.keys()


async def test_a_request_id_is_kept_or_made() -> None:
    async with guarded([*HELLO]) as port:
        await port.ask(body(), b"x-request-id: mine")
        await port.ask(body())
        mine, made = (sent[b"x-request-id"] for sent in port.upstream.heads())
        assert mine == b"mine"
        assert len(made) == 32


async def test_a_request_that_cannot_be_read_goes_through_and_is_counted() -> None:
    said = b'HTTP/1.1 400 Bad\r\ncontent-type: application/json\r\ncontent-length: 7\r\n\r\n{"a":1}'
    async with guarded([said]) as port:
        status, _, received = await port.ask(b"{broken")
        assert (status, received) == (400, b'{"a":1}')
        assert port.upstream.bodies() == [b"{broken"]
        assert port.desk.counts["uninspected", "malformed"] == 1


async def test_a_request_that_cannot_be_read_is_refused_where_every_answer_must_be_inspected() -> None:
    async with guarded([answer(b"{}")], policy=Policy.STRICT) as port:
        status, _, received = await port.ask(b'{"temperature": NaN}')
        assert status == 400
        assert msgspec.json.decode(received)["error"]["type"] == "unreadable_body"
        assert port.upstream.requests == []


async def test_a_request_of_unreadable_model_is_refused_where_one_model_of_its_path_is_strict() -> None:
    strict = RouteSettings(
        name="agents", match=Match(path=CHAT.decode(), model="glm-*"), policy=Policy.STRICT
    )
    async with guarded([answer(b"{}")], policy=Policy.PROTECT, routes=(strict,)) as port:
        assert (await port.ask(b"{broken"))[0] == 400
        assert (await port.ask(b"{broken", path=b"/generate"))[0] == 200
        assert len(port.upstream.requests) == 1


async def test_a_route_knows_a_model_by_the_name_that_was_sent() -> None:
    strict = RouteSettings(name="agents", match=Match(model="Jane*"), policy=Policy.STRICT)
    async with guarded([head(), *pieces(*chat("BAD"))], routes=(strict,)) as port:
        await port.ask(body(model="Jane Doe"))
        assert {incident.route for incident in port.kept} == {"agents"}
        assert {incident.model for incident in port.kept} == {"odd"}
        assert b'"Jane Doe"' in port.upstream.bodies()[0]


async def test_a_client_may_choose_among_the_policies_that_are_allowed() -> None:
    bad = [head(), *pieces(*chat("BAD"))]
    async with guarded(bad, by_header=(Policy.STRICT,)) as port:
        assert (await port.ask(body(), b"x-specguard-policy: strict"))[0] == 502
        assert (await port.ask(body(), b"x-specguard-policy: protect"))[0] == 200
        assert (await port.ask(body()))[0] == 200
        assert all(b"x-specguard-policy" not in sent for sent in port.upstream.heads())


@pytest.mark.parametrize(("policy", "status"), [(Policy.OBSERVE, 200), (Policy.STRICT, 503)])
async def test_a_full_process_fails_open_except_on_strict_routes(policy: Policy, status: int) -> None:
    async with guarded([head(), Stop.FOREVER], HELLO, policy=policy, limits=Limits(streams=1)) as port:
        first = await port.client()
        await first.post(CHAT, body())
        await until(lambda: port.upstream.requests)
        assert (await port.ask(body()))[0] == status
        assert port.desk.counts.get(("uninspected", "streams"), 0) == (status == 200)
        first.leave()


@pytest.mark.parametrize(
    ("path", "where"),
    [
        (CHAT, ("error", "message")),
        (b"/v1/messages", ("error", "message")),
        (b"/v1/models", ("error", "code")),
    ],
)
async def test_a_router_that_is_down_is_a_503_in_the_paths_own_shape(
    path: bytes, where: tuple[str, str]
) -> None:
    async with guarded([answer(b"{}")]) as port:
        await port.upstream.stop()
        client = await port.client()
        await (client.get(path) if path == b"/v1/models" else client.post(path, body()))
        status, headers, received = await client.response()
        assert (status, headers[b"retry-after"]) == (503, b"1")
        assert msgspec.json.decode(received)[where[0]][where[1]]
        client.leave()


async def test_it_recovers_by_itself_when_the_router_comes_back() -> None:
    async with guarded([*HELLO]) as port:
        await port.upstream.stop()
        assert (await port.ask())[0] == 503
        async with port.upstream:
            assert (await port.ask())[0] == 200


async def test_connections_of_clients_are_kept_and_used_again() -> None:
    async with guarded([*HELLO]) as port:
        client = await port.client()
        for _ in range(3):
            await client.post(CHAT, body())
            assert (await client.response())[0] == 200
        client.leave()
        assert port.upstream.connections == 1


@pytest.mark.parametrize("policy", [Policy.OBSERVE, Policy.PROTECT])
async def test_a_client_of_http_1_0_reads_a_stream_to_its_end(policy: Policy) -> None:
    async with guarded([*HELLO], policy=policy) as port:
        client = await port.client()
        await client.send(b"POST %b HTTP/1.0\r\ncontent-length: %d\r\n\r\n%b" % (CHAT, len(body()), body()))
        status, headers = await client.head()
        assert (status, b"transfer-encoding" in headers) == (200, False)
        assert await client.rest() == b"".join(chat("hello", usage=False))
        client.leave()


async def test_draining_lets_streams_end_and_takes_nothing_new() -> None:
    slow = [head(), *pieces(*chat("one", "two"), pause_s=0.05)]
    async with guarded(slow) as port:
        client = await port.client()
        await client.post(CHAT, body())
        await client.head()
        draining = port.proxy.means.tasks.spawn(port.proxy.drain(5.0), "drain")
        await asyncio.sleep(0)
        assert (await port.ask())[0] == 503
        received = await client.body({})
        assert received.endswith(b"data: [DONE]\n\n")
        await asyncio.wait_for(draining, 50)
        client.leave()


@pytest.mark.parametrize("policy", [Policy.OBSERVE, Policy.PROTECT])
async def test_after_the_grace_time_the_rest_ends_loudly(policy: Policy) -> None:
    async with guarded([head(), Stop.FOREVER], policy=policy) as port:
        client = await port.client()
        await client.post(CHAT, body())
        await until(lambda: port.upstream.written)
        if policy is Policy.OBSERVE:
            status, headers = await client.head()
            await port.proxy.drain(0.05)
            with pytest.raises(BrokenEndError):
                await client.body(headers)
        else:
            await port.proxy.drain(0.05)
            status, headers = await client.head()
            assert (status, headers[b"retry-after"]) == (503, b"1")
        await asyncio.wait_for(port.upstream.gone.wait(), 50)
        client.leave()


async def test_no_stream_counts_as_open_after_a_hundred_clients_left() -> None:
    async with guarded([head(), *pieces(*chat("one")[:1], end=False), Stop.FOREVER]) as port:
        for _ in range(100):
            client = await port.client()
            await client.post(CHAT, body())
            await client.head()
            client.leave()
        await port.settled()
        assert len(port.proxy.means.tasks) == 1  # the ticker
        assert port.desk.held_bytes == 0


async def test_pipelined_requests_are_answered_in_order() -> None:
    async with guarded([*HELLO], [answer(b"second")]) as port:
        client = await port.client()
        await client.post(CHAT, body())
        await client.get(b"/health")
        first = await client.response()
        second = await client.response()
        assert b"hello" in first[2]
        assert second[2] == b"second"
        client.leave()


async def test_each_request_hears_the_time_at_a_beat_of_its_own() -> None:
    async with guarded([head(), Stop.FOREVER]) as port:
        clients = []
        for _ in range(3):
            client = await port.client()
            await client.post(CHAT, body())
            await client.head()
            await asyncio.sleep(0.03)
            clients.append(client)
        beats = sorted(relay.tick_at for relay in port.proxy.means.live)
        assert all(after - before > 0.02 for before, after in pairwise(beats))
        for _ in range(100):  # 2 s at most
            await asyncio.sleep(0.02)
            if min(relay.tick_at for relay in port.proxy.means.live) > beats[-1]:
                break
        else:
            pytest.fail("a request did not hear the time")
        for client in clients:
            client.leave()
        await port.settled()


@pytest.mark.parametrize(("headers", "session"), [((b"x-session-id: s-1",), "s-1"), ((), "")])
async def test_a_session_is_known_by_the_header_that_names_it(
    headers: tuple[bytes, ...], session: str
) -> None:
    long = body(messages=[{"role": "user", "content": "word " * 2_000}])
    async with guarded(HELLO) as port:
        await port.ask(long, *headers)
        await port.settled()
        (turn,) = port.desk.watch.turns.take()
    assert turn.session == session
