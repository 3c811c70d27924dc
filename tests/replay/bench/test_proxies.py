"""The processes of the bench: started, ended, and clear about what is missing."""

from pathlib import Path

import httpx
import pytest

from replay.bench.proxies import BenchError, smg, specguard, worker


def test_the_worker_is_up_while_its_context_is(tmp_path: Path) -> None:
    with worker(tmp_path) as process:
        assert process.pid > 0
        assert httpx.get(f"{process.url}/v1/models", trust_env=False).is_success
    with pytest.raises(BenchError, match="worker has ended"):
        _ = process.pid


def test_a_missing_router_is_named_with_its_remedy(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="make setup"):
        smg("http://127.0.0.1:1", tmp_path, tmp_path / "smg")


@pytest.mark.e2e
def test_the_whole_sidecar_serves_in_front_of_the_worker(tmp_path: Path) -> None:
    with worker(tmp_path) as behind, specguard(behind.url, tmp_path, admin_port=0) as process:
        assert httpx.get(f"{process.url}/v1/models", trust_env=False).is_success
