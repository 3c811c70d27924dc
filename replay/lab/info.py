"""What a worker says of itself: the paths that routers and monitors poll, in SGLang 0.5.23's shapes.

`/server_info` carries the engine's keys that mean something here, under the engine's names, so that a
reader of `speculative_num_draft_tokens` or `disaggregation_mode` needs no second way. The `lab` key says
that this is no SGLang: nobody should take a figure of the lab for one of an engine by mistake.
"""

from typing import Any

import numpy as np

from replay.lab.exposition import NUM_DRAFT_TOKENS
from replay.lab.generate_wire import WEIGHT_VERSION
from replay.lab.intake import CONTEXT_TOKENS, MODEL_NAME
from replay.lab.model import PAGE_TOKENS, TinyLM
from replay.lab.scheduler import LiveRequests, Phase, wall_s
from replay.lab.speculation import DRAFT_TOKENS
from replay.lab.tokenizer import BOS

SGLANG_VERSION = "0.5.23"
"""The dialect that the lab speaks."""


def computes(model: TinyLM) -> bool:
    """Tell whether the model still turns a token into finite logits."""
    return bool(np.isfinite(model.forward([BOS], 0, model.new_pool(1), (0,))).all())


def server_info(mode: str, bootstrap_port: int | None, pages: int) -> dict[str, Any]:
    """Return `/server_info`."""
    return {
        "model_path": MODEL_NAME,
        "tokenizer_path": MODEL_NAME,
        "served_model_name": MODEL_NAME,
        "context_length": CONTEXT_TOKENS,
        "device": "cpu",
        "tp_size": 1,
        "dp_size": 1,
        "pp_size": 1,
        "page_size": PAGE_TOKENS,
        "max_total_tokens": pages * PAGE_TOKENS,
        "stream_interval": 1,
        "incremental_streaming_output": False,
        "enable_metrics": True,
        "weight_version": WEIGHT_VERSION,
        "speculative_algorithm": "STANDALONE",
        "enable_cache_report": True,
        "speculative_num_steps": DRAFT_TOKENS,
        "speculative_eagle_topk": 1,
        "speculative_num_draft_tokens": NUM_DRAFT_TOKENS,
        "disaggregation_mode": mode,
        "disaggregation_bootstrap_port": bootstrap_port,
        "disaggregation_transfer_backend": "shared_memory",
        "internal_states": [{"disaggregation_mode": mode}],
        "frontend": "python",
        "version": SGLANG_VERSION,
        "lab": "SpecGuard's PD lab: SGLang's dialect on a tiny model, not SGLang",
    }


def model_info(mode: str) -> dict[str, Any]:
    """Return `/model_info`."""
    return {
        "model_path": MODEL_NAME,
        "tokenizer_path": MODEL_NAME,
        "is_generation": True,
        "preferred_sampling_params": None,
        "weight_version": WEIGHT_VERSION,
        "disaggregation_mode": mode,
    }


def models() -> dict[str, Any]:
    """Return `/v1/models`."""
    card = {"id": MODEL_NAME, "object": "model", "created": int(wall_s()), "owned_by": "sglang"}
    return {
        "object": "list",
        "data": [{**card, "root": MODEL_NAME, "parent": None, "max_model_len": CONTEXT_TOKENS}],
    }


def loads(mode: str, live: LiveRequests, pages: int, free_pages: int) -> dict[str, Any]:
    """Return `/v1/loads`."""
    phases, used_tokens = live.phases(), (pages - free_pages) * PAGE_TOKENS
    inflight = phases[Phase.TRANSFER]
    load = {
        "dp_rank": 0,
        "num_running_reqs": phases[Phase.RUNNING],
        "num_waiting_reqs": len(live) - phases[Phase.RUNNING],
        "num_used_tokens": used_tokens,
        "num_total_tokens": used_tokens,
        "max_total_num_tokens": pages * PAGE_TOKENS,
        "token_usage": used_tokens / (pages * PAGE_TOKENS),
        "disaggregation": {
            "mode": mode,
            "prefill_bootstrap_queue_reqs": phases[Phase.BOOTSTRAP],
            "prefill_inflight_queue_reqs": inflight if mode == "prefill" else 0,
            "decode_prealloc_queue_reqs": phases[Phase.PREALLOC],
            "decode_transfer_queue_reqs": inflight if mode == "decode" else 0,
        },
        "queues": {"waiting": phases[Phase.WAITING]},
    }
    head = {"timestamp": wall_s(), "version": SGLANG_VERSION, "accelerator": "cpu", "num_accelerators": 1}
    return {**head, "loads": [load]}
