"""The Indexed Job asks for what the command line has, and its shards are all there."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from replay.shard import shard_of
from service.cli import app
from service.cli.exits import FAILING, NOT_ALLOWED, NOT_KEPT

JOB = Path(__file__).parent.parent / "docker" / "k8s" / "replay-job.yaml"
INDEX = "$(JOB_COMPLETION_INDEX)"
"""Kubernetes puts the pod's own number here, as it does with every variable of the container."""


@pytest.fixture
def job() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(JOB.read_text())
    return found


def worker(job: dict[str, Any]) -> dict[str, Any]:
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert isinstance(container, dict)
    return container


def test_each_index_is_a_shard_of_its_own_with_a_file_of_its_own(job: dict[str, Any]) -> None:
    count = job["spec"]["completions"]
    assert job["spec"]["completionMode"] == "Indexed"
    assert job["spec"]["parallelism"] == count
    shards, files = [], set()
    for number in range(count):
        words = [word.replace(INDEX, str(number)) for word in worker(job)["args"]]
        shards.append(shard_of(words[words.index("--shard") + 1]))
        files.add(words[words.index("--out") + 1])
    assert [(shard.number, shard.count) for shard in shards] == [(n, count) for n in range(count)]
    assert len(files) == count


def test_its_words_are_those_of_the_command(job: dict[str, Any]) -> None:
    words = [word.replace(INDEX, "0") for word in worker(job)["args"]]
    command, bound, _ = app.parse_args(words, exit_on_error=False, print_error=False)
    assert command.__name__ == "worker"
    assert bound.kwargs["wishes"].resume
    assert bound.kwargs["wishes"].start_at.tzinfo is not None
    assert bound.kwargs["wishes"].allow == ["router.llm.svc"]


def test_what_would_fail_again_is_not_tried_again(job: dict[str, Any]) -> None:
    (rule,) = job["spec"]["podFailurePolicy"]["rules"]
    assert rule["action"] == "FailIndex"
    assert {NOT_KEPT, FAILING, NOT_ALLOWED} <= set(rule["onExitCodes"]["values"])
    assert job["spec"]["template"]["spec"]["restartPolicy"] == "Never"  # such policies need it


def test_it_runs_with_no_more_rights_than_it_needs(job: dict[str, Any]) -> None:
    assert job["spec"]["template"]["spec"]["securityContext"]["runAsNonRoot"]
    security = worker(job)["securityContext"]
    assert security["readOnlyRootFilesystem"]
    assert security["capabilities"] == {"drop": ["ALL"]}
