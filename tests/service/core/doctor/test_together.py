"""Workers that must agree and do not, and timeouts that a long prefill outlives."""

import msgspec
import pytest

from service.core.doctor.facts import MetricsSeen
from service.core.doctor.finding import Severity
from service.core.doctor.together import WAITING
from tests.service.core.doctor.clinic import NOBODY, found, pair, worker


@pytest.mark.parametrize(
    ("other", "code"),
    [
        ({"version": "0.5.22"}, "version_differs"),
        ({"weight_version": "2"}, "weights_differ"),
        ({"speculative_num_steps": 2}, "speculation_differs"),
        ({"speculative_algorithm": None}, "speculation_differs"),
    ],
)
def test_workers_of_one_model_that_differ_are_named(other: dict[str, object], code: str) -> None:
    finding = found([*pair(), worker("http://10.0.0.4:1", **other)])[code]
    assert finding.subject == "m"
    assert "http://10.0.0.4:1" in finding.what


def test_workers_of_two_models_need_not_agree() -> None:
    other = worker(
        "http://10.0.0.4:1", served_model_name="n", weight_version="2", speculative_algorithm="EAGLE3"
    )
    assert found([*pair(), other]) == {}


def test_a_pair_without_its_router_is_asked_for_it() -> None:
    assert found(pair(), router=NOBODY)["router_unnamed"].severity is Severity.INFO
    assert "router_unnamed" not in found([worker("http://10.0.0.2:1", "null")], router=NOBODY)


def test_no_worker_at_all_is_an_error() -> None:
    assert found()["no_workers"].severity is Severity.ERROR


@pytest.mark.parametrize(
    ("longest_s", "tokens_per_s", "timeout", "severity"),
    [
        (100.0, 10_000.0, "", None),
        (400.0, 10_000.0, "", Severity.ERROR),
        (200.0, 10_000.0, "", Severity.WARNING),  # alone it fits, behind another it does not
        (10.0, 400.0, "", Severity.WARNING),  # 100,000 tokens would take 250 s
        (10.0, 10_000.0, "15", Severity.WARNING),
        (400.0, 10_000.0, "900", None),
        (10.0, 10_000.0, "soon", None),
    ],
)
def test_a_timeout_is_held_against_the_longest_prefill(
    longest_s: float, tokens_per_s: float, timeout: str, severity: Severity | None
) -> None:
    environment = {WAITING: timeout} if timeout else {}
    prefill, *decode = pair(internal_states=[{"env_vars": environment}])
    seen = MetricsSeen(longest_prefill_s=longest_s, prefill_tokens_per_s=tokens_per_s)
    finding = found([msgspec.structs.replace(prefill, metrics=seen), *decode]).get("waiting_timeout_short")
    assert (finding.severity if finding is not None else None) is severity


def test_a_prefill_that_tells_nothing_leaves_the_timeout_open() -> None:
    prefill, *decode = pair()
    ill = found([msgspec.structs.replace(prefill, metrics=None), *decode])
    assert ill["prefill_time_untold"].severity is Severity.INFO
