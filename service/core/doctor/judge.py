"""All checks over all facts, worst first."""

from collections.abc import Collection

import msgspec

from service.core.doctor.capabilities import CAPABILITIES, Capability, Here, here
from service.core.doctor.facts import Facts
from service.core.doctor.finding import Finding, Severity, worst
from service.core.doctor.routers import router_findings
from service.core.doctor.together import together_findings
from service.core.doctor.workers import Asked, PublicRule, worker_findings


class Diagnosis(msgspec.Struct, frozen=True):
    """What the doctor found."""

    findings: tuple[Finding, ...]
    here: Here
    capabilities: tuple[Capability, ...] = CAPABILITIES

    @property
    def worst(self) -> Severity:
        return worst(self.findings)


def diagnose(
    facts: Facts, rule: PublicRule, *, probe_versions: Collection[str] = (), generations: int = 3
) -> Diagnosis:
    """`probe_versions`: what the probe was run against; `generations`: how often we generate a request."""
    asked = Asked(rule, probe_versions, pd=facts.pd)
    found = [*router_findings(facts, generations), *together_findings(facts)]
    for worker in facts.workers:
        found += worker_findings(worker, asked)
    ordered = tuple(sorted(found, key=lambda one: (-one.severity, one.code, one.subject)))
    return Diagnosis(ordered, here(facts, frozenset(finding.code for finding in ordered)))
