"""What every test shares: one event loop, one hypothesis profile."""

import os

import pytest
from hypothesis import settings

# Our machines share two cores, so a deadline for one example would measure the neighbours.
settings.register_profile("local", deadline=None, max_examples=50)
settings.register_profile("ci", deadline=None, max_examples=50, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"
