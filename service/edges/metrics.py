"""Metrics: the catalogue brought to life on a registry of our own, every child bound before it is needed.

The stream path counts in plain ints (`Desk.counts`) and the ticker drains them here: a Prometheus child
costs half a microsecond a call, `labels()` four times that. Edges off the stream path call `count`, `sample`
and `set` themselves; all three are safe from any thread.
"""

import platform
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from math import isfinite
from typing import Final, Generic, Protocol, TypeVar

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)

from service.edges.catalogue import PREFIX, Family, counters, gauges, histograms

PARTS: Final = ("bucket", "sum", "count")
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

Key = tuple[str, ...]
Metric = TypeVar("Metric", Counter, Gauge, Histogram)


class Counting(Protocol):
    """What other edges need of Metrics; a test hands in a plain counter."""

    def count(self, *key: str, by: float = 1) -> None: ...

    def set(self, *key: str, value: float) -> None: ...


class Bound(Generic[Metric]):
    """The families of one metric type with their children; a label value not foreseen is bounded growth."""

    def __init__(self, families: Sequence[tuple[Family, Metric]]) -> None:
        self._parents: dict[str, Metric] = {family.key: metric for family, metric in families}
        self._known: dict[str, Family] = {family.key: family for family, _ in families}
        self._grown: dict[str, int] = dict.fromkeys(self._parents, 0)
        self.children: dict[Key, Metric] = {}
        for key, family in self._known.items():
            values: Sequence[str]
            for values in product(*family.labels.values()):
                self.children[key, *values] = self._new(key, values)

    @property
    def keys(self) -> frozenset[str]:
        """The families, whether or not they have a series yet."""
        return frozenset(self._known)

    def child(self, key: Key) -> Metric | None:
        """The child of this key; None where the catalogue has no such family or not these labels."""
        found = self.children.get(key)
        return found if found is not None else self._grow(key)

    def _grow(self, key: Key) -> Metric | None:
        if key[0] not in self._known or len(self._known[key[0]].labels) != len(key) - 1:
            return None
        family: Family = self._known[key[0]]
        if self._grown[key[0]] >= family.growth:
            key = (key[0], *("other" for _ in family.labels))
        if key not in self.children:
            self._grown[key[0]] += 1
            self.children[key] = self._new(key[0], key[1:])
        return self.children[key]

    def _new(self, key: str, values: Sequence[str]) -> Metric:
        parent = self._parents[key]
        labelled: Metric = parent.labels(*values) if values else parent
        return labelled


class Metrics:
    """One object, one registry: what it does not hold is not exposed."""

    def __init__(self, *, routes: Sequence[str] = ("default",), detectors: Sequence[str] = ()) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # as published
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._counters = Bound([(f, self._counter(f)) for f in counters(routes, detectors)])
        self._gauges = Bound([(f, self._gauge(f)) for f in gauges()])
        self._histograms = Bound([(f, self._histogram(f)) for f in histograms()])

    def __repr__(self) -> str:
        series = len(self._counters.children) + len(self._gauges.children) + len(self._histograms.children)
        return f"<Metrics {series} series>"

    @property
    def names(self) -> frozenset[str]:
        """Every series name as a rule or a dashboard may write it, those included that have no series yet."""
        shown = {sample.name for family in self.registry.collect() for sample in family.samples}
        counted = {f"{PREFIX}_{key}_total" for key in self._counters.keys}
        observed = {f"{PREFIX}_{key}_{part}" for key in self._histograms.keys for part in PARTS}
        return frozenset(shown | counted | observed | {f"{PREFIX}_{key}" for key in self._gauges.keys})

    def describe(
        self, *, version: str, settings: str, rules: str, ruleset: str, policies: Mapping[str, str]
    ) -> None:
        """Set the info gauges, once, at start; `policies` by route."""
        self.set("build_info", version, platform.python_version(), value=1)
        self.set("config_hash_info", settings, rules, value=1)
        self.set("ruleset_info", ruleset, rules, value=1)
        for route, policy in policies.items():
            self.set("policy_info", route, policy, value=1)

    def count(self, *key: str, by: float = 1) -> None:
        """Add to the counter `key[0]` with the label values `key[1:]`."""
        (self._counters.child(key) or self._counters.children["unknown_counts",]).inc(by)

    def sample(self, key: str, value: float) -> None:
        """Observe into the histogram KEY, or KEY:LABEL; what is not a number is no observation."""
        child = self._histograms.child(tuple(key.split(":", 1)))  # a worker's URL has colons of its own
        if child is None:
            self.count("unknown_counts")
        elif isfinite(value):
            child.observe(value)

    def set(self, *key: str, value: float) -> None:
        """Set the gauge `key[0]` with the label values `key[1:]`."""
        child = self._gauges.child(key)
        if child is not None:
            child.set(value)

    def flush(self, counts: Mapping[Key, int], samples: Mapping[str, Iterable[float]]) -> None:
        """Take over what the Desk has counted since the last time."""
        for key, by in counts.items():
            self.count(*key, by=by)
        for name, values in samples.items():
            for value in values:
                self.sample(name, value)

    def exposition(self) -> bytes:
        return generate_latest(self.registry)

    def _counter(self, family: Family) -> Counter:
        return Counter(f"{PREFIX}_{family.key}", family.help, [*family.labels], registry=self.registry)

    def _gauge(self, family: Family) -> Gauge:
        return Gauge(f"{PREFIX}_{family.key}", family.help, [*family.labels], registry=self.registry)

    def _histogram(self, family: Family) -> Histogram:
        name = f"{PREFIX}_{family.key}"
        return Histogram(name, family.help, [*family.labels], registry=self.registry, buckets=family.buckets)
