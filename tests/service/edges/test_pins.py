"""Pins: learned from answers, never believed for longer than the last one."""

from hypothesis import given
from hypothesis import strategies as st

from service.edges.pins import CONTRADICTIONS_MAX, MODELS_MAX, PinBook

A, B, C = "http://a", "http://b", "http://c"
M = "model"


def book(*urls: str) -> PinBook:
    pins = PinBook()
    pins.pool(frozenset(urls))
    return pins


def test_without_workers_or_without_another_worker_there_is_no_pin() -> None:
    assert PinBook().choose(M, frozenset()) is None
    assert book(A).choose(M, frozenset({A})) is None


def test_an_untried_index_is_tried_and_a_known_one_is_reused() -> None:
    pins = book(A, B)
    first = pins.choose(M, frozenset({A}))
    assert first == 0
    pins.answered(M, first, A)  # the index that leads to the worker to avoid
    second = pins.choose(M, frozenset({A}))
    assert second == 1
    pins.answered(M, second, B)
    assert [pins.choose(M, frozenset({A})) for _ in range(3)] == [1, 1, 1]
    assert pins.choose(M, frozenset({B})) == 0


def test_retries_spread_over_what_is_safe() -> None:
    pins = book(A, B, C)
    for index, url in enumerate((A, B, C)):
        pins.answered(M, index, url)
    assert {pins.choose(M, frozenset({A})) for _ in range(4)} == {1, 2}


def test_a_change_of_the_fleet_forgets_every_index() -> None:
    pins = book(A, B)
    pins.answered(M, 0, A)
    pins.pool(frozenset({A, B, C}))
    assert not pins.page(M).known


def test_the_last_answer_is_believed() -> None:
    pins = book(A, B)
    pins.answered(M, 0, A)
    pins.answered(M, 0, B)
    assert pins.choose(M, frozenset({A})) == 0


def test_a_router_that_ignores_pins_is_found_out_until_its_fleet_changes() -> None:
    pins = book(A, B)
    for turn in range(CONTRADICTIONS_MAX + 1):
        pins.answered(M, 0, (A, B)[turn % 2])
    assert not pins.page(M).works
    assert pins.choose(M, frozenset({A})) is None
    pins.pool(frozenset({A, C}))
    assert pins.page(M).works


def test_answers_to_no_pin_teach_nothing() -> None:
    pins = book(A, B)
    pins.answered(M, None, A)
    pins.answered(M, 0, "")
    assert not pins.page(M).known


@given(st.permutations([A, B, C]), st.sets(st.sampled_from([A, B, C]), max_size=2))
def test_a_router_that_obeys_is_learned_within_as_many_tries_as_it_has_workers(
    order: list[str], avoid: set[str]
) -> None:
    pins = book(A, B, C)
    landed = []
    for _ in range(4):
        pin = pins.choose(M, frozenset(avoid))
        assert pin is not None
        pins.answered(M, pin, order[pin])
        landed.append(order[pin])
    assert landed[-1] not in avoid


def test_each_model_has_an_order_of_its_own() -> None:
    pins = book(A, B)
    pins.answered("chat", 0, A)
    pins.answered("", 0, B)
    assert pins.choose("chat", frozenset({B})) == 0
    assert pins.choose("", frozenset({A})) == 0


def test_a_contradiction_forgets_what_else_was_known_of_that_model() -> None:
    pins = book(A, B)
    pins.answered(M, 0, A)
    pins.answered(M, 1, B)
    pins.answered(M, 0, B)
    assert pins.page(M).known == {0: B}


def test_names_that_clients_make_up_fill_only_so_many_pages() -> None:
    pins = book(A, B)
    for number in range(2 * MODELS_MAX):
        pins.answered(f"made-up-{number}", 0, A)
    assert repr(pins) == f"<PinBook {MODELS_MAX} models over 2 workers>"
