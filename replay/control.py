"""Knobs of the backend, turned between blocks.

`knobs["control"][ROLE]` of an arm is posted to every URL of that role before each of the arm's blocks. No
send of a block goes out before its orders have been taken (`gate_s`); an order that is refused ends the run,
because what came after it would be counted under the wrong arm.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Final, NamedTuple

import msgspec

from replay.pages import Site
from replay.plan import PlanHeader

LEAD_S: Final = 0.5
"""Orders are posted this long before their block begins."""


class ControlError(Exception):
    """A knob could not be turned."""


class Order(NamedTuple):
    """What to post before a block."""

    start_s: float
    role: str
    body: bytes


def orders_of(plan: PlanHeader) -> list[Order]:
    """All orders of a plan, in order of time."""
    knobs = {arm.name: arm.knobs.get("control") or {} for arm in plan.arms}
    return [
        Order(block.start_s, role, msgspec.json.encode(body))
        for block in sorted(plan.blocks, key=lambda one: one.start_s)
        for role, body in knobs.get(block.arm, {}).items()
    ]


class Controls:
    """Posts orders as their time comes."""

    def __init__(
        self, orders: Sequence[Order], sites: Mapping[str, Sequence[Site]], now_s: Callable[[], float]
    ) -> None:
        missing = sorted({order.role for order in orders} - {role for role, found in sites.items() if found})
        if missing:
            raise ControlError(f"the plan turns knobs of {', '.join(missing)}: name their control URLs")
        self._orders = list(orders)
        self._sites = sites
        self._now_s = now_s
        self._taken = 0

    def __repr__(self) -> str:
        return f"<Controls {self._taken} of {len(self._orders)} orders taken>"

    @property
    def gate_s(self) -> float:
        """Nothing that is due from here on may go out yet."""
        return self._orders[self._taken].start_s if self._taken < len(self._orders) else inf

    def skip_to(self, at_s: float) -> None:
        """Go on at this time of the run: of the orders before it only those in force are posted again.

        An order may be a push and not a state, as a backlog is: all of them at once would be another load.
        """
        in_force_s = max((order.start_s for order in self._orders if order.start_s <= at_s), default=0.0)
        self._taken = sum(order.start_s < in_force_s for order in self._orders)

    async def run(self, opened: Callable[[], None]) -> None:
        """Post each order in its time; `opened` is called when the gate has moved."""
        try:
            for order in self._orders[self._taken :]:
                await asyncio.sleep(max(0.0, order.start_s - LEAD_S - self._now_s()))
                await asyncio.gather(*[self._post(site, order) for site in self._sites[order.role]])
                self._taken += 1
                opened()
        finally:
            for site in (one for found in self._sites.values() for one in found):
                await site.close()

    async def _post(self, site: Site, order: Order) -> None:
        refused = await site.post(order.body)
        if refused is not None:
            raise ControlError(f"{site.url} refused an order before {order.start_s:g} s: {refused}")
