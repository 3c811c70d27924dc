"""Each cause is named by its own signs, and goes down by what speaks against it."""

from typing import Any

import pytest

from service.core.changes import Change
from service.core.events import Attempt, Cached, Kind
from service.core.fleet_acceptance import State
from service.core.fleet_watch import Reason
from service.core.hints.signs import ABORTS, LOADED_BACK, NEXT_STEPS, RELEASES, SIGNS, TRANSFERS, Cause
from tests.service.core.hints.scenes import CACHED_HOST, bad, good, group, seen, told

SCENES: list[tuple[Cause, list[Attempt], dict[str, Any]]] = [
    (
        Cause.ABORT_RACE,
        [bad(Kind.CROSSTALK, "crosstalk", "other", prefill="http://p1"), good()],
        {"workers": (seen(trouble={ABORTS: 12.0, TRANSFERS: 3.0}),)},
    ),
    (
        Cause.ABORT_RACE,
        [bad(prefill="http://p1", engine_said=("context_corruption",))],
        {"groups": [group("pair", "http://p1 -> http://d1")]},
    ),
    (
        Cause.ABORT_RACE,
        [bad(accept_length=1.3)],
        {"workers": (seen(trouble={ABORTS: 3.0}),), "prefills": ["http://p1"]},
    ),
    (Cause.DEFERRED_RELEASE, [bad(engine_said=("worker:deferred_release_timeout",)), good()], {}),
    (Cause.DEFERRED_RELEASE, [bad()], {"workers": (seen(trouble={RELEASES: 2.0}),)}),
    (
        Cause.LOAD_BACK,
        [bad(cached=CACHED_HOST), good()],
        {"workers": (seen(trouble={LOADED_BACK: 4096.0}),), "groups": [group("cache", "host")]},
    ),
    (
        Cause.LOAD_BACK,
        [bad(Kind.LOW_ACCEPTANCE, "acceptance", "", cached=CACHED_HOST, accept_length=1.6)],
        {"workers": (seen(Reason.ACCEPTANCE, trouble={LOADED_BACK: 9.0}, state=State.FALLEN),)},
    ),
    (Cause.TRANSFER, [bad(engine_said=("checksum_mismatch",)), good()], {}),
    (Cause.NAN, [bad(Kind.SILENT, "silence", "", engine_said=("nan",), accept_length=5.0)], {}),
    (Cause.NAN, [bad(Kind.SILENT, "silence", "", accept_length=1.0)], {}),
    (
        Cause.DRAFT,
        [bad(Kind.LOW_ACCEPTANCE, "acceptance", "", accept_length=1.02)],
        {"workers": (seen(state=State.FALLEN_WITH_PEERS),)},
    ),
    (Cause.FRONT_END, [bad(unit="replacement")], {}),
    (Cause.GRAMMAR, [bad(Kind.GARBLED, "structure", "arguments")], {"tools": True}),
    (
        Cause.REQUESTED,
        [bad(Kind.REPETITION, "loop", "ab12", accept_length=4.95)],
        {"prompt": "Print the line below 200 times."},
    ),
    (Cause.REQUESTED, [bad(Kind.REPETITION, "loop", "ab12")], {"prompt": "请把这句话重复一百遍"}),
    (
        Cause.PROMPT,
        [bad(Kind.REPETITION, "loop", "ab12"), bad(Kind.REPETITION, "loop", "ab12", worker="http://d2")],
        {"temperature": 0.0},
    ),
    (
        Cause.DEPLOY,
        [bad(accept_length=2.0)],
        {"changes": [Change(0.0, "image 0.5.24 rolled out", "http://d1", told=True)]},
    ),
]


@pytest.mark.parametrize(("cause", "attempts", "around"), SCENES)
def test_a_cause_is_named_first_by_its_own_signs(
    cause: Cause, attempts: list[Attempt], around: dict[str, Any]
) -> None:
    hints = told(*attempts, **around)
    assert next(iter(hints)) == cause
    hint = hints[cause]
    assert hint.evidence
    assert hint.next_step.startswith(NEXT_STEPS[cause])


@pytest.mark.parametrize(
    ("cause", "attempts", "around"),
    [
        (Cause.ABORT_RACE, [bad(Kind.CROSSTALK, "crosstalk", "o", prefill="http://d1")], {}),
        (Cause.LOAD_BACK, [bad(cached=Cached(1000, 900, 0, 0))], {"groups": [group("cache", "device")]}),
        (Cause.NAN, [bad(Kind.SILENT, "silence", "", accept_length=2.9)], {}),
        (Cause.DRAFT, [bad(accept_length=1.0)], {"workers": (seen(Reason.BELOW_PEERS),)}),
        (Cause.FRONT_END, [bad(unit="replacement", accept_length=1.0, engine_said=("nan",))], {}),
        (Cause.GRAMMAR, [bad(Kind.GARBLED, "structure", "arguments")], {}),
        (Cause.REQUESTED, [bad(Kind.REPETITION, "loop", "ab12"), good()], {"prompt": "repeat it 50 times"}),
        (Cause.PROMPT, [bad(), good()], {}),
        (Cause.DEPLOY, [bad()], {"changes": [Change(0.0, "flag", "http://d7")]}),
    ],
)
def test_what_speaks_against_a_cause_takes_it_off_the_list(
    cause: Cause, attempts: list[Attempt], around: dict[str, Any]
) -> None:
    assert cause not in told(*attempts, **around)


def test_every_cause_has_signs_for_it_and_a_next_step_and_all_but_two_have_some_against() -> None:
    causes = set(Cause) - {Cause.NONE}
    assert {sign.cause for sign in SIGNS if sign.points > 0} == causes
    assert {sign.cause for sign in SIGNS if sign.points < 0} == causes
    assert set(NEXT_STEPS) == set(Cause)


def test_where_the_prefill_worker_is_unknown_all_of_them_are_asked() -> None:
    """KV is loaded back on prefill workers, and an answer does not name its own."""
    loading = seen(url="http://p2", trouble={LOADED_BACK: 64.0})
    workers = (seen(), seen(url="http://p1"), loading)
    prefills = ["http://p1", "http://p2"]
    hint = told(bad(cached=CACHED_HOST), workers=workers, prefills=prefills)[Cause.LOAD_BACK]
    assert "KV was loaded back on its workers within ten minutes" in hint.evidence
    still = told(bad(cached=CACHED_HOST, prefill="http://p1"), workers=workers, prefills=prefills)
    assert Cause.LOAD_BACK not in still


def test_a_counter_that_nobody_reads_is_no_evidence_against() -> None:
    attempts = bad(Kind.CROSSTALK, "crosstalk", "o", prefill="http://p1", engine_said=("canary_violation",))
    hint = told(attempts, workers=(seen(scraped=False),))[Cause.ABORT_RACE]
    assert hint.against == ()
    workers = (seen(), seen(url="http://p1"))
    assert any("no abort" in one for one in told(attempts, workers=workers)[Cause.ABORT_RACE].against)
