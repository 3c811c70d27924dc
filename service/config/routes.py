"""Routes: which policy and which knobs a request gets, by its path and its model.

The first route whose `match` fits wins; what none fits gets the default policy. A knob left out keeps the
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

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class Match(Strict):
    """Left out, a condition always holds. `model` is a shell pattern: `glm-*`."""

    path: str | None = None
    model: str | None = None

    def fits(self, path: str, model: str) -> bool:
        return self.path in {None, path} and (self.model is None or fnmatchcase(model, self.model))


class RouteSettings(Strict):
    """One entry of `routes`: a name (a metric label), a match, a policy, and any knob of `RoutePolicy`."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_-]{0,31}$")
    match: Match = Match()
    policy: Policy | None = None
    window_tokens: Annotated[int, Field(ge=0)] | None = None
    window_s: Seconds | None = None
    suspect_hold_s: Seconds | None = None
    commit_wait_s: Seconds | None = None
    beat_every_s: Annotated[float, Field(gt=0, le=3600, allow_inf_nan=False)] | None = None
    max_generations: Annotated[int, Field(ge=1, le=8)] | None = None
    inspect_events: Count | None = None
    inspect_s: Seconds | None = None
    stream_bytes: Bytes | None = None
    tool_bytes: Bytes | None = None
    tool_s: Seconds | None = None
    whole_bytes: Bytes | None = None

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

    def find(self, path: str, model: str, header: str = "") -> RoutePolicy:
        """The request's policy; `header` is the client's own wish, heard only where the owner allows it."""
        wish = header if header in self._by_header else ""
        fitting = (policies for match, policies in self._routes if match.fits(path, model))
        return next(fitting, self._default)[wish]


def _variants(own: RoutePolicy) -> dict[str, RoutePolicy]:
    """A route's policy as configured (""), and as a client's header may ask for it."""
    wished = {str(policy): msgspec.structs.replace(own, policy=policy) for policy in Policy}
    return {"": own, **wished}
