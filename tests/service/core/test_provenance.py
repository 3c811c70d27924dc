"""The index finds another's words in an answer, and what may be said is never held against it."""

import random

import msgspec
import numpy as np
import pytest

from service.core.events import RequestFacts
from service.core.origin import Hit
from service.core.party import Party, Speech
from service.core.provenance import Provenance

WORDS = """
    anchor basket candle drift ember fabric garden harbour island jacket kettle lantern meadow needle orchard
    pepper quarry ribbon saddle timber umbrella velvet window yarn zephyr bridge copper dagger engine feather
""".split()  # noqa: SIM905 - easier to read


def prose(seed: int, words: int = 60) -> str:
    rng = random.Random(seed)
    return " ".join(rng.choice(WORDS) + rng.choice(["", "s", "ing", "er"]) for _ in range(words))


class Traffic:
    """Requests on one index."""

    def __init__(self, **bounds: int) -> None:
        self.index = Provenance(b"salt", **{"bits": 14, **bounds})

    def ask(self, rid: str, prompt: str, *, preamble: str = "", tenant: str = "", session: str = "") -> Party:
        party = self.index.open(rid, tenant=tenant.encode(), session=session.encode())
        self.index.learn(party, facts(prompt, preamble))
        return party

    def say(self, party: Party, text: str, *, now: float = 0.0) -> Speech:
        speech = party.speak()
        speech.hear(text)
        speech.catch_up(now)
        return speech

    def end(self, party: Party, text: str = "", *, now: float = 0.0, clean: bool = True) -> None:
        if text:
            self.say(party, text, now=now)
        self.index.close(party, now, clean=clean)


def facts(prompt: str, preamble: str = "") -> RequestFacts:
    whole = f"{preamble}\n{prompt}" if preamble else prompt
    return RequestFacts(
        dialect="x",
        prompt=whole,
        preamble_chars=len(preamble) and len(preamble) + 1,
    )


def names(hits: list[Hit]) -> set[str]:
    return {hit.rid for hit in hits}


@pytest.fixture
def traffic() -> Traffic:
    return Traffic()


# --- what is found ---


def test_words_of_a_live_prompt_are_found_with_their_owner(traffic: Traffic) -> None:
    traffic.ask("donor", prose(1))
    traffic.ask("bystander", prose(2))
    victim = traffic.ask("victim", prose(3))
    speech = traffic.say(victim, prose(3)[:100] + " " + prose(1)[50:200])
    assert names(speech.hits) == {"donor"}
    assert min(hit.place for hit in speech.hits) >= 100
    assert not any(hit.spoken or hit.foreign or hit.akin for hit in speech.hits)


def test_words_of_an_answer_are_found_too(traffic: Traffic) -> None:
    donor, victim = traffic.ask("donor", prose(1)), traffic.ask("victim", prose(3))
    traffic.say(donor, prose(5, 200))
    speech = traffic.say(victim, prose(5, 200))
    assert names(speech.hits) == {"donor"}
    assert all(hit.spoken for hit in speech.hits)


def test_a_request_that_has_just_ended_may_still_be_the_donor_but_not_for_ever(traffic: Traffic) -> None:
    traffic.end(traffic.ask("donor", prose(1)), now=100.0)
    victim = traffic.ask("victim", prose(3))
    assert traffic.say(victim, prose(1), now=650.0).hits
    assert not traffic.say(victim, prose(1), now=750.0).hits


def test_another_tenants_words_are_marked(traffic: Traffic) -> None:
    traffic.ask("donor", prose(1), tenant="bearer a")
    victim = traffic.ask("victim", prose(3), tenant="bearer b")
    assert all(hit.foreign for hit in traffic.say(victim, prose(1)).hits)
    same = traffic.ask("other", prose(4), tenant="bearer a")
    assert not any(hit.foreign for hit in traffic.say(same, prose(1)).hits)


def test_all_streams_are_read_in_one_pass_at_the_tick(traffic: Traffic) -> None:
    traffic.ask("donor", prose(1))
    speeches = [traffic.ask(f"v{n}", prose(10 + n)).speak() for n in range(3)]
    for place, speech in enumerate(speeches):
        speech.hear(prose(10 + place)[:80] if place == 1 else prose(1))
    traffic.index.read(0.0)
    assert [bool(speech.hits) for speech in speeches] == [True, False, True]


def test_two_strangers_who_say_the_same_at_the_same_time_both_show_it(traffic: Traffic) -> None:
    # as two requests do that share a slot: neither has said it first
    one, other = (traffic.ask(rid, prose(seed)).speak() for rid, seed in (("one", 1), ("other", 2)))
    alone = traffic.ask("alone", prose(3)).speak()
    for start in range(0, 1200, 300):
        for speech in (one, other):
            speech.hear(prose(5, 300)[start : start + 300])
        alone.hear(prose(6, 300)[start : start + 300])
        traffic.index.read(0.0)
    assert (names(one.hits), names(other.hits), names(alone.hits)) == ({"other"}, {"one"}, set())
    assert all(hit.spoken for hit in one.hits)


def test_kin_may_say_the_same_at_the_same_time(traffic: Traffic) -> None:
    # a client's retry, and two choices of one request
    one, retry = (traffic.ask(rid, prose(1)) for rid in ("one", "retry"))
    speeches = [one.speak(), one.speak(), retry.speak()]
    for speech in speeches:
        speech.hear(prose(5, 200))
    traffic.index.read(0.0)
    assert not any(speech.hits for speech in speeches)


def test_what_is_suspected_of_one_does_not_hide_what_both_say_next(traffic: Traffic) -> None:
    parties = [traffic.ask(rid, prose(seed)) for rid, seed in (("one", 1), ("other", 2))]
    speeches = [party.speak() for party in parties]
    seen = []
    for start in (0, 600):
        for speech in speeches:
            speech.hear(prose(5, 300)[start : start + 600])
        traffic.index.read(0.0)
        seen.append(len(speeches[0].hits))
        parties[1].suspect()
    assert seen[1] > seen[0] > 0


def test_a_tick_reads_so_much_and_leaves_the_rest_for_the_next(traffic: Traffic) -> None:
    traffic.ask("donor", prose(1))
    speeches = [traffic.ask(f"v{n}", prose(10 + n)).speak() for n in range(3)]
    for speech in speeches:
        speech.hear(prose(1))
    traffic.index.read(0.0, most_chars=10)
    assert [bool(speech.hits) for speech in speeches] == [True, False, False]
    traffic.index.read(0.0)
    assert all(speech.hits for speech in speeches)


# --- what is not held against an answer ---


def test_its_own_prompt_is_its_own(traffic: Traffic) -> None:
    traffic.ask("other", prose(1))
    own = traffic.ask("own", prose(1, 59) + " " + prose(9, 80), preamble=prose(8))
    assert not traffic.say(own, prose(1) + prose(8)).hits


def test_its_own_prompt_stays_its_own_when_the_table_has_forgotten_it() -> None:
    traffic = Traffic(bits=6)
    own = traffic.ask("own", prose(1))
    traffic.ask("other", prose(1) + prose(2, 400))
    assert not traffic.say(own, prose(1)).hits


def test_what_two_families_hold_is_common(traffic: Traffic) -> None:
    licence = prose(7)
    for rid in ("a", "b"):
        traffic.ask(rid, prose(ord(rid), 200), preamble=licence)
    assert not traffic.say(traffic.ask("c", prose(3)), licence).hits


def test_what_a_clean_answer_said_unexplained_is_common_from_then_on(traffic: Traffic) -> None:
    traffic.ask("holder", f"{prose(1, 200)}. {prose(7)}")
    first = traffic.ask("first", prose(2))
    assert traffic.say(first, prose(7)).hits
    traffic.end(first)
    assert not traffic.say(traffic.ask("second", prose(3)), prose(7)).hits


def test_what_a_corrupted_answer_said_makes_nothing_common_and_speaks_against_nobody(
    traffic: Traffic,
) -> None:
    traffic.ask("donor", prose(1))
    victim = traffic.ask("victim", prose(3))
    traffic.end(victim, prose(1) + prose(6, 200), clean=False)
    assert traffic.say(traffic.ask("next", prose(4)), prose(1)).hits
    assert not traffic.say(traffic.ask("donor's twin", prose(5)), prose(6, 200)).hits


@pytest.mark.parametrize("shared", ["retry", "session", "history"])
def test_kin_may_say_the_same(traffic: Traffic, shared: str) -> None:
    prompt = prose(1, 120)
    other = prompt if shared == "retry" else prompt + prose(2, 60) if shared == "history" else prose(9)
    session = "s1" if shared == "session" else ""
    one = traffic.ask("one", prompt, session=session)
    two = traffic.ask("two", other, session=session)
    traffic.say(one, prose(5, 200))
    assert not traffic.say(two, prose(5, 200)).hits
    assert not traffic.say(two, prompt).hits


def test_sessions_of_two_tenants_are_two_even_if_named_alike(traffic: Traffic) -> None:
    traffic.ask("one", prose(1), tenant="a", session="s1")
    assert traffic.say(traffic.ask("two", prose(2), tenant="b", session="s1"), prose(1)).hits


def test_a_sub_agent_is_kin_of_whose_answer_it_was_asked_in(traffic: Traffic) -> None:
    parent = traffic.ask("parent", prose(1))
    traffic.say(parent, prose(2, 300))
    helper = traffic.ask("helper", prose(2, 300))
    assert helper.is_kin(parent)
    traffic.say(helper, prose(4, 300))
    again = traffic.ask("parent again", prose(8, 30) + prose(4, 300))
    assert again.is_kin(helper)


def test_a_shared_system_prompt_makes_no_kin(traffic: Traffic) -> None:
    system = prose(7, 500)
    one = traffic.ask("one", prose(1), preamble=system)
    two = traffic.ask("two", prose(2), preamble=system)
    assert not one.is_kin(two)
    assert names(traffic.say(two, prose(1)).hits) == {"one"}


def test_one_file_in_common_makes_related_and_no_more(traffic: Traffic) -> None:
    file = prose(7, 60)
    traffic.ask("one", prose(1, 200) + file)
    two = traffic.ask("two", prose(2, 200) + file)
    hits = traffic.say(two, prose(1, 200)).hits
    assert hits
    assert all(hit.akin for hit in hits)


def test_counts_and_tables_are_everybodys(traffic: Traffic) -> None:
    table = " ".join(f"{n} | 0 |" for n in range(200))
    traffic.ask("one", table)
    assert not traffic.say(traffic.ask("two", prose(2)), table).hits


# --- how an answer comes makes no difference ---


@pytest.mark.parametrize("size", [1, 7, 40, 333])
def test_however_an_answer_is_cut_the_same_is_found(size: int) -> None:
    def found(cut: int) -> tuple[list[Hit], set[tuple[int, int]]]:
        traffic = Traffic()
        traffic.ask("donor", prose(1))
        victim = traffic.ask("victim", prose(3) + " 'quoted' and " + prose(4))
        speech = victim.speak()
        text = f'{{"{prose(3)[:90]}\\n{prose(1)[20:150]}\\n{prose(4)[:99]} {prose(1)[200:300]}"}}'
        for at in range(0, len(text), cut):
            speech.hear(text[at : at + cut])
            speech.catch_up(0.0)
        return speech.hits, speech.explained

    assert found(size) == found(10_000)


def test_near_a_hit_it_is_told_what_the_own_prompt_explains(traffic: Traffic) -> None:
    quoted = prose(3)[:64].rsplit(" ", 1)[0]
    traffic.ask("donor", f"{prose(9, 200)} content {quoted}")
    speech = traffic.say(traffic.ask("victim", prose(3)), f"content {quoted}")
    assert [hit.place for hit in speech.hits] == [0]
    covered = {byte for place, length in speech.explained for byte in range(place, place + length)}
    assert covered >= set(range(8, 32))


# --- bounds ---


def test_what_finds_no_room_is_not_judged() -> None:
    small = Traffic(live_grams=100)
    assert small.ask("fits", prose(1, 30)).ready
    late = small.ask("does not", prose(2, 200))
    assert not late.ready
    assert not small.say(late, prose(1, 30)).hits
    speech = late.speak()
    speech.hear("words")
    small.index.read(0.0)
    assert speech.chars == 5


def test_what_is_over_gives_its_room_back() -> None:
    small = Traffic(live_grams=150)
    for round_ in range(20):
        party = small.ask(f"r{round_}", prose(round_))
        assert party.ready
        small.end(party)
    assert small.index.live_grams == 0


def test_a_request_that_is_over_before_it_is_read_takes_no_room(traffic: Traffic) -> None:
    party = traffic.index.open("gone")
    traffic.index.close(party, 1.0, clean=True)
    assert not traffic.index.learn(party, facts(prose(1)))
    assert traffic.index.live_grams == 0


def test_requests_are_forgotten_in_order() -> None:
    traffic = Traffic(recent=8)
    traffic.ask("donor", prose(1))
    for number in range(8):
        traffic.ask(f"r{number}", prose(100 + number))
    assert not traffic.say(traffic.ask("victim", prose(3)), prose(1)).hits


def test_marks_beyond_the_prompt_do_no_harm(traffic: Traffic) -> None:
    party = traffic.index.open("odd")
    odd = msgspec.structs.replace(facts("a b"), preamble_chars=50, tools_chars=9)
    assert traffic.index.learn(party, odd)


def test_the_short_grams_of_a_short_prompt_wait_until_an_answer_asks(traffic: Traffic) -> None:
    brief, long = traffic.ask("brief", prose(1)), traffic.ask("long", prose(2, 4000))
    assert not len(brief.own_short)
    assert len(long.own_short) > 1000
    grams = traffic.index.short_grams(prose(1))
    assert brief.owns_short(grams).all()
    assert not long.owns_short(grams).all()
    for party in (brief, long):
        traffic.end(party)
        assert not party.owns_short(grams).any()
    assert traffic.index.live_grams == 0


def test_no_text_is_kept_or_shown(traffic: Traffic) -> None:
    party = traffic.ask("own", "a secret sentence of more than thirty two bytes", tenant="bearer xyz")
    traffic.say(party, "another secret sentence of more than thirty two bytes")
    assert "secret" not in repr(traffic.index) + repr(party)
    assert b"bearer" not in traffic.index.table.slots.tobytes()
    assert isinstance(party.tenant, int)
    assert party.own.dtype == np.uint64
