from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralphd.core.redact import MARK, Redactor

CANARIES = [
    "sk-ant-api03-AbCdEfGh1234567890-xyz",
    "sk-proj-a1b2c3d4e5f6g7h8i9",
    "ghp_" + "a1B2" * 9,
    "ghs_" + "a1B2" * 9,
    "github_pat_" + "a1B2" * 9,
    "glpat-a1b2c3d4e5f6g7h8i9j0",
    "xoxb-123456789012-abcdef",
    "AKIAIOSFODNN7EXAMPLE",
    "AIza" + "Sy1a" * 9,
    "hf_" + "a1B2" * 6,
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA\n-----END RSA PRIVATE KEY-----",
    "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEA",
]


@pytest.mark.parametrize("canary", CANARIES)
@pytest.mark.parametrize("around", ["{}", "key: {} end", 'export KEY="{}"', "({})", "{}\n"])
def test_what_has_the_shape_of_a_secret_is_gone(canary, around):
    text = Redactor().text(around.format(canary))
    assert MARK in text
    assert canary[-8:] not in text


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("https://ann:hunter22@host/x", "hunter22"),
        ("https://ann:p@ss:w0rd@host/x", "w0rd"),
        ("https://0123456789abcdef0123@github.com/x", "0123456789abcdef"),
        ("Authorization: Bearer abc123def456", "abc123def456"),
        ("authorization: basic QWxhZGRpbjpvcGVuIHNlc2FtZQ1=", "QWxhZGRpbjpvcG"),
        ("password=hunter2222", "hunter2222"),
        ("x-api-key: 0123abcd4567", "0123abcd4567"),
    ],
)
def test_secrets_by_their_place_are_gone(text, secret):
    assert secret not in Redactor().text(text)


@pytest.mark.parametrize(
    "text",
    [
        "da39a3ee5e6b4b0d3255bfef95601890afd80709",
        "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "1f" * 16,
        "/home/ann/task-something-with-a-long-name-2/PROMPT.md",
        "refs/ralphd/2026-11-30-a/fix-1",
        "ssh://git@github.com/ann/x.git",
        "https://example.org/a?b=c@d",
        "10:30: token = parser.next_token()",
        "basic functionality works; bearer of news",
        "the password is required",
        "disk-usage-of-the-worktree-is-12",
    ],
)
def test_hashes_nonces_paths_and_prose_survive(text):
    assert Redactor().text(text) == text


def test_known_values_go_first_and_the_longest_first():
    assert Redactor(["hunter", "hunter22xyz"]).text("a hunter22xyz b hunter") == f"a {MARK} b {MARK}"


def test_values_under_six_characters_are_left_alone():
    assert Redactor(["main", ""]).text("main") == "main"


def test_known_values_are_found_percent_encoded_and_line_by_line():
    text = Redactor(["p@ss/w0rd!", "first line of a key\nsecond line of a key"]).text(
        "p%40ss%2Fw0rd%21 | second line of a key"
    )
    assert text == f"{MARK} | {MARK}"


def test_data_is_cleaned_to_the_bottom_and_keeps_its_shape():
    redact = Redactor(["canary-1"])
    data = {"a": ["x canary-1", {"canary-1": "canary-1"}], "n": 3, "f": 1.5, "none": None, "yes": True}
    assert redact.data(data) == {"a": [f"x {MARK}", {MARK: MARK}], "n": 3, "f": 1.5, "none": None, "yes": True}


def test_working_names_are_kept_but_not_inside_what_an_agent_said():
    data = {"log": "/canary-1/x", "nonce": "canary-1", "detail": {"file": "canary-1", "deep": [{"commit": "canary-1"}]}}
    assert Redactor(["canary-1"]).data(data) == {
        "log": "/canary-1/x",
        "nonce": "canary-1",
        "detail": {"file": MARK, "deep": [{"commit": MARK}]},
    }


def test_what_is_named_like_a_secret_is_one():
    data = {"ANTHROPIC_API_KEY": "plain", "db_password": "plain", "GH_TOKEN": "plain", "tokens_in": 5, "api_key": ""}
    assert Redactor().data(data) == {
        "ANTHROPIC_API_KEY": MARK, "db_password": MARK, "GH_TOKEN": MARK, "tokens_in": 5, "api_key": "",
    }  # fmt: skip


PIECES = st.lists(
    st.sampled_from([*CANARIES, "://", ":", "@", "eyJ", ".", "sk-", " ", "x1" * 9, "bearer ", MARK, "-----BEGIN "])
)


@given(PIECES.map("".join))
def test_redacting_again_changes_nothing(text):
    redact = Redactor(["canary-1", "secret"])
    once = redact.text(text)
    assert redact.text(once) == once


@given(st.text(), st.text(min_size=6, alphabet=st.characters(categories=["L", "N"])), st.text())
def test_a_known_value_never_survives(before, secret, after):
    assert secret not in Redactor([secret]).text(before + secret + after).replace(MARK, "|")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_any_json_keeps_its_outline(data):
    def outline(value):
        if isinstance(value, dict):
            return [outline(item) for item in value.values()]
        return [outline(item) for item in value] if isinstance(value, list) else type(value)

    assert outline(Redactor().data(data)) == outline(data)


@pytest.mark.parametrize(
    "unit",
    [
        "eyJaaaaaaaa",
        "eyJaaaaaaaa.",
        "sk-",
        "sk-ant-",
        "://a:",
        "://",
        "-----BEGIN PRIVATE KEY-----",
        "bearer ",
        "password:",
        "a",
        "://a@",
    ],
)
def test_time_grows_with_the_length_and_not_with_its_square(unit):
    """Four times the text in well under sixteen times the time, on any machine."""

    def cost(length):
        text = (unit * (length // len(unit) + 1))[:length]
        best = float("inf")
        for _ in range(3):
            begin = time.process_time()
            Redactor(["canary-1"]).text(text)
            best = min(best, time.process_time() - begin)
        return best

    assert cost(200_000) < 10 * cost(50_000) + 0.2


@pytest.mark.parametrize("unit", ["\x1b[31m", "\x1b]0;a", "\u200b", "\x1b", "\x9b0", "a\x1b[0ms"])
def test_unseen_text_is_quick_too(unit):
    begin = time.process_time()
    Redactor(["canary-1"]).text(unit * 100_000)
    assert time.process_time() - begin < 20


def test_what_is_unseen_stays_where_no_secret_is():
    """Colours are for whoever shows the text; where a secret comes together, all that is unseen is gone."""
    redact = Redactor(["hunter2-hunter2"])
    assert redact.text("\x1b[31mred\x1b[0m") == "\x1b[31mred\x1b[0m"
    assert redact.text("\x1b[31mred\x1b[0m hunter2-hunter2") == f"red {MARK}"
    assert redact.text("sk-ant-api03-AbCdEfGh\x1b[1m1234567890-xyz") == MARK


def test_a_known_secret_that_is_partly_unseen_is_found_both_ways():
    redact = Redactor(["cana\u200bry\x1b[0m-one"])
    assert redact.text("cana\u200bry\x1b[0m-one") == redact.text("canary-one") == MARK
