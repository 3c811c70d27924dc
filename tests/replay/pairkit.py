"""A prefill/decode pair and its router as one web app: SGLang's pages, and answers of a fixed text."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

GOOD = "The page is handed over when its layers have come and the ready flag is set."


class Pair:
    """What the pair says of itself; tests change it."""

    def __init__(self) -> None:
        self.info: dict[str, dict[str, Any]] = {
            mode: {"disaggregation_mode": mode, "speculative_algorithm": "EAGLE3", "version": "0.5.23"}
            for mode in ("prefill", "decode")
        }
        self.text = GOOD
        self.spec: dict[str, Any] = {"spec_accept_length": 2.5}
        self.status = 200
        self.requests = self.pages = 0
        self.url = ""

    async def page(self, request: web.Request) -> web.Response:
        self.pages += 1
        return web.json_response(self.info[request.match_info["mode"]])

    async def metrics(self, _: web.Request) -> web.Response:
        return web.Response(text="sglang:token_usage 0.5\n")

    async def models(self, _: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "m"}]})

    async def chat(self, request: web.Request) -> web.StreamResponse:
        self.requests += 1
        chunks = [
            {"id": f"r{self.requests}", "choices": [{"index": 0, "delta": {"content": f"{word} "}}]}
            for word in self.text.split()
        ]
        chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        return await self._stream(request, chunks)

    async def generate(self, request: web.Request) -> web.StreamResponse:
        meta = {"id": "g", "completion_tokens": 9, "finish_reason": {"type": "stop"}, **self.spec}
        return await self._stream(request, [{"text": self.text, "meta_info": meta}])

    async def _stream(self, request: web.Request, events: list[dict[str, Any]]) -> web.StreamResponse:
        if self.status != 200:
            return web.json_response({"error": {"type": "Oops"}}, status=self.status)
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        lines = [f"data: {json.dumps(event, separators=(',', ':'))}\n\n" for event in events]
        await response.write("".join([*lines, "data: [DONE]\n\n"]).encode())
        return response


@asynccontextmanager
async def pairing() -> AsyncIterator[Pair]:
    """The pair on a free port; `/prefill` and `/decode` are the workers' base paths."""
    pair, app = Pair(), web.Application()
    app.router.add_get("/v1/models", pair.models)
    app.router.add_get("/{mode}/server_info", pair.page)
    app.router.add_get("/{mode}/metrics", pair.metrics)
    app.router.add_post("/v1/chat/completions", pair.chat)
    app.router.add_post("/generate", pair.generate)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    pair.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield pair
    finally:
        await runner.cleanup()
