"""What a worker says of itself, under the engine's keys."""

import json
from pathlib import Path

import numpy as np

from replay.lab import info
from replay.lab.intake import CONTEXT_TOKENS, Submission
from replay.lab.scheduler import LiveRequests, Phase
from replay.lab.speculation import load_models

KEYS = json.loads((Path(__file__).parents[2] / "fixtures" / "lab" / "sgl-server-info-keys.json").read_text())
BEYOND_THE_CAPTURE = {"frontend", "lab"}
"""`frontend` is in the engine's source; `lab` says that this is none."""


def test_server_info_invents_no_key_and_says_that_it_is_the_lab() -> None:
    said = info.server_info("decode", None, 64)
    assert set(said) - set(KEYS) <= BEYOND_THE_CAPTURE
    assert "not SGLang" in said["lab"]


def test_server_info_tells_how_drafts_are_made() -> None:
    said = info.server_info("prefill", 8998, 64)
    assert said["speculative_algorithm"] == "STANDALONE"
    assert said["speculative_num_draft_tokens"] == said["speculative_num_steps"] + 1
    assert (said["disaggregation_mode"], said["disaggregation_bootstrap_port"]) == ("prefill", 8998)
    assert said["version"] == "0.5.23"


def test_loads_count_requests_where_they_are() -> None:
    live = LiveRequests()
    for at, phase in enumerate((Phase.RUNNING, Phase.TRANSFER, Phase.WAITING)):
        asked = Submission(f"r{at}", (1,), 9, False, False, "lab", None)  # noqa: FBT003 (field order)
        live.admit(asked, phase)
    (load,) = info.loads("decode", live, 64, 48)["loads"]
    assert (load["num_running_reqs"], load["num_waiting_reqs"]) == (1, 2)
    assert load["token_usage"] == 0.25
    assert load["disaggregation"]["decode_transfer_queue_reqs"] == 1
    assert load["disaggregation"]["prefill_inflight_queue_reqs"] == 0


def test_a_model_that_computes_is_told_from_one_that_does_not() -> None:
    target, _ = load_models()
    assert info.computes(target)

    class Broken:
        def new_pool(self, _pages: int) -> None: ...

        def forward(self, *_: object) -> object:
            return np.array([np.nan])

    assert not info.computes(Broken())  # type: ignore[arg-type]  # (a fake of the two methods that are used)


def test_the_model_list_has_one_model_with_its_context() -> None:
    (card,) = info.models()["data"]
    assert card["id"] == info.model_info("decode")["model_path"]
    assert card["max_model_len"] == CONTEXT_TOKENS
