"""One thing that is wrong, or worth knowing, with its reason and its remedy."""

from enum import IntEnum

import msgspec


class Severity(IntEnum):
    """How bad; the exit code follows the worst one."""

    INFO = 0  # nothing to do, or nothing that must be done
    WARNING = 1  # something is seen late, seen badly, or not explained
    ERROR = 2  # something cannot be seen, or a retry makes it worse


class Finding(msgspec.Struct, frozen=True):
    """What the doctor says."""

    severity: Severity
    code: str
    subject: str  # a URL, or what the finding is about
    what: str
    why: str
    fix: str

    def __post_init__(self) -> None:
        assert self.what and self.why and self.fix  # noqa: S101, PT018 - a finding without its remedy is a complaint


def worst(findings: "tuple[Finding, ...]") -> Severity:
    return max((finding.severity for finding in findings), default=Severity.INFO)
