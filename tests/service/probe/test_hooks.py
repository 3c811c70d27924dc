"""Holding on to SGLang: the engine works as before, and where it has changed it is left alone."""

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from service.probe.hooks import COMPATIBLE, SCHEDULER_MODULE, Parts, install, schedules_here
from service.probe.sender import Sender
from service.probe.settings import Settings
from service.probe.taps import META_KEY, Taps
from tests.service.probe.engine_stand_ins import Req, Scheduler, SchedulerOutputStreamer, context


def fresh(version: str = "0.5.23") -> Parts:
    """Classes of their own, so that no test holds on to another's."""
    streamer = type("SchedulerOutputStreamer", (), dict(SchedulerOutputStreamer.__dict__))
    scheduler = type("Scheduler", (), dict(Scheduler.__dict__))
    return Parts(version, streamer, scheduler, context())


def taps() -> Taps:
    return Taps(Settings(), Sender.of(Settings()))


def broken(self: Any, reqs: Any, return_logprob: bool) -> None:  # noqa: ANN401, ARG001 - SGLang's own signature
    raise RuntimeError("the engine's")


def theirs(self: Any, reqs: list[Req]) -> dict[str, list[list[int]]]:  # noqa: ANN401, ARG001
    return {"theirs": [[1] for _ in reqs]}


def moved(self: Any, batch: Any) -> None:  # noqa: ANN401
    pass


def test_chunks_carry_the_counts() -> None:
    parts = fresh()
    assert install(taps(), parts) == ""
    streamer, req = parts.streamer(), Req("a")
    streamer._stream_output_generation([req], False)  # noqa: FBT003 - SGLang's own order
    req.verify(3)
    streamer._stream_output_generation([req], False, skip_req=None)  # noqa: FBT003
    assert streamer.payloads == [{META_KEY: [[]]}, {META_KEY: [[3]]}]


def test_without_speculation_chunks_are_untouched() -> None:
    parts = fresh()
    install(taps(), parts)
    streamer = parts.streamer(speculative=False)
    streamer._stream_output_generation([Req("a")], False)  # noqa: FBT003
    assert streamer.payloads == [{}]


def test_the_rust_frontend_still_starts() -> None:
    parts = fresh()
    install(taps(), parts)
    assert parts.streamer(rust=object()).has_additional_customized_info is False


def test_a_surprise_leaves_the_engine_as_it_was() -> None:
    parts, one = fresh(), taps()
    install(one, parts)
    streamer, req = parts.streamer(), Req("a")
    req.spec_verify_ct = "no number"
    streamer._stream_output_generation([req], False)  # noqa: FBT003
    streamer._stream_output_generation([req], False)  # noqa: FBT003
    assert streamer.payloads == [{}, {}]
    assert not one.live


def test_the_engines_own_errors_are_its_own() -> None:
    parts, one = fresh(), taps()
    parts.streamer._stream_output_generation = broken
    install(one, parts)
    with pytest.raises(RuntimeError, match="the engine's"):
        parts.streamer()._stream_output_generation([Req("a")], False)  # noqa: FBT003
    assert one.live


@pytest.mark.parametrize(
    ("speculative", "fields"),
    [(True, {META_KEY: [[]], "theirs": [[1]]}), (False, {"theirs": [[1]]})],
)
def test_another_plugins_fields_stay(speculative: bool, fields: dict[str, list[list[int]]]) -> None:
    parts = fresh()
    parts.streamer.has_additional_customized_info = True
    parts.streamer.build_additional_customized_info = theirs
    install(taps(), parts)
    streamer = parts.streamer(speculative=speculative)
    streamer._stream_output_generation([Req("a")], False)  # noqa: FBT003
    assert streamer.payloads == [fields]


def test_the_scheduler_is_known_once_it_has_set_itself_up() -> None:
    parts, one = fresh(), taps()
    install(one, parts)
    assert parts.scheduler().init_output_streamer() == "streamer"
    assert one.engine.depth() == 3
    assert one.engine.load(0).running == 3


def test_a_version_outside_the_table_is_left_alone_unless_asked_for() -> None:
    parts = fresh("0.4.1")
    before = parts.streamer._stream_output_generation
    assert "0.4.1 is not in the compatibility table" in install(taps(), parts)
    assert parts.streamer._stream_output_generation is before
    assert install(taps(), parts, untested=True) == ""
    assert set(COMPATIBLE) == {"0.5.23"}


@pytest.mark.parametrize(
    ("owner", "name", "value", "word"),
    [
        ("streamer", "_stream_output_generation", None, "_stream_output_generation is not as known"),
        ("streamer", "_stream_output_generation", moved, "is not as known"),
        ("streamer", "build_additional_customized_info", moved, "is not as known"),
        ("streamer", "has_additional_customized_info", "yes", "is no flag"),
        ("scheduler", "init_output_streamer", None, "init_output_streamer is not as known"),
    ],
)
def test_a_place_that_moved_is_named_and_nothing_is_changed(
    owner: str, name: str, value: object, word: str
) -> None:
    parts = fresh()
    setattr(getattr(parts, owner), name, value)
    before = dict(parts.streamer.__dict__)
    assert word in install(taps(), parts)
    assert dict(parts.streamer.__dict__) == before


def test_missing_classes_are_named() -> None:
    assert "no class" in install(taps(), Parts("0.5.23", None, Scheduler, None))


def test_only_a_process_with_a_scheduler_is_of_interest() -> None:
    assert not schedules_here()
    sys.modules[SCHEDULER_MODULE] = SimpleNamespace()  # type: ignore[assignment]
    try:
        assert schedules_here()
    finally:
        del sys.modules[SCHEDULER_MODULE]
