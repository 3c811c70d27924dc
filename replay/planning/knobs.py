"""Knobs: what an arm sets at the backend, and arms that turn one each beside a control.

    control     {"decode": {"race": "unfixed", "waiting_s": 1.2}}      the usual values, of all that is turned
    fence       the control's, but {"decode": {"race": "fixed"}}       one turn: whatever differs is its doing
    calm        the control's, at another load

A knob stays where it was turned. So every arm has to set whatever any arm sets, or a block would run with
what the block before it left behind, and be counted under the wrong name: such a plan is refused.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from replay.plan import Arm, PlanError


class Turn(NamedTuple):
    """One difference from the control: knobs, or a load."""

    name: str
    to: Mapping[str, Any] | float


def beside(control: Arm, turns: Sequence[Turn]) -> tuple[Arm, ...]:
    """An arm a turn, and the control, which is compared with each, at the end."""
    return (*(_turned(control, one) for one in turns), control)


def check(arms: Sequence[Arm]) -> None:
    """Raise PlanError where a knob would stay as another arm has turned it."""
    named = [(arm, _set_by(arm)) for arm in arms]
    every = {knob: arm.name for arm, knobs in reversed(named) for knob in knobs}
    for arm, knobs in named:
        for role, name in sorted(every.keys() - knobs):
            raise PlanError(
                f"arm {arm.name} does not set {name} of {role}, which {every[role, name]} turns:"
                " it would stay turned; name its usual value among the knobs of every arm"
            )


def _turned(control: Arm, turn: Turn) -> Arm:
    if not isinstance(turn.to, Mapping):
        return msgspec.structs.replace(control, name=turn.name, load=float(turn.to))
    orders = {role: dict(body) for role, body in _orders(control).items()}
    turned = Arm(name=turn.name, load=control.load, knobs=dict(turn.to))
    for role, body in _orders(turned).items():
        orders[role] = orders.get(role, {}) | body
    knobs = {**control.knobs, **turn.to, "control": orders}
    return msgspec.structs.replace(turned, knobs=knobs if orders else {**control.knobs, **turn.to})


def _set_by(arm: Arm) -> set[tuple[str, str]]:
    return {(role, name) for role, body in _orders(arm).items() for name in body}


def _orders(arm: Arm) -> dict[str, dict[str, Any]]:
    orders = arm.knobs.get("control") or {}
    if not isinstance(orders, dict) or not all(isinstance(body, dict) for body in orders.values()):
        raise PlanError(f'arm {arm.name}: control is {{"ROLE": {{"KNOB": VALUE}}}}')
    return orders
