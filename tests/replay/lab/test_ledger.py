"""The ledger tells the truth about each request once, in counts."""

import json

import pytest

from replay.lab.intake import Submission
from replay.lab.ledger import MAX_AUDITS, Account, Auditor, Ledger, Verdict, compare
from replay.lab.speculation import load_models, reference_answer
from replay.lab.tokenizer import EOS
from tests.replay.lab.labkit import prompt


def account(output: tuple[int, ...], *, finished: str = "stop", **rest: object) -> Account:
    fields: dict[str, object] = {
        "rid": "r" * 16,
        "prompt": prompt(),
        "max_new_tokens": 110,
        "ignore_eos": False,
        "stream": False,
        "model": "lab",
        "bootstrap": None,
    }
    asked = Submission(**(fields | rest))  # type: ignore[arg-type]  # (a test names its fields)
    return Account(asked, kind="nan", applied=True, output=output, finished=finished)


def audit(file: Account) -> dict[str, object]:
    ledger = Ledger("decode-0")
    auditor = Auditor(*load_models(), ledger)
    auditor.submit(file)
    while auditor.pending:
        auditor.work()
    line: dict[str, object] = json.loads(ledger.since(0))
    return line


@pytest.mark.parametrize(
    ("actual", "reference", "aborted", "verdict"),
    [
        ([5, 6, 2], [5, 6, 2], False, Verdict(False, None, 3)),  # noqa: FBT003 (a table)
        ([5, 7, 2], [5, 6, 2], False, Verdict(True, 1, 3)),  # noqa: FBT003
        ([5, 6], [5, 6, 2], False, Verdict(True, 2, 3)),  # noqa: FBT003
        ([5, 6, 2, 8], [5, 6, 2], False, Verdict(True, 3, 3)),  # noqa: FBT003
        ([5, 6], [5, 6, 2], True, Verdict(False, None, 2)),  # noqa: FBT003
        ([5, 9], [5, 6, 2], True, Verdict(True, 1, 2)),  # noqa: FBT003
        ([], [5], True, Verdict(False, None, 0)),  # noqa: FBT003
    ],
)
def test_answers_are_compared_whole_or_up_to_the_abort(
    actual: list[int], reference: list[int], aborted: bool, verdict: Verdict
) -> None:
    assert compare(actual, reference, aborted=aborted) == verdict


def test_an_audit_finds_a_clean_answer_unchanged() -> None:
    clean = tuple(reference_answer(prompt(), 110))
    line = audit(account(clean))
    assert line["answer_changed"] is False
    assert line["tokens_reference"] == line["tokens_actual"] == len(clean)
    assert line["first_changed_token"] is None


def test_an_audit_finds_the_first_changed_token() -> None:
    clean = reference_answer(prompt(), 110)
    line = audit(account((*clean[:7], 3, *clean[8:])))
    assert (line["answer_changed"], line["first_changed_token"]) == (True, 7)


@pytest.mark.parametrize("changed", [False, True])
def test_an_aborted_answer_is_judged_up_to_its_end(changed: bool) -> None:
    clean = reference_answer(prompt(), 110)
    cut = (*clean[:5], 3) if changed else tuple(clean[:6])
    line = audit(account(cut, finished="abort"))
    assert (line["answer_changed"], line["aborted"], line["tokens_reference"]) == (changed, True, 6)


def test_an_answer_that_ignores_eos_is_audited_to_its_limit() -> None:
    clean = reference_answer(prompt(), 110)
    line = audit(account(tuple(clean), ignore_eos=True, max_new_tokens=len(clean) + 3))
    assert line["tokens_reference"] == len(clean) + 3


def test_readers_get_each_line_once_and_no_text() -> None:
    ledger = Ledger("decode-1")
    for _ in range(3):
        ledger.write(account((5, 6, EOS)))
    assert [json.loads(line)["seq"] for line in ledger.since(1).splitlines()] == [2, 3]
    assert ledger.since(ledger.last_seq) == b""
    line = json.loads(ledger.since(2))
    assert line["worker"] == "decode-1"
    assert {type(value) for value in line.values()} <= {int, str, bool, list, type(None)}
    assert list(line) == [
        *("seq", "worker", "rid", "kind", "applied", "reason", "at_token", "at_step", "pages", "donor_rid"),
        *(
            "answer_changed",
            "first_changed_token",
            "tokens_reference",
            "tokens_actual",
            "aborted",
            "finished",
        ),
        *("release", "release_s", "late_layers"),
    ]


def test_when_too_many_wait_a_line_says_that_nobody_looked() -> None:
    ledger = Ledger("decode-0")
    auditor = Auditor(*load_models(), ledger)
    for _ in range(MAX_AUDITS + 1):
        auditor.submit(account(()))
    line = json.loads(ledger.since(0))
    assert line["answer_changed"] is None
    assert line["reason"] == "not audited: too many wait"
    assert auditor.pending == MAX_AUDITS
