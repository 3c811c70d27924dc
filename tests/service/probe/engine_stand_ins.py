"""Stand-ins for the few things of SGLang that the probe touches, with SGLang's names."""

from types import SimpleNamespace
from typing import Any


class Req:
    """A request in the scheduler."""

    def __init__(self, rid: str, room: int | None = None) -> None:
        self.rid = rid
        self.bootstrap_room = room
        self.spec_verify_ct: Any = 0
        self.spec_num_correct_drafts: Any = 0

    def verify(self, accepted: int) -> None:
        self.spec_verify_ct += 1
        self.spec_num_correct_drafts += accepted


class SchedulerOutputStreamer:
    """As SGLang's: refuses extra fields beside the Rust frontend, and values that are not one a request."""

    has_additional_customized_info = False

    def __init__(self, mode: str = "null", *, speculative: bool = True, rust: object = None) -> None:
        self.rust_server = rust
        self.spec_algorithm = SimpleNamespace(is_none=lambda: not speculative)
        self.disaggregation_mode = SimpleNamespace(value=mode)
        self.send_to_detokenizer = SimpleNamespace(socket=object())
        self.server_args = SimpleNamespace(host="127.0.0.1", port=30000)
        self.payloads: list[dict[str, list[list[int]]]] = []
        if self.has_additional_customized_info and self.rust_server is not None:
            raise ValueError("additional customized generation output is not supported by Rust egress")

    def _stream_output_generation(
        self,
        reqs: list[Req],
        return_logprob: bool,
        skip_req: Req | None = None,
        is_idle_batch: bool = False,
    ) -> None:
        output = [req for req in reqs if req is not skip_req]
        fields: dict[str, list[Any]] = {}
        if self.has_additional_customized_info:
            fields = self.build_additional_customized_info(output)
        told: dict[str, list[list[int]]] = {key: [] for key in fields}
        for key, values in fields.items():
            if len(values) != len(output):
                raise ValueError(f"{key}: the scheduler dies of this")
            for value in values:
                accumulated: list[int] = []
                accumulated.extend(value)  # as the tokenizer manager does; it dies of what is no sequence
                told[key].append(accumulated)
        self.payloads.append(told)

    def build_additional_customized_info(self, reqs: list[Req]) -> dict[str, list[Any]]:
        return {}


class Scheduler:
    """Holds the queues."""

    def __init__(self, drafter: object = "a worker") -> None:
        self.draft_worker = drafter
        self.running_batch = SimpleNamespace(reqs=[1, 2, 3])
        self.waiting_queue = [1]
        self.disagg_prefill_bootstrap_queue = SimpleNamespace(queue=[1, 2])
        self.disagg_prefill_inflight_queue = [1]
        self.disagg_decode_prealloc_queue = SimpleNamespace(queue=[1, 2, 3, 4])
        self.disagg_decode_transfer_queue = SimpleNamespace(queue=[1, 2, 3, 4, 5])

    def init_output_streamer(self) -> str:
        return "streamer"


def context(dp_rank: int | None = None, steps: int | None = 3, drafts: int | None = 4) -> Any:  # noqa: ANN401
    """The module that holds the process's configuration."""
    return SimpleNamespace(
        get_parallel=lambda: SimpleNamespace(dp_rank=dp_rank),
        get_spec=lambda: SimpleNamespace(speculative_num_steps=steps, speculative_num_draft_tokens=drafts),
    )
