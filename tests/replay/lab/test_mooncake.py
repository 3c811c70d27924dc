"""Pages go by address to the right place; what Mooncake listens on is kept to the loopback.

An engine of our own stands in for the wheel, which few machines have: it moves bytes between addresses as
the real one does. What the real one does is held by live_mooncake.py, which `make lab-mooncake` runs.
"""

import ctypes
import os
import socket
import sys
from collections.abc import Sequence

import numpy as np
import pytest

from replay.lab.kvpool import KVPool, PoolShape, make_memory
from replay.lab.mooncake import Mooncake, MooncakeError, Peer, keep_to_loopback
from replay.lab.scheduler import Aborted
from replay.lab.speculation import reference_answer
from replay.lab.transfer import Route, Side, TransferError, write_prompt
from tests.replay.lab.labkit import prompt, running_pair
from tests.replay.lab.test_transfer import DRAFT, TARGET, pool


class Mover:
    """Moves bytes between addresses of this process, inside registered memory only."""

    def __init__(self, failing: int = 0) -> None:
        self.failing = failing
        self.registered: list[range] = []
        self.batches = 0

    def initialize(self, host: str, metadata: str, protocol: str, device: str) -> int:
        return 0 if (host, metadata, protocol, device) == ("127.0.0.1", "P2PHANDSHAKE", "tcp", "") else -1

    def get_rpc_port(self) -> int:
        return 12_345

    def register_memory(self, address: int, length: int) -> int:
        self.registered.append(range(address, address + length))
        return 0

    def batch_transfer_sync_write(
        self, segment: str, sources: Sequence[int], targets: Sequence[int], lengths: Sequence[int]
    ) -> int:
        self.batches += 1
        for source, target, length in zip(sources, targets, lengths, strict=True):
            if not any(source in known and source + length - 1 in known for known in self.registered):
                return -2
            ctypes.memmove(target, source, length)
        return self.failing


def two_mappings() -> tuple[KVPool, KVPool]:
    """One pool as two processes see it."""
    shape = PoolShape(TARGET, DRAFT, 8)
    fd = make_memory(shape, "test")
    both = KVPool(fd, shape), KVPool(fd, shape)
    os.close(fd)
    return both


async def test_pages_arrive_by_address_in_a_pool_that_lies_elsewhere() -> None:
    source, (theirs, ours) = pool(), two_mappings()
    mover = Mover()
    peer = Peer("127.0.0.1:1", theirs.address, ours)
    assert theirs.address != ours.address
    carry = Mooncake(source, mover).carry(peer)
    route = Route(41, Side(source, (2, 5)), Side(ours, (6, 1)), carry=carry)
    written = await write_prompt(route, prompt_tokens=20)
    for sent, arrived in ((source.target, theirs.target), (source.draft, theirs.draft)):
        np.testing.assert_array_equal(arrived[:, :, [6, 1]], sent[:, :, [2, 5]])
        assert not arrived[:, :, [0, 2, 3, 4, 5, 7]].any()
    assert mover.batches == TARGET.layers + DRAFT.layers
    assert written == 2 * 16 * 2 * (3 * 8 + 4) * 4


async def test_a_failure_of_the_engine_fails_the_transfer_by_name() -> None:
    source, (theirs, ours) = pool(), two_mappings()
    carry = Mooncake(source, Mover(failing=-1)).carry(Peer("127.0.0.1:1", theirs.address, ours))
    with pytest.raises(TransferError, match=r"failed \(-1\)"):
        await write_prompt(Route(41, Side(source, (2,)), Side(ours, (6,)), carry=carry), 16)


async def test_a_pair_answers_through_it_as_without() -> None:
    async with running_pair() as pair:
        mover = Mover()
        pair.decode.handovers.mooncake = Mooncake(pair.pool, mover)
        refused = await pair.answer(pair.asked(prompt()))
        assert isinstance(refused.finish, Aborted)
        assert "disagree about the transfer engine" in refused.finish.message
        pair.prefill.mooncake = Mooncake(pair.prefill._pool, mover)
        generation = await pair.answer(pair.asked(prompt()))
    assert generation.output == reference_answer(prompt(), 120)
    assert mover.batches == 5


def test_what_listens_everywhere_is_bound_to_the_loopback_and_the_rest_left_alone() -> None:
    with socket.create_server(("0.0.0.0", 0)) as wide, socket.create_server(("127.0.0.1", 0)) as narrow:  # noqa: S104
        assert keep_to_loopback() >= 1
        assert wide.getsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, 16).rstrip(b"\0") == b"lo"
        assert narrow.getsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, 16) == b""
        with socket.create_connection(wide.getsockname()[:2]):
            pass


@pytest.mark.parametrize("step", ["initialize", "register_memory"])
def test_an_engine_that_does_not_start_is_named(step: str) -> None:
    mover = Mover()
    setattr(mover, step, lambda *_: -7)
    with pytest.raises(MooncakeError, match=r"Mooncake .* \(-7\)"):
        Mooncake(pool(), mover)


def test_without_the_wheel_the_way_to_get_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mooncake", None)
    with pytest.raises(MooncakeError, match="make lab-mooncake"):
        Mooncake(pool())
