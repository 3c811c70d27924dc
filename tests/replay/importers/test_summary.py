"""Numbers of a trace."""

from replay.importers.summary import Counting
from replay.trace import TraceRequest


def test_a_trace_is_summed_up_as_it_passes() -> None:
    counting = Counting()
    for index in range(10):
        counting.add(
            TraceRequest(
                id=str(index),
                at_s=index // 2 * 1.0,
                session="a" if index < 4 else "",
                prompt_tokens=100 * index,
                body={} if index else None,
                abort_after_s=1.0 if index == 3 else None,
            )
        )
    found = counting.summary()
    assert (found.rows, found.span_s, found.rate_per_s) == (10, 4.0, 2.5)
    assert (found.moments, found.most_at_once, found.sessions, found.longest_session) == (5, 2, 1, 4)
    assert (found.with_body, found.aborted, found.output_tokens, found.in_order) == (9, 1, None, True)
    assert found.prompt_tokens is not None
    assert (found.prompt_tokens.p50, found.prompt_tokens.most) == (450.0, 900)


def test_nothing_sums_up_to_nothing() -> None:
    assert Counting().summary().rows == 0
