from __future__ import annotations

import pytest

from ralphd.core.account import account_of

KEY = {"HOME": "/home/ann", "ANTHROPIC_API_KEY": "sk-1", "PATH": "/bin"}


def test_the_same_key_is_the_same_account_whatever_else_differs():
    assert account_of("n", "claude", KEY) == account_of("n", "claude", {**KEY, "PATH": "/usr/bin", "HOME": "/root"})


@pytest.mark.parametrize(
    "other",
    [
        {"ANTHROPIC_API_KEY": "sk-2"},
        {"ANTHROPIC_BASE_URL": "http://127.0.0.1:9"},
        {"ANTHROPIC_AUTH_TOKEN": "t"},
        {"OPENAI_API_BASE": "http://127.0.0.1:9"},
        {"AWS_PROFILE": "work"},
    ],
)
def test_another_key_or_address_is_another_account(other):
    assert account_of("n", "claude", {**KEY, **other}) != account_of("n", "claude", KEY)


def test_without_a_key_the_login_counts_that_the_home_holds():
    assert account_of("n", "claude", {"HOME": "/a", "PATH": "x"}) == account_of("n", "claude", {"HOME": "/a"})
    assert account_of("n", "claude", {"HOME": "/a"}) != account_of("n", "claude", {"HOME": "/b"})
    assert account_of("n", "claude", {"HOME": "/a"}) != account_of("n", "codex", {"HOME": "/a"})


def test_it_is_a_plain_file_name_that_shows_nothing_of_the_key_and_differs_from_night_to_night():
    found = account_of("n", "claude", {"KEY": "s\udcffecret/../x"})
    assert found.isalnum()
    assert len(found) == 16
    assert found != account_of("m", "claude", {"KEY": "s\udcffecret/../x"})
