"""Rule sets: from `rules/sets/NAME.yaml` to the frozen detectors and fusion of the core.

    name: default
    detectors:
      loop: {min_copies: 4, ...}      # a key of DETECTORS; its dataclass's parameters; left out, it is off
    fusion: {...}                     # parameters of service.core.fusion.Fusion

Names are the contract: nothing in a rule file is code.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from service.config.blueprint import Parameters, build, model_of
from service.config.problem import ConfigProblem, complaints, unknown_key
from service.config.text import read_mapping
from service.core.detectors import DETECTORS
from service.core.detectors.protocol import Detector
from service.core.fusion import Fusion

_PACKAGE: Final = Path(__file__).parent.parent
_HOMES: Final = (_PACKAGE / "rulesets", _PACKAGE.parent / "rules" / "sets")
"""Where packaged sets lie: inside an installed wheel, and in the source tree."""


@dataclass(frozen=True, slots=True)
class RuleSet:
    """A validated rule set, ready for the Desk."""

    name: str
    source: Path
    digest: str  # twelve hex digits of the file's bytes
    detectors: tuple[Detector[Any], ...]
    fusion: Fusion

    def __repr__(self) -> str:
        return f"<RuleSet {self.name} {self.digest}: {', '.join(one.name for one in self.detectors)}>"


class Named(BaseModel):
    """What every rule file says of itself."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    name: str = Field(pattern=r"^[a-z][a-z0-9_-]{0,31}$")


@cache
def rules_model() -> type[Named]:
    """The model of a whole rule file, derived from the registry."""
    switches: dict[str, Any] = {key: (model_of(owner) | None, None) for key, owner in DETECTORS.items()}
    detectors: Any = create_model(
        "Detectors", __base__=Parameters, __doc__="The detectors that run; one left out is off.", **switches
    )
    return create_model(
        "RuleFile",
        __base__=Named,
        __doc__="A rule set of SpecGuard: which detectors run, with which numbers, and how they are fused.",
        detectors=(detectors, ...),
        fusion=(model_of(Fusion), ...),
    )


def rules_schema() -> dict[str, Any]:
    """The JSON schema that editors and `check-jsonschema` use."""
    schema = rules_model().model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def packaged_sets() -> dict[str, Path]:
    """The rule sets that ship with SpecGuard, by name."""
    home = next((home for home in _HOMES if home.is_dir()), None)
    return {path.stem: path for path in sorted(home.glob("*.yaml"))} if home else {}


def find_rules(wanted: str) -> Path:
    """A packaged set by name, or a file by path."""
    packaged = packaged_sets()
    if wanted in packaged:
        return packaged[wanted]
    path = Path(wanted)
    if path.suffix in {".yaml", ".yml"} or path.is_file():
        return path
    raise ConfigProblem([f"rules: no rule set {wanted!r}; packaged are: {', '.join(packaged) or 'none'}"])


def load_rules(wanted: str = "default") -> RuleSet:
    """The rule set, built. Raises `ConfigProblem` naming file, key, got and expected."""
    path = find_rules(wanted)
    model = rules_model()
    try:
        checked: Any = model.model_validate(read_mapping(path))
    except ValidationError as failed:
        raise ConfigProblem(complaints(model, failed, lambda _: str(path))) from None
    on = {key: one for key in DETECTORS if (one := getattr(checked.detectors, key)) is not None}
    _weights_name_detectors(path, checked.fusion, on)
    return RuleSet(
        name=checked.name,
        source=path,
        digest=sha256(path.read_bytes()).hexdigest()[:12],
        detectors=tuple(_built(path, f"detectors.{key}", DETECTORS[key], one) for key, one in on.items()),
        fusion=_built(path, "fusion", Fusion, checked.fusion),
    )


def _weights_name_detectors(path: Path, fusion: Any, on: Iterable[str]) -> None:  # noqa: ANN401 - derived
    stray = sorted(set(fusion.weights) - set(on))
    if stray:
        raise ConfigProblem(unknown_key(str(path), f"fusion.weights.{name}", on) for name in stray)


def _built(path: Path, key: str, owner: type[Any], values: BaseModel) -> Any:  # noqa: ANN401 - an `owner`
    try:
        return build(owner, values)
    except ValueError as refused:
        raise ConfigProblem([f"{path}: {key}: {refused}"]) from None
