"""Whoever can reach the port can send: nothing is believed before it fits, and nothing raises."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core.telemetry_wire import Fault, Status, StepRows, read
from service.probe.wire import NO_LOAD, Origin, Rows, sign, status_datagram, steps_datagram, u32_column

KEY = b"k" * 20


def datagram(role: int = 0) -> bytes:
    origin = Origin(name=b"http://w:1", role=role, depth=3, epoch=7)
    rows = Rows(bytes(range(24)), bytes(range(24)) if role else b"", u32_column([1, 2, 3]), bytes([0, 1, 2]))
    return steps_datagram(origin, NO_LOAD, 0, rows)


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"", Fault.FOREIGN),
        (b"GET / HTTP/1.1", Fault.FOREIGN),
        (b"SGPb", Fault.TORN),
        (datagram()[:-1], Fault.TORN),
        (datagram() + b"x", Fault.TORN),
        (datagram(role=2)[:-1], Fault.TORN),
        (b"SGPb\x02" + datagram()[5:], Fault.VERSION),
        (b"SGPb\x01\x09" + datagram()[6:], Fault.FOREIGN),
        (b"SGPb\x01\x01\x09" + datagram()[7:], Fault.TORN),
    ],
)
def test_what_does_not_fit_is_named(data: bytes, fault: Fault) -> None:
    assert read(data) is fault


@pytest.mark.parametrize("data", [b"", b"x", datagram(), sign(datagram(), b"another key, as long")])
def test_without_the_right_mac_nothing_is_looked_at(data: bytes) -> None:
    assert read(data, KEY) is Fault.MAC


@pytest.mark.parametrize("place", [0, 5, 30, 60, -1])
def test_one_changed_bit_breaks_the_mac(place: int) -> None:
    signed = bytearray(sign(datagram(), KEY))
    signed[place] ^= 1
    assert read(bytes(signed), KEY) is Fault.MAC


@given(st.binary(max_size=300), st.sampled_from([0, 1, 2]), st.integers(0, 120))
def test_no_bytes_raise(noise: bytes, role: int, cut: int) -> None:
    for data in (noise, datagram(role)[:cut] + noise, noise[:cut] + datagram(role)):
        assert isinstance(read(data), Fault | StepRows | Status)


def test_a_status_with_broken_text_is_still_read() -> None:
    report = read(status_datagram(Origin(), 0, "ok", aside=False) + b"\xff")
    assert isinstance(report, Status)
    assert report.text.startswith("ok")
