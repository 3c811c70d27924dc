"""One attempt's exact verify steps: what the probes report, joined to its chunks by the engine's own id.

The `id` of a chunk is the engine's rid, also behind a router that dropped ours; each of several choices has
its own. It is read from the first events alone. Until one tells it, and where it is somebody else's invention
(a gateway may write its own), the rid that we sent stands.

Steps come two ways: by datagram, and on `/generate` in `meta_info`. Whichever brings the first step is taken
for the whole attempt; both would count every step twice. A step may be known before its text has come through
the router, and long before it where a client reads slowly: it tells nothing of how much text there should be.

Where nothing listens for probes there is none of this. Cost: 1 us a look.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from service.core.dialects.wire import Schema, decode_one
from service.core.events import UNKNOWN, Delta, StepKind
from service.core.probe_feed import Pair, ProbeFeed, key_of

CHOICES_MAX: Final = 128
"""Choices that are joined; OpenAI's own limit of n."""


class _Meta(Schema):
    id: Any = None


class _Place(Schema):
    index: int = 0


class _Named(Schema):
    """Where an event or a body says whose it is: `id` beside `choices`, or in `meta_info` beside `index`."""

    id: Any = None
    choices: list[_Place] | None = None
    meta_info: _Meta | None = None
    index: int = 0


_NAMED: Final = msgspec.json.Decoder(_Named)


class _Steps:
    """The series of one choice."""

    __slots__ = ("keys", "waiting")

    def __init__(self, keys: tuple[int, ...]) -> None:
        self.keys = keys  # that it may be known by; one, once steps have come
        self.waiting: tuple[int, ...] = ()  # steps whose choice has had no event since


class ProbeJoin:
    """The steps of one attempt."""

    __slots__ = ("_choices", "_feed", "_open", "_own", "_series", "_source")

    def __init__(self, feed: ProbeFeed, rid: str, choices: int) -> None:
        self._feed = feed
        self._own = key_of(rid)
        self._choices = min(max(choices, 1), CHOICES_MAX)
        self._series: dict[int, _Steps] = {}
        if self._choices == 1:
            self._series[0] = _Steps((self._own,))
        self._open = self._choices  # whose ids no event has told yet
        self._source = ""  # of the steps: "datagram" or "meta"

    def __repr__(self) -> str:
        return f"<ProbeJoin {self._source or 'nothing yet'} {len(self._series)} of {self._choices} choices>"

    @property
    def worker(self) -> str:
        """The worker that decodes this attempt; "" for unknown."""
        return next((name for key in self._keys() if (name := self._feed.worker(key))), "")

    @property
    def dp_rank(self) -> int:
        """The data-parallel rank of that worker; UNKNOWN where there is none, or nobody told."""
        ranks = (self._feed.dp_rank(key) for key in self._keys())
        return next((rank for rank in ranks if rank != UNKNOWN), UNKNOWN)

    @property
    def pair(self) -> Pair:
        """The prefill and the decode worker; "" for unknown."""
        pairs = (self._feed.pair(key) for key in self._keys())
        return next((pair for pair in pairs if pair.decode or pair.prefill), Pair())

    @property
    def whole(self) -> bool:
        """Whether no step of any choice was lost on the way; what `meta_info` carries never is."""
        if self._source == "meta":
            return True
        series = self._series.values()
        return len(series) == self._choices and all(
            any(self._feed.whole(key) for key in one.keys) for one in series
        )

    def join(self, payloads: Sequence[bytes], deltas: list[Delta]) -> list[Delta]:
        """The events, with the steps that the probe has told since the last ones."""
        if self._source == "meta" or not self._feed.heard:
            return deltas
        if self._open:
            self._read_ids(payloads)
        carried = any(delta.exact for delta in deltas)
        if not self._take():
            if carried and not self._source:
                self._source = "meta"
            return deltas if self._source == "meta" or not carried else _without_steps(deltas)
        return self._added(_without_steps(deltas) if carried else deltas)

    def rest(self) -> list[Delta]:
        """Steps that came after the last event of their choices."""
        if self._source == "meta" or not self._take():
            return []
        rest = [Delta(choice, exact=one.waiting) for choice, one in self._series.items() if one.waiting]
        for one in self._series.values():
            one.waiting = ()
        return rest

    # --- inside ---

    def _keys(self) -> list[int]:
        return [key for one in self._series.values() for key in one.keys]

    def _read_ids(self, payloads: Sequence[bytes]) -> None:
        for payload in payloads:
            named = decode_one(_NAMED, payload)
            if named is None or not (rid := _id(named)):
                continue
            choice = named.choices[0].index if named.choices else named.index
            if 0 <= choice < self._choices and (choice not in self._series or self._choices == 1):
                own = (self._own,) if self._choices == 1 else ()
                key = key_of(rid)
                self._series[choice] = _Steps((key, *(other for other in own if other != key)))
                self._open -= 1
            if not self._open:
                return

    def _take(self) -> bool:
        """Take what has come; whether there is anything to give out."""
        found = False
        for one in self._series.values():
            for key in one.keys:
                steps = self._feed.take(key)
                if steps:
                    one.keys = (key,)
                    one.waiting += steps
                    break
            found = found or bool(one.waiting)
        if found:
            self._source = "datagram"
        return found

    def _added(self, deltas: list[Delta]) -> list[Delta]:
        """The steps go to the first event of their choice."""
        joined = list(deltas)
        for choice, one in self._series.items():
            first = next((place for place, delta in enumerate(joined) if delta.choice == choice), None)
            if first is not None and one.waiting:
                joined[first] = msgspec.structs.replace(joined[first], exact=one.waiting)
                one.waiting = ()
        return joined


def kind_of(join: ProbeJoin | None, kind: StepKind) -> str:
    """How well an attempt's steps are known, as the metrics tell it: a series with a hole is not exact."""
    return "gapped" if kind is StepKind.EXACT and join is not None and not join.whole else kind


def _id(named: _Named) -> str:
    found = named.meta_info.id if named.meta_info is not None else named.id
    return found if isinstance(found, str) else ""


def _without_steps(deltas: list[Delta]) -> list[Delta]:
    return [msgspec.structs.replace(delta, exact=()) if delta.exact else delta for delta in deltas]
