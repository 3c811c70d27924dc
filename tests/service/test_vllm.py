"""vLLM behind the gateway: its chunks carry no verify steps, and usage in each of them tells growth."""

import json
from pathlib import Path

import pytest

from service.core.events import Outcome, Policy
from tests.fakes import Script
from tests.guarding import ROUTED, body, guarded, head, pieces

CAPTURE = (Path(__file__).parents[1] / "fixtures" / "captures" / "vllm-ngram-chat-stream.sse").read_bytes()
EVENTS = [event + b"\n\n" for event in CAPTURE.split(b"\n\n") if event]
WORKER = "http://vllm:8000"
TEXT = "The quick brown fox jumps over lazy dog."


def with_usage() -> list[bytes]:
    """The same stream as vLLM writes it where `continuous_usage_stats` is asked for."""
    tokens, events = 0, []
    for event in EVENTS[:-2]:
        chunk = json.loads(event.removeprefix(b"data: "))
        tokens += len((chunk["choices"][0]["delta"].get("content") or "").split(" ")) - 1 if tokens else 1
        chunk["usage"] = {"prompt_tokens": 46, "total_tokens": 46 + tokens, "completion_tokens": tokens}
        events.append(b"data: " + json.dumps(chunk, separators=(",", ":")).encode() + b"\n\n")
    return [*events, *EVENTS[-2:]]


def streamed(*events: bytes) -> Script:
    return [head(ROUTED + WORKER.encode()), *pieces(*events)]


@pytest.mark.parametrize("policy", [*Policy])
async def test_a_stream_goes_through_as_it_is_for_a_client_that_asked_for_its_usage(policy: Policy) -> None:
    async with guarded(streamed(*EVENTS), policy=policy) as port:
        status, _, received = await port.ask(body(stream_options={"include_usage": True}))
        await port.settled()
        assert (status, received) == (200, CAPTURE)
        assert port.kept == []
        assert port.desk.counts["streams", "default", policy, Outcome.CLEAN] == 1


async def test_the_usage_that_only_we_asked_for_does_not_reach_the_client() -> None:
    async with guarded(streamed(*with_usage()), policy=Policy.PROTECT) as port:
        _, _, received = await port.ask()
        await port.settled()
        assert b"usage" not in received
        text = [
            choice["delta"].get("content") or ""
            for event in received.split(b"\n\n")
            if event.startswith(b"data: {")
            for choice in json.loads(event[6:])["choices"]
        ]
        assert "".join(text) == TEXT


async def test_growth_is_told_as_an_upper_bound_and_its_absence_as_nothing() -> None:
    async with guarded(streamed(*with_usage()), streamed(*EVENTS)) as port:
        for _ in range(2):
            await port.ask()
        await port.settled()
        assert port.desk.counts["telemetry_streams", "upper"] == 1
        assert port.desk.counts["telemetry_streams", "none"] == 1
        assert port.desk.coverage.sources == {WORKER: "none"}
        assert ("malformed_events",) not in port.desk.counts
