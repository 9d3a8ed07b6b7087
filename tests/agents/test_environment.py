"""Which variables does each agent get, to the last one? The README has the same table; it is read here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ralphd.agents import NAMES, Turn, adapter
from ralphd.core.config import AgentConfig, Config
from ralphd.core.exchange import Assignment
from ralphd.core.model import Loop as Told
from ralphd.core.model import Task, Verifier
from ralphd.core.state import LoopState, NightState, TaskState
from ralphd.daemon.assign import PASSED, PROXIES, Assigner, base_environment
from ralphd.pane import launcher
from ralphd.pane.calls import CallWatch
from ralphd.pane.limits import Limits

README = Path(__file__).parents[2] / "README.md"
CANARY = "canary-of-the-daemon"
ALLOWED = {*PASSED, *PROXIES, *(name.upper() for name in PROXIES)}
STRANGERS = (  # what may well be set where `ralphd start` is typed, and is for no agent
    "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY",
    "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "GH_TOKEN", "SSH_AUTH_SOCK", "SSH_AGENT_PID", "GPG_AGENT_INFO", "DISPLAY",
    "WAYLAND_DISPLAY", "XAUTHORITY", "DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR", "DOCKER_HOST", "KUBECONFIG", "TMUX",
    "TMUX_PANE", "NOTIFY_SOCKET", "LD_PRELOAD", "LD_LIBRARY_PATH", "BASH_ENV", "ENV", "PYTHONPATH", "NODE_OPTIONS",
    "GIT_DIR", "GIT_ASKPASS", "GIT_SSH_COMMAND", "RALPHD_STATE", "RALPHD_FAILPOINT", "CLAUDECODE", "CODEX_HOME",
    "OPENCODE_CONFIG_CONTENT", "QWEN_CODE_SYSTEM_DEFAULTS_PATH", "MSWEA_CONFIGURED", "USER", "LOGNAME", "SHELL", "EDITOR",
)  # fmt: skip


def table() -> dict[str, set[str]]:
    """The README's table: row -> the names in it."""
    section = README.read_text().partition("### What an agent finds in its environment")[2].partition("\n#")[0]
    rows = re.findall(r"^\| (\S.*?) \| (.*?) \|$", section, re.MULTILINE)
    return {name.strip("`"): set(re.findall(r"`([A-Za-z_]+)`", held)) for name, held in rows[1:]}


def assignment(cli: str, tmp_path: Path, agent: AgentConfig) -> Assignment:
    """What the daemon of somebody with all of that in the environment assigns."""
    environ = {name: f"/{CANARY}/{name}" for name in STRANGERS} | {name: f"of-{name}" for name in ALLOWED}
    task = Task(name="t", repository="/r", night_repository="/n", prompt="/r/P", base="0" * 40, verifier=Verifier())
    loop = Told(id="t-1", task="t", pod="p", branch="b", worktree="/w", folder=str(tmp_path), nonce="n")
    state = NightState(id="night", tasks={"t": TaskState(task=task)}, loops={"t-1": LoopState(loop=loop)})
    assign = Assigner(environ=environ, program="/bin/agent", preamble="")
    return assign(Config(agent=agent), state, state.loops["t-1"], 1, "")[0]


def environment(cli: str, tmp_path: Path, *, resume: bool = False, **settings: object) -> dict[str, str]:
    """What the runner starts the agent with, by the code of all who have a say in it."""
    mine = assignment(cli, tmp_path, AgentConfig(cli=cli, **settings))  # type: ignore[arg-type]
    session = "6f9619ff-8b86-4d01-b42d-00c04fc964ff"
    turn = Turn(session=session, resume=resume, guard="/guard", tmp="/t", home=f"{tmp_path}/agent")
    watch = CallWatch(str(tmp_path / "calls"), Limits(seconds=600.0, memory_bytes=1 << 30))
    try:
        return launcher.environment(mine, 7, adapter(cli).launch(mine, turn).env, folder=str(tmp_path), watch=watch)
    finally:
        watch.close()


@pytest.mark.parametrize("resume", [False, True], ids=["new", "resumed"])
@pytest.mark.parametrize("cli", NAMES)
def test_each_agent_gets_exactly_what_the_readme_says(cli: str, resume: bool, tmp_path: Path) -> None:
    held = environment(cli, tmp_path, resume=resume)
    rows = table()
    sometimes = {name for name in rows[cli] if name in {"IS_SANDBOX", "RALPHD_RESUME"}}  # as root; a resumed session
    assert held.keys() - sometimes == (rows["every agent"] | rows[cli]) - sometimes
    assert not any(CANARY in value for value in held.values())
    assert {name: value for name, value in held.items() if name in ALLOWED - {"PATH"}} == {
        name: f"of-{name}" for name in ALLOWED - {"PATH"}
    }
    assert held["PATH"].endswith("of-PATH")


def test_the_table_has_a_row_for_each_cli() -> None:
    assert table().keys() == {"every agent", *NAMES}


def test_nothing_of_ours_is_passed_that_is_not_there() -> None:
    """An empty value is not the same as none: TZ="" is UTC."""
    assert base_environment({"HOME": "/h", "SECRET": "x"}) == {"HOME": "/h"}


@pytest.mark.parametrize("cli", NAMES)
def test_what_is_passed_on_by_name_comes_and_nothing_beside_it(cli: str, tmp_path: Path) -> None:
    held = environment(cli, tmp_path, env_pass=("GITHUB_TOKEN",), env={"OWN": "1"})
    rows = table()
    assert held["GITHUB_TOKEN"] == f"/{CANARY}/GITHUB_TOKEN"
    assert held["OWN"] == "1"
    assert held.keys() - rows["every agent"] - rows[cli] == {"GITHUB_TOKEN", "OWN"}
    assert [name for name, value in held.items() if CANARY in value] == ["GITHUB_TOKEN"]


OURS = ("RALPHD_NONCE", "RALPHD_LOOP", "RALPHD_NIGHT", "RALPHD_GUARD", "RALPHD_LIMIT_MEMORY", "RALPHD_CALLS", "TMPDIR")


@pytest.mark.parametrize("cli", NAMES)
def test_what_the_limits_rest_on_is_not_the_persons_to_change(cli: str, tmp_path: Path) -> None:
    mine = environment(cli, tmp_path)
    assert environment(cli, tmp_path, env=dict.fromkeys(OURS, "theirs")) == mine
