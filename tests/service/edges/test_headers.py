"""Which header crosses which hop."""

import pytest

from service.edges.headers import (
    is_encoded,
    is_event_stream,
    size_of,
    towards_client,
    towards_router,
    value_of,
)

HOP_BY_HOP = [
    (b"connection", b"keep-alive"),
    (b"keep-alive", b"timeout=5"),
    (b"proxy-authenticate", b"Basic"),
    (b"proxy-authorization", b"Basic x"),
    (b"proxy-connection", b"keep-alive"),
    (b"te", b"trailers"),
    (b"trailer", b"x-sum"),
    (b"transfer-encoding", b"chunked"),
    (b"upgrade", b"h2c"),
]


@pytest.mark.parametrize("header", HOP_BY_HOP)
def test_hop_by_hop_headers_cross_in_neither_direction(header: tuple[bytes, bytes]) -> None:
    assert towards_router([header, (b"x-a", b"1")]) == [(b"x-a", b"1")]
    assert towards_client([header, (b"x-a", b"1")], keep_length=True) == [(b"x-a", b"1")]


def test_names_listed_in_connection_stay_on_their_hop() -> None:
    headers = [
        (b"connection", b"close, X-Private"),
        (b"connection", b"x-also"),
        (b"x-private", b"1"),
        (b"x-also", b"2"),
        (b"x-public", b"3"),
    ]
    assert towards_router(headers) == [(b"x-public", b"3")]
    assert towards_client(headers, keep_length=True) == [(b"x-public", b"3")]


@pytest.mark.parametrize(
    "name",
    [
        b"x-smg-target-worker",
        b"x-smg-routing-key",
        b"x_smg_target_worker",
        b"x-smg_target-worker",
        b"x-specguard-policy",
        b"host",
        b"content-length",
        b"expect",
        b"accept-encoding",
    ],
)
def test_a_client_cannot_steer_the_router_through_us(name: bytes) -> None:
    assert towards_router([(name, b"1")]) == []


def test_credentials_and_traces_pass_untouched() -> None:
    headers = [(b"authorization", b"Bearer s"), (b"traceparent", b"00-a-b-01"), (b"x-request-id", b"r")]
    assert towards_router(headers) == headers


def test_repeated_headers_keep_their_order() -> None:
    headers = [(b"set-cookie", b"a=1"), (b"set-cookie", b"b=2")]
    assert towards_client(headers, keep_length=False) == headers


def test_the_length_goes_where_we_may_change_the_body() -> None:
    headers = [(b"content-length", b"3"), (b"x-smg-routed-worker-id", b"http://w:1")]
    assert towards_client(headers, keep_length=True) == headers
    assert towards_client(headers, keep_length=False) == headers[1:]


@pytest.mark.parametrize(
    ("kind", "streams"),
    [
        (b"text/event-stream", True),
        (b"Text/Event-Stream; charset=utf-8", True),
        (b"application/json", False),
        (b"text/event-streams", False),
    ],
)
def test_an_event_stream_is_told_by_its_content_type(kind: bytes, *, streams: bool) -> None:
    assert is_event_stream([(b"content-type", kind)]) is streams


def test_no_content_type_is_no_event_stream() -> None:
    assert not is_event_stream([])
    assert value_of([], b"content-type") is None


@pytest.mark.parametrize(
    ("coding", "encoded"), [(b"gzip", True), (b" Identity", False), (b"", False), (b"br, gzip", True)]
)
def test_a_body_in_a_content_coding_is_told(coding: bytes, *, encoded: bool) -> None:
    assert is_encoded([(b"content-encoding", coding)]) is encoded
    assert not is_encoded([])


def test_size_counts_bytes_on_the_wire() -> None:
    assert size_of([(b"host", b"a"), (b"x", b"")]) == len(b"host: a\r\nx: \r\n")
