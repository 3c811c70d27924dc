"""Scenarios have names, begin with all well, and say what should be seen."""

from replay.lab.scenario import SCENARIOS

NAMES = {
    "ops-all",
    "storm",
    "loadback-collapse",
    "draft-broken",
    "scheduler-stuck",
    "candidates",
    "slow-tools",
}


def test_every_scenario_has_a_calm_and_says_what_should_be_seen() -> None:
    assert set(SCENARIOS) >= NAMES
    for scenario in SCENARIOS.values():
        assert all(phase.says for phase in scenario.phases)
        assert not scenario.phases[0].decode
        assert scenario.name == "calm" or scenario.phases[-1].flush
