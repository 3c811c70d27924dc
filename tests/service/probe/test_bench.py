"""The bench measures the probe at work, and the probe is cheap even on a busy machine."""

import json
import subprocess
import sys

from service.probe.bench import emptied_socket, measure


def test_a_step_stays_within_a_few_times_its_budget() -> None:
    with emptied_socket() as target:
        assert min(measure(64, (target,)) for _ in range(2)) < 5 * 20


def test_the_figures_are_one_json_object() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "service.probe.bench", "1"], check=True, capture_output=True, text=True
    )
    figures = json.loads(done.stdout.splitlines()[-1])
    assert figures["requests"] == 1
    assert figures["us_a_step_one_sidecar"] > 0
