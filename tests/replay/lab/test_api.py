"""The HTTP surface over real sockets: dialects, refusals, aborts, clients that leave."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from replay.lab.api import MAX_BODY_BYTES
from replay.lab.bootstrap import Timeouts
from replay.lab.decode import Pace
from replay.lab.intake import read_chat
from replay.lab.speculation import reference_answer
from replay.lab.tokenizer import decode
from tests.replay.lab import wirekit
from tests.replay.lab.labkit import Pair, Site, finished, prompt, running_site

FIXTURES = Path(__file__).parents[2] / "fixtures" / "lab"
TEXT = decode(prompt())
MESSAGES = [{"role": "user", "content": TEXT.removesuffix("answer:\n").removesuffix("\n")}]
ANSWER = reference_answer(prompt(), 120)
TEXT_OF: dict[str, Callable[[Any], str]] = {
    "/v1/chat/completions": lambda told: told["choices"][0]["message"]["content"],
    "/v1/completions": lambda told: told["choices"][0]["text"],
    "/v1/messages": lambda told: told["content"][0]["text"],
    "/v1/responses": lambda told: told["output"][0]["content"][0]["text"],
}
CLIENT_REQUESTS = json.loads((FIXTURES / "client_requests.json").read_bytes())
"""What clients sent to a router in front of the lab, and what sglang-router 0.3.2 made of it for decode."""

SLOW = {"text": TEXT, "stream": True, "sampling_params": {"max_new_tokens": 700, "ignore_eos": True}}


def events(text: str) -> list[dict[str, Any]]:
    blocks = [block.removeprefix("data: ") for block in text.split("\n\n") if block]
    assert blocks[-1] == "[DONE]"
    return [json.loads(block) for block in blocks[:-1]]


async def idle(pair: Pair) -> None:
    while busy(pair):  # noqa: ASYNC110 (the workers have no such event)
        await asyncio.sleep(0.001)


def busy(pair: Pair) -> int:
    return len(pair.decode.live) + len(pair.prefill.live) + pair.decode.pending


async def begin(site: Site, rid: str) -> asyncio.Task[str]:
    """Start an endless stream; return what will be its text."""
    body, started = site.body(**SLOW, rid=rid), asyncio.Event()

    async def read() -> str:
        async with site.client.stream("POST", site.decode_url + "/generate", json=body) as response:
            text = ""
            async for part in response.aiter_text():
                text += part
                started.set()
            return text

    site.pair.tasks.create_task(site.client.post(site.prefill_url + "/generate", json=body))
    task = site.pair.tasks.create_task(read())
    await started.wait()
    return task


async def test_generate_whole_and_streamed_say_the_same_as_the_model_alone() -> None:
    async with running_site() as site:
        first, whole = await site.both("/generate", text=TEXT, rid="a" * 16)
        _, streamed = await site.both("/generate", text=TEXT, stream=True)
    assert whole.json()["output_ids"] == ANSWER
    assert whole.json()["meta_info"]["id"] == "a" * 16
    assert first.json()["output_ids"] == ANSWER[:1]
    assert first.json()["meta_info"]["finish_reason"] == {"type": "length", "length": 0}
    chunks = events(streamed.text)
    assert chunks[-1]["output_ids"] == ANSWER
    assert chunks[-1]["text"] == whole.json()["text"]
    assert len(chunks) == 1 + chunks[-1]["meta_info"]["spec_verify_ct"]
    assert streamed.headers["content-type"] == "text/event-stream; charset=utf-8"


async def test_chat_whole_and_streamed_say_the_same() -> None:
    async with running_site() as site:
        fields: dict[str, Any] = {"messages": MESSAGES, "model": "m", "max_tokens": 120, "rid": "b" * 16}
        asked = read_chat(json.dumps(fields).encode())
        first, whole = await site.both("/v1/chat/completions", **fields)
        options = {"include_usage": True, "continuous_usage_stats": True}
        _, streamed = await site.both("/v1/chat/completions", **fields, stream=True, stream_options=options)
    answer = decode(reference_answer(asked.prompt, 120))
    assert whole.json()["choices"][0]["message"]["content"] == answer
    assert (whole.json()["id"], whole.json()["model"]) == ("b" * 16, "m")
    assert first.json()["usage"]["completion_tokens"] == 1
    *chunks, usage = events(streamed.text)
    text = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks)
    assert text == answer
    assert usage["usage"] == whole.json()["usage"]
    assert {chunk["id"] for chunk in chunks} == {"b" * 16}


@pytest.mark.parametrize("path", ["/generate", "/v1/chat/completions"])
async def test_a_rid_that_is_live_is_refused(path: str) -> None:
    async with running_site() as site:
        site.pair.decode.pace = Pace(5)
        running = await begin(site, "c" * 16)
        fields = {"text": "get", "messages": MESSAGES, "rid": "c" * 16}
        refused = await site.client.post(site.decode_url + path, json=site.body(**fields))
        running.cancel()
        await idle(site.pair)
    message = f"Duplicate request ID detected: {'c' * 16}"
    assert refused.status_code == 400
    if path == "/generate":
        assert refused.json() == {"error": {"message": message}}
    else:
        error = {"object": "error", "message": message, "type": "BadRequestError", "param": None, "code": 400}
        assert refused.json() == error


async def test_bad_json_and_missing_fields_have_the_engines_error_shape() -> None:
    cases = [
        ("/generate", b"{bad", "Bad Request"),
        ("/v1/chat/completions", b"{bad", "Bad Request"),
        ("/v1/chat/completions", b"{}", "Bad Request"),
        ("/v1/chat/completions", b'{"messages":[]}', "BadRequestError"),
        ("/abort_request", b"[]", "Bad Request"),
        ("/lab/control", b'{"fault":"nann"}', "BadRequestError"),
    ]
    async with running_site() as site:
        for path, raw, kind in cases:
            refused = await site.client.post(site.decode_url + path, content=raw)
            assert refused.status_code == 400, path
            assert list(refused.json()) == ["object", "message", "type", "param", "code"]
            assert (refused.json()["type"], refused.json()["code"]) == (kind, 400)
        assert (await site.client.get(site.decode_url + "/health")).status_code == 200


async def test_a_body_beyond_reason_is_refused() -> None:
    async with running_site() as site:
        refused = await site.client.post(site.decode_url + "/generate", content=b" " * (MAX_BODY_BYTES + 1))
    assert refused.status_code == 413


@pytest.mark.parametrize("path", ["/generate", "/v1/chat/completions"])
async def test_a_failed_transfer_is_a_500_whole_and_in_band_when_streamed(path: str) -> None:
    async with running_site(timeouts=Timeouts(waiting_s=0.05)) as site:
        fields = {"text": TEXT, "messages": MESSAGES} if path != "/generate" else {"text": TEXT}
        whole = await site.client.post(site.decode_url + path, json=site.body(**fields))
        streamed = await site.client.post(site.decode_url + path, json=site.body(**fields, stream=True))
    assert whole.status_code == 500
    assert (whole.json()["type"], whole.json()["code"]) == ("500", 500)
    assert "Decode transfer failed for request rank=0" in whole.json()["message"]
    assert streamed.status_code == 200
    (last,) = events(streamed.text)
    reason = last["meta_info"]["finish_reason"] if path == "/generate" else last["error"]
    assert "KVPoll.WaitingForInput" in reason["message"]


async def test_abort_ends_what_starts_with_a_live_rid_and_is_always_200() -> None:
    async with running_site() as site:
        site.pair.decode.pace = Pace(10)
        streams = {rid: await begin(site, rid) for rid in ("job", "job-1", "other")}
        unknown = await site.client.post(site.decode_url + "/abort_request", json={"rid": "jo"})
        assert (unknown.status_code, unknown.content) == (200, b"")
        assert len(site.pair.decode.live) == 3
        hit = await site.client.post(site.decode_url + "/abort_request", json={"rid": "job"})
        assert (hit.status_code, hit.content) == (200, b"")
        for rid in ("job", "job-1"):
            reason = events(await streams[rid])[-1]["meta_info"]["finish_reason"]
            assert reason == {"type": "abort", "message": "Aborted", "status_code": None, "err_type": None}
        assert not streams["other"].done()
        await site.client.post(site.decode_url + "/abort_request", json={"abort_all": True})
        await streams["other"]
        await idle(site.pair)
        metrics = (await site.client.get(site.decode_url + "/metrics")).text
        assert site.pair.decode.slots.table.usage == 0
    assert 'num_aborted_requests_total{engine_type="decode",model_name="specguard-lab"} 3.0' in metrics


async def test_a_client_that_leaves_takes_its_request_and_pages_along() -> None:
    async with running_site() as site:
        site.pair.decode.pace = Pace(10)
        running = await begin(site, "e" * 16)
        assert site.pair.decode.slots.table.usage > 0
        running.cancel()
        await idle(site.pair)
        assert site.pair.decode.slots.table.usage == site.pair.prefill.slots.table.usage == 0
        (line,) = [json.loads(line) for line in site.pair.decode.ledger.since(0).splitlines()]
    assert (line["aborted"], line["finished"]) == (True, "abort")


async def test_a_client_that_leaves_before_the_kv_came_frees_its_pages() -> None:
    async with running_site() as site:
        asking = site.pair.tasks.create_task(
            site.client.post(site.decode_url + "/generate", json=site.body(text=TEXT)), name="asking"
        )
        while not site.pair.decode.slots.table.usage:  # noqa: ASYNC110 (the pool has no such event)
            await asyncio.sleep(0.001)
        asking.cancel()
        await idle(site.pair)
        assert site.pair.decode.slots.table.usage == 0


async def test_info_and_health_paths_answer_on_both_workers() -> None:
    keys = {
        "/model_info": "model_path",
        "/get_model_info": "is_generation",
        "/server_info": "speculative_algorithm",
        "/get_server_info": "version",
        "/v1/models": "data",
        "/v1/loads?include=core": "loads",
    }
    async with running_site() as site:
        for url in (site.prefill_url, site.decode_url):
            for path, key in keys.items():
                assert key in (await site.client.get(url + path)).json(), path
            for path in ("/health", "/health_generate", "/ready", "/metrics", "/flush_cache"):
                assert (await site.client.get(url + path)).status_code == 200, path


async def test_unknown_paths_and_methods_are_told_apart() -> None:
    async with running_site() as site:
        assert (await site.client.get(site.decode_url + "/nowhere")).status_code == 404
        assert (await site.client.get(site.decode_url + "/generate")).status_code == 405
        assert (await site.client.get(site.prefill_url + "/lab/ledger")).status_code == 404


async def test_the_ledger_and_its_switches_are_reached_over_http() -> None:
    async with running_site() as site:
        said = await site.client.post(
            site.decode_url + "/lab/control", json={"fault": "nan", "rate": 1, "onset": [3, 3]}
        )
        await site.both("/generate", text=TEXT, rid="d" * 16)
        while site.pair.decode.auditor.pending:  # noqa: ASYNC110 (the auditor has no such event)
            await asyncio.sleep(0.001)
        (line,) = (await site.client.get(site.decode_url + "/lab/ledger?since=0")).text.splitlines()
        assert (await site.client.get(site.decode_url + "/lab/ledger?since=1")).text == ""
    assert said.json()["fault"] == "nan:1"
    assert json.loads(line)["rid"] == "d" * 16
    assert json.loads(line)["answer_changed"] is True


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/v1/completions", {"max_tokens": 120}),
        ("/v1/messages", {"max_tokens": 120, "model": "m"}),
        ("/v1/responses", {}),
    ],
)
async def test_every_dialect_gives_the_models_answer(path: str, fields: dict[str, object]) -> None:
    asked: dict[str, dict[str, object]] = {
        "/v1/completions": {"prompt": TEXT},
        "/v1/messages": {"messages": MESSAGES},
        "/v1/responses": {"input": MESSAGES},
    }
    async with running_site() as site:
        first, second = await site.both(path, **asked[path], **fields)
    assert (first.status_code, second.status_code) == (200, 200)
    assert TEXT_OF[path](second.json()) == decode(ANSWER)


async def test_the_requests_of_clients_that_people_use_are_answered_unchanged() -> None:
    async with running_site() as site:
        for one in CLIENT_REQUESTS:
            path, asked = one["path"], one["body"]
            if path.endswith("count_tokens"):
                counted = await site.client.post(site.decode_url + path, json=asked)
                assert counted.json() == {"input_tokens": 173}
                continue
            _, answer = await site.both(path, **asked)
            assert answer.status_code == 200, one["client"]
            text = said(answer.text) if asked.get("stream") else TEXT_OF[path](answer.json())
            limit = asked.get("max_tokens") or asked.get("max_output_tokens") or 120
            right = decode(ANSWER[:limit]).strip()
            # who asks to go on behind the end gets the right answer and more
            assert text.strip() == right or (asked.get("ignore_eos") and right in text), one["client"]


def said(stream: str) -> str:
    """Join what the text events of any dialect say."""
    text = ""
    for _, told in wirekit.events(stream.encode()):
        match told:
            case {"choices": [{"delta": {"content": str(more)}}]} | {"choices": [{"text": str(more)}]}:
                text += more
            case {"delta": {"text": str(more)}} | {"type": "response.output_text.delta", "delta": str(more)}:
                text += more
    return text


async def test_a_refused_message_has_the_shape_of_its_dialect() -> None:
    async with running_site() as site:
        _, refused = await site.both("/v1/messages", messages=[], max_tokens=5)
        counted = await site.client.post(
            f"{site.decode_url}/v1/messages/count_tokens",
            json={"messages": [{"role": "user", "content": "list"}]},
        )
    assert refused.status_code == 400
    assert refused.json()["error"]["type"] == "invalid_request_error"
    assert counted.json() == {"input_tokens": 6}


async def test_a_second_turn_tells_its_cached_tokens_and_a_flush_forgets_them() -> None:
    async with running_site() as site:
        cache = site.pair.prefill.use_cache()
        text = decode(prompt(1))
        told = []
        for _ in range(2):
            _, answer = await site.both("/generate", text=text, sampling_params={"max_new_tokens": 8})
            told.append(answer.json()["meta_info"])
        flushed = await site.client.post(f"{site.prefill_url}/flush_cache")
        state = (await site.client.get(f"{site.prefill_url}/lab/control")).json()
    assert [meta["cached_tokens"] for meta in told] == [0, cache.counts.device_hit]
    assert told[1]["cached_tokens_details"] == {"device": cache.counts.device_hit, "host": 0}
    assert flushed.status_code == 200
    assert cache.tree.device_pages == 0
    assert (state["prefix_cache"], state["hicache"]) == (True, "off")


async def test_a_stuck_scheduler_fails_its_health_and_goes_on_when_it_is_let() -> None:
    async with running_site() as site:
        control = f"{site.decode_url}/lab/control"
        await site.client.post(control, json={"stuck": True})
        sick = await site.client.get(f"{site.decode_url}/health")
        _, generation = site.pair.send(site.pair.asked(prompt(1)))
        await asyncio.sleep(0.05)
        waited = generation.spec.verify_steps
        await site.client.post(control, json={"stuck": False, "drafter": "ngram"})
        await finished(generation)
        well = await site.client.get(f"{site.decode_url}/health")
        wrong = await site.client.post(control, json={"drafter": "oracle"})
    assert (sick.status_code, well.status_code, wrong.status_code) == (503, 200, 400)
    assert waited == 0
    assert generation.output == reference_answer(prompt(1), 120)


async def test_hicache_is_switched_where_there_is_a_host_tier_and_refused_where_there_is_none() -> None:
    async with running_site() as site:
        control = f"{site.prefill_url}/lab/control"
        without = await site.client.post(control, json={"hicache": "fixed"})
        cache = site.pair.prefill.use_cache(host_pages=8)
        switched = await site.client.post(control, json={"hicache": "unfixed", "load_page_ms": 2})
        wrong = await site.client.post(control, json={"load_page_ms": 1e9})
        cache.close()
    assert (without.status_code, switched.status_code, wrong.status_code) == (400, 200, 400)
    assert (switched.json()["hicache"], switched.json()["load_page_ms"]) == ("unfixed", 2)
