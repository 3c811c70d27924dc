"""One bad payload spoils nothing but itself."""

import msgspec
import pytest

from service.core.dialects.protocol import BadRequest
from service.core.dialects.wire import Schema, decode_all, decode_one, decode_request, error_type, first_rid


class Point(Schema):
    x: int = 0


ONE, MANY = msgspec.json.Decoder(Point), msgspec.json.Decoder(list[Point])


@pytest.mark.parametrize(
    "broken", [b"", b"{", b'{"x":"1"}', b"\xff", b'{"x":1},{"x":2}', b"[" * 100_000], ids=range(6)
)
def test_a_broken_payload_is_none_and_its_neighbours_are_read(broken: bytes) -> None:
    decoded = decode_all(MANY, ONE, [b'{"x":1}', broken, b'{"x":3}'])
    assert [point and point.x for point in decoded] == [1, None, 3]
    assert decode_one(ONE, broken) is None


def test_no_payloads_are_no_objects() -> None:
    assert list(decode_all(MANY, ONE, [])) == []


def test_a_request_is_read_or_refused() -> None:
    assert decode_request(ONE, b'{"x":4,"y":[]}').x == 4
    with pytest.raises(BadRequest, match=r"\$\.x"):
        decode_request(ONE, b'{"x":[]}')


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"type": "a_B.c-1"}, "a_B.c-1"),
        ({"type": "a b"}, "error"),
        ({"type": 5}, "error"),
        ("x", "error"),
        ({}, "error"),
    ],
)
def test_an_error_type_is_a_name_or_nothing(error: object, kind: str) -> None:
    assert error_type(error) == kind


def test_a_batch_goes_by_its_first_rid() -> None:
    assert [first_rid(rid) for rid in (None, "", "a", [], ["b", "c"])] == ["", "", "a", "", "b"]
