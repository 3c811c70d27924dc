"""What holds for every dialect alike."""

import json
from pathlib import Path

import pytest

from service.core.dialects import DIALECTS
from service.core.dialects.protocol import BadRequest, Dialect, Outgoing
from service.core.events import Delta, RequestFacts
from service.core.sse import EventSplitter, payload

CAPTURES = Path(__file__).parents[3] / "fixtures" / "captures"
every_dialect = pytest.mark.parametrize("dialect", DIALECTS.values(), ids=lambda dialect: dialect.name)


@every_dialect
def test_a_dialect_is_found_by_its_path_and_names_itself_in_its_facts(dialect: Dialect) -> None:
    assert DIALECTS[dialect.path] is dialect
    facts = dialect.request(b'{"stream":true}')
    assert facts == RequestFacts(dialect=dialect.name, stream=True, shows_ids=dialect.path == b"/generate")


@every_dialect
def test_a_heartbeat_is_one_event_without_data(dialect: Dialect) -> None:
    assert EventSplitter().feed(dialect.beat()) == [dialect.beat()]
    assert payload(dialect.beat()) is None


@every_dialect
def test_our_own_error_event_reads_as_an_error_and_carries_no_clean_end(dialect: Dialect) -> None:
    event = dialect.in_band("upstream_corruption", "take it again")
    assert EventSplitter().feed(event) == [event]
    assert b"[DONE]" not in event
    reader = dialect.reader(RequestFacts(dialect=dialect.name))
    assert reader.read([payload(event) or b""]) == [Delta(error="upstream_corruption")]
    assert dialect.cut(event, Outgoing(b"", asked_growth=True, asked_usage=True, asked_spec=True)) == event


@every_dialect
def test_our_own_refusal_reads_as_an_error(dialect: Dialect) -> None:
    body = dialect.refusal(502, "upstream_corruption", "take it again")
    assert "take it again" in json.dumps(json.loads(body))
    reader = dialect.reader(RequestFacts(dialect=dialect.name))
    assert reader.whole(body) == [Delta(error="upstream_corruption")]


@every_dialect
def test_a_body_that_is_no_object_is_the_clients_fault(dialect: Dialect) -> None:
    for body in (b"", b"[]", b"1", b"{", b"\xff"):
        with pytest.raises(BadRequest):
            dialect.request(body)


@every_dialect
@pytest.mark.parametrize("capture", sorted(CAPTURES.glob("*.sse")), ids=lambda path: path.name)
def test_nothing_asked_nothing_cut(dialect: Dialect, capture: Path) -> None:
    data = capture.read_bytes()
    events = EventSplitter().feed(data)
    assert b"".join(dialect.cut(event, Outgoing(b"")) for event in events) == data
