"""Where settings come from: command line over environment over file, each value with a source to name."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError
from pydantic_settings import BaseSettings, EnvSettingsSource, SettingsConfigDict, SettingsError

from service.config.problem import ConfigProblem, Location, complaints, key_path, unknown_key
from service.config.settings import Settings
from service.config.text import read_mapping

PREFIX: Final = "SPECGUARD_"

NOT_OURS: Final = re.compile(r"^(CONFIG$|PROBE(_|$)|WORKER_API_KEY$)")
"""Names with our prefix that other parts read: the path of the file, the probe inside SGLang, the doctor."""

SERVICE_LINK: Final = re.compile(r"(^|_)(SERVICE_HOST|SERVICE_PORT(_.+)?|PORT(_\d+_(TCP|UDP|SCTP)(_.+)?)?)$")
LINK_VALUE: Final = re.compile(r"^((tcp|udp|sctp)://.*|tcp|udp|sctp|\d+|[0-9a-fA-F.:]+)$")
"""Kubernetes sets these beside every Service; one called `specguard` sets SPECGUARD_PORT=tcp://10.0.0.7:8400."""


def load_settings(
    file: Path | None = None,
    *,
    env: Mapping[str, str] | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> Settings:
    """The frozen settings. Raises `ConfigProblem` with one line for each thing that cannot stand."""
    layers = {
        "command line": dict(overrides or {}),
        "environment": _environment(os.environ if env is None else env),
        str(file): read_mapping(file) if file else {},
    }
    merged: dict[str, Any] = {}
    for values in reversed(layers.values()):
        merged = _over(merged, values)
    try:
        return Settings(**merged)
    except ValidationError as failed:
        raise ConfigProblem(complaints(Settings, failed, lambda at: _source(layers, at))) from None


def _over(below: dict[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Mappings merge key by key; anything else is replaced whole."""
    merged = dict(below)
    for key, value in above.items():
        under = merged.get(key)
        if isinstance(under, dict) and isinstance(value, Mapping):
            merged[key] = _over(under, value)
        else:
            merged[key] = value
    return merged


def _source(layers: Mapping[str, Mapping[str, Any]], location: Location) -> str:
    """The uppermost layer that holds the value at this location."""
    for name, values in layers.items():
        if location and _holds(values, location):
            return name
    return "settings"


def _holds(values: Any, location: Location) -> bool:  # noqa: ANN401 - YAML may hold anything
    for part in location:
        try:
            values = values[part]
        except (KeyError, IndexError, TypeError):
            return False
    return True


class _Shape(Settings, BaseSettings):
    """Settings as pydantic-settings wants them described; never instantiated."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_nested_delimiter="__")


class _GivenEnvironment(EnvSettingsSource):
    """pydantic-settings' own reading of nested names, over a mapping that the caller hands in."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = {name.lower(): value for name, value in env.items()}
        super().__init__(_Shape)

    def _load_env_vars(self) -> Mapping[str, str | None]:
        return self._env


def _environment(env: Mapping[str, str]) -> dict[str, Any]:
    ours = {name: value for name, value in env.items() if name.startswith(PREFIX) and _is_ours(name, value)}
    unknown = [name for name in ours if _head(name) not in Settings.model_fields]
    if unknown:
        known = [PREFIX + field.upper() for field in Settings.model_fields]
        raise ConfigProblem(unknown_key("environment", name, known) for name in sorted(unknown))
    try:
        return _GivenEnvironment(ours)()
    except SettingsError as broken:
        field = re.search(r'field "(\w+)"', str(broken))
        path = key_path([field[1]]) if field else "(unknown)"
        raise ConfigProblem([f"environment: {path}: expected JSON for a list or mapping"]) from None


def _is_ours(name: str, value: str) -> bool:
    rest = name.removeprefix(PREFIX)
    if NOT_OURS.search(rest):
        return False
    is_link = SERVICE_LINK.search(rest) and LINK_VALUE.match(value)
    return not is_link or (_head(name) in Settings.model_fields and "://" not in value)


def _head(name: str) -> str:
    return name.removeprefix(PREFIX).lower().split("__", 1)[0]
