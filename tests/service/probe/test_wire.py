"""What the probe writes, the sidecar reads: one test holds the two ends together."""

from hypothesis import given
from hypothesis import strategies as st

from service.core import telemetry_wire as reading
from service.probe import wire
from service.probe.wire import (
    Load,
    Origin,
    Rows,
    key_of,
    rows_at_most,
    sign,
    status_datagram,
    steps_datagram,
    u32_column,
)

U32 = st.integers(0, (1 << 32) - 1)
U64 = st.integers(0, (1 << 64) - 1)
ROWS = st.lists(
    st.tuples(st.binary(min_size=8, max_size=8), U64, U32, st.integers(0, 255)), min_size=1, max_size=60
)
ORIGINS = st.builds(
    Origin,
    name=st.sampled_from([b"", b"http://10.0.0.7:30000", "http://größe:1".encode()]),
    role=st.integers(0, 2),
    dp_rank=st.integers(-1, 4000),
    depth=st.integers(0, 64),
    epoch=U64,
    counter=st.integers(0, (1 << 63) - 1),
)


@given(ORIGINS, st.builds(Load, U32, U32, U32, U32), U32, ROWS, st.sampled_from([b"", b"k" * 20]))
def test_what_is_written_is_read(
    origin: Origin, load: Load, lost: int, rows: list[tuple[bytes, int, int, int]], key: bytes
) -> None:
    counter = origin.counter
    rooms = b"".join(row[1].to_bytes(8, "little") for row in rows) if origin.role else b""
    accepted = bytes(row[3] for row in rows)
    steps = u32_column([row[2] for row in rows])
    columns = Rows(b"".join(row[0] for row in rows), rooms, steps, accepted)
    datagram = steps_datagram(origin, load, lost, columns)
    assert origin.counter == counter + 1

    read = reading.read(sign(datagram, key) if key else datagram, key)
    assert isinstance(read, reading.StepRows)
    assert read.sent == reading.Sent(
        origin.name.decode(), reading.Role(origin.role), origin.dp_rank, origin.epoch, counter, lost
    )
    assert read.load == reading.Load(*load)
    assert read.depth == origin.depth
    assert read.keys == tuple(int.from_bytes(row[0], "little") for row in rows)
    assert read.rooms == (tuple(row[1] for row in rows) if origin.role else ())
    assert read.steps == tuple(row[2] for row in rows)
    assert read.accepted == accepted


def test_a_status_is_read() -> None:
    read = reading.read(status_datagram(Origin(name=b"w"), 3, "TypeError in _step", aside=True))
    assert isinstance(read, reading.Status)
    assert (read.sent.name, read.sent.lost, read.aside, read.text) == ("w", 3, True, "TypeError in _step")


def test_both_ends_mean_the_same_by_their_marks() -> None:
    assert (wire.NO_STEP, wire.NO_ROOM, wire.MAC_BYTES) == (
        reading.NO_STEP,
        reading.NO_ROOM,
        reading.MAC_BYTES,
    )


def test_a_full_datagram_fits_a_frame_with_its_mac() -> None:
    for role in (0, 1):
        origin = Origin(name=b"n" * 128, role=role)
        rows = rows_at_most(origin)
        columns = Rows(bytes(8 * rows), bytes(8 * rows * role), u32_column([1] * rows), bytes(rows))
        datagram = sign(steps_datagram(origin, Load(), 0, columns), b"k" * 16)
        assert rows >= 50
        assert len(datagram) <= wire.MAX_BYTES


def test_sixty_four_requests_are_one_datagram() -> None:
    assert rows_at_most(Origin(name=b"http://inference-worker-17.prod.svc:30000")) >= 64


def test_a_key_is_a_stable_hash_of_the_rid() -> None:
    assert key_of("a") == key_of("a") != key_of("b")
    assert len(key_of("\ud800")) == 8


def test_a_part_of_the_rows_is_a_part_of_every_column() -> None:
    rows = Rows(b"aaaaaaaabbbbbbbbcccccccc", b"AAAAAAAABBBBBBBBCCCCCCCC", u32_column([1, 2, 3]), b"xyz")
    assert rows.part(1, 3) == Rows(b"bbbbbbbbcccccccc", b"BBBBBBBBCCCCCCCC", u32_column([2, 3]), b"yz")
    assert rows._replace(rooms=b"").part(0, 1) == Rows(b"aaaaaaaa", b"", u32_column([1]), b"x")
