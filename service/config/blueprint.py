"""From a core dataclass to a pydantic model that checks its parameters, and back to an instance.

The core knows no pydantic, so the checks are derived: types from the annotations (strict: no text for a
number, no infinity, no NaN), ranges from `field(metadata={"ge": ..., "le": ...})` or else from type and name
(a count is at least 1, for one of zero holds for every stream; a share is 0..1; nothing is negative), and
whatever a dataclass refuses in its own `__post_init__`.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, Final, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model

SHARED: Final = frozenset({"share", "rate", "ratio", "quantile", "anchor", "distinct"})
"""Name endings of a part of a whole: 0..1."""
BOUNDS: Final = ("ge", "gt", "le", "lt")


class Parameters(BaseModel):
    """The base of every derived model."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, allow_inf_nan=False, hide_input_in_errors=True
    )


def model_of(owner: type[Any]) -> type[Parameters]:
    """The model of a dataclass: one key a field, `name` apart (that is the key it stands under)."""
    hints = get_type_hints(owner)
    fields: dict[str, Any] = {
        field.name: (_type_of(hints[field.name]), _limits(field, hints[field.name]))
        for field in dataclasses.fields(owner)
        if field.init and field.name != "name"
    }
    title = (owner.__doc__ or owner.__name__).strip().splitlines()[0]
    return create_model(owner.__name__, __base__=Parameters, __doc__=title, **fields)


def build(owner: type[Any], values: BaseModel) -> Any:  # noqa: ANN401 - an instance of `owner`
    """The dataclass itself, from checked values. Raises whatever its `__post_init__` raises."""
    hints = get_type_hints(owner)
    return owner(**{name: _built(hints[name], getattr(values, name)) for name in type(values).model_fields})


def _type_of(hint: Any) -> Any:  # noqa: ANN401 - an annotation may be anything
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return model_of(hint)
    arguments = get_args(hint)
    if get_origin(hint) in {tuple, dict, Mapping} and any(map(dataclasses.is_dataclass, arguments)):
        return get_origin(hint)[tuple(_type_of(one) for one in arguments)]
    return hint


def _limits(field: dataclasses.Field[Any], hint: Any) -> Any:  # noqa: ANN401 - pydantic's FieldInfo
    bounds = {key: field.metadata[key] for key in BOUNDS if key in field.metadata}
    if hint in {int, float}:
        bounds = bounds or _bounds_by_name(field.name, is_count=hint is int)
    extra: dict[str, Any] = {}
    if _is_loose(hint):
        extra["strict"] = False  # YAML has lists and text where we have tuples and enums
    if field.default is not dataclasses.MISSING:
        extra["default"] = field.default
    elif field.default_factory is not dataclasses.MISSING:
        extra["default_factory"] = field.default_factory
    return Field(**bounds, **extra)


def _is_loose(hint: Any) -> bool:  # noqa: ANN401 - an annotation may be anything
    return get_origin(hint) is tuple or (isinstance(hint, type) and issubclass(hint, Enum))


def _bounds_by_name(name: str, *, is_count: bool) -> dict[str, float]:
    if is_count:
        return {"ge": 1}
    return {"ge": 0, "le": 1} if name.rsplit("_", 1)[-1] in SHARED else {"ge": 0}


def _built(hint: Any, value: Any) -> Any:  # noqa: ANN401 - a parameter may be anything
    if isinstance(value, BaseModel):
        return build(hint, value)
    if isinstance(value, tuple):
        return tuple(_built_each(get_args(hint), value))
    if isinstance(value, dict):
        return {key: _built(get_args(hint)[1], one) for key, one in value.items()}
    return value


def _built_each(hints: tuple[Any, ...], values: Iterable[Any]) -> list[Any]:
    return [
        _built(hints[min(place, len(hints) - 1)] if hints[-1] is not ... else hints[0], value)
        for place, value in enumerate(values)
    ]
