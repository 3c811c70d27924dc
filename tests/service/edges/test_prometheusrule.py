"""The operator's resource is alerts.yaml, and fresh."""

from pathlib import Path

import yaml

from service.edges.prometheusrule import main, rendered

ROOT = Path(__file__).parents[3]


def test_the_resource_holds_the_very_rules() -> None:
    rules = (ROOT / "alerts.yaml").read_text()
    made = yaml.safe_load(rendered(rules))
    assert made["kind"] == "PrometheusRule"
    assert made["spec"] == yaml.safe_load(rules)


def test_the_shipped_file_is_fresh(tmp_path: Path) -> None:
    out = tmp_path / "rule.yaml"
    assert main([str(ROOT / "alerts.yaml"), str(out)]) == 0
    assert out.read_text() == (ROOT / "docker/k8s/beside/prometheusrule.yaml").read_text()
