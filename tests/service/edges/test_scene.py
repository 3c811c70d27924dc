"""Of what an engine says of itself a case keeps what a replay needs, and no key."""

import json
from pathlib import Path

from service.edges.scene import ARGUMENTS, UNSAID, VALUE_CHARS, WEIGHTS, Engine, Scene, described, engine_of

INFO = {
    "version": "0.5.23",
    "model_path": "smollm2",
    "weight_version": "default",
    "revision": None,
    "tp_size": 1,
    "disable_radix_cache": False,
    "speculative_algorithm": "EAGLE",
    "speculative_num_steps": 3,
    "disaggregation_mode": "decode",
    "api_key": "sk-SECRET",
    "admin_api_key": "SECRET",
    "ssl_keyfile_password": "SECRET",
    "watermark_key": "SECRET",
    "internal_states": [{"load": 1}],
}


def test_an_engine_is_told_by_its_server_info() -> None:
    engine = engine_of(INFO)
    assert (engine.name, engine.version) == ("sglang", "0.5.23")
    assert engine.weights == {"model_path": "smollm2", "weight_version": "default"}
    assert engine.arguments == {
        "tp_size": 1,
        "disable_radix_cache": False,
        "speculative_algorithm": "EAGLE",
        "speculative_num_steps": 3,
        "disaggregation_mode": "decode",
    }


def test_no_key_and_no_password_is_kept() -> None:
    assert "SECRET" not in json.dumps(described(Scene(engine_of(INFO))))
    assert not [key for key in (*WEIGHTS, *ARGUMENTS) if "key" in key or "password" in key or "token_" in key]


def test_what_is_no_plain_value_is_not_kept_and_long_ones_are_cut() -> None:
    engine = engine_of({"model_path": "m" * 999, "tp_size": [1], "page_size": {"a": 1}, "version": 5})
    assert engine == Engine(weights={"model_path": "m" * VALUE_CHARS})


def test_what_nobody_told_is_named_unknown() -> None:
    assert described(Scene()) == {
        "name": UNSAID,
        "version": UNSAID,
        "weights": UNSAID,
        "arguments": UNSAID,
        "dp_rank": UNSAID,
    }


def test_the_rank_is_told_where_a_probe_named_it() -> None:
    assert [described(Scene(), rank)["dp_rank"] for rank in (0, 5)] == [0, 5]


def test_the_labs_own_server_info_is_understood() -> None:
    """The lab answers as SGLang does; its source names the fields that we keep."""
    source = (Path(__file__).parents[3] / "replay" / "lab" / "info.py").read_text()
    assert [
        key for key in ("model_path", "weight_version", "disaggregation_mode") if f'"{key}"' not in source
    ] == []
