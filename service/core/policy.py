"""What a route may do and how long it may wait: the knobs of the path, as data.

Defaults follow from measured detector delay (hold-back) and from what coding agents tolerate: Claude Code
flags 20 s without bytes and aborts at 180 s, so a heartbeat goes out at most 10 s after the last byte.

Until the first byte of an answer has gone out, a bad one is taken back and made again unseen; from then on
it can only fail loudly. A loop is judged some 96 tokens after it began, collapsed acceptance some 36 verify
steps after: the hold-back's 48 tokens bound what gets out of a bad answer, and are too few to take it back.
`strict` therefore begins later: a fault within the first 64 tokens (what prefill and hand-over did wrong
shows there) is judged within 160.
"""

import msgspec

from service.core.events import Policy


class RoutePolicy(msgspec.Struct, frozen=True):
    """Everything the monitor must know of its route."""

    name: str = "default"
    policy: Policy = Policy.OBSERVE
    window_tokens: int = 48  # hold-back: the newest tokens that stay in the proxy ...
    window_s: float = 1.5  # ... or the newest seconds, whichever is less
    first_tokens: int = 160  # strict: nothing at all goes out before so many tokens have been judged ...
    first_s: float = 3.0  # ... or so many seconds of them, whichever is less
    suspect_hold_s: float = 30.0  # a suspect stream is held longer, up to this
    commit_wait_s: float = 10.0  # with nothing released by then: head and heartbeats go out
    beat_every_s: float = 10.0
    max_generations: int = 3  # the first and at most two more
    inspect_events: int = 8  # data events an inspection looks at together; of held ones the first at once
    inspect_s: float = 0.05  # and no event waits longer for it than this (next tick)
    stream_bytes: int = 256 * 1024  # held at most by one stream
    tool_bytes: int = 256 * 1024  # a tool call held whole up to this size ...
    tool_s: float = 30.0  # ... and this long; then it flows windowed
    whole_bytes: int = 8 * 1024 * 1024  # a non-streamed response held at most

    @property
    def look_events(self) -> int:
        """Data events to a look. Where no byte waits for it, four times as many.

        Eight times as many would keep to the ticks and cost 5 % less; but looks that long hold up the chunks
        of all other streams: four times smg's own p99 instead of two and a half.
        """
        return self.inspect_events if self.holds else 4 * self.inspect_events

    @property
    def holds(self) -> bool:
        """Whether bytes wait for a judgement at all."""
        return self.policy is not Policy.OBSERVE
