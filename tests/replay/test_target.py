"""Nothing goes anywhere that nobody has named."""

from pathlib import Path

import pytest

from replay.target import NotAllowedError, Target, TargetError, check_allowed, target_of, tls_for

CERT = Path(__file__).parent.parent / "fixtures" / "tls" / "cert.pem"


@pytest.mark.parametrize(
    ("url", "target", "authority"),
    [
        ("http://Host:30000", Target("http", "host", 30000), "host:30000"),
        ("https://gpu.example/pool/", Target("https", "gpu.example", 443, "/pool"), "gpu.example"),
        ("http://[::1]:80", Target("http", "::1", 80), "[::1]"),
    ],
)
def test_a_url_is_read(url: str, target: Target, authority: str) -> None:
    assert target_of(url) == target
    assert target.authority == authority
    assert target_of(target.url) == target


@pytest.mark.parametrize(
    "url",
    [
        "",
        "host:80",
        "ftp://host",
        "http://",
        "http://u:p@host",
        "http://host?x=1",
        "http://host/#a",
        "http://host:port",
        "http://[::1",
        "http://host/a b",
        "http://host\r\nx: y",
    ],
)
def test_what_is_no_target_is_refused(url: str) -> None:
    with pytest.raises(TargetError):
        target_of(url)


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("http://gpu1:8000", ["gpu1"]),
        ("http://gpu1:8000", ["other", "GPU1:8000"]),
        ("http://[::1]:8000", ["[::1]"]),
        ("http://[::1]:8000", ["[::1]:8000"]),
    ],
)
def test_a_named_host_is_allowed(url: str, allowed: list[str]) -> None:
    check_allowed(target_of(url), allowed)


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("http://127.0.0.1:8000", []),
        ("http://gpu1:8000", ["gpu1:8001"]),
        ("http://gpu1:8000", ["*"]),
        ("http://gpu1.prod:8000", ["gpu1"]),
        ("http://gpu1:8000", [""]),
    ],
)
def test_every_other_host_is_not_even_the_loopback(url: str, allowed: list[str]) -> None:
    with pytest.raises(NotAllowedError, match="nothing was sent"):
        check_allowed(target_of(url), allowed)


def test_tls_is_verified_and_a_bad_file_is_told(tmp_path: Path) -> None:
    target = target_of("https://localhost")
    context = tls_for(target, str(CERT))
    assert context is not None
    assert context.check_hostname
    assert tls_for(target_of("http://localhost")) is None
    bad = tmp_path / "bad.pem"
    bad.write_text("no certificate")
    with pytest.raises(TargetError, match="no file of CA certificates"):
        tls_for(target, str(bad))
