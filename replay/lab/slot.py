"""The life of a KV slot in the decode pool, as a table: who may write into its pages, and when they are free.

    allocated     decode has set pages aside; nobody else knows of them
    writing       prefill knows the pages and may write
    acknowledged  prefill has said that every layer is there; the request waits for its place in the batch
    in use        the request decodes on these pages
    draining      the request is gone, prefill has been told, and it may still write
    reclaimed     the pages belong to the next request

The three ways of giving up a slot that prefill may still write into are three rows of the table, and each
belongs to one protocol:

    unfixed    abandon: reclaimed at once, and prefill is not told. What it writes later lands in pages of
               whoever has them then: the postmortem's race (BugFix 1, sglang#24527).
    deferred   abort, then fence or expire: SGLang 0.5.23 holds the pages until prefill has confirmed, at
               most for a timeout, and then "releasing anyway".
    fixed      abort, then fence: only prefill's word, or the end of its process, frees the pages.

The simulator moves through the same table as the worker. A move that the table or the protocol does not
know raises: a slot in a state that nobody planned is how other people's text gets into an answer.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType


class State(StrEnum):
    """Where a slot is."""

    ALLOCATED = "allocated"
    WRITING = "writing"
    ACKNOWLEDGED = "acknowledged"
    IN_USE = "in use"
    DRAINING = "draining"
    RECLAIMED = "reclaimed"


class Move(StrEnum):
    """What may happen to it."""

    ANNOUNCE = "announce"  # prefill is told the pages
    WITHDRAW = "withdraw"  # given up before prefill was told
    DONE = "done"  # prefill: every layer is written
    FAIL = "fail"  # prefill, or the end of its connection: nothing more will be written
    JOIN = "join"  # into the running batch
    RETIRE = "retire"  # the request is over
    ABANDON = "abandon"  # timeout or abort, and prefill is not told
    ABORT = "abort"  # timeout or abort, and prefill is told
    FENCE = "fence"  # prefill has answered the abort
    EXPIRE = "expire"  # prefill has not, and the pages go all the same


class Race(StrEnum):
    """The protocol of giving up a slot."""

    UNFIXED = "unfixed"
    DEFERRED = "deferred"
    FIXED = "fixed"


TABLE: Mapping[tuple[State, Move], State] = MappingProxyType(
    {
        (State.ALLOCATED, Move.ANNOUNCE): State.WRITING,
        (State.ALLOCATED, Move.WITHDRAW): State.RECLAIMED,
        (State.WRITING, Move.DONE): State.ACKNOWLEDGED,
        (State.WRITING, Move.FAIL): State.RECLAIMED,
        (State.WRITING, Move.ABANDON): State.RECLAIMED,
        (State.WRITING, Move.ABORT): State.DRAINING,
        (State.ACKNOWLEDGED, Move.JOIN): State.IN_USE,
        (State.ACKNOWLEDGED, Move.RETIRE): State.RECLAIMED,
        (State.IN_USE, Move.RETIRE): State.RECLAIMED,
        (State.DRAINING, Move.FENCE): State.RECLAIMED,
        (State.DRAINING, Move.EXPIRE): State.RECLAIMED,
    }
)

PROTOCOL: Mapping[Move, frozenset[Race]] = MappingProxyType(
    {
        Move.ABANDON: frozenset({Race.UNFIXED}),
        Move.ABORT: frozenset({Race.DEFERRED, Race.FIXED}),
        Move.EXPIRE: frozenset({Race.DEFERRED}),
    }
)
"""Moves that not every protocol knows; the others belong to all."""

LIVE = frozenset({State.ACKNOWLEDGED, State.IN_USE})
"""A stranger's write into pages in these states changes what a request reads."""


class IllegalMoveError(RuntimeError):
    """Ours: a slot was moved in a way that the table or its protocol does not know."""


class Lease:
    """One request's hold on its slot."""

    __slots__ = ("race", "state")

    def __init__(self, race: Race) -> None:
        """Begin with pages that nobody has been told of; the protocol stays what it is now."""
        self.race = race
        self.state = State.ALLOCATED

    def __repr__(self) -> str:
        """Show state and protocol."""
        return f"<Lease {self.state}, {self.race}>"

    def move(self, move: Move) -> State:
        """Go to the next state and return it."""
        after = TABLE.get((self.state, move))
        if after is None or self.race not in PROTOCOL.get(move, Race):
            raise IllegalMoveError(f"{move} of a slot that is {self.state}, protocol {self.race}")
        self.state = after
        return after

    def give_up(self) -> State:
        """Leave a slot whose request will not be served, as far as the protocol goes without prefill."""
        if self.state is State.ALLOCATED:
            return self.move(Move.WITHDRAW)
        return self.move(Move.ABANDON if self.race is Race.UNFIXED else Move.ABORT)
