"""Which fixes a version is not known to hold."""

import pytest

from service.core.doctor.versions import Version, missing, parsed


@pytest.mark.parametrize(
    ("version", "numbers"),
    [
        ("0.5.23", (0, 5, 23)),
        ("v0.5.15.post1", (0, 5, 15)),
        ("0.5.4rc1", (0, 5, 4)),
        ("0.5", (0, 5)),
        ("", None),
        ("main", None),
    ],
)
def test_a_version_is_its_numbers(version: str, numbers: Version | None) -> None:
    assert parsed(version) == numbers


@pytest.mark.parametrize(
    ("version", "pd", "hicache", "numbers"),
    [
        ((0, 5, 23), True, True, []),
        ((0, 5, 10), True, True, [22811, 24522]),
        ((0, 5, 10), False, True, [22811]),
        ((0, 5, 10), False, False, []),
        ((0, 4, 9), True, False, [24522, 8352]),
    ],
)
def test_only_fixes_that_matter_here_are_missed(
    version: Version, *, pd: bool, hicache: bool, numbers: list[int]
) -> None:
    assert [fix.number for fix in missing(version, pd=pd, hicache=hicache)] == numbers
