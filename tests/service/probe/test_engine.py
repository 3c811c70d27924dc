"""Who answers, how deep drafts go, how long queues are: read under SGLang's own names."""

from types import SimpleNamespace

import pytest

from service.probe.engine import Engine, answers
from service.probe.wire import NO_LOAD, Load, Origin
from tests.service.probe.engine_stand_ins import Scheduler, SchedulerOutputStreamer, context


@pytest.mark.parametrize(("name", "told"), [(b"", b"http://127.0.0.1:30000"), (b"http://w:1", b"http://w:1")])
def test_a_given_name_wins_over_the_flags(name: bytes, told: bytes) -> None:
    origin = Engine(Scheduler(), context(dp_rank=2)).origin(
        SchedulerOutputStreamer("decode"), Origin(name=name)
    )
    assert (origin.name, origin.role, origin.dp_rank) == (told, 2, 2)


def test_without_a_rank_it_says_none() -> None:
    assert Engine().origin(SchedulerOutputStreamer(), Origin()).dp_rank == -1
    assert Engine(Scheduler(), context()).origin(SchedulerOutputStreamer(), Origin()).dp_rank == -1


@pytest.mark.parametrize(
    ("drafter", "steps", "drafts", "depth"),
    [
        (object(), 3, 4, 3),
        (object(), None, 5, 4),
        (object(), None, None, 0),
        (SimpleNamespace(speculative_num_steps=1), 3, 4, 1),  # adaptive: the drafter's present width
        (None, 3, 4, 0),
    ],
)
def test_the_depth_is_the_drafters_own(
    drafter: object, steps: int | None, drafts: int | None, depth: int
) -> None:
    assert Engine(Scheduler(drafter), context(steps=steps, drafts=drafts)).depth() == depth


def test_an_unknown_scheduler_tells_nothing() -> None:
    assert Engine().depth() == 0
    assert Engine().load(0) == NO_LOAD


@pytest.mark.parametrize(("role", "load"), [(0, Load(3, 1)), (1, Load(3, 1, 2, 1)), (2, Load(3, 1, 4, 5))])
def test_queues_are_those_of_the_role(role: int, load: Load) -> None:
    assert Engine(Scheduler()).load(role) == load


def test_the_rust_frontend_is_answered_through_its_ring() -> None:
    streamer = SchedulerOutputStreamer(rust=object())
    streamer.send_to_detokenizer.socket = None
    assert answers(streamer)
