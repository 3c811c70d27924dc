from hypothesis import given
from hypothesis import strategies as st

from service.core.acceptance import StepCounter, ladder
from service.core.events import UNKNOWN, Delta, Step, StepKind


def steps(tokens: list[int], draft_tokens: int = 4, finish: bool = False) -> list[Step]:
    """The steps read from these token counts, one event each."""
    out: list[Step] = []
    counter = StepCounter(draft_tokens)
    counter.read([Delta(tokens=count) for count in tokens], out)
    if finish:
        counter.read([Delta(tokens=tokens[-1], finish="stop")], out)
    return out


def test_the_first_chunk_is_the_hand_off_token_and_no_step() -> None:
    assert steps([1]) == []
    assert steps([3]) == []


def test_growth_is_accepted_drafts_and_the_bonus_token() -> None:
    assert steps([1, 2, 6, 10, 13]) == [Step(4, 0), Step(4, 3), Step(4, 3)]


def test_the_newest_step_waits_until_it_is_not_the_last() -> None:
    assert steps([1, 2]) == []
    assert steps([1, 2, 3]) == [Step(4, 0)]


def test_the_last_step_says_only_at_least_so_many() -> None:
    assert steps([1, 6, 9], finish=True) == [Step(4, 4), Step(2, 2)]


def test_a_last_step_of_one_token_says_nothing() -> None:
    assert steps([1, 6, 7], finish=True) == [Step(4, 4)]


def test_a_real_capture_gives_the_engines_own_histogram() -> None:
    # sgl-ngram-chat-stream-usage: growth 1 1 4 4 3, final histogram [1, 0, 0, 2, 1], the last step trimmed
    assert steps([1, 2, 6, 10, 13], finish=True) == [Step(4, 0), Step(4, 3), Step(4, 3), Step(2, 2)]


def test_merged_growth_is_told_from_a_single_step() -> None:
    assert steps([1, 13, 14]) == [Step(4, 11)]


def test_merged_growth_counts_as_the_fewest_steps_it_can_be() -> None:
    counter = StepCounter(4)
    counter.read([Delta(tokens=1), Delta(tokens=13), Delta(tokens=14)], [])
    assert (counter.steps, counter.accepted) == (4, 9)


def test_an_absurd_jump_is_told_as_it_is() -> None:
    assert steps([1, 10**9, 10**9 + 1]) == [Step(4, 10**9 - 2)]


def test_with_unknown_drafts_a_step_says_so() -> None:
    assert steps([1, 2, 5, 6, 7], draft_tokens=-1) == [Step(UNKNOWN, 0), Step(UNKNOWN, 2), Step(UNKNOWN, 0)]


def test_a_last_event_of_several_steps_says_nothing() -> None:
    assert steps([1, 3, 12], finish=True) == [Step(4, 1)]


def test_unchanged_and_unknown_counts_are_no_steps() -> None:
    assert steps([1, 1, -1, 1, 2, 2, -1, 4]) == [Step(4, 0)]


def test_a_probe_that_is_heard_late_tells_no_step_twice() -> None:
    out: list[Step] = []
    counter = StepCounter(4)
    counter.read([Delta(tokens=1), Delta(tokens=5), Delta(tokens=6), Delta(tokens=9)], out)
    assert out == [Step(4, 3), Step(4, 0)]
    counter.read([Delta(tokens=14, exact=(3,))], out)
    counter.read([Delta(tokens=15, exact=(0, 2, 4, 0))], out)
    assert out == [Step(4, 3), Step(4, 0), Step(4, 2), Step(4, 4), Step(4, 0)]
    assert (counter.kind, counter.steps, counter.accepted) == (StepKind.EXACT, 5, 9)


def test_the_probes_series_is_taken_as_it_is() -> None:
    out: list[Step] = []
    counter = StepCounter(4)
    counter.read(
        [Delta(tokens=1), Delta(tokens=7, exact=(1, 3)), Delta(tokens=8, exact=(0,), finish="stop")], out
    )
    assert out == [Step(4, 1), Step(4, 3), Step(4, 0)]
    assert (counter.kind, counter.steps, counter.accepted) == (StepKind.EXACT, 3, 4)


def test_growth_is_upper_and_nothing_is_none() -> None:
    told, untold = StepCounter(4), StepCounter(4)
    untold.read([Delta(text="a"), Delta(text="b")], [])
    told.read([Delta(tokens=1), Delta(tokens=2)], [])
    assert (untold.kind, told.kind) == (StepKind.NONE, StepKind.UPPER)


def test_totals_count_the_held_step_too() -> None:
    counter = StepCounter(4)
    counter.read([Delta(tokens=1), Delta(tokens=4), Delta(tokens=6)], [])
    assert (counter.steps, counter.accepted) == (2, 3)


@given(st.lists(st.integers(1, 6), min_size=2, max_size=40), st.data())
def test_the_grouping_of_events_does_not_change_the_steps(growth: list[int], data: st.DataObject) -> None:
    deltas = [Delta(tokens=sum(growth[: at + 1])) for at in range(len(growth))]
    whole: list[Step] = []
    StepCounter(4).read(deltas, whole)
    cut = data.draw(st.integers(0, len(deltas)))
    parts: list[Step] = []
    counter = StepCounter(4)
    counter.read(deltas[:cut], parts)
    counter.read(deltas[cut:], parts)
    assert parts == whole


@given(st.lists(st.integers(0, 4), min_size=1, max_size=40))
def test_unmerged_growth_gives_back_every_step_but_the_last(accepted: list[int]) -> None:
    tokens = [1 + sum(a + 1 for a in accepted[:n]) for n in range(len(accepted) + 1)]
    assert steps(tokens) == [ladder(4)[a] for a in accepted[:-1]]


@given(
    runs=st.lists(st.lists(st.integers(-1, 60), max_size=8), max_size=4),
    draft_tokens=st.sampled_from([-1, 1, 4]),
    exact=st.booleans(),
)
def test_counts_in_a_row_give_the_steps_that_each_gives_alone(
    runs: list[list[int]], draft_tokens: int, exact: bool
) -> None:
    alone, together = StepCounter(draft_tokens), StepCounter(draft_tokens)
    single: list[Step] = []
    many: list[Step] = []
    for run in runs:
        if exact:
            alone.exact((1,), single)
            together.exact((1,), many)
        alone.read([Delta(tokens=count) for count in run], single)
        together.rise(run, many)
        assert repr(alone) == repr(together)
    for counter, out in ((alone, single), (together, many)):
        counter.close(out)
    assert single == many


def test_a_probe_that_tells_more_than_a_step_can_accept_is_taken_for_a_full_step() -> None:
    counter, out = StepCounter(3), list[Step]()
    counter.exact((254, 1), out)
    assert out == [Step(3, 3), Step(3, 1)]
    assert (counter.steps, counter.accepted) == (2, 4)
