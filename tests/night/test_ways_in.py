"""What can an agent, or whoever sits at the same machine, reach of the night that it runs in?

All parts share one night, which is started under umask 0 with secrets in the daemon's environment.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.cast import bodies, cast
from support.nightbox import NightBox

from ralphd.edges.tmux_socket import peer_pid, socket_path
from ralphd.pane.procs import forest

CANARY = "canary-of-the-daemon-4711"  # in the environment of `ralphd start`, and meant for nobody
PASSED = {  # what ralphd.toml passes on: each is known, none needs the shape of a secret
    "PLAIN": "correct horse battery staple",
    "ODD": "a.b*c[d](e)\\f$g^h|i",
    "SLASHED": "p@ss/w0rd+with=signs&more",
    "LONG": "x1y2" * 50,
    "SHORT": "s3cr3t",
    "FOREIGN": "пароль-ключ-鍵-🔑",
}
WRITTEN = {"SERVICE_TOKEN": "written-in-the-file-1", "DB_PASSWORD": "written-in-the-file-2"}
SHAPES = (
    "sk-ant-api03-AbCdEfGh1234567890-xyzXYZ",
    "ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6",
    "AKIAIOSFODNN7EXAMPLE",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N",
)
TOML = """\
[night]
width = 6
[agent]
cli = "command"
program = "PROGRAM"
env_pass = PASSED
env = WRITTEN
[limits]
tool_seconds = 1
[[task]]
name = "main"
[task.verify]
command = '''cat /proc/self/environ >>"$HOME/verifier"; echo "the key is KEY"; cat score'''
score = 'regex:(\\d+)$'
"""
SHOWS = 'cat /proc/$$/environ >"$HOME/environ.new"; mv "$HOME/environ.new" "$HOME/environ"; cat >/dev/null; alive\n'
ASK = """
import contextlib, json, socket, sys
peer = socket.socket(socket.AF_UNIX)
peer.connect(sys.argv[1])
with contextlib.suppress(BrokenPipeError):
    peer.sendall(b'{"verb": "stop", "now": true}\\n')
print(peer.makefile().readline())
"""
STEERS = f"""
cat >/dev/null
socket=$(cd "$TMPDIR/../../../../.."; pwd)/control.sock
set -- {sys.executable} -I -S "$HOME/ask.py" "$socket"
"$@" >"$HOME/said-plain" 2>&1
env -u RALPHD_NONCE "$@" >"$HOME/said-without" 2>&1
env -i setsid "$@" >"$HOME/said-cleared" 2>&1
(env -i setsid sh -c 'sleep 1; exec "$@"' sh "$@" >"$HOME/said-orphan" 2>&1 &)
env -i PATH="$PATH" tmux -S "$HOME/own.sock" -f /dev/null new-session -d "$* >'$HOME/said-tmux' 2>&1"
env -i PATH="$PATH" HOME="$HOME" RALPHD_STATE="$(dirname "$socket")" {sys.executable} -P -m ralphd stop --now >"$HOME/said-verb" 2>&1
touch "$HOME/steered"
alive
"""
DRIVES = """
cat >/dev/null
mkdir -p "$HOME/theirs"; export TMUX_TMPDIR="$HOME/theirs"  # else the person's own server would answer
{ echo "TMUX=$TMUX TMUX_PANE=$TMUX_PANE"; tmux kill-server; tmux send-keys -t ralphd C-c; tmux list-sessions; } >"$HOME/drove" 2>&1
touch "$HOME/driven"
alive
"""
TELLS = f"""
cat >/dev/null
if from 4; then alive; fi
exec {sys.executable} -I -S "$HOME/tells.py"
"""
TELLS_PY = """
import json, os, subprocess, sys
secrets = json.load(open(os.path.expanduser("~/secrets.json")))
def tell(**event):
    print(json.dumps(event), flush=True)
session = int(os.environ["RALPHD_TRAJECTORY"])
tell(type="begin", session="s", model=secrets[0])
for secret in secrets:
    tell(type="text", text=f"the key is {secret}")
    tell(type="call", id="1", tool=f"tool {secret}", command=f"curl -H {secret}")
    tell(type="return", id="1", text=f"got {secret}", error=True)
    print("stderr says", secret, file=sys.stderr, flush=True)
if session == 1:
    for secret in secrets:
        print("stderr says", secret, file=sys.stderr, flush=True)
    sys.exit(1)
if session == 2:
    for secret in secrets:
        subprocess.run([os.environ["RALPHD_GUARD"], f"sleep 600 # {secret}"], check=False, capture_output=True)
    with open("score", "w") as file:
        file.write("1")
    subprocess.run(["git", "commit", "-qam", f"the key is {secrets[0]} or {secrets[1]}"], check=True)
    tell(type="result", ok=True, text="the key is " + " ".join(secrets))
    sys.exit(0)
tell(type="error", status=404, error="model_not_found", message="no model for " + " ".join(secrets))
sys.exit(1)
"""
SWAPS = """
cat >/dev/null
state=$(cd "$TMPDIR/../../../../.."; pwd); night=$(cd "$TMPDIR/../../.."; pwd)
echo precious >"$HOME/victim"
for name in report.md report.json report.md.draft report.json.draft; do ln -sf "$HOME/victim" "$night/$name"; done
for name in order.json .order.json.new runner.json.new preamble.md; do ln -sf "$HOME/victim" "$TMPDIR/../$name"; done
ln -sf "$HOME/victim" "$state/control.sock.new"
mv "$state/daemon.log" "$state/daemon.log.away"; ln -s "$HOME/victim" "$state/daemon.log"
touch "$HOME/swapped"
alive
"""
PARTS = {
    "loop-1": SHOWS,
    "loop-2": STEERS,
    "loop-3": DRIVES,
    "loop-4": TELLS,
    "loop-5": SWAPS,
    "loop-6": "cat >/dev/null\nalive\n",
}
pytestmark = pytest.mark.slow


@dataclass(frozen=True, kw_only=True)
class Told:
    """What the night was seen to hold, and left."""

    box: NightBox
    secrets: list[str]
    agent_pid: int
    tmux_pid: int | None
    servers: set[int | None]
    holders: set[str]  # the command lines of processes below the daemon that held its canary
    looks: int
    texts: dict[str, str]  # what a person was shown, by where
    modes: dict[str, int]


class Watcher:
    """Looks again and again which process of the night holds the canary, but for the daemon that was given it."""

    def __init__(self, box: NightBox) -> None:
        self.box, self.holders, self.looks = box, set[str](), 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._over.wait(0.05):
            with contextlib.suppress(OSError, ValueError, KeyError):
                self._look(self.box.daemon_pid())

    def _look(self, daemon: int) -> None:
        server = peer_pid(socket_path(str(self.box.state), self.box.env))
        for proc in forest([daemon, *([server] if server else [])]):
            try:
                # In this order: what already is another program has another environment, too.
                shown = Path(f"/proc/{proc.pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                held = Path(f"/proc/{proc.pid}/environ").read_bytes()
            except OSError:
                continue
            self.looks += 1
            # Between its fork and its exec a child still is what the daemon is. In the person's own checkout git may
            # need whatever the person's configuration does.
            own = "-m ralphd" in shown or not shown or " status --porcelain" in shown
            if CANARY.encode() in held and proc.pid != daemon and not own:
                self.holders.add(shown)

    def close(self) -> None:
        self._over.set()
        self._thread.join()


def modes_below(folder: Path) -> dict[str, int]:
    """The mode of everything in the state folder, but for links, which have none."""
    found = {}
    for above, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(above) / name
            with contextlib.suppress(FileNotFoundError):
                info = path.lstat()
                if not stat.S_ISLNK(info.st_mode):
                    found[str(path.relative_to(folder))] = stat.S_IMODE(info.st_mode)
    return found


def show(box: NightBox) -> dict[str, str]:
    """Everything that a person can be shown of the loop that tells secrets."""
    texts = {"pane": box.pane_text("loop-4")}
    for args in (
        ("status",), ("status", "--json"), ("report",), ("report", "--json"), ("report", "--html"), ("logs", "loop-4"),
        ("logs", "loop-4", "--stderr"), ("journal", "outcomes"), ("journal", "outcomes", "--json"),
        ("journal", "verdicts", "--json"), ("journal", "entries", "--json"),
    ):  # fmt: skip
        done = box.ralphd(*args, code=None)
        texts[" ".join(args)] = done.stdout + done.stderr
    return texts


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    secrets = [*PASSED.values(), *WRITTEN.values(), *SHAPES]
    toml = TOML.replace("PASSED", json.dumps(list(PASSED))).replace("KEY", SHAPES[0])
    written = ", ".join(f"{name} = {json.dumps(value)}" for name, value in WRITTEN.items())
    environ = {**PASSED, "SOME_API_KEY": CANARY, "TMUX": "/tmp/nowhere,1,0", "TMUX_PANE": "%1"}
    before = os.umask(0)
    try:
        with cast(tmp_path_factory.mktemp("ways"), PARTS, toml.replace("WRITTEN", f"{{ {written} }}"), {"score": "0"},
                  environ=environ) as box:  # fmt: skip
            (box.home / "secrets.json").write_text(json.dumps(secrets))
            (box.home / "tells.py").write_text(TELLS_PY)
            (box.home / "ask.py").write_text(ASK)
            watcher = Watcher(box)
            try:
                yield observe(box, secrets, watcher)
            finally:
                watcher.close()
    finally:
        os.umask(before)


def observe(box: NightBox, secrets: list[str], watcher: Watcher) -> Told:
    box.start("--for", "1h")
    server = peer_pid(socket_path(str(box.state), box.env))
    for name in ("environ", "steered", "said-orphan", "said-tmux", "driven", "swapped"):
        box.wait_until(lambda name=name: (box.home / name).exists(), f"{name} is there")
    box.wait_until(lambda: box.rows()["loop-4"]["state"] == "paused", "three sessions have told secrets")
    box.wait_until(lambda: box.rows()["loop-4"]["best_score"] == 1, "a commit is verified")
    (agent,) = {body["pid"] for body in bodies(box, "loop-1", "AgentStarted")}
    environ = Path(f"/proc/{agent}/environ").read_bytes()
    (box.root / "seen-from-outside").write_bytes(environ)
    texts = show(box)
    modes = modes_below(box.state)
    servers = {server, peer_pid(socket_path(str(box.state), box.env))}
    alive = {loop: row["state"] for loop, row in box.loops().items()}
    box.stop("--now", code=None)
    texts |= {f"{name} afterwards": text for name, text in
              (("report", box.ralphd("report").stdout), ("report --json", box.ralphd("report", "--json").stdout))}  # fmt: skip
    texts["states"] = json.dumps(alive)
    return Told(
        box=box, secrets=secrets, agent_pid=agent, tmux_pid=server, servers=servers, holders=watcher.holders,
        looks=watcher.looks, texts=texts, modes=modes,
    )  # fmt: skip


def settings(data: bytes) -> dict[str, str]:
    return dict(item.decode().split("=", 1) for item in data.split(b"\0") if item)  # type: ignore[misc]  # it has a =


OURS = {
    "RALPHD_CALL", "RALPHD_CALLS", "RALPHD_CGROUP", "RALPHD_CGROUP_BYTES", "RALPHD_GUARD", "RALPHD_GUARD_ENV",
    "RALPHD_GUARD_MATCH", "RALPHD_LIMIT_MEMORY", "RALPHD_LIMIT_OUTPUT", "RALPHD_LIMIT_SECONDS", "RALPHD_LOOP",
    "RALPHD_NIGHT", "RALPHD_NONCE", "RALPHD_RUNNER", "RALPHD_TRAJECTORY", "TMPDIR",
}  # fmt: skip


def test_an_agent_gets_exactly_what_it_is_meant_to_get(told: Told) -> None:
    held = settings((told.box.root / "seen-from-outside").read_bytes())
    assert {name: value for name, value in held.items() if name in PASSED | WRITTEN} == PASSED | WRITTEN
    box = told.box.env
    assert {name: held[name] for name in ("PATH", "HOME", "LANG")} == {
        name: box[name] for name in ("PATH", "HOME", "LANG")
    }
    extra = held.keys() - OURS - PASSED.keys() - WRITTEN.keys() - {"PATH", "HOME", "LANG"}
    assert extra <= {"PWD"}  # the shell's own
    assert held.keys() >= OURS


def test_the_daemons_secrets_are_in_no_process_below_it(told: Told) -> None:
    """Runners, agents, guards, verifiers, git, the tmux server: looked at all through the night."""
    assert told.looks > 200
    assert sorted(told.holders) == []
    assert CANARY.encode() not in (told.box.home / "verifier").read_bytes()
    assert not any(value.encode() in (told.box.home / "verifier").read_bytes() for value in PASSED.values())


@pytest.mark.parametrize("way", ["plain", "without", "cleared", "orphan", "tmux"])
def test_no_process_of_a_loop_steers_the_night(told: Told, way: str) -> None:
    assert "inside a loop" in (told.box.home / f"said-{way}").read_text()


def test_nor_does_the_verb_from_inside(told: Told) -> None:
    assert "inside a loop" in (told.box.home / "said-verb").read_text()
    assert json.loads(told.texts["states"])["loop-6"] == "running"


def test_a_plain_tmux_finds_nothing_of_ours(told: Told) -> None:
    drove = (told.box.home / "drove").read_text()
    assert drove.startswith("TMUX= TMUX_PANE=\n")
    assert drove.count("no server running") + drove.count("error connecting") >= 3
    assert told.servers == {told.tmux_pid}
    sock = Path(socket_path(str(told.box.state), told.box.env))
    assert stat.S_IMODE(sock.parent.stat().st_mode) == 0o700


def test_nobody_is_shown_a_secret(told: Told) -> None:
    for where, text in told.texts.items():
        assert [one for one in told.secrets if one in text or json.dumps(one)[1:-1] in text] == [], where
    assert "[redacted]" in told.texts["pane"]
    assert "[redacted]" in told.texts["status"] + told.texts["status --json"]


def test_no_file_that_lasts_holds_a_secret(told: Told) -> None:
    """But for the raw logs, the runner's own records and its assignment, which are the owner's alone."""
    state = told.box.state
    night = next((state / "nights").iterdir())
    files = [*state.glob("journal.db*"), *state.glob("daemon.log*"), *night.glob("report.*"), *night.glob("verdicts/*")]
    assert len(files) >= 4
    for path in files:
        data = path.read_bytes()
        forms = {form for one in told.secrets for form in (one.encode(), json.dumps(one)[1:-1].encode())}
        assert [form for form in forms if form in data] == [], path


def test_modes_are_exact_under_umask_0(told: Told) -> None:
    """What agents and verifiers make for themselves lies in folders that nobody else can enter."""
    theirs = ("worktrees/", "/tmp/", "/benches/", "/repositories/", "/spill/")
    wrong = {
        path: oct(mode)
        for path, mode in told.modes.items()
        if mode & 0o077 and not any(part in f"{path}/" for part in theirs)
    }
    assert wrong == {}
    closed = [
        path for path in told.modes if path in ("worktrees", "nights") or path.endswith(("/repositories", "/tmp"))
    ]
    assert {told.modes[path] for path in closed} == {0o700}


def test_links_in_place_of_state_files_are_not_followed(told: Told) -> None:
    assert (told.box.home / "victim").read_text() == "precious\n"
    night = next((told.box.state / "nights").iterdir())
    assert json.loads((night / "report.json").read_text())["schema"] == "ralphd.report/1"
    assert not (night / "report.md").is_symlink()
