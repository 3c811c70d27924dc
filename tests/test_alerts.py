"""alerts.yaml, its promtool tests and the runbooks speak of the same alerts."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from service.edges import catalogue
from tests.engine_metrics import ENGINE

ROOT = Path(__file__).parent.parent
RULES: list[dict[str, Any]] = [
    rule for group in yaml.safe_load((ROOT / "alerts.yaml").read_text())["groups"] for rule in group["rules"]
]
ALERTS = {rule["alert"]: rule for rule in RULES if "alert" in rule}
RECORDS = [rule["record"] for rule in RULES if "record" in rule]
CHECKS: list[dict[str, Any]] = [
    check
    for page in (ROOT / "rules").glob("*.test.yaml")
    for case in yaml.safe_load(page.read_text())["tests"]
    for check in case["alert_rule_test"]
]
CHAPTERS = ("## What it means", "## Look at", "## Do", "## How it can be wrong")
EXPOSED = {
    *(f"specguard_{family.key}_total" for family in catalogue.counters((), ())),
    *(f"specguard_{family.key}" for family in catalogue.gauges()),
}

each_alert = pytest.mark.parametrize("name", ALERTS)


@each_alert
def test_an_alert_says_how_urgent_it_is(name: str) -> None:
    assert ALERTS[name]["labels"]["severity"] in {"critical", "warning", "info"}


@each_alert
def test_a_summary_is_short_and_holds_no_number(name: str) -> None:
    summary = ALERTS[name]["annotations"]["summary"]
    assert len(summary) <= 60
    assert not re.search(r"\d|{{", summary)


@each_alert
def test_an_alert_leads_to_its_runbook(name: str) -> None:
    page = ALERTS[name]["annotations"]["runbook_url"]
    assert page == f"rules/runbooks/{name}.md"
    text = (ROOT / page).read_text()
    assert text.startswith(f"# {name}\n")
    assert [line for line in text.splitlines() if line.startswith("## ")] == list(CHAPTERS)


@each_alert
@pytest.mark.parametrize("fires", [True, False])
def test_promtool_sees_an_alert_fire_and_keep_silent(name: str, fires: bool) -> None:
    assert any(check["alertname"] == name and bool(check["exp_alerts"]) is fires for check in CHECKS)


def test_every_runbook_belongs_to_an_alert() -> None:
    assert {page.stem for page in (ROOT / "rules/runbooks").glob("*.md")} == set(ALERTS)


@pytest.mark.parametrize("record", RECORDS)
def test_a_recording_rule_is_named_level_metric_operations(record: str) -> None:
    assert re.fullmatch(r"[a-z_]+:specguard_[a-z_]+:[a-z0-9_]+", record)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.get("alert") or rule["record"])
def test_a_rule_reads_only_metrics_that_the_catalogue_exposes(rule: dict[str, Any]) -> None:
    assert set(re.findall(r"(?<![:\w])specguard_\w+(?!:)\b", rule["expr"])) <= EXPOSED


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.get("alert") or rule["record"])
def test_a_rule_reads_only_engine_metrics_that_the_real_engine_exposes(rule: dict[str, Any]) -> None:
    expr = rule["expr"]
    names = {*re.findall(r"\bsglang[:_](\w+)", expr)}
    listed = re.findall(r'__name__=~"sglang\[:_\]\(?([\w|]+)\)?"', expr)
    names |= {name for names in listed for name in names.split("|")}
    assert names <= ENGINE


@each_alert
def test_an_alert_on_engines_knows_both_spellings(name: str) -> None:
    expr = ALERTS[name]["expr"]
    for metric in set(re.findall(r"\bsglang:(\w+)", expr)):
        assert f"sglang_{metric}" in expr
