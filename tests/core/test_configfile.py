"""Reading ralphd.toml: what it means, and that every mistake names its key, its line and the way out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.spoiled_toml import WHOLE

from ralphd.core.config import Config
from ralphd.core.configfile import read, size
from ralphd.core.errors import ConfigError


def refused(text: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        read(text)
    assert "\n" not in str(caught.value)
    return caught.value


def test_nothing_is_a_whole_configuration():
    """Each default is the record's own."""
    assert read("") == Config()
    assert read("\ufeff# only a comment\n") == Config()


def test_everything_can_be_set():
    """Units are converted; nothing is dropped."""
    config = read(WHOLE)
    assert (config.night.width, config.night.until, config.night.schedule) == (4, "07:00", "0 22 * * *")
    assert (config.agent.cli, config.agent.args, config.agent.env, config.agent.resume) == (
        "command",
        ("--fast",),
        {"A": "1"},
        True,
    )
    limits = config.limits
    assert (limits.tool_seconds, limits.tool_memory_bytes, limits.tool_output_bytes) == (10.0, 512 << 20, 64 << 10)
    assert (limits.compactions, limits.quiet_s, limits.stream_s, limits.result_grace_s) == (3, 1.5, 2.0, 3.0)
    assert (limits.backoff_min_s, limits.backoff_max_s) == (4.0, 5.0)
    first, second = config.tasks
    assert (first.name, first.repo, first.prompt, first.base, first.width) == ("main", "a", "ASK.md", "v1", 2)
    verify = first.verify
    assert (verify.command, verify.score, verify.direction, verify.goal) == ("make", "json:out.json#/a/0", "min", 0.5)
    assert (verify.protect, verify.seconds, verify.memory_bytes, verify.slots, verify.setup) == (
        ("tests/**",), 60.0, 2 << 30, 1, "make deps",
    )  # fmt: skip
    assert (second.name, second.verify.command) == ("other", "")
    assert (config.worktree.include, config.worktree.sparse) == ((".env",), ("src",))
    assert (config.supervisor.model, config.supervisor.width_min, config.supervisor.width_max) == ("s", 2, 3)
    assert (config.journal.url, config.notify.urls, config.pods.size) == ("postgresql://x/y", ("json://x",), 2)
    assert read("[night]\nfor = '1h30m'\n").night.for_s == 5400.0


@pytest.mark.parametrize(
    ("text", "key", "line", "said"),
    [
        ("[nihgt]\n", "nihgt", 1, "did you mean night?"),
        ("top = 1\n", "top", 1, "no such setting"),
        ("[night]\nwide = 1\n", "night.wide", 2, "did you mean width?"),
        ("[[task]]\n[task.verifier]\ncommand = 'true'\n", "task.verifier", 2, "did you mean verify?"),
        ("[night]\n\n# x\nwidth = 0\n", "night.width", 4, "a whole number from 1 to 4096, not 0"),
        ("[night]\nwidth = true\n", "night.width", 2, "not True"),
        ("[night]\nwidth = 1.5\n", "night.width", 2, "not 1.5"),
        ("[night]\nuntil = '25:00'\n", "night.until", 2, "not a time of day"),
        ("[night]\nfor = 'soon'\n", "night.for", 2, "not a duration"),
        ("[night]\nfor = '1h'\nuntil = '07:00'\n", "night.for", 2, "exclude each other"),
        ("night = 3\n", "night", 1, "is a section: write [night]"),
        ("[agent]\ncli = 'cloud'\n", "agent.cli", 2, "must be one of claude"),
        ("[agent]\nargs = 'x'\n", "agent.args", 2, "must be a list of texts"),
        ("[agent]\nargs = [1]\n", "agent.args", 2, "must be a text in quotes, not 1"),
        ("[agent]\nenv = { 'A=B' = 'x' }\n", "agent.env", 2, "'A=B' can't name an environment variable"),
        ("[agent.env]\nA = 1\n", "agent.env", 1, "must be a text in quotes"),
        ("[agent]\nresume = 'yes'\n", "agent.resume", 2, "must be true or false"),
        ('[agent]\nmodel = "a\\u0000b"\n', "agent.model", 2, "NUL"),
        ("[limits]\ntool_memory = 'much'\n", "limits.tool_memory", 2, "must be a size"),
        ("[limits]\ntool_seconds = -1\n", "limits.tool_seconds", 2, "over 0"),
        ("[limits]\ntool_seconds = inf\n", "limits.tool_seconds", 2, "over 0"),
        (
            "[limits]\nbackoff_min_seconds = 9\nbackoff_max_seconds = 1\n",
            "limits.backoff_min_seconds",
            2,
            "over backoff_max",
        ),
        ("[task]\nname = 'x'\n", "task", 1, "in double brackets"),
        ("task = []\n", "task", 1, "in double brackets"),
        ("[[task]]\nname = 'Not This'\n", "task.name", 2, "small letters"),
        ("[[task]]\n[task.verify]\nscore = 'junit'\n", "task.verify.score", 3, "needs something after the colon"),
        ("[[task]]\n[task.verify]\nscore = 'regex:('\n", "task.verify.score", 3, "does not compile"),
        ("[[task]]\n[task.verify]\ngoal = 1\n", "task.verify.goal", 3, "needs a command"),
        ("[[task]]\n[task.verify]\ncommand = 'x'\ngoal = nan\n", "task.verify.goal", 4, "must be a number"),
        ("[[task]]\n[task.verify]\nprotect = ['/etc']\n", "task.verify.protect", 3, "inside the repository"),
        ("[[task]]\n[task.verify]\ndirection = 'up'\n", "task.verify.direction", 3, "one of max, min"),
        ("[worktree]\ninclude = ['../.env']\n", "worktree.include", 2, "inside the repository"),
        ("[supervisor]\nwidth_min = 9\nwidth_max = 2\n", "supervisor.width_min", 2, "over width_max"),
        ("[[task]]\nname = 'a'\n[[task]]\nname = 'a'\n", "task.name", 2, "names of their own: 'a'"),
        ("[[task]]\nname = 'a'\n[[task]]\n", "task.name", 2, "names of their own"),
        ("[night]\nwidth = 2\n[[task]]\nname = 'a'\nwidth = 2\n[[task]]\nname = 'b'\n", "night.width", 2, "together"),
    ],
)
def test_a_mistake_names_key_line_and_way_out(text, key, line, said):
    """One line: file, line, key, what is wrong."""
    error = refused(text)
    assert (error.key, error.line) == (key, line)
    assert str(error).startswith(f"ralphd.toml:{line}: {key}: ")
    assert said in str(error)


def test_the_second_task_has_the_second_line():
    """The same key twice: the line is that of the one that is wrong."""
    error = refused("[[task]]\nname = 'a'\nbase = 'x'\n\n[[task]]\nname = 'b'\nbase = 3\n")
    assert error.line == 7


def test_a_line_of_another_task_is_never_named():
    """An inline table has no line of its own to find: then rather none."""
    error = refused("[[task]]\nname = 'a'\n[task.verify]\ncommand = 'x'\n[[task]]\nname = 'b'\nverify = { goal = 1 }\n")
    assert error.key == "task[1].verify.goal"
    assert error.line == 0


def test_what_is_not_toml_names_the_line():
    """As the parser tells it."""
    assert refused("[night]\nwidth = = 1\n").line == 2


@pytest.mark.parametrize(
    ("text", "count"),
    [("1GiB", 1 << 30), ("512 MiB", 512 << 20), ("1.5k", 1536), ("10MB", 10_000_000), (4096, 4096), ("7", 7)],
)
def test_sizes(text, count):
    assert size(text) == count


@pytest.mark.parametrize("text", ["", "GiB", "-1GiB", "1 parsec", "0", True, None, "1e9", 0])
def test_no_sizes(text):
    with pytest.raises(ValueError, match="must be"):
        size(text)


def key_refused(text: str) -> str | None:
    """Return the key that a refusal names; None when the text is taken."""
    try:
        read(text)
    except ConfigError as error:
        return error.key
    return None


@given(st.text())
def test_any_text_is_read_or_refused(text):
    """Nothing else comes out, whatever an editor saved."""
    told = None
    try:
        told = read(text)
    except ConfigError as error:
        told = str(error)
    assert isinstance(told, Config) or told.startswith("ralphd.toml")


SCALARS = st.one_of(st.booleans(), st.integers(-(2**40), 2**40), st.sampled_from(["", "x", "07:00", "1h", "exit"]))
KEYS = st.sampled_from(
    ["night.width", "night.until", "agent.cli", "agent.env", "limits.compactions", "pods.size", "task", "notify.urls"]
)


@given(KEYS, st.one_of(SCALARS, st.lists(SCALARS, max_size=2)))
def test_any_value_for_a_key_is_taken_or_refused_with_that_key(key, value):
    """A wrong type never gets through as an accident."""
    section, _, name = key.partition(".")
    shown = (
        str(value).lower() if isinstance(value, bool) else repr(value).replace("True", "true").replace("False", "false")
    )
    text = f"[{section}]\n{name} = {shown}\n" if name else f"{section} = {shown}\n"
    refused_key = key_refused(text)
    assert refused_key is None or refused_key.startswith(section)
