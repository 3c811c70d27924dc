"""Prefill and decode over Mooncake TCP: the probe names both sides of a request by its bootstrap room."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import anyio
import httpx
import pytest

from service.core.probe_feed import Pair
from tests.sglang.conftest import Figures, KeepingFeed
from tests.sglang.engine import Engine, engine

pytestmark = pytest.mark.timeout(1800)


@pytest.fixture(scope="module")
def pair(home: Path, folder: Path, feed: KeepingFeed) -> Iterator[tuple[Engine, Engine]]:
    environment = {"SPECGUARD_PROBE": f"unix:{feed.path}"}
    with (
        engine(home, folder / "prefill.log", "prefill", (), environment) as prefill,
        engine(home, folder / "decode.log", "decode", (), environment) as decode,
    ):
        yield prefill, decode


async def test_a_request_is_known_by_both_its_workers(
    pair: tuple[Engine, Engine], feed: KeepingFeed, figures: Figures
) -> None:
    prefill, decode = pair
    rid = uuid4().hex
    body = {
        "text": "The capital of France is",
        "rid": rid,
        "sampling_params": {"max_new_tokens": 8, "temperature": 0},
        "bootstrap_host": "127.0.0.1",
        "bootstrap_port": prefill.bootstrap_port,
        "bootstrap_room": 4711,
    }
    async with httpx.AsyncClient(timeout=300, trust_env=False) as client, anyio.create_task_group() as group:
        for leg in pair:
            group.start_soon(_post, client, f"{leg.url}/generate", body)
    assert feed.pair(rid) == Pair(prefill.url, decode.url)
    assert feed.worker(rid) == decode.url
    assert not prefill.said("standing aside")
    assert not decode.said("standing aside")
    figures["pd"] = {"pair_named": True, "roles": sorted(sender.role.name for sender in feed.senders())}


async def _post(client: httpx.AsyncClient, url: str, body: dict[str, object]) -> None:
    (await client.post(url, json=body)).raise_for_status()
