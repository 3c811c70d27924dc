"""The check of a pair, against one that is well and several that are not."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from replay.gpu_check import LEAST, PROVENANCE, Report, Wanted, check, requests_an_arm
from replay.target import NotAllowedError
from service.core.detectors import build
from service.core.recorded import Rules
from tests.replay.pairkit import GOOD, Pair, pairing
from tests.replay.runkit import options

ROOT = Path(__file__).parents[2]
RULES = Rules(*build(yaml.safe_load((ROOT / "rules" / "sets" / "default.yaml").read_text())))


async def checked(pair: Pair, home: Path) -> Report:
    """The shortest check there is."""
    wanted = Wanted(
        options=options(pair.url),
        prefill=(f"{pair.url}/prefill",),
        decode=(f"{pair.url}/decode",),
        minutes=0.01,
        rate_per_s=60.0,
        pause_s=0.05,
    )
    return await check(wanted, RULES, home, lambda _: None)


def wrongs(report: Report) -> dict[str, str]:
    """What each step said; that the schedule was not kept is the test's machine."""
    return {step.name: step.wrong.replace("SCHEDULE NOT KEPT", "") for step in report.steps}


async def test_a_pair_that_is_well_passes_all_steps(tmp_path: Path) -> None:
    async with pairing() as pair:
        report = await checked(pair, tmp_path)
    assert wrongs(report) == {"workers": "", "answer": "", "run": "", "judge": ""}
    told = {step.name: step.told for step in report.steps}
    assert told["workers"][f"{pair.url}/decode"]["speculative_algorithm"] == "EAGLE3"
    assert told["answer"]["spec_accept_length"] == 2.5
    assert told["run"]["by_ending"] == {"complete": told["run"]["sends"]} != {"complete": 0}
    assert told["run"]["model"] == "m"
    assert report.provenance == PROVENANCE
    assert GOOD.encode() not in msgspec.json.encode(report)


async def test_a_pair_that_writes_rubbish_is_found_out(tmp_path: Path) -> None:
    async with pairing() as pair:
        pair.text = "the the the the " * 100
        report = await checked(pair, tmp_path)
    assert not report.ok
    assert "bad answers in idle, peak" in wrongs(report)["judge"] or not wrongs(report)["judge"]
    levels = report.steps[-1].told["levels"]
    assert all(level["events"] == level["trials"] > 0 for level in levels)


@pytest.mark.parametrize(
    ("change", "step", "told"),
    [
        ({"info": {"prefill": {}, "decode": {}}}, "workers", "does not answer /server_info"),
        (
            {"info": {mode: {"disaggregation_mode": "null"} for mode in ("prefill", "decode")}},
            "workers",
            "is no prefill worker",
        ),
        (
            {"info": {mode: {"disaggregation_mode": mode} for mode in ("prefill", "decode")}},
            "workers",
            "does not speculate",
        ),
        ({"spec": {}}, "answer", "does not tell its acceptance"),
        ({"status": 500}, "answer", "http 500: Oops"),
    ],
)
async def test_what_is_wrong_ends_the_check_before_any_load(
    tmp_path: Path, change: dict[str, Any], step: str, told: str
) -> None:
    async with pairing() as pair:
        for name, value in change.items():
            setattr(pair, name, value)
        report = await checked(pair, tmp_path)
    assert not report.ok
    assert report.steps[-1].name == step
    assert told in report.steps[-1].wrong
    assert pair.requests == 0


async def test_where_one_host_is_not_named_no_host_gets_anything(tmp_path: Path) -> None:
    async with pairing() as pair:
        workers = (f"{pair.url}/prefill",)
        for target, decode in (("http://prod:1", workers), (pair.url, ("http://prod:1",))):
            wanted = Wanted(options=options(target), prefill=workers, decode=decode)
            with pytest.raises(NotAllowedError):
                await check(wanted, RULES, tmp_path, lambda _: None)
        assert pair.pages == 0


def test_the_plan_fits_the_time_and_is_never_empty() -> None:
    for minutes, rate in ((10.0, 1.0), (10.0, 5.0), (5.0, 2.0)):
        count = requests_an_arm(minutes, rate)
        assert count / rate * (1 + 1 / 4 + 1 / 3) < minutes * 60
        assert count > LEAST
    assert requests_an_arm(0.1, 1.0) == LEAST
