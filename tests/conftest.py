"""What every test shares: asyncio is the one event loop we run on."""

import pytest


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"
