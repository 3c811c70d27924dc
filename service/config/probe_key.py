"""The key that signs probes' datagrams, from its file; what is wrong with the file is told at the start."""

import stat
from pathlib import Path
from typing import Final

from service.config.problem import ConfigProblem

MIN_KEY_BYTES: Final = 16
"""As the probe has it: a shorter one could be guessed."""


def read_probe_key(path: str) -> bytes:
    """Raises `ConfigProblem`; it names the file and never quotes it."""
    file = Path(path)
    try:
        mode, key = file.stat().st_mode, file.read_bytes().strip()
    except OSError as broken:
        raise _problem(path, f"cannot be read: {broken.strerror or type(broken).__name__}") from None
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise _problem(path, "others may read it; chmod 600")
    if len(key) < MIN_KEY_BYTES:
        raise _problem(path, f"expected {MIN_KEY_BYTES} bytes at least, got {len(key)}")
    return key


def _problem(path: str, what: str) -> ConfigProblem:
    return ConfigProblem([f"telemetry.key_file: {path}: {what}"])
