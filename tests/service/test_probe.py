"""The entry point: off unless asked for, and never in the engine's way."""

import os
import sys
from collections.abc import Iterator, MutableMapping
from importlib.metadata import entry_points
from types import SimpleNamespace

import pytest

from service import probe
from service.probe.hooks import SCHEDULER_MODULE


@pytest.fixture
def environment() -> Iterator[MutableMapping[str, str]]:
    """What the plugin reads, put back afterwards."""
    before = dict(os.environ)
    yield os.environ
    os.environ.clear()
    os.environ.update(before)


def test_unasked_it_does_nothing(caplog: pytest.LogCaptureFixture) -> None:
    probe.plugin()
    assert caplog.records == []


def test_a_setting_that_cannot_be_used_is_said_and_left(
    environment: MutableMapping[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    environment["SPECGUARD_PROBE"] = "tcp:nonsense"
    probe.plugin()
    assert ["off: SPECGUARD_PROBE" in record.getMessage() for record in caplog.records] == [True]


def test_in_a_process_without_a_scheduler_it_does_nothing(
    environment: MutableMapping[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    environment["SPECGUARD_PROBE"] = "meta"
    probe.plugin()
    assert caplog.records == []


def test_an_engine_that_is_nothing_like_it_starts_all_the_same(
    environment: MutableMapping[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    environment["SPECGUARD_PROBE"] = "meta"
    sys.modules[SCHEDULER_MODULE] = SimpleNamespace()  # type: ignore[assignment]
    try:
        probe.plugin()  # sglang itself is not installed here
    finally:
        del sys.modules[SCHEDULER_MODULE]
    assert [record.getMessage() for record in caplog.records] == [
        "specguard probe: off: PackageNotFoundError"
    ]


def test_sglang_finds_it_by_its_entry_point() -> None:
    (found,) = entry_points(group="sglang.srt.plugins", name="specguard")
    assert found.load() is probe.plugin
