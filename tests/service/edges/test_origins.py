"""Requests find their place in the index, prompts are read off the loop, and the loop never waits for it."""

import asyncio
import json
import os
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import pytest

from service.app import SWITCH_S
from service.config.rules import load_rules
from service.core.desk import Desk
from service.core.events import Kind, Outcome, Policy, RequestFacts
from service.core.provenance import Provenance
from service.edges import origins as module
from service.edges.headers import Headers
from service.edges.origins import Enrolled, Origins
from tests.guarding import Port, body, chat, guarded, head, pieces
from tests.waiting import until

SECRET = (
    "invoice 4711 for mister lorenzo bianchi, via garibaldi, three hundred litres of olive oil from the "
    "press near lucca, to be shipped before the feast of saint martin and paid within thirty days of arrival"
)
FROM: Headers = [(b"authorization", b"Bearer a"), (b"x-session-id", b"s1")]


def facts(prompt: str, *, sealed: bool = False) -> RequestFacts:
    return RequestFacts(dialect="x", prompt=prompt, sealed=sealed)


@asynccontextmanager
async def running() -> AsyncIterator[tuple[Origins, Counter[str]]]:
    counted: Counter[str] = Counter()

    def count(*key: str, by: int = 1) -> None:
        counted[":".join(key)] += by

    origins = Origins(Provenance(b"salt", bits=16), count)
    origins.start()
    try:
        yield origins, counted
    finally:
        await origins.stop()


async def read(enrolled: Enrolled) -> None:
    """Until the prompt has been read."""
    await until(lambda: enrolled.party.ready)


async def test_a_request_is_enrolled_at_once_and_its_prompt_read_by_and_by() -> None:
    async with running() as (origins, counted):
        enrolled = origins.enrol("r1", facts(f"{SECRET} {'and so on ' * 500}"), FROM)
        assert enrolled.facts.origin is enrolled.party
        await read(enrolled)
        assert enrolled.party.own.size > 10
        origins.leave(enrolled, clean=True)
        assert counted == {"provenance:judged": 1}


async def test_what_the_model_reads_and_we_cannot_is_not_judged_but_may_be_another_answers_source() -> None:
    async with running() as (origins, counted):
        enrolled = origins.enrol("r1", facts(SECRET, sealed=True), FROM)
        assert enrolled.facts.origin is None
        origins.tick(0.25)
        origins.leave(enrolled, clean=True)
        assert counted == {"provenance:sealed": 1}


async def test_short_prompts_are_read_at_ticks_some_in_a_row_and_without_a_thread() -> None:
    async with running() as (origins, _):
        parties = [origins.enrol(f"r{n}", facts(SECRET), FROM).party for n in range(module.READ_TOGETHER + 1)]
        await asyncio.sleep(0)  # the turn of the loop in which requests go out
        assert not any(party.ready for party in parties)
        origins.tick(0.25)
        assert [party.ready for party in parties] == [True] * module.READ_TOGETHER + [False]
        await asyncio.sleep(2 * module.AGAIN_S)
        assert parties[-1].ready


async def test_an_answer_that_ends_sooner_has_its_short_prompt_read_at_once() -> None:
    async with running() as (origins, _):
        enrolled = origins.enrol("r1", facts(SECRET), FROM)
        origins.read_now(enrolled)
        assert enrolled.party.ready


async def test_the_prompt_of_a_request_that_is_over_is_not_read() -> None:
    async with running() as (origins, _):
        enrolled = origins.enrol("r1", facts(SECRET), FROM)
        origins.leave(enrolled, clean=True)
        origins.read_now(enrolled)
        assert not enrolled.party.ready


async def test_sessions_and_tenants_come_from_headers() -> None:
    async with running() as (origins, _):
        one = origins.enrol("r1", facts("a"), FROM).party
        two = origins.enrol("r2", facts("b"), FROM).party
        other = origins.enrol("r3", facts("c"), [(b"authorization", b"Bearer b"), FROM[1]]).party
        nobody = origins.enrol("r4", facts("d"), []).party
        assert one.is_kin(two)
        assert one.tenant == two.tenant != other.tenant
        assert not one.is_kin(other)
        assert nobody.tenant == 0


async def test_a_full_queue_leaves_prompts_unread() -> None:
    counted: Counter[str] = Counter()
    origins = Origins(Provenance(b"salt", bits=12), lambda *key: counted.update([":".join(key)]))
    big = "x" * (module.QUEUE_CHARS // 2)
    enrolled = [origins.enrol(f"r{n}", facts(big), []) for n in range(3)]
    assert len(origins._queue) == 2
    for one in enrolled:
        origins.leave(one, clean=True)
    assert counted == {"provenance:unread": 3}


async def test_a_prompt_that_cannot_be_read_does_not_stop_the_thread() -> None:
    async with running() as (origins, _):
        origins._queue.append(Enrolled(None, facts(SECRET)))  # type: ignore[arg-type]
        await read(origins.enrol("r2", facts(SECRET * 50), []))


async def test_a_tick_reads_on_until_all_is_read() -> None:
    async with running() as (origins, _):
        enrolled = [origins.enrol(f"r{n}", facts(f"{n} {SECRET[n:]}"), []) for n in range(6)]
        origins.tick(0.25)
        speeches = [one.party.speak() for one in enrolled]
        for speech in speeches:
            speech.hear("some words " * 2000)
        origins.tick(0.5)
        assert any(speech.chars for speech in speeches)
        await until(lambda: not any(speech.chars for speech in speeches))


# --- the loop is not held up ---


@pytest.fixture
def switching() -> Iterator[None]:
    """As the composition root sets it."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)
    yield
    sys.setswitchinterval(before)


def longest_hold_s(work: Callable[[], object]) -> float:
    """The longest time that this thread wanted the interpreter, and another ran without giving it.

    Less what we waited for a processor, by the kernel's account, and no more than the other has run, by its
    own clock: on a busy machine either may be put aside. Take the least of several tries: a call that holds
    the interpreter does so in each.
    """
    begin, done, end = threading.Event(), threading.Event(), threading.Event()

    def run() -> None:
        begin.wait()
        work()
        done.set()
        end.wait()

    thread = threading.Thread(target=run)
    thread.start()
    clock = time.pthread_getcpuclockid(thread.ident or 0)
    account = os.open(f"/proc/self/task/{threading.get_native_id()}/schedstat", os.O_RDONLY)

    def waited() -> int:
        return int(os.pread(account, 100, 0).split()[1])

    def marks() -> tuple[int, int, int, int]:
        return waited(), time.perf_counter_ns(), waited(), time.clock_gettime_ns(clock)

    worst, (waited_before, at, _, ran) = 0, marks()
    begin.set()
    while not done.is_set():
        waited_now, now, waited_after, ran_now = marks()
        worst = max(worst, min(now - at - (waited_after - waited_before), ran_now - ran))
        waited_before, at, ran = waited_now, now, ran_now
    end.set()
    thread.join()
    os.close(account)
    return worst / 1e9


@pytest.mark.usefixtures("switching")
def test_a_prompt_of_a_megabyte_stalls_nobody_for_two_milliseconds() -> None:
    rng = random.Random(3)
    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(2, 9))) for _ in range(5000)]
    prompt = " ".join(rng.choices(words, k=180_000))[:1_000_000]
    index = Provenance(b"salt", bits=20)

    def learn() -> None:
        index.learn(index.open("r"), facts(prompt))

    assert min(longest_hold_s(learn) for _ in range(9)) < 0.002


@pytest.mark.usefixtures("switching")
def test_a_long_hold_would_show() -> None:
    text = "word " * 2_000_000
    assert max(longest_hold_s(text.split) for _ in range(3)) > 0.01


# --- through the whole data port ---


@asynccontextmanager
async def port_with_index(*answers: str, policy: Policy) -> AsyncIterator[tuple[Port, Origins]]:
    rules = load_rules("default")
    scripts = [
        [head(), *pieces(*chat(*(answer[at : at + 9] for at in range(0, len(answer), 9))))]
        for answer in answers
    ]
    async with guarded(*scripts, policy=policy) as port:
        desk = Desk(rules.detectors, rules.fusion)
        port.proxy.means.desk = desk
        port.proxy.means.origins = origins = Origins(Provenance(b"salt", bits=16), desk.count)
        origins.start()
        yield port, origins
        await origins.stop()


def said(answer: bytes) -> str:
    """The text of a streamed answer."""
    events = [json.loads(event[6:]) for event in answer.split(b"\n\n") if event.startswith(b"data: {")]
    return "".join(event["choices"][0]["delta"].get("content", "") for event in events)


def asking(prompt: str) -> bytes:
    return body(messages=[{"role": "user", "content": prompt}])


async def test_an_answer_in_anothers_words_is_taken_back_and_made_again() -> None:
    own = "please write a short poem about the sea in november and the gulls over the empty pier"
    poem = "the sea is grey and the gulls are few"
    async with port_with_index(SECRET, poem, policy=Policy.PROTECT) as (port, origins):
        origins.enrol("donor", facts(SECRET), FROM)
        origins.tick(0.25)
        status, _, answer = await port.ask(asking(own), b"authorization: Bearer b")
        assert status == 200
        assert said(answer) == poem
        (incident,) = port.kept
        assert incident.outcome is Outcome.RECOVERED
        assert incident.judgement.kind is Kind.CROSSTALK
        assert (incident.judgement.unit, incident.judgement.foreign) == ("donor", True)
        assert port.desk.counts["foreign_text",] == 1
        assert port.desk.counts["provenance", "judged"] == 1


async def test_the_same_answer_to_who_owns_the_words_is_clean() -> None:
    async with port_with_index(SECRET, policy=Policy.PROTECT) as (port, _):
        _, _, answer = await port.ask(asking(f"repeat: {SECRET}"))
        assert said(answer) == SECRET
        assert not port.kept
