"""No alert without a place where it was seen, and docker/README.md says which."""

import re
from pathlib import Path
from typing import Final

import yaml

from tests.observed.acts import ACTS, ELSEWHERE, PROVOKED, SCRIPTED, UNPROVOKED
from tests.observed.panels import TITLES

ROOT: Final = Path(__file__).parents[2]
ALERTS: Final = {
    rule["alert"]
    for group in yaml.safe_load((ROOT / "alerts.yaml").read_text())["groups"]
    for rule in group["rules"]
    if "alert" in rule
}
ROWS: Final = dict(
    re.findall(r"^\| `(S\w+)` \| ([^|]+) \|", (ROOT / "docker" / "README.md").read_text(), re.MULTILINE)
)


def test_every_alert_is_provoked_somewhere_or_said_not_to_be() -> None:
    assert PROVOKED | UNPROVOKED == ALERTS
    assert not PROVOKED & UNPROVOKED


def test_what_is_silenced_is_what_fires() -> None:
    for act in ACTS.values():
        assert act.inhibited <= act.fires


def test_panels_that_acts_fill_are_panels_of_the_dashboards() -> None:
    assert ELSEWHERE <= TITLES


def test_the_table_for_readers_names_the_act_of_each_alert() -> None:
    assert ROWS.keys() == ALERTS
    for name, act in ACTS.items():
        assert {alert for alert, by in ROWS.items() if by.startswith(f"{name}:")} == act.fires
    assert {alert for alert, by in ROWS.items() if by.startswith("script:")} == SCRIPTED
    assert {alert for alert, by in ROWS.items() if by.startswith("nothing here:")} == UNPROVOKED
