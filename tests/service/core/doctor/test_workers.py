"""Each risky setting of a worker is named, and a sound worker gives no finding."""

import msgspec
import pytest

from service.core.doctor.facts import Engine, WorkerSeen
from service.core.doctor.finding import Severity
from tests.service.core.doctor.clinic import found, pair, worker

DEFERRED = "SGLANG_DISAGGREGATION_DEFERRED_DECODE_KV_RELEASE"
INFO, WARNING, ERROR = Severity.INFO, Severity.WARNING, Severity.ERROR


def test_sound_workers_give_no_finding() -> None:
    assert found(pair()) == {}


@pytest.mark.parametrize(
    ("ill", "code", "severity"),
    [
        ({"speculative_num_draft_tokens": 16}, "rate_rule_unreachable", WARNING),
        ({"speculative_num_steps": 1, "speculative_num_draft_tokens": 2}, "length_rule_blunt", WARNING),
        ({"speculative_adaptive": True}, "adaptive_width", WARNING),
        ({"speculative_algorithm": None}, "speculation_off", INFO),
        ({"decode_log_interval": 40}, "decode_log_interval", INFO),
        ({"decode_log_interval": 400}, "decode_log_interval", WARNING),
        ({"stream_interval": 8}, "stream_interval", WARNING),
        ({"internal_states": []}, "environment_untold", INFO),
        ({"internal_states": [{"env_vars": {DEFERRED: "False"}}]}, "deferred_release_off", ERROR),
        ({"disaggregation_enable_kv_checksum": False}, "kv_checksum_off", INFO),
        ({"enable_cache_report": False}, "cache_report_off", INFO),
        ({"admin_api_key": None}, "admin_key_missing", WARNING),
        ({"version": "main"}, "version_unknown", WARNING),
        ({"version": "0.5.10"}, "fix_24522_missing", ERROR),
        ({"version": "0.5.0"}, "fix_8352_missing", ERROR),
        ({"version": "0.5.10", "enable_hierarchical_cache": True}, "fix_22811_missing", ERROR),
        ({"version": "0.5.22"}, "probe_untested", INFO),
        ({"grpc_mode": True}, "grpc", ERROR),
        ({"frontend": "rust"}, "frontend", WARNING),
    ],
)
def test_a_risky_setting_is_named(ill: dict[str, object], code: str, severity: Severity) -> None:
    assert found(pair(**ill))[code].severity is severity


@pytest.mark.parametrize(
    "sound",
    [
        {"internal_states": [{"env_vars": {DEFERRED: "1"}}]},
        {"admin_api_key": None, "host": "127.0.0.1"},
        {"speculative_num_steps": 2, "speculative_num_draft_tokens": 3},
        {"version": "0.5.23", "enable_hierarchical_cache": True},
    ],
)
def test_a_setting_that_is_not_risky_is_let_be(sound: dict[str, object]) -> None:
    assert found(pair(**sound)) == {}


def test_an_unreachable_worker_is_one_finding_and_an_error() -> None:
    (finding,) = found([WorkerSeen("http://w", trouble="no connection")]).values()
    assert (finding.code, finding.severity) == ("unreachable", ERROR)
    assert "no connection" in finding.what


def test_a_worker_without_metrics_is_named() -> None:
    assert found([msgspec.structs.replace(worker(), metrics=None)])["metrics_off"].severity is WARNING


@pytest.mark.parametrize(
    ("skew_s", "error_s", "severity"),
    [(1.5, 1.0, None), (5.0, 1.0, WARNING), (-90.0, 1.0, ERROR), (float("nan"), float("nan"), None)],
)
def test_a_clock_is_judged_beyond_what_the_question_itself_blurs(
    skew_s: float, error_s: float, severity: Severity | None
) -> None:
    seen = msgspec.structs.replace(worker(), skew_s=skew_s, skew_error_s=error_s)
    finding = found([seen]).get("clock_skew")
    assert (finding.severity if finding is not None else None) is severity


def test_an_answer_that_cannot_be_read_is_named() -> None:
    seen = WorkerSeen("http://w", unreadable="/server_info: no JSON", engine=Engine.SGLANG)
    assert "no JSON" in found([seen])["unreadable"].what


def test_vllm_is_known_and_a_stranger_is_named() -> None:
    assert "vllm" in found([WorkerSeen("http://w", engine=Engine.VLLM, version="0.32.0")])
    assert "unknown_engine" in found([WorkerSeen("http://w")])
