"""Where the probe holds on to SGLang, and how it makes sure that SGLang is what it takes it for.

Three places, all in the scheduler's process, patched on their classes so that a subclass keeps working:

- `SchedulerOutputStreamer._stream_output_generation`: sees every request of a step, streamed or not;
- `SchedulerOutputStreamer.build_additional_customized_info` and the flag that turns it on: fields of chunks;
- `Scheduler.init_output_streamer`: who the scheduler is, for the lengths of its queues.

The compatibility table holds the versions that this was run against; another one is refused unless asked for.
Either way the places themselves are looked at first: a signature that moved means standing aside.
"""

import importlib
import inspect
import sys
from dataclasses import dataclass
from importlib import metadata
from typing import Any, Final

from service.probe.engine import Engine
from service.probe.taps import Taps

COMPATIBLE: Final[dict[str, str]] = {
    "0.5.23": "meta_info and datagrams; unified, prefill and decode; not under Ray, which loads no plugins",
}
"""SGLang versions that the probe was run against, and what works there."""

STREAMER_MODULE: Final = "sglang.srt.managers.scheduler_components.output_streamer"
SCHEDULER_MODULE: Final = "sglang.srt.managers.scheduler"
CONTEXT_MODULE: Final = "sglang.srt.runtime_context"
_STREAM_PARAMETERS: Final = ("self", "reqs", "return_logprob")
_BUILD_PARAMETERS: Final = ("self", "reqs")


def schedules_here() -> bool:
    """Whether this process can run a scheduler: plugins are loaded by every process of the engine."""
    return SCHEDULER_MODULE in sys.modules


@dataclass(frozen=True, slots=True)
class Parts:
    """What of SGLang is held on to."""

    version: str
    streamer: Any  # the class SchedulerOutputStreamer
    scheduler: Any  # the class Scheduler
    context: Any  # the module of the process's configuration


def find() -> Parts:
    """SGLang's parts, as they are in this process; what is missing is None."""
    return Parts(
        metadata.version("sglang"),
        getattr(importlib.import_module(STREAMER_MODULE), "SchedulerOutputStreamer", None),
        getattr(sys.modules[SCHEDULER_MODULE], "Scheduler", None),
        sys.modules.get(CONTEXT_MODULE),
    )


def install(taps: Taps, parts: Parts, *, untested: bool = False) -> str:
    """Hold on. The answer is "" or why not; on a reason nothing has been changed."""
    taps.version = parts.version
    if parts.version not in COMPATIBLE and not untested:
        return f"sglang {parts.version} is not in the compatibility table ({', '.join(COMPATIBLE)})"
    reason = _unfit(parts.streamer, parts.scheduler)
    if not reason:
        _patch_streamer(parts.streamer, taps)
        _patch_scheduler(parts, taps)
    return reason


def _unfit(streamer: object, scheduler: object) -> str:
    """What is not as we know it; "" for nothing."""
    if not isinstance(streamer, type) or not isinstance(scheduler, type):
        return "SchedulerOutputStreamer or Scheduler is no class"
    if not isinstance(getattr(streamer, "has_additional_customized_info", None), bool | property):
        return "SchedulerOutputStreamer.has_additional_customized_info is no flag"
    for owner, name, known in (
        (streamer, "_stream_output_generation", _STREAM_PARAMETERS),
        (streamer, "build_additional_customized_info", _BUILD_PARAMETERS),
        (scheduler, "init_output_streamer", ("self",)),
    ):
        method = inspect.getattr_static(owner, name, None)
        if (
            not inspect.isfunction(method)
            or tuple(inspect.signature(method).parameters)[: len(known)] != known
        ):
            return f"{owner.__name__}.{name} is not as known"
    return ""


def _patch_streamer(streamer: Any, taps: Taps) -> None:  # noqa: ANN401
    stream = streamer._stream_output_generation  # noqa: SLF001 - the one place that sees a whole step
    build = streamer.build_additional_customized_info
    flag = streamer.__dict__.get("has_additional_customized_info", False)

    def stream_and_tell(self: Any, reqs: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        taps.step(self, reqs)
        return stream(self, reqs, *args, **kwargs)

    def build_and_add(self: Any, reqs: Any) -> Any:  # noqa: ANN401
        fields = build(self, reqs)
        return {**taps.counts(reqs), **fields} if taps.wants_meta() else fields

    def has_fields(self: Any) -> bool:  # noqa: ANN401
        theirs = flag.__get__(self) if isinstance(flag, property) else flag
        return bool(theirs) or taps.wants_meta()

    streamer._stream_output_generation = stream_and_tell  # noqa: SLF001
    streamer.build_additional_customized_info = build_and_add
    streamer.has_additional_customized_info = property(has_fields)


def _patch_scheduler(parts: Parts, taps: Taps) -> None:
    init = parts.scheduler.init_output_streamer

    def init_and_know(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        taps.engine = Engine(self, parts.context)
        return init(self, *args, **kwargs)

    parts.scheduler.init_output_streamer = init_and_know
