"""Canaries: marks of their own, found wherever they turn up."""

from hypothesis import given
from hypothesis import strategies as st

from replay.canary import MARK, body, foreign, mark, marks


@given(seed=st.integers(0, 2**40), name=st.text(max_size=20))
def test_a_mark_is_found_as_it_was_made(seed: int, name: str) -> None:
    own = mark(seed, name)
    assert MARK.fullmatch(own)
    assert marks(f"so: {own}, {own}.") == {own}


def test_marks_differ_by_seed_and_name() -> None:
    made = {mark(seed, str(name)) for seed in range(20) for name in range(500)}
    assert len(made) == 10_000


def test_only_the_mark_of_another_is_a_leak() -> None:
    planted = {mark(1, name): name for name in ("a", "b")}
    texts = [("a", f"reference {mark(1, 'a')}"), ("c", f"well {mark(1, 'b')}"), ("d", mark(1, "unknown"))]
    assert foreign(texts, planted) == {"c": {"b"}}


def test_each_path_has_its_own_shape() -> None:
    own = mark(1, "a")
    assert own in body(own, "/generate")["text"]
    assert own in body(own, "/v1/completions")["prompt"]
    assert own in body(own, "/v1/chat/completions")["messages"][0]["content"]
