import pytest

from service.core.detectors.structure import KEPT_CHARS, Structure, fault
from service.core.events import Delta, Judgement, Kind, Level, RequestFacts, WorkerFacts
from service.core.inspector import Inspector
from tests.service.core.detectors.texts import RULES

RULE = next(detector for detector in RULES.detectors if isinstance(detector, Structure))


def judged(deltas: list[Delta], facts: RequestFacts | None = None, *, clean: bool = True) -> Judgement:
    inspector = Inspector(facts or RequestFacts(dialect="t"), WorkerFacts(), [RULE], RULES.fusion)
    for delta in deltas:
        inspector.read([delta], 0.0)
    inspector.finish(1.0, clean)
    assert not inspector.faults
    return inspector.judgement


def call(*pieces: str, finish: str = "tool_calls", index: int = 0) -> list[Delta]:
    return [
        *(Delta(text=piece, tool=True, calls=((index, piece),)) for piece in pieces),
        Delta(finish=finish, tokens=20),
    ]


def test_arguments_that_are_json_are_fine() -> None:
    assert judged(call('{"path": "src/', 'a.py", "lines": [1, 2]}')).level is Level.CLEAN
    assert judged(call("")).level is Level.CLEAN


def test_arguments_cut_off_although_complete_are_truncated() -> None:
    judgement = judged(call('{"path": "src/', "a.py"))
    assert (judgement.level, judgement.kind, judgement.unit) == (Level.CORRUPT, Kind.TRUNCATED, "arguments")


def test_two_calls_that_ran_into_each_other_are_garbled() -> None:
    merged = '{"language":"python","code":"pri{"language":"python","code":"print(1)"}'
    assert judged(call(merged)).kind is Kind.GARBLED


def test_at_the_token_limit_a_call_may_end_anywhere() -> None:
    assert judged(call('{"path": "src/', finish="length")).level is Level.CLEAN


def test_a_stream_that_was_cut_off_is_the_monitors_business() -> None:
    assert judged(call('{"path": "src/')[:1], clean=False).level is Level.CLEAN


def test_calls_are_told_apart_by_their_index() -> None:
    pieces = [((0, '{"a": '),), ((1, '{"b": 2}'),), ((0, "1}"),)]
    deltas = [Delta(text=calls[0][1], tool=True, calls=calls) for calls in pieces]
    assert judged([*deltas, Delta(finish="tool_calls")]).level is Level.CLEAN


def test_of_a_call_too_long_to_keep_nothing_is_said() -> None:
    assert judged(call('{"text": "' + "a" * KEPT_CHARS, "b")).level is Level.CLEAN


@pytest.mark.parametrize(("text", "kind"), [('{"a": 1}', Kind.NORMAL), ('{"a": ', Kind.TRUNCATED)])
def test_an_answer_asked_to_be_json_is(text: str, kind: Kind) -> None:
    deltas = [Delta(text=text), Delta(finish="stop")]
    assert judged(deltas, RequestFacts(dialect="t", wants_json=True)).kind is kind
    assert judged(deltas).level is Level.CLEAN


def test_a_prompt_of_one_token_is_not_what_was_sent() -> None:
    facts = RequestFacts(dialect="t", prompt="please read this file " * 400)
    deltas = [Delta(text="unrelated"), Delta(finish="stop"), Delta(prompt_tokens=1)]
    assert (judged(deltas, facts).kind, judged(deltas, facts).unit) == (Kind.TRUNCATED, "prompt")
    deltas[-1] = Delta(prompt_tokens=2000)
    assert judged(deltas, facts).level is Level.CLEAN


def test_no_token_at_the_limit_is_an_abort_in_disguise() -> None:
    facts = RequestFacts(dialect="t", max_tokens=4096)
    assert judged([Delta(finish="length", tokens=0)], facts).unit == "empty"
    assert judged([Delta(text="a", finish="length", tokens=1)], facts).level is Level.CLEAN


def test_an_open_fence_is_suspicion_only() -> None:
    text = "Here it is:\n```python\nprint(1)\n"
    assert judged([Delta(text=text), Delta(finish="stop")]).level is Level.SUSPECT
    assert judged([Delta(text=text + "```"), Delta(finish="stop")]).level is Level.CLEAN
    assert judged([Delta(text=text), Delta(finish="length")]).level is Level.CLEAN


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", Kind.NORMAL),
        ("[1, 2", Kind.TRUNCATED),
        ('{"a" 1}', Kind.GARBLED),
        ("[" * 100_000, Kind.NORMAL),  # too deep to read: nothing is said
        ('"\ud800"', Kind.NORMAL),  # half a surrogate pair comes as a question mark
    ],
)
def test_any_text_has_a_fault_or_none(text: str, kind: Kind) -> None:
    assert fault(text) is kind
