"""Requests to a real engine, and what came back, as bytes and as read by our own dialects."""

import asyncio
import json
from typing import Any, Final
from uuid import uuid4

import httpx
import msgspec

from service.core.acceptance import StepCounter
from service.core.dialects import OPENAI_CHAT, SGLANG_GENERATE
from service.core.dialects.protocol import Dialect
from service.core.events import Delta, Step
from service.core.sse import EventSplitter, payload

PROMPTS: Final = (
    "Repeat this line ten times: one two three four five six seven.",
    "Count from one to thirty in digits, separated by commas.",
    "Write about the moon and the tides in plain words.",
    "List the days of the week, then list them again, and again.",
)


TEMPLATE: Final = (
    "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
    "<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"
)


class Answer(msgspec.Struct):
    """One whole answer."""

    rid: str
    raw: bytes
    deltas: list[Delta]
    spec: dict[str, Any]  # what the engine says of speculation at the end
    accepted: list[int] | None = None  # the probe's list in the last chunk
    events: int = 0

    @property
    def histogram(self) -> list[int]:
        return list(self.spec["spec_correct_drafts_histogram"])

    @property
    def exact(self) -> tuple[int, ...]:
        """The series that the dialect read out of the chunks, event by event."""
        return tuple(count for delta in self.deltas for count in delta.exact)

    def estimate(self, draft_tokens: int) -> list[Step]:
        """Steps as growth alone tells them, less the last, which a stop may have trimmed."""
        steps: list[Step] = []
        grown = [msgspec.structs.replace(delta, exact=(), finish="") for delta in self.deltas]
        StepCounter(draft_tokens).read(grown, steps)
        return steps


class Talk:
    """Asks one engine."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def generate(
        self, prompt: str, tokens: int = 40, *, pause_s: float = 0.0, interval: int = 1
    ) -> Answer:
        """Interval: tokens that the engine gathers before it sends an event; several steps are one then."""
        sampling = _sampling(tokens) | {"stream_interval": interval}
        body = {"text": prompt, "stream": True, "sampling_params": sampling}
        raw, payloads, deltas, rid = await self._stream(SGLANG_GENERATE, body, pause_s)
        meta = json.loads(payloads[-1])["meta_info"]
        return Answer(rid, raw, deltas, meta, meta.get("specguard_accepted"), len(payloads))

    async def chat(self, prompt: str, tokens: int = 40, *, pause_s: float = 0.0) -> Answer:
        body = {
            **_chat(prompt, tokens),
            "stream": True,
            "return_spec_tokens_details": True,
            "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        }
        raw, payloads, deltas, rid = await self._stream(OPENAI_CHAT, body, pause_s)
        details = [
            event["sglext"]["spec_tokens_details"]
            for event in map(json.loads, payloads)
            if event.get("sglext")
        ]
        return Answer(rid, raw, deltas, _first(details[0]) if details else {}, None, len(payloads))

    async def generate_whole(self, prompt: str, tokens: int = 40) -> Answer:
        rid = uuid4().hex
        body = {"text": prompt, "rid": rid, "sampling_params": _sampling(tokens)}
        response = await self._client.post("/generate", json=body)
        meta = response.raise_for_status().json()["meta_info"]
        return Answer(rid, response.content, [], meta, meta.get("specguard_accepted"))

    async def chat_whole(self, prompt: str, tokens: int = 40) -> Answer:
        rid = uuid4().hex
        body = {**_chat(prompt, tokens), "rid": rid, "return_spec_tokens_details": True}
        response = await self._client.post("/v1/chat/completions", json=body)
        answer = response.raise_for_status().json()
        details = answer["sglext"]["spec_tokens_details"]
        return Answer(rid, response.content, [], _first(details))

    async def flush(self) -> None:
        """Have the engine forget prefixes: what was corrupted must not come back from its cache."""
        (await self._client.post("/flush_cache?timeout=10")).raise_for_status()

    async def leave(self, prompt: str, events: int) -> str:
        """Ask for much, read a few events, and close the connection."""
        rid = uuid4().hex
        body = {"text": prompt, "rid": rid, "stream": True, "sampling_params": _sampling(400)}
        async with self._client.stream("POST", "/generate", json=body) as response:
            seen = 0
            async for data in response.aiter_bytes():
                seen += data.count(b"\n\n")
                if seen >= events:
                    break
        return rid

    async def _stream(
        self, dialect: Dialect, body: dict[str, Any], pause_s: float
    ) -> tuple[bytes, list[bytes], list[Delta], str]:
        rid = uuid4().hex
        sent = json.dumps({**body, "rid": rid}).encode()
        reader, splitter = dialect.reader(dialect.request(sent)), EventSplitter()
        raw, payloads, deltas = b"", [], []
        headers = {"content-type": "application/json"}
        async with self._client.stream(
            "POST", dialect.path.decode(), content=sent, headers=headers
        ) as response:
            response.raise_for_status()
            async for data in response.aiter_bytes():
                raw += data
                new = [found for event in splitter.feed(data) if (found := payload(event)) is not None]
                deltas += reader.read(new)
                payloads += [one for one in new if one != b"[DONE]"]
                await asyncio.sleep(pause_s)
        return raw, payloads, deltas, rid


async def ask_alike(talk: Talk, dialect: str, question: str, tokens: int) -> Answer:
    """The same tokens in, whatever the endpoint: for /generate the model's own template is written out."""
    if dialect == "chat":
        return await talk.chat(question, tokens)
    return await talk.generate(TEMPLATE.format(question=question), tokens)


def _sampling(tokens: int) -> dict[str, Any]:
    return {"max_new_tokens": tokens, "temperature": 0}


def _chat(prompt: str, tokens: int) -> dict[str, Any]:
    messages = [{"role": "user", "content": prompt}]
    return {"model": "smollm2", "messages": messages, "max_tokens": tokens, "temperature": 0}


def _first(details: Any) -> dict[str, Any]:  # noqa: ANN401 - an object, or a list of one a choice
    return dict(details[0] if isinstance(details, list) else details)
