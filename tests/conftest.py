"""What every test shares: one event loop, one hypothesis profile, more time where processes start."""

import os
import signal

import pytest
from hypothesis import HealthCheck, settings

# Our machines share two cores: a deadline for one example, or for drawing some, would measure the neighbours.
SLOW = [HealthCheck.too_slow]
settings.register_profile("local", deadline=None, suppress_health_check=SLOW, max_examples=50)
settings.register_profile("ci", settings.get_profile("local"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")


# A shell's background job ignores Ctrl-C and hands that down: what tests start and interrupt would never end.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

E2E_S = 180
"""For tests that start processes, instead of pyproject.toml's limit: a busy machine is slow to start them."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("e2e") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(E2E_S))


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"
