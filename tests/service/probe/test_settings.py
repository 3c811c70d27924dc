"""The probe is off unless asked for, and says what it cannot use."""

from pathlib import Path

import pytest

from service.probe.settings import Settings, SettingsError, Target, from_environment


def _key(folder: Path, mode: int = 0o600, text: str = "a key of twenty bytes") -> str:
    path = folder / "key"
    path.write_text(text)
    path.chmod(mode)
    return str(path)


@pytest.mark.parametrize("environment", [{}, {"SPECGUARD_PROBE": " "}])
def test_without_a_word_it_is_off(environment: dict[str, str]) -> None:
    assert from_environment(environment) is None


def test_meta_alone_sends_nothing() -> None:
    assert from_environment({"SPECGUARD_PROBE": "meta"}) == Settings()


def test_several_sidecars_can_be_named(tmp_path: Path) -> None:
    settings = from_environment(
        {
            "SPECGUARD_PROBE": "unix:/run/a.sock, udp:127.0.0.1:9811,udp:[::1]:9812",
            "SPECGUARD_PROBE_KEY_FILE": _key(tmp_path),
            "SPECGUARD_PROBE_NAME": "http://w1:30000",
            "SPECGUARD_PROBE_META": "0",
            "SPECGUARD_PROBE_UNTESTED": "yes",
        }
    )
    assert settings is not None
    assert settings.targets == (Target("/run/a.sock"), Target("127.0.0.1", 9811), Target("::1", 9812))
    assert (settings.name, settings.meta, settings.untested) == ("http://w1:30000", False, True)
    assert settings.key == b"a key of twenty bytes"


def test_the_key_is_in_no_repr(tmp_path: Path) -> None:
    settings = from_environment({"SPECGUARD_PROBE": "meta", "SPECGUARD_PROBE_KEY_FILE": _key(tmp_path)})
    assert "twenty" not in repr(settings)


def test_a_name_is_looked_up_once_at_the_start() -> None:
    with pytest.raises(SettingsError, match="KEY_FILE"):
        from_environment({"SPECGUARD_PROBE": "udp:localhost:9811"})


@pytest.mark.parametrize(
    ("environment", "word"),
    [
        ({"SPECGUARD_PROBE": "tcp:1.2.3.4:5"}, "tcp:1.2.3.4:5"),
        ({"SPECGUARD_PROBE": "unix:relative.sock"}, "unix:relative.sock"),
        ({"SPECGUARD_PROBE": "udp:127.0.0.1"}, "udp:127.0.0.1"),
        ({"SPECGUARD_PROBE": "udp:127.0.0.1:70000"}, "70000"),
        ({"SPECGUARD_PROBE": "udp:no.such.host.invalid:9"}, "no.such.host.invalid"),
        ({"SPECGUARD_PROBE": ",".join(["unix:/a.sock"] * 9)}, "more than 8"),
        ({"SPECGUARD_PROBE": "meta", "SPECGUARD_PROBE_NAME": "n" * 129}, "SPECGUARD_PROBE_NAME"),
        ({"SPECGUARD_PROBE": "meta", "SPECGUARD_PROBE_META": "maybe"}, "SPECGUARD_PROBE_META"),
        ({"SPECGUARD_PROBE": "meta", "SPECGUARD_PROBE_KEY_FILE": "/no/such/key"}, "KEY_FILE"),
    ],
)
def test_what_cannot_be_used_is_named(environment: dict[str, str], word: str) -> None:
    with pytest.raises(SettingsError, match=word.replace(".", r"\.")):
        from_environment(environment)


@pytest.mark.parametrize(
    ("mode", "text", "word"), [(0o640, "k" * 20, "chmod 600"), (0o600, "short", "shorter")]
)
def test_a_careless_key_is_refused(tmp_path: Path, mode: int, text: str, word: str) -> None:
    with pytest.raises(SettingsError, match=word):
        from_environment({"SPECGUARD_PROBE": "meta", "SPECGUARD_PROBE_KEY_FILE": _key(tmp_path, mode, text)})
