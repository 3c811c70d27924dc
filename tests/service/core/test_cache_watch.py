"""A session that does not find its prefix is named, and so is a client whose prompts drift; no other is."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core.cache_watch import (
    ALIKE_MAX,
    BLOCK,
    FINDINGS_MAX,
    TURNS_MAX,
    CacheFinding,
    CacheKind,
    CacheWatch,
    SessionTurn,
)
from service.core.events import UNKNOWN, Cached

CHARS_A_TOKEN = 4


def text(chars: int, seed: int = 0) -> str:
    """Lines of words."""
    random, lines, size = Random(seed), list[str](), 0
    while size < chars:
        lines.append(" ".join("%06x" % random.getrandbits(24) for _ in range(9)))  # noqa: UP031 - fixed width
        size += len(lines[-1]) + 1
    return "\n".join(lines)


class Session:
    """Turns of one client, whose history grows."""

    def __init__(
        self, watch: CacheWatch, *, name: str = "", seed: int = 0, worker: str = "http://d1"
    ) -> None:
        self._watch = watch
        self._name = name
        self._worker = worker
        self.history = text(16_000, seed)
        self.now = 0.0

    def turn(self, cached: int | None = None, *, prompt: str = "", **more: str) -> CacheFinding | None:
        """By default everything that the turn before left is found."""
        self.now += 10.0
        asked = prompt or self.history
        tokens = len(asked) // CHARS_A_TOKEN
        before = max(tokens - 500, 0) if cached is None else cached
        finding = self._watch.read(
            SessionTurn(
                prompt=asked,
                model="m",
                cached=Cached(tokens, before),
                at=self.now,
                worker=more.get("worker", self._worker),
                session=self._name,
            )
        )
        self.history += "\n" + text(2_000, int(self.now))
        return finding


@pytest.fixture
def watch() -> CacheWatch:
    return CacheWatch()


def test_a_session_that_finds_its_prefix_is_nothing_to_speak_of(watch: CacheWatch) -> None:
    session = Session(watch)
    assert [session.turn() for _ in range(5)] == [None] * 5
    assert (watch.counts["continued"], watch.counts["first"]) == (4, 1)


def test_a_turn_that_finds_nothing_is_named(watch: CacheWatch) -> None:
    session = Session(watch)
    session.turn()
    session.turn()
    finding = session.turn(0)
    assert finding is not None
    assert (finding.kind, finding.cached_tokens, finding.explained_by) == (CacheKind.ZERO_HIT, 0, "")
    assert finding.parted_at == UNKNOWN
    assert finding.age_s == 10.0
    expected = 18_000 / CHARS_A_TOKEN  # the turn before, to a block
    assert expected * 0.9 < finding.expected_tokens < expected * 1.1


def test_a_turn_that_finds_little_is_named(watch: CacheWatch) -> None:
    session = Session(watch)
    session.turn()
    finding = session.turn(400)
    assert finding is not None
    assert finding.kind is CacheKind.SHORT_HIT


def test_another_worker_explains_a_miss(watch: CacheWatch) -> None:
    session = Session(watch)
    session.turn()
    finding = session.turn(0, worker="http://d2")
    assert finding is not None
    assert finding.explained_by == "other_worker"


def test_white_space_that_drifts_is_named_with_its_place(watch: CacheWatch) -> None:
    session = Session(watch)
    session.turn()
    drifted = session.history[:5_000] + session.history[5_000:].replace(" ", "  ", 1)
    finding = session.turn(1_000, prompt=drifted)
    assert finding is not None
    assert finding.kind is CacheKind.WHITESPACE
    assert 5_000 - BLOCK <= finding.parted_at <= 5_200


def test_white_space_that_drifts_at_the_very_beginning_is_named(watch: CacheWatch) -> None:
    session = Session(watch)
    session.turn()
    finding = session.turn(0, prompt=session.history.replace(" ", "  ", 1))
    assert finding is not None
    assert (finding.kind, finding.parted_at) == (CacheKind.WHITESPACE, 0)


def test_another_order_of_the_same_lines_is_named(watch: CacheWatch) -> None:
    session = Session(watch)
    session.turn()
    lines = session.history.split("\n")
    moved = [*lines[:20], lines[30], *lines[20:30], *lines[31:]]
    finding = session.turn(0, prompt="\n".join(moved))
    assert finding is not None
    assert finding.kind is CacheKind.ORDER


def test_a_beginning_that_was_edited_is_named(watch: CacheWatch) -> None:
    session = Session(watch, name="s-1")
    session.turn()
    finding = session.turn(0, prompt="It is half past ten.\n" + session.history[300:])
    assert finding is not None
    assert (finding.kind, finding.parted_at) == (CacheKind.EDITED, 0)


def test_a_last_message_that_is_replaced_is_no_drift(watch: CacheWatch) -> None:
    session = Session(watch)
    session.turn()
    assert session.turn(prompt=session.history[:12_000] + text(5_000, 9)) is None
    assert watch.counts["continued"] == 1


def test_a_rewritten_history_is_named_where_the_session_has_a_name(watch: CacheWatch) -> None:
    named = Session(watch, name="s-1")
    named.turn()
    finding = named.turn(0, prompt=named.history[:1_000] + text(20_000, 77))
    assert finding is not None
    assert finding.kind is CacheKind.REWRITTEN


def test_two_sessions_that_begin_alike_are_told_apart(watch: CacheWatch) -> None:
    head = text(1_500, 5)
    one, two = Session(watch), Session(watch)
    one.history, two.history = head + text(16_000, 6), head + text(16_000, 7)
    found = [session.turn() for _ in range(4) for session in (one, two)]
    assert found == [None] * 8
    assert watch.counts["continued"] == 6


def test_tools_are_what_the_engine_reads_first(watch: CacheWatch) -> None:
    tools = text(8_000, 1)
    for turn in range(2):
        prompt = text(2_000 * (turn + 1), 2) + tools
        cached = Cached(len(prompt) // CHARS_A_TOKEN, 0)
        finding = watch.read(
            SessionTurn(prompt, "m", cached, float(turn), "w", session="s", tools_chars=len(tools))
        )
    assert finding is not None
    assert finding.kind is CacheKind.ZERO_HIT
    assert finding.expected_tokens > 2_000


def test_what_is_not_told_is_not_judged_until_the_worker_has_told_of_a_hit(watch: CacheWatch) -> None:
    session = Session(watch)
    assert [session.turn(UNKNOWN) for _ in range(3)] == [None] * 3
    assert watch.counts["untold"] == 2
    session.turn(5_000)
    finding = session.turn(UNKNOWN)
    assert finding is not None
    assert finding.kind is CacheKind.ZERO_HIT


def test_a_short_prompt_may_be_gone_for_any_reason(watch: CacheWatch) -> None:
    session = Session(watch)
    session.history = text(2_000)
    session.turn()
    assert session.turn(0) is None
    assert watch.counts["continued"] == 1


def test_a_giant_prompt_explains_a_miss(watch: CacheWatch) -> None:
    session = Session(watch)
    session.history = text(160_000)
    session.turn()
    finding = session.turn(0)
    assert finding is not None
    assert finding.explained_by == "giant_prefill_nearby"


def test_memory_is_bounded(watch: CacheWatch) -> None:
    for number in range(TURNS_MAX + 40):
        watch.read(SessionTurn(f"{number} " * 40, "m", Cached(), 0.0, session=str(number)))
    assert sum(map(len, watch._sessions.values())) == watch._turns == TURNS_MAX
    alike = CacheWatch()
    for number in range(ALIKE_MAX * 3):
        alike.read(SessionTurn("x" * 600 + str(number), "m", Cached(), float(number)))
    assert alike._turns == ALIKE_MAX
    session = Session(watch)
    session.turn()
    for _ in range(3):
        session.turn(0)
    assert len(watch.findings) <= FINDINGS_MAX


def test_no_text_is_kept(watch: CacheWatch) -> None:
    session = Session(watch, name="secret-name")
    session.turn()
    finding = session.turn(0)
    assert "secret" not in repr(finding)
    assert session.history[:20] not in repr(
        (finding, watch, SessionTurn(session.history, "m", Cached(), 0.0))
    )


@given(
    prompts=st.lists(st.text(max_size=600), max_size=6),
    cached=st.integers(-5, 1 << 40),
    tools=st.integers(0, 700),
)
def test_nothing_a_client_or_an_engine_says_raises(prompts: list[str], cached: int, tools: int) -> None:
    watch = CacheWatch()
    for prompt in prompts:
        watch.read(
            SessionTurn(
                prompt * 20, "m", Cached(cached, cached), 0.0, tools_chars=tools, preamble_chars=tools
            )
        )
    assert watch.counts["turns"] == len(prompts)
