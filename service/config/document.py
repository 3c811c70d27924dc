"""The page of settings, written from the models themselves: `python -m service.config.document`."""

import sys
from collections.abc import Iterator
from enum import Enum
from types import UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin

import msgspec
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from service.config.layers import PREFIX
from service.config.routes import RouteSettings
from service.config.settings import Settings
from service.core.policy import RoutePolicy

HEAD: Final = f"""# Settings

Written by `python -m service.config.document`; a test keeps it fresh.

A setting comes from the command line (`specguard serve --help`), else from the environment
(`{PREFIX}LIMITS__STREAMS=500`; lists and mappings as JSON), else from the YAML file given by `--config` or
`{PREFIX}CONFIG`, else from its default. An unknown key is an error wherever it stands.

```yaml
router: http://127.0.0.1:30000
policy: observe
routes:
  - name: agents
    match: {{path: /v1/chat/completions, model: "glm-*"}}
    policy: protect
    window_tokens: 64
```
"""


def page() -> str:
    """The whole page: the settings, then each model that one of them holds."""
    parts = [HEAD]
    for title, model in _models(Settings, "settings"):
        doc = (model.__doc__ or "").strip().splitlines()[0]
        knobs = _knobs() if model is RouteSettings else {}
        rows = [
            _row(name, field, knobs.get(name, field.default)) for name, field in model.model_fields.items()
        ]
        table = ["| key | takes | default | |", "| --- | --- | --- | --- |", *rows]
        parts.append("\n".join([f"## {title}", "", doc, "", *table]) + "\n")
    return "\n".join(parts)


def _models(model: type[BaseModel], title: str) -> Iterator[tuple[str, type[BaseModel]]]:
    yield title, model
    for name, field in model.model_fields.items():
        for inner in _inner(field.annotation):
            yield from _models(inner, name if title == "settings" else f"{title}.{name}")


def _inner(annotation: Any) -> Iterator[type[BaseModel]]:  # noqa: ANN401 - an annotation may be anything
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _inner(argument)


def _knobs() -> dict[str, Any]:
    """What a route's knob is where the route leaves it out."""
    fields = {field.name: field.default for field in msgspec.structs.fields(RoutePolicy)}
    return {name: value for name, value in fields.items() if name not in {"name", "policy"}}


def _row(name: str, field: FieldInfo, default: object) -> str:
    shown = "(required)" if field.is_required() else _shown(default)
    said = (field.description or "").replace("\n", " ")
    return f"| `{name}` | {_takes(field.annotation)} | {shown} | {said} |"


def _shown(value: object) -> str:
    if isinstance(value, BaseModel):
        return "see below"
    if isinstance(value, bool):
        return f"`{value}`".lower()
    return "" if value is None or value == () else f"`{value}`"


def _takes(annotation: Any) -> str:  # noqa: ANN401 - an annotation may be anything
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return ", ".join(f"`{one}`" for one in arguments)
    if origin in {Union, UnionType}:
        return _takes(next(one for one in arguments if one is not type(None)))
    if origin is tuple:
        return f"list of {_takes(arguments[0])}"
    return _takes(arguments[0]) if arguments else _named(annotation)


def _named(kind: type[Any]) -> str:
    if issubclass(kind, Enum):
        return ", ".join(f"`{one.value}`" for one in kind)
    if issubclass(kind, BaseModel):
        return "mapping"
    names = {
        "str": "text",
        "int": "number",
        "float": "number",
        "bool": "`true`, `false`",
        "SecretStr": "secret",
    }
    return names[kind.__name__]


if __name__ == "__main__":
    sys.stdout.write(page())
