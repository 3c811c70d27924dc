"""What the probe reads of SGLang beside the requests: who answers here, how deep drafts go, queue lengths.

Every name of SGLang's that is used is in this module, in `hooks` and in `taps`; nothing is called that could
wait. A name that is gone raises, and the caller stands aside.
"""

from typing import Any, Final

from service.probe.settings import MAX_NAME_BYTES
from service.probe.wire import NO_LOAD, ROLES, Load, Origin

_UNIFIED: Final = 0


class Engine:
    """The scheduler of this process; unknown until it has set itself up."""

    __slots__ = ("_configured", "_context", "_scheduler")

    def __init__(self, scheduler: Any = None, context: Any = None) -> None:  # noqa: ANN401 - SGLang's own objects
        self._scheduler = scheduler
        self._configured = -1
        self._context = context  # the module sglang.srt.runtime_context

    def origin(self, streamer: Any, origin: Origin) -> Origin:  # noqa: ANN401
        """Complete who sends, now that the ranks are known."""
        args = streamer.server_args
        origin.role = role_of(streamer)
        origin.name = origin.name or f"http://{args.host}:{args.port}".encode()[:MAX_NAME_BYTES]
        rank = None if self._context is None else self._context.get_parallel().dp_rank
        origin.dp_rank = -1 if rank is None else rank
        return origin

    def depth(self) -> int:
        """Draft tokens that a verify step can accept at most, as the drafter runs now; 0: not known.

        An adaptive drafter has its present width on itself; the configuration is read for others, once.
        """
        drafter = None if self._scheduler is None else self._scheduler.draft_worker
        if drafter is None:
            return 0
        steps = getattr(drafter, "speculative_num_steps", None)
        return int(steps) if steps else self._configured_depth()

    def _configured_depth(self) -> int:
        if self._configured < 0:
            spec = self._context.get_spec()
            drafts = spec.speculative_num_draft_tokens
            self._configured = spec.speculative_num_steps or (drafts - 1 if drafts else 0)
        return self._configured

    def load(self, role: int) -> Load:
        """The lengths of the queues."""
        scheduler = self._scheduler
        if scheduler is None:
            return NO_LOAD
        running, waiting = len(scheduler.running_batch.reqs), len(scheduler.waiting_queue)
        if role == _UNIFIED:
            return Load(running, waiting)
        if role == ROLES["prefill"]:
            preparing, moving = (
                scheduler.disagg_prefill_bootstrap_queue.queue,
                scheduler.disagg_prefill_inflight_queue,
            )
        else:
            preparing, moving = (
                scheduler.disagg_decode_prealloc_queue.queue,
                scheduler.disagg_decode_transfer_queue.queue,
            )
        return Load(running, waiting, len(preparing), len(moving))


def role_of(streamer: Any) -> int:  # noqa: ANN401
    return ROLES[streamer.disaggregation_mode.value]


def answers(streamer: Any) -> bool:  # noqa: ANN401
    """Only one rank of a worker answers requests; the others see the same steps and stay silent."""
    return streamer.rust_server is not None or streamer.send_to_detokenizer.socket is not None
