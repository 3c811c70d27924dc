"""The catalogue is data: unique keys, sentences, bounded labels."""

import re
from pathlib import Path

import service
from service.edges.catalogue import counters, gauges, histograms

ROOT = Path(__file__).parents[3]
DEPLOYING = ROOT / "docker" / "README.md"
ENGINE = {
    name
    for page in (ROOT / "tests/fixtures/telemetry").glob("*-metrics.txt")
    for name in re.findall(r"^# TYPE (\S+)", page.read_text(), re.MULTILINE)
}
ALL = (*counters(("default",), ("loop",)), *gauges(), *histograms())


def test_a_key_stands_once() -> None:
    assert len({family.key for family in ALL}) == len(ALL)


def test_a_help_is_a_sentence() -> None:
    assert [family.key for family in ALL if not family.help.endswith(".")] == []


def test_a_histogram_has_rising_buckets() -> None:
    for family in histograms():
        assert list(family.buckets) == sorted(set(family.buckets))


def test_routes_and_detectors_become_label_values() -> None:
    labels = {family.key: family.labels for family in counters(("agents",), ("loop", "garble"))}
    assert labels["streams"]["route"] == ("agents",)
    assert labels["verdicts"]["detector"] == ("loop", "garble")


def test_gauges_have_no_label_without_values_but_the_infos_and_the_workers() -> None:
    open_ended = [
        family.key
        for family in gauges()
        for name, values in family.labels.items()
        if not values and name != "worker"
    ]
    assert set(open_ended) == {"build_info", "config_hash_info", "ruleset_info", "policy_info"}


def _said(pattern: str) -> set[str]:
    """What the code says where this pattern matches: its first group."""
    sources = Path(service.__file__).parent.rglob("*.py")
    return {found[1] for source in sources for found in re.finditer(pattern, source.read_text())}


def test_every_reason_for_an_abort_exists_from_the_start() -> None:
    reasons = _said(r'leave\(drain=[\w.]+, reason="(\w+)"')
    assert {"verdict", "timeout", "defect"} <= reasons
    known = next(family for family in ALL if family.key == "aborts").labels["reason"]
    assert {*reasons, "drained"} == set(known)


def test_every_reason_for_a_retry_exists_from_the_start() -> None:
    reasons = _said(r'_again\("(\w+)"')
    assert {"verdict", "unreadable", "second_opinion"} <= reasons
    assert reasons <= set(next(family for family in ALL if family.key == "retries").labels["reason"])


def test_a_metric_that_goes_by_another_name_is_found_by_it() -> None:
    """docker/README.md: names that others use, and ours."""
    rows = re.findall(r"^\| `(\w+)` \| `([\w:]+)` \|", DEPLOYING.read_text(), re.MULTILINE)
    ours = {f"specguard_{family.key}" for family in ALL}
    ours |= {f"specguard_{family.key}_total" for family in counters(("default",), ("loop",))}
    assert rows
    for theirs, here in rows:
        assert theirs not in ours
        assert here in (ours if here.startswith("specguard_") else ENGINE)


def test_metrics_that_are_spoken_of_exist() -> None:
    spoken = set(re.findall(r"`(specguard_\w+)`", DEPLOYING.read_text()))
    spoken -= set(re.findall(r"^\| `(\w+)`", DEPLOYING.read_text(), re.MULTILINE))
    known = {f"specguard_{family.key}{end}" for family in ALL for end in ("", "_total")}
    assert "specguard_client_silence_seconds" in spoken
    assert spoken <= known
