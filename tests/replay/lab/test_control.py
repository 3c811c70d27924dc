"""A decode worker's switches change whole or not at all."""

import json
from typing import Any

import pytest

from replay.lab import control
from replay.lab.bootstrap import Timeouts
from replay.lab.decode import DecodeWorker
from replay.lab.intake import RequestError
from replay.lab.ledger import Account
from replay.lab.speculation import load_models
from tests.replay.lab.labkit import make_pool
from tests.replay.lab.test_scheduler import asked


def worker() -> DecodeWorker:
    return DecodeWorker("decode-0", 0, load_models(), make_pool("decode-0", 4), Timeouts())


def change(one: DecodeWorker, **fields: object) -> dict[str, Any]:
    return control.change(one, json.dumps(fields).encode())


def test_what_is_named_changes_and_what_is_not_stays() -> None:
    one = worker()
    change(one, fault="nan:1,swap:2", rate=0.3, onset=[3, 9], seed=5, step_ms=7)
    said = change(one, rate=0.4)
    assert said == control.show(one)
    assert (said["fault"], said["rate"], said["onset"]) == ("nan:1,swap:2", 0.4, (3, 9))
    assert (said["seed"], said["step_ms"], said["pending"], said["ledger_seq"]) == (5, 7, 0, 0)


@pytest.mark.parametrize(
    "fields",
    [
        {"fault": "nann"},
        {"rate": 2},
        {"rate": 0.1, "onset": [9, 3]},
        {"rate": 0.1, "step_ms": -1},
        {"rate": 0.1, "speed": 3},
        {"rate": "high"},
    ],
)
def test_a_change_that_makes_no_sense_changes_nothing(fields: dict[str, object]) -> None:
    one = worker()
    before = control.show(one)
    with pytest.raises(RequestError):
        change(one, **fields)
    assert control.show(one) == before


def test_the_ledger_is_read_from_a_number_on() -> None:
    one = worker()
    for rid in "abc":
        one.ledger.write(Account(asked(rid), finished="stop"))
    assert [json.loads(line)["rid"] for line in control.ledger(one, "1").splitlines()] == ["b", "c"]
    with pytest.raises(RequestError, match="since must be a number"):
        control.ledger(one, "soon")
