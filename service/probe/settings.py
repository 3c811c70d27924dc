"""What the engine's environment tells the probe. Nothing set, nothing done.

SPECGUARD_PROBE           where to send, comma-separated: unix:/run/specguard/probe.sock, udp:10.0.0.7:9811
                          (several sidecars, 8 at most), or `meta`: only what /generate chunks carry
SPECGUARD_PROBE_NAME      the worker's URL as the router knows it; without it, http://HOST:PORT of its flags
SPECGUARD_PROBE_KEY_FILE  a file of at least 16 bytes, readable by its owner only: signs UDP datagrams
SPECGUARD_PROBE_META      0: nothing into meta_info
SPECGUARD_PROBE_UNTESTED  1: run on an SGLang version that the compatibility table does not hold
"""

import socket
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

MAX_TARGETS: Final = 8
MIN_KEY_BYTES: Final = 16
MAX_NAME_BYTES: Final = 128


class SettingsError(ValueError):
    """A setting cannot be used; the text names it."""


@dataclass(frozen=True, slots=True)
class Target:
    """One sidecar. `port` 0 means a Unix socket; an address beside a port is a number, never a name."""

    address: str
    port: int = 0


@dataclass(frozen=True, slots=True)
class Settings:
    """The probe's configuration, checked."""

    targets: tuple[Target, ...] = ()
    name: str = ""
    key: bytes = field(default=b"", repr=False)
    meta: bool = True
    untested: bool = False


def from_environment(environment: Mapping[str, str]) -> Settings | None:
    """None where the probe is not asked for. Raises `SettingsError`."""
    wanted = environment.get("SPECGUARD_PROBE", "").strip()
    if not wanted:
        return None
    words = [word.strip() for word in wanted.split(",") if word.strip()]
    targets = tuple(_target(word) for word in words if word != "meta")
    if len(targets) > MAX_TARGETS:
        raise SettingsError(f"SPECGUARD_PROBE: more than {MAX_TARGETS} sidecars")
    key_file = environment.get("SPECGUARD_PROBE_KEY_FILE", "")
    key = _key(Path(key_file)) if key_file else b""
    if not key and any(target.port for target in targets):
        raise SettingsError("SPECGUARD_PROBE: udp needs SPECGUARD_PROBE_KEY_FILE")
    name = environment.get("SPECGUARD_PROBE_NAME", "").strip()
    if len(name.encode()) > MAX_NAME_BYTES:
        raise SettingsError(f"SPECGUARD_PROBE_NAME: longer than {MAX_NAME_BYTES} bytes")
    return Settings(
        targets=targets,
        name=name,
        key=key,
        meta=_on(environment, "SPECGUARD_PROBE_META", default=True),
        untested=_on(environment, "SPECGUARD_PROBE_UNTESTED", default=False),
    )


def _target(word: str) -> Target:
    scheme, _, rest = word.partition(":")
    if scheme == "unix" and rest.startswith("/"):
        return Target(rest)
    host, _, port = rest.rpartition(":")
    if scheme == "udp" and host and port.isdigit() and 0 < int(port) < 1 << 16:
        return Target(_number(host.strip("[]")), int(port))
    raise SettingsError(f"SPECGUARD_PROBE: {word!r} is neither unix:/PATH nor udp:HOST:PORT")


def _number(host: str) -> str:
    """Look a name up now, once: later the scheduler would wait for it."""
    try:
        return str(socket.getaddrinfo(host, None, type=socket.SOCK_DGRAM)[0][4][0])
    except OSError as error:
        raise SettingsError(f"SPECGUARD_PROBE: {host!r} has no address") from error


def _key(path: Path) -> bytes:
    try:
        mode = path.stat().st_mode
        key = path.read_bytes().strip()
    except OSError as error:
        raise SettingsError(f"SPECGUARD_PROBE_KEY_FILE: {error.strerror or type(error).__name__}") from error
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise SettingsError("SPECGUARD_PROBE_KEY_FILE: others may read it; chmod 600")
    if len(key) < MIN_KEY_BYTES:
        raise SettingsError(f"SPECGUARD_PROBE_KEY_FILE: shorter than {MIN_KEY_BYTES} bytes")
    return key


def _on(environment: Mapping[str, str], name: str, *, default: bool) -> bool:
    word = environment.get(name, "").strip().lower()
    if not word:
        return default
    if word in {"1", "true", "yes", "on"}:
        return True
    if word in {"0", "false", "no", "off"}:
        return False
    raise SettingsError(f"{name}: neither 1 nor 0")
