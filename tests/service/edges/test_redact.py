"""Secrets leave a text; ordinary text, numbers and code stay."""

import time

import pytest

from service.edges.redact import PIECE_CHARS, redacted, redacted_json

KEY = (
    "-----BEGIN RSA PRIVATE KEY-----\n" + "MIIEow\n" * 30 + "-----END RSA PRIVATE KEY-----"
)  # gitleaks:allow


@pytest.mark.parametrize(
    ("kind", "secret"),
    [
        ("api_key", "sk-" + "a1B2" * 8),
        ("api_key", "sk-proj-" + "a1B2" * 8),
        ("aws_key", "AKIA" + "ABCD1234" * 2),
        ("github_token", "ghp_" + "a1B2c3" * 6),
        ("slack_token", "xoxb-" + "1234567890-abc"),
        ("google_key", "AIza" + "a1B2c3D" * 5),
        ("hf_token", "hf_" + "a1B2c3" * 5),
        ("bearer", "Bearer " + "a1B2c3" * 5),
        ("basic_auth", "Basic dXNlcjpwYXNzd29yZA=="),
        ("jwt", "eyJhbGciOiJI.eyJzdWIiOiIx.c2lnbmF0dXJl"),
        ("private_key", KEY),
        ("email", "jane.doe@mail.example.org"),
        ("card", "4111 1111 1111 1111"),
    ],
)
def test_a_secret_is_replaced_by_its_kind(kind: str, secret: str) -> None:
    text = redacted(f"before {secret} after")
    assert text == f"before [redacted:{kind}] after"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("DB_PASSWORD=hunter2hunter2 x", "DB_PASSWORD=[redacted:assigned] x"),
        ('{"api_key": "not so secret"}', '{"api_key": [redacted:assigned]}'),
        ("secret: sk-" + "a1B2" * 8, "secret: [redacted:api_key]"),
    ],
)
def test_a_value_under_a_telling_name_is_replaced_and_the_name_stays(text: str, left: str) -> None:
    assert redacted(text) == left


def test_a_password_in_a_url_is_replaced_and_the_host_stays() -> None:
    assert redacted("postgres://ann:pw@db:5432/x") == "postgres://[redacted:url_password]@db:5432/x"


@pytest.mark.parametrize(
    "text",
    [
        "The token count is 12, the key is pressed, the secret of it is practice.",
        "for key in keys: print(key)",
        "1234 5678 9012 3456 7890 is no card",
        "task-runner and disk-usage are words; sk-learn too",
        "git sha 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "汉字 and ÄÖÜ stay",
    ],
)
def test_ordinary_text_is_let_be(text: str) -> None:
    assert redacted(text) == text


def test_every_string_of_a_json_value_is_redacted_and_nothing_else() -> None:
    value = {"a": ["password: hunter2hunter2", 4111111111111111, None, True], "temperature": 0.5}
    assert redacted_json(value) == {
        "a": ["password: [redacted:assigned]", 4111111111111111, None, True],
        "temperature": 0.5,
    }


@pytest.mark.parametrize("before", [PIECE_CHARS - 50, PIECE_CHARS - 5, PIECE_CHARS // 2 + 3])
def test_a_secret_across_two_pieces_is_found(before: int) -> None:
    text = redacted("x " * (before // 2) + "\n" + KEY + "\n" + "y " * PIECE_CHARS)
    assert "MIIEow" not in text
    assert "[redacted:private_key]" in text


@pytest.mark.parametrize(
    "text",
    [
        "a" * PIECE_CHARS,
        "a-" * (PIECE_CHARS // 2),
        "1" * PIECE_CHARS,
        "password" * 8000,
        "eyJ" * 20_000,
        "@." * 30_000,
    ],
)
def test_no_text_makes_the_scan_slow(text: str) -> None:
    started = time.thread_time()
    redacted(text)
    assert time.thread_time() - started < 1.0
