"""Datagrams for tests, written as a probe writes them."""

from service.core.telemetry_wire import NO_ROOM
from service.probe.wire import ROLES, Load, Origin, Rows, key_of, status_datagram, steps_datagram, u32_column


class Worker:
    """Writes datagrams as a probe does."""

    def __init__(
        self, name: str = "http://d:1", mode: str = "null", epoch: int = 1, dp_rank: int = -1
    ) -> None:
        self.origin = Origin(name=name.encode(), role=ROLES[mode], dp_rank=dp_rank, depth=3, epoch=epoch)

    def step(self, rows: dict[str, tuple[int, int]], room: int = NO_ROOM) -> bytes:
        """One scheduler step: rid -> (verify step, accepted)."""
        columns = Rows(
            b"".join(map(key_of, rows)),
            room.to_bytes(8, "little") * len(rows) if self.origin.role else b"",
            u32_column([step for step, _ in rows.values()]),
            bytes(count for _, count in rows.values()),
        )
        return steps_datagram(self.origin, Load(1, 2, 3, 4), 0, columns)

    def series(self, rid: str, *accepted: int, first: int = 1) -> list[bytes]:
        """Steps of one request alone."""
        return [self.step({rid: (first + place, count)}) for place, count in enumerate(accepted)]

    def status(self, text: str, *, aside: bool = False) -> bytes:
        return status_datagram(self.origin, 0, text, aside=aside)
