"""Baselines from the file that `specguard calibrate` wrote; what is wrong with it is told at the start."""

from pathlib import Path

import msgspec

from service.config.problem import ConfigProblem
from service.core.baseline import Baselines


def read_baselines(path: str) -> Baselines:
    """Raises `ConfigProblem` naming the file and what is wrong."""
    try:
        return Baselines.load(Path(path).read_bytes())
    except OSError as broken:
        raise ConfigProblem([f"baselines: {path}: cannot be read: {broken.strerror or broken}"]) from None
    except msgspec.DecodeError as wrong:
        raise ConfigProblem([f"baselines: {path}: is no file of baselines: {wrong}"]) from None
