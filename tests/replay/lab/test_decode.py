"""The decode worker says what the model alone would say, and faults act on KV only."""

import asyncio
import json
from typing import Any

import pytest

from replay.lab.bootstrap import Timeouts
from replay.lab.decode import Pace
from replay.lab.faults import FaultPlan, Kind, parse_mix
from replay.lab.intake import Bootstrap, RequestError
from replay.lab.ledger import Account, Auditor, Ledger
from replay.lab.loglines import EngineLog
from replay.lab.scheduler import RUNNING_ABORT, WAITING_ABORT, Aborted, Generation, Phase
from replay.lab.speculation import load_models, reference_answer
from tests.replay.lab.labkit import Pair, finished, prompt, running_pair


async def settled(pair: Pair) -> list[dict[str, Any]]:
    """Every ledger line, once no audit is pending."""
    while pair.decode.pending or len(pair.decode.live):  # noqa: ASYNC110 (the engine has no such event)
        await asyncio.sleep(0)
    return [json.loads(line) for line in pair.decode.ledger.since(0).splitlines()]


async def until(generation: Generation, tokens: int) -> None:
    while len(generation.output) < tokens:
        await generation.changed.wait()
        generation.changed.clear()


async def test_every_answer_of_a_busy_batch_is_the_references_token_by_token() -> None:
    async with running_pair(pages=256) as pair:
        sent = [pair.send(pair.asked(prompt(seed)))[1] for seed in range(8)]
        for seed, generation in enumerate(sent):
            await finished(generation)
            assert generation.output == reference_answer(prompt(seed), 120), seed
        assert pair.decode.slots.table.usage == 0
        assert len(pair.decode.live) == 0


async def test_a_sampled_answer_is_the_one_that_an_audit_expects() -> None:
    async with running_pair() as pair:
        asked = pair.asked(prompt(), temperature=3.0, seed=11)
        generation = await pair.answer(asked)
    ledger = Ledger("decode-0")
    auditor = Auditor(*load_models(), ledger)
    auditor.submit(Account(asked, applied=True, output=generation.output, finished="stop"))
    while auditor.pending:
        auditor.work()
    assert generation.output != reference_answer(prompt(), 120)
    assert json.loads(ledger.since(0))["answer_changed"] is False


async def test_each_step_brings_its_accepted_drafts_and_one() -> None:
    async with running_pair() as pair:
        generation = await pair.answer(pair.asked(prompt(), max_new_tokens=110))
    spec = generation.spec
    assert sum(spec.histogram) == spec.verify_steps
    assert sum(at * steps for at, steps in enumerate(spec.histogram)) == spec.accepted
    said = 1 + spec.accepted + spec.verify_steps
    assert said - 4 <= len(generation.output) <= said


@pytest.mark.parametrize("kind", ["nan", "random", "zero"])
async def test_a_loud_fault_changes_the_answer_and_the_ledger_says_so(kind: Kind) -> None:
    async with running_pair() as pair:
        pair.decode.follow(FaultPlan(parse_mix(kind), rate=1, onset_tokens=(6, 6)))
        asked = pair.asked(prompt())
        generation = await pair.answer(asked)
        (line,) = await settled(pair)
    clean = reference_answer(prompt(), 120)
    assert generation.output != clean
    assert (line["rid"], line["kind"], line["applied"], line["answer_changed"]) == (
        asked.rid,
        kind,
        True,
        True,
    )
    assert 6 <= line["at_token"] <= 10
    assert line["at_step"] >= 1
    assert generation.output[: line["at_token"]] == clean[: line["at_token"]]
    assert line["first_changed_token"] >= line["at_token"]
    assert line["tokens_actual"] == len(generation.output)
    assert line["tokens_reference"] == len(clean)


async def test_nan_says_pad_for_ever_without_a_character_of_text() -> None:
    async with running_pair() as pair:
        pair.decode.follow(FaultPlan(parse_mix("nan"), rate=1, onset_tokens=(6, 6)))
        generation = await pair.answer(pair.asked(prompt()))
        (line,) = await settled(pair)
    assert set(generation.output[line["at_token"] :]) == {0}
    assert len(generation.output) == 120
    assert len(generation.text.split()) <= line["at_token"]


@pytest.mark.parametrize("kind", ["swap", "swap_both"])
async def test_a_swap_takes_another_live_request_as_donor_and_leaves_it_alone(kind: Kind) -> None:
    async with running_pair() as pair:
        donor = pair.send(pair.asked(prompt(2), max_new_tokens=400, ignore_eos=True))[1]
        await until(donor, 1)
        pair.decode.follow(FaultPlan(parse_mix(kind), rate=1, onset_tokens=(2, 2)))
        victim = await pair.answer(pair.asked(prompt(1)))
        pair.decode.abort(donor)
        await finished(donor)
        lines = {line["rid"]: line for line in await settled(pair)}
    assert lines[victim.asked.rid]["donor_rid"] == donor.asked.rid
    assert lines[victim.asked.rid]["applied"] is True
    assert (lines[donor.asked.rid]["kind"], lines[donor.asked.rid]["answer_changed"]) == ("none", None)
    clean = reference_answer(prompt(2), 120)
    assert donor.output[: len(clean)] == clean[: len(donor.output)]


@pytest.mark.parametrize(
    ("kind", "onset", "reason"),
    [("swap", 1, "no donor was live"), ("nan", 500, "the answer ended before its onset")],
)
async def test_a_fault_that_never_struck_says_why(kind: str, onset: int, reason: str) -> None:
    async with running_pair() as pair:
        pair.decode.follow(FaultPlan(parse_mix(kind), rate=1, onset_tokens=(onset, onset)))
        generation = await pair.answer(pair.asked(prompt()))
        (line,) = await settled(pair)
    assert generation.output == reference_answer(prompt(), 120)
    assert (line["kind"], line["applied"], line["reason"], line["pages"]) == (kind, False, reason, [])


async def test_pages_of_a_corrupted_request_do_no_harm_to_their_next_owner() -> None:
    async with running_pair(pages=20) as pair:
        pair.decode.follow(FaultPlan(parse_mix("nan"), rate=1, onset_tokens=(4, 4)))
        await pair.answer(pair.asked(prompt(1)))
        pair.decode.follow(FaultPlan())
        for seed in (2, 3):
            assert (await pair.answer(pair.asked(prompt(seed)))).output == reference_answer(prompt(seed), 120)


async def test_an_abort_of_a_running_request_takes_one_more_step_and_frees_its_pages() -> None:
    async with running_pair() as pair:
        pair.decode.follow(FaultPlan(parse_mix("nan"), rate=1, onset_tokens=(6, 6)))
        pair.decode.pace = Pace(1)
        generation = pair.send(pair.asked(prompt(), max_new_tokens=800, ignore_eos=True))[1]
        await until(generation, 20)
        before = generation.spec.verify_steps
        pair.decode.abort(generation)
        await finished(generation)
        assert generation.spec.verify_steps == before + 1
        assert generation.finish == RUNNING_ABORT
        assert pair.decode.slots.table.usage == 0
        (line,) = await settled(pair)
    assert (line["aborted"], line["finished"], line["answer_changed"]) == (True, "abort", True)
    assert line["tokens_reference"] == line["tokens_actual"] == len(generation.output)


async def test_an_abort_of_a_waiting_request_is_immediate() -> None:
    async with running_pair() as pair:
        pair.decode.pace = Pace(60_000)
        runner = pair.send(pair.asked(prompt(1)))[1]
        await until(runner, 1)
        waiter = pair.send(pair.asked(prompt(2)))[1]
        assert waiter.task is not None
        await waiter.task
        pair.decode.abort(waiter)
        assert waiter.finish == WAITING_ABORT
        assert waiter.phase is Phase.FINISHED


async def test_an_abort_in_transfer_is_the_engines_500_at_once_and_frees_pages_after_the_fence() -> None:
    reached, order = asyncio.Event(), list[str]()

    async def hold(_room: int, model: str, layer: int) -> None:
        if (model, layer) == ("target", 2):
            reached.set()
            try:
                await asyncio.Event().wait()
            finally:
                order.append("writer stopped")

    async with running_pair() as pair:
        pair.prefill.gate = hold
        asked = pair.asked(prompt())
        _, generation = pair.send(asked)
        await reached.wait()
        assert pair.decode.slots.table.usage > 0
        pair.decode.abort(generation)
        await finished(generation)
        assert order == []
        assert pair.decode.slots.table.usage > 0
        assert b"num_decode_deferred_kv_release_reqs" in pair.decode.metrics.render({}, 1)
        (line,) = await settled(pair)
        assert order == ["writer stopped"]
        assert pair.decode.slots.table.usage == 0
        assert b'outcome="drained"' in pair.decode.metrics.render({}, 1)
        assert asked.bootstrap is not None
        room = asked.bootstrap.room
        assert generation.finish == Aborted(
            f"Decode transfer failed for request rank=0 decode_req.req.rid='{asked.rid}'"
            f" decode_req.req.bootstrap_room={room} with exception"
            f" KVTransferError(bootstrap_room={room}): Aborted by AbortReq.",
            500,
        )
        assert (line["finished"], line["tokens_actual"]) == ("error", 0)
        assert (line["release"], line["late_layers"]) == ("drained", 0)


async def test_prefill_that_cannot_be_reached_is_a_500() -> None:
    async with running_pair() as pair:
        generation = pair.decode.start(
            pair.asked(prompt(), bootstrap=Bootstrap("127.0.0.1", 1, 9)), pair.tasks
        )
        await finished(generation)
        assert isinstance(generation.finish, Aborted)
        assert "Could not reach the bootstrap server of 127.0.0.1:1" in generation.finish.message


async def test_kv_that_never_comes_is_a_500_after_the_timeout() -> None:
    async with running_pair(timeouts=Timeouts(waiting_s=0.05, drain_s=0.05)) as pair:
        generation = await finished(pair.decode.start(pair.asked(prompt()), pair.tasks))
        assert isinstance(generation.finish, Aborted)
        assert "KVPoll.WaitingForInput" in generation.finish.message
        await settled(pair)
        assert pair.decode.slots.table.usage == 0


async def test_a_full_pool_makes_requests_wait_and_none_is_lost() -> None:
    async with running_pair(pages=20) as pair:
        sent = [pair.send(pair.asked(prompt(seed)))[1] for seed in range(4)]
        while not pair.decode.live.phases()[Phase.PREALLOC]:  # noqa: ASYNC110 (the worker has no such event)
            await asyncio.sleep(0)
        for seed, generation in enumerate(sent):
            assert (await finished(generation)).output == reference_answer(prompt(seed), 120)


async def test_without_a_room_a_request_is_refused() -> None:
    async with running_pair() as pair:
        with pytest.raises(RequestError, match="without bootstrap room id"):
            pair.decode.start(pair.asked(prompt(), bootstrap=None), pair.tasks)


async def test_another_seed_starts_the_count_of_requests_again() -> None:
    async with running_pair() as pair:
        hits = []
        for seed in (1, 2, 1):
            pair.decode.follow(FaultPlan(parse_mix("nan"), rate=0.5, onset_tokens=(2, 9), seed=seed))
            for number in range(3):
                await pair.answer(pair.asked(prompt(number), max_new_tokens=20))
        lines = await settled(pair)
        hits = [line["kind"] for line in sorted(lines, key=lambda line: str(line["rid"]))]
        assert hits[:3] == hits[6:]


@pytest.mark.parametrize("step_ms", [-1, 60_001, float("nan")])
def test_a_pace_that_cannot_be_kept_is_refused(step_ms: float) -> None:
    with pytest.raises(ValueError, match="step_ms"):
        Pace(step_ms)


async def test_a_transient_fault_passes_and_its_bytes_are_back() -> None:
    async with running_pair() as pair:
        pair.decode.follow(FaultPlan(parse_mix("zero/transient"), rate=1, onset_tokens=(6, 6)))
        generation = await pair.answer(pair.asked(prompt()))
        (line,) = await settled(pair)
        pages = list(line["pages"])
        assert pair.pool.target[:, :, pages].any(axis=(0, 1, 3, 4, 5)).all()
    assert (line["kind"], line["applied"]) == ("zero/transient", True)
    assert line["answer_changed"] is (generation.output != reference_answer(prompt(), 120))


async def test_a_stale_fault_waits_until_somebody_has_left_his_kv_behind() -> None:
    async with running_pair() as pair:
        pair.decode.follow(FaultPlan(parse_mix("stale"), rate=1, onset_tokens=(6, 6)))
        both = [pair.send(pair.asked(prompt(seed)))[1] for seed in (1, 2)]
        for one in both:
            await finished(one)
        struck = await pair.answer(pair.asked(prompt(3)))
        lines = {line["rid"]: line for line in await settled(pair)}
    first, last = lines[both[0].asked.rid], lines[struck.asked.rid]
    assert (first["applied"], first["reason"]) == (False, "no donor was live")
    assert (last["kind"], last["applied"], last["donor_rid"]) == ("stale", True, None)


async def test_n_grams_draft_as_well_and_change_no_token() -> None:
    async with running_pair() as pair:
        pair.decode.drafter = "ngram"
        generation = await pair.answer(pair.asked(prompt()))
        assert pair.decode.drafter == "ngram"
        with pytest.raises(ValueError, match="oracle"):
            pair.decode.drafter = "oracle"
    assert generation.output == reference_answer(prompt(), 120)
    assert generation.spec.accepted > 0


async def test_the_engines_log_tells_of_intervals_and_failures() -> None:
    lines: list[str] = []
    async with running_pair() as pair:
        pair.decode.log = EngineLog(lines.append)
        await pair.answer(pair.asked(prompt(), max_new_tokens=400, ignore_eos=True))
        lost = pair.decode.start(pair.asked(prompt(), bootstrap=Bootstrap("127.0.0.1", 1, 9)), pair.tasks)
        await finished(lost)
    assert "Decode batch, #running-req: " in lines[0]
    assert "bootstrap_room=9" in lines[-1]
