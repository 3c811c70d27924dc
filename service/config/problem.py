"""A configuration that cannot stand: one line a complaint, each with source, key path, got and expected.

    sidecar.yaml: routes[1].windw_s: unknown key; did you mean window_s? known here: ...
    rules/sets/mine.yaml: detectors.loop.min_copies: expected greater than or equal to 0, got -4

Values of secret keys are never repeated.
"""

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from types import UnionType
from typing import Any, Final, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

Location = tuple[int | str, ...]

GOT_CHARS = 60
"""A wrong value is shown to be recognised, not to be read in full."""


SECRET_KEYS: Final = frozenset({"admin_token", "metrics_token", "capture_salt"})


class ConfigProblem(ValueError):  # noqa: N818 - it is what the user has, not what we did
    """Guilty: whoever wrote the configuration. `str` is one line a complaint."""

    def __init__(self, complaints: Iterable[str]) -> None:
        self.complaints = tuple(complaints)
        super().__init__("\n".join(self.complaints))


def key_path(location: Iterable[int | str]) -> str:
    """`("routes", 1, "match")` as a reader of YAML writes it: `routes[1].match`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    return text.removeprefix(".") or "(whole file)"


def unknown_key(source: str, path: str, known: Iterable[str]) -> str:
    """The key, the file, and the neighbours it may have been meant for."""
    names = sorted(known)
    near = get_close_matches(path.rsplit(".", 1)[-1], names, n=1)
    hint = f" did you mean {near[0]}?" if near else ""
    return f"{source}: {path}: unknown key;{hint} known here: {', '.join(names) or 'none'}"


def complaints(
    model: type[BaseModel], failed: ValidationError, source_of: Callable[[Location], str]
) -> list[str]:
    """What pydantic found, in our words; `source_of` says which file or variable a location came from."""
    return [_complaint(model, error, source_of(error["loc"])) for error in failed.errors(include_url=False)]


def _complaint(model: type[BaseModel], error: ErrorDetails, source: str) -> str:
    path = key_path(error["loc"])
    if error["type"] == "extra_forbidden":
        return unknown_key(source, path, keys_at(model, error["loc"][:-1]))
    if error["type"] == "missing":
        return f"{source}: {path}: missing; expected a value"
    if error["type"] == "value_error":
        where = f"{source}: {path}" if error["loc"] else source
        return f"{where}: {error['msg'].removeprefix('Value error, ')}"
    expected = error["msg"].removeprefix("Input should be ")
    return f"{source}: {path}: expected {expected}, got {_shown(error['loc'], error['input'])}"


def _shown(location: Location, value: object) -> str:
    if SECRET_KEYS & {str(part) for part in location}:
        return "a secret (not shown)"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    text = repr(value)
    return text if len(text) <= GOT_CHARS else text[:GOT_CHARS] + "..."


def keys_at(model: type[BaseModel], location: Location) -> tuple[str, ...]:
    """The keys that the model at this location takes; none where there is no model."""
    found: Any = model
    for part in location:
        found = _step(found, part)
    inner = _model_in(found)
    return tuple(inner.model_fields) if inner else ()


def _step(annotation: Any, part: int | str) -> Any:  # noqa: ANN401 - an annotation may be anything
    inner = _model_in(annotation)
    if inner is not None and part in inner.model_fields:
        return inner.model_fields[str(part)].annotation
    arguments = get_args(annotation)
    return arguments[-1 if get_origin(annotation) is dict else 0] if arguments else None


def _model_in(annotation: Any) -> type[BaseModel] | None:  # noqa: ANN401 - an annotation may be anything
    options = get_args(annotation) if get_origin(annotation) in {Union, UnionType} else (annotation,)
    return next((one for one in options if isinstance(one, type) and issubclass(one, BaseModel)), None)
