"""What the judgement of one stream holds in memory: all it reaches that other streams do not share.

Not counted: the tail of the text (the ring that detectors look back on, 32 to 40 KiB), the request and its
prompt, the worker's facts, and whatever a rule set or a module holds once for all (rules, steps, tables).
"""

import sys
from collections import deque
from collections.abc import Iterable
from typing import Final

import msgspec

from service.core.inspector import Inspector

SHARED: Final = (type, int, float, str, msgspec.Struct)
"""Numbers and names are interned or few; structs are events, which nobody keeps but as findings."""


def state_bytes(inspector: Inspector) -> int:
    """Bytes of all choices of this attempt."""
    choices = inspector._choices  # noqa: SLF001 - it weighs what is within
    shared: list[object] = [inspector._facts, inspector._worker, *inspector._detectors]  # noqa: SLF001
    shared += [part for choice in choices for part in (choice._tail, choice.counter._ladder)]  # noqa: SLF001
    return _weight(choices, set(map(id, shared)))


def _weight(one: object, seen: set[int]) -> int:
    if id(one) in seen or one is None or isinstance(one, SHARED):
        return 0
    seen.add(id(one))
    return sys.getsizeof(one) + sum(_weight(part, seen) for part in _parts(one))


def _parts(one: object) -> Iterable[object]:
    if isinstance(one, dict):
        return [*one.keys(), *one.values()]
    if isinstance(one, (list, tuple, set, frozenset, deque)):
        return list(one)
    names = (name for cls in type(one).__mro__ for name in getattr(cls, "__slots__", ()))
    own = [getattr(one, name) for name in names if hasattr(one, name)]
    return [*own, *getattr(one, "__dict__", {}).values()]
