from collections.abc import Sequence

import pytest

from service.core.detectors.unseen import Unseen
from service.core.events import Channel, Finding, Look, RequestFacts, WorkerFacts
from service.core.vocabulary import Vocabulary

RULE = Unseen(
    learned_tokens=1000,
    before=32,
    before_most=1,
    window=64,
    seconds_min=2,
    seconds_log10=1.0,
    suspects_min=6,
    suspects_log10=2.0,
)
KNOWN = range(100)
STRANGE = range(5000, 5200)


def vocabulary(tokens: int = 1000) -> Vocabulary:
    known = Vocabulary()
    known.learn(token % len(KNOWN) for token in range(tokens))
    return known


def findings(ids: Sequence[int], *, known: Vocabulary | None, batch: int = 1000) -> list[Finding]:
    state = RULE.start(RequestFacts(dialect="test", vocabulary=known), WorkerFacts())
    looks = [Look(ids=tuple(ids[at : at + batch]), tokens=at) for at in range(0, len(ids), batch)]
    return [said for look in looks if (said := RULE.look(state, look)) is not None]


@pytest.mark.parametrize("batch", [1, 7, 1000])
def test_a_shift_to_ids_that_nobody_says_is_suspected_however_it_arrives(batch: int) -> None:
    last = findings([*KNOWN[:50], *STRANGE[:6]], known=vocabulary(), batch=batch)[-1]
    assert (last.log10_e, last.channel, last.onset_token) == (2.0, Channel.TEXT, 51)


def test_two_new_ids_second_and_one_says_nothing() -> None:
    assert findings([*KNOWN, STRANGE[0]], known=vocabulary()) == []
    (said,) = findings([*KNOWN, *STRANGE[:2]], known=vocabulary())
    assert said.log10_e == 1.0


def test_new_ids_far_apart_say_nothing() -> None:
    ids = [token for one in STRANGE[:6] for token in (*KNOWN[:70], one)]
    assert findings(ids, known=vocabulary()) == []


def test_the_same_new_id_again_is_new_once() -> None:
    assert findings([*KNOWN, *[STRANGE[0]] * 40], known=vocabulary()) == []


def test_an_answer_that_is_new_from_the_start_is_a_new_language() -> None:
    assert findings([*STRANGE[:60], *KNOWN, *STRANGE[60:]], known=vocabulary()) == []


def test_nothing_is_said_before_enough_was_learnt_or_without_ids() -> None:
    strange = [*KNOWN, *STRANGE]
    assert findings(strange, known=vocabulary(999)) == []
    assert findings(strange, known=None) == []
    assert findings([], known=vocabulary()) == []
