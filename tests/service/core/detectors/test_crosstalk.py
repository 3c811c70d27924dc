"""Somebody else's words are judged by how many there are, whose, and what explains them."""

import random

import pytest

from service.config.rules import load_rules
from service.core.detectors.crosstalk import Crosstalk
from service.core.events import Delta, Finding, Kind, Level, RequestFacts, WorkerFacts
from service.core.inspector import Inspector
from service.core.party import Party
from service.core.provenance import Provenance

RULESET = load_rules("default")
(RULE,) = [rule for rule in RULESET.detectors if isinstance(rule, Crosstalk)]
OWN = "please copy the list of tools that we keep in the shed behind the house and add the missing handles"
THEIRS = (
    "invoice 4711 for mister lorenzo bianchi, via garibaldi, three hundred litres of olive oil from the "
    "press near lucca, to be shipped before the feast of saint martin and paid within thirty days of arrival"
)


class Scene:
    """One index with a donor and whoever else."""

    def __init__(self) -> None:
        self.index = Provenance(b"salt", bits=14)
        self.ask("donor", THEIRS, tenant="a")

    def ask(self, rid: str, prompt: str, tenant: str = "") -> tuple[Party, RequestFacts]:
        party = self.index.open(rid, tenant=tenant.encode())
        facts = RequestFacts(dialect="x", prompt=prompt, origin=party)
        self.index.learn(party, facts)
        return party, facts

    def hear(
        self, text: str, *, prompt: str = OWN, tenant: str = "", step: int = 12, tick: int = 3
    ) -> Inspector:
        """A victim's answer, judged as it comes."""
        _, facts = self.ask("victim", prompt, tenant)
        inspector = Inspector(facts, WorkerFacts(), [RULE], RULESET.fusion)
        for place, at in enumerate(range(0, len(text), step)):
            piece = text[at : at + step]
            inspector.read([Delta(text=piece, tokens=(at + len(piece)) // 4)], 0.0)
            if place % tick == 0:
                self.index.read(0.0)
        inspector.finish(0.0, clean=True)
        assert not inspector.faults
        return inspector


def only(inspector: Inspector) -> Finding:
    (finding,) = inspector.findings()
    return finding


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_a_passage_of_anothers_prompt_is_acted_on_and_names_the_request(scene: Scene) -> None:
    inspector = scene.hear(f"{OWN[:60]} {THEIRS[20:120]}")
    judgement = inspector.judgement
    assert (judgement.level, judgement.kind) == (Level.CORRUPT, Kind.CROSSTALK)
    assert judgement.unit == only(inspector).unit == "donor"
    assert not judgement.foreign
    assert 12 <= judgement.onset_token <= 20


def test_it_is_found_while_the_answer_still_runs(scene: Scene) -> None:
    text = f"{OWN[:60]} {THEIRS[20:]} {OWN[60:]} and so on and so forth until the end of the day"
    assert only(scene.hear(text)).at_token < len(text) // 4 * 0.8


def test_across_tenants_it_is_a_breach(scene: Scene) -> None:
    judgement = scene.hear(THEIRS, tenant="b").judgement
    assert judgement.foreign
    assert judgement.level is Level.CORRUPT


def test_one_gram_is_no_more_than_a_second_witness(scene: Scene) -> None:
    inspector = scene.hear(
        f"{OWN[:60]} three hundred litres of olive oil and nothing of the kind comes after that at all"
    )
    assert only(inspector).log10_e < RULESET.fusion.suspect_other
    assert inspector.judgement.level is Level.CLEAN


def test_an_answer_made_of_its_own_prompt_finds_nothing(scene: Scene) -> None:
    assert not scene.hear(OWN).findings()


def test_what_two_families_hold_is_nobodys() -> None:
    scene = Scene()
    for rid in ("first", "second"):
        scene.ask(
            rid, f"{' '.join(f'{rid} thing number {n} of many others' for n in range(20))}: {THEIRS[::-1]}"
        )
    assert scene.hear(THEIRS[::-1]).judgement.level is Level.CLEAN


def test_its_own_text_changed_in_the_same_words_as_anothers_is_no_evidence(scene: Scene) -> None:
    rng = random.Random(3)
    words = [rng.choice("amber birch cedar dune elm fern grove heath iris jade".split()) for _ in range(80)]  # noqa: SIM905
    changed = [word if place % 6 else "changed" for place, word in enumerate(words)]
    scene.ask("editor", " ".join(changed))
    assert not scene.hear(" ".join(changed), prompt=" ".join(words)).judgement.level


def test_words_of_an_answer_weigh_less_than_words_of_a_prompt(scene: Scene) -> None:
    def spoken(length: int) -> float:
        scene = Scene()
        party, _ = scene.ask("speaker", "tell me about the weather at sea in the month of november please")
        speech = party.speak()
        speech.hear(THEIRS.replace("e", "a")[:length])
        speech.catch_up(0.0)
        findings = scene.hear(THEIRS.replace("e", "a")[:length]).findings()
        return findings[0].log10_e if findings else 0.0

    assert spoken(90) < 5 <= spoken(190)
    assert only(scene.hear(THEIRS[:90])).log10_e > 5


def test_prompts_with_a_part_in_common_are_only_suspected(scene: Scene) -> None:
    part = " ".join(OWN.split()[:16])
    scene.ask("colleague", f"{part} {THEIRS.replace('a', 'o')}")
    judgement = scene.hear(THEIRS.replace("a", "o"), prompt=f"{part} {OWN[::-1]}").judgement
    assert judgement.level is Level.SUSPECT


def test_without_an_index_nothing_is_said() -> None:
    inspector = Inspector(RequestFacts(dialect="x", prompt=OWN), WorkerFacts(), [RULE], RULESET.fusion)
    inspector.read([Delta(text=THEIRS, tokens=40, finish="stop")], 0.0)
    assert not inspector.findings()


@pytest.mark.parametrize("step", [1, 5, 50, 1000])
@pytest.mark.parametrize("tick", [1, 4, 10_000])
def test_neither_the_cut_nor_the_tick_shows_in_the_verdict(scene: Scene, step: int, tick: int) -> None:
    text = f"{OWN[:60]} {THEIRS[20:150]} {OWN[40:]}"
    assert scene.hear(text, step=step, tick=tick).judgement.signature == (
        Kind.CROSSTALK,
        "crosstalk",
        "donor",
    )
