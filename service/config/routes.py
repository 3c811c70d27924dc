"""Routes: which policy and which knobs a request gets, by its path and its model.

The first route whose `match` fits wins; what none fits gets the default policy. A request that cannot be
read names no model, so it may have been meant for any: it counts as strict where one strict route of its path
could have been meant (`may_be_strict`). A knob left out keeps the
value that `service.core.policy.RoutePolicy` gives it: the numbers have one home, and it is not here.
"""

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Annotated, Final

import msgspec
from pydantic import BaseModel, ConfigDict, Field

from service.core.events import Policy
from service.core.policy import RoutePolicy

DEFAULT_ROUTE: Final = "default"

Count = Annotated[int, Field(ge=1)]
Bytes = Annotated[int, Field(ge=0, le=1 << 40)]
Seconds = Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False)]


class Strict(BaseModel):
    """Every settings model: frozen, and an unknown key is an error."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, hide_input_in_errors=True, use_attribute_docstrings=True
    )


class Match(Strict):
    """Which requests a route is for; a condition left out always holds."""

    path: str | None = None
    """The request's path, exactly."""
    model: str | None = None
    """The request's model, as a shell pattern: `glm-*`. A body that cannot be read is refused where a strict
    route of its path names models: it may have been meant for one of them."""

    @property
    def any_model(self) -> bool:
        return self.model in {None, "*"}

    def fits(self, path: str, model: str) -> bool:
        return self.path in {None, path} and (self.model is None or fnmatchcase(model, self.model))


class RouteSettings(Strict):
    """One entry of `routes`. A knob left out keeps the value of `RoutePolicy`."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_-]{0,31}$")
    """Its name, a metric label."""
    match: Match = Match()
    """Which requests it is for."""
    policy: Policy | None = None
    """What it does about a verdict; left out, the default policy."""
    window_tokens: Annotated[int, Field(ge=0)] | None = None
    """Hold-back: the newest tokens that stay in the proxy, or the newest `window_s`, whichever is less."""
    window_s: Seconds | None = None
    """See `window_tokens`."""
    first_tokens: Annotated[int, Field(ge=0)] | None = None
    """On `strict`: nothing goes out before so many tokens are judged, or `first_s`, whichever is less."""
    first_s: Seconds | None = None
    """See `first_tokens`."""
    suspect_hold_s: Seconds | None = None
    """How long a suspect stream is held at most."""
    commit_wait_s: Seconds | None = None
    """With nothing released by then, response head and heartbeats go out."""
    beat_every_s: Annotated[float, Field(gt=0, le=3600, allow_inf_nan=False)] | None = None
    """Between heartbeats while we hold; agents give up on silent streams."""
    max_generations: Annotated[int, Field(ge=1, le=8)] | None = None
    """The first and those made again."""
    inspect_events: Count | None = None
    """Data events that one inspection looks at together."""
    inspect_s: Seconds | None = None
    """How long an event waits for its inspection."""
    stream_bytes: Bytes | None = None
    """Held by one stream at most."""
    tool_bytes: Bytes | None = None
    """Up to this size a tool call is held whole."""
    tool_s: Seconds | None = None
    """And up to this long."""
    whole_bytes: Bytes | None = None
    """Of a response that is not streamed, held at most."""

    def policy_with(self, default: Policy) -> RoutePolicy:
        knobs = self.model_dump(exclude={"match", "policy"}, exclude_none=True)
        return RoutePolicy(policy=self.policy or default, **knobs)


class RouteTable:
    """The routes, ready to be asked once a request."""

    def __init__(self, routes: Iterable[RouteSettings], default: Policy, by_header: Iterable[Policy]) -> None:
        self._routes = tuple((route.match, _variants(route.policy_with(default))) for route in routes)
        self._default = _variants(RoutePolicy(name=DEFAULT_ROUTE, policy=default))
        self._by_header = frozenset(str(policy) for policy in by_header)

    def __repr__(self) -> str:
        return f"<RouteTable {', '.join(self.names)}>"

    @property
    def names(self) -> tuple[str, ...]:
        """Every route's name, the default's last: the values of the metric label `route`."""
        named = (policies[""].name for _, policies in self._routes)
        return (*named, DEFAULT_ROUTE)

    @property
    def policies(self) -> dict[str, str]:
        """Each route's policy, where the client wishes nothing."""
        every = (*(variants[""] for _, variants in self._routes), self._default[""])
        return {one.name: str(one.policy) for one in every}

    def find(self, path: str, model: str, header: str = "") -> RoutePolicy:
        """The request's policy; `header` is the client's own wish, heard only where the owner allows it."""
        fitting = (policies for match, policies in self._routes if match.fits(path, model))
        return next(fitting, self._default)[self._wish(header)]

    def may_be_strict(self, path: str, header: str = "") -> bool:
        """Whether a request of unknown model may be meant for a strict route."""
        wish = self._wish(header)
        for match, policies in self._routes:
            if match.path in {None, path}:
                if policies[wish].policy is Policy.STRICT:
                    return True
                if match.any_model:
                    return False
        return self._default[wish].policy is Policy.STRICT

    def _wish(self, header: str) -> str:
        return header if header in self._by_header else ""


def _variants(own: RoutePolicy) -> dict[str, RoutePolicy]:
    """A route's policy as configured (""), and as a client's header may ask for it."""
    wished = {str(policy): msgspec.structs.replace(own, policy=policy) for policy in Policy}
    return {"": own, **wished}
