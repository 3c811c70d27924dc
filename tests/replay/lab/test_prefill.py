"""The prefill worker hands exact KV over, answers one token, and says why when it cannot."""

import asyncio
import re

import numpy as np
import pytest

from replay.lab import speculation
from replay.lab.bootstrap import Announce, KVReceiver, KVTransferError, Timeouts
from replay.lab.intake import RequestError
from replay.lab.kvpool import pages_for
from replay.lab.load import PrefillTime
from replay.lab.prefill import Service
from replay.lab.scheduler import Aborted, LengthReached
from replay.lab.speculation import load_models
from tests.replay.lab.labkit import finished, prompt, running_pair
from tests.replay.lab.test_bootstrap import received


async def test_the_kv_in_the_decode_pool_is_that_of_a_prefill_alone() -> None:
    tokens = prompt()
    target, draft = load_models()
    count = pages_for(len(tokens))
    alone = speculation.private_speculator(target, draft, count)
    request = speculation.RequestState(list(tokens), len(tokens), range(count), range(count))
    first = alone.prefill(request)
    async with running_pair() as pair:
        asked = pair.asked(tokens)
        pages = [*range(20, 20 + count)][::-1]
        generation = pair.prefill.start(asked, pair.tasks)
        assert asked.bootstrap is not None
        announce = Announce(asked.bootstrap.room, asked.rid, "decode-0", pages, len(tokens))
        done = await received(KVReceiver("127.0.0.1", pair.port, announce))
        await finished(generation)
        for ours, theirs in ((alone.target_pool, pair.pool.target), (alone.draft_pool, pair.pool.draft)):
            for row in range(len(tokens)):
                page, at = row // 16, row % 16
                np.testing.assert_array_equal(theirs[:, :, pages[page], at], ours[:, :, page, at])
        assert done.first_token == first
        assert generation.output == [first]
        assert generation.finish == LengthReached(0)
        assert pair.prefill.slots.table.usage == 0
        assert len(pair.prefill.live) == 0


async def test_a_request_tells_how_long_it_was_at_each_station() -> None:
    time = PrefillTime(0.02)
    async with running_pair() as pair:
        pair.prefill.serve_at(Service(time))
        asked = pair.asked(prompt())
        assert asked.bootstrap is not None
        await pair.answer(asked)
        prefill, decode = (station_s(one.metrics.render({}, 1)) for one in (pair.prefill, pair.decode))
    assert prefill["prefill_forward"] > time.of(asked.bootstrap.room) / 2
    assert set(prefill) == {"prefill_bootstrap", "prefill_forward", "prefill_transfer_kv_cache"}
    assert set(decode) == {"decode_bootstrap", "decode_transferred", "decode_waiting"}


def station_s(shown: bytes) -> dict[str, float]:
    """Seconds by station."""
    sums = re.findall(r'per_stage_req_latency_seconds_sum{.*stage="(\w+)".*} (\S+)', shown.decode())
    return {stage: float(seconds) for stage, seconds in sums}


async def test_without_a_room_a_request_is_refused() -> None:
    async with running_pair() as pair:
        with pytest.raises(RequestError, match="without bootstrap room id"):
            pair.prefill.start(pair.asked(prompt(), bootstrap=None), pair.tasks)


async def test_decode_that_never_announces_is_a_500_after_the_timeout() -> None:
    async with running_pair(timeouts=Timeouts(bootstrap_s=0.05)) as pair:
        asked = pair.asked(prompt())
        generation = await finished(pair.prefill.start(asked, pair.tasks))
        assert isinstance(generation.finish, Aborted)
        assert generation.finish.status == 500
        assert generation.finish.message.startswith(
            f"Prefill bootstrap failed for request rank=0 req.rid='{asked.rid}' req.bootstrap_room="
        )
        assert "KVPoll.Bootstrapping" in generation.finish.message
        assert b"num_bootstrap_failed_reqs_total{" in pair.prefill.metrics.render({}, 1)


async def test_an_abort_in_mid_transfer_stops_the_writing_and_is_answered() -> None:
    reached = asyncio.Event()

    async def hold(_room: int, model: str, layer: int) -> None:
        if (model, layer) == ("target", 1):
            reached.set()
            await asyncio.Event().wait()

    async with running_pair() as pair:
        pair.prefill.gate = hold
        first, second = pair.send(pair.asked(prompt()))
        await reached.wait()
        pair.prefill.abort(first)
        await finished(first)
        await finished(second)
        assert isinstance(first.finish, Aborted)
        assert isinstance(second.finish, Aborted)
        assert first.finish.message.startswith("Prefill transfer failed for request rank=0")
        assert second.finish.message.startswith("Decode transfer failed for request rank=0")
        assert second.finish.message.endswith("Aborted by AbortReq.")
        assert pair.prefill.slots.table.usage == pair.decode.slots.table.usage == 0


@pytest.mark.parametrize(
    ("pool", "pages", "length", "reason"),
    [
        ("nowhere", 40, 0, "unknown decode pool 'nowhere'"),
        ("decode-0", 1, 0, "do not fit"),
        ("decode-0", 40, 1, "disagree about the prompt's length"),
    ],
)
async def test_an_announcement_that_makes_no_sense_is_refused_by_name(
    pool: str, pages: int, length: int, reason: str
) -> None:
    async with running_pair() as pair:
        asked = pair.asked(prompt())
        assert asked.bootstrap is not None
        generation = pair.prefill.start(asked, pair.tasks)
        announce = Announce(
            asked.bootstrap.room, asked.rid, pool, [*range(pages)], len(asked.prompt) + length
        )
        with pytest.raises(KVTransferError, match=reason):
            await received(KVReceiver("127.0.0.1", pair.port, announce))
        await finished(generation)


async def test_prompts_are_computed_one_after_the_other_and_none_is_mixed_up() -> None:
    async with running_pair() as pair:
        sent = [pair.send(pair.asked(prompt(seed), max_new_tokens=1)) for seed in range(6)]
        for seed, (first, second) in enumerate(sent):
            await finished(first)
            await finished(second)
            assert second.output == first.output == speculation.reference_answer(prompt(seed), 1)
