"""What does a coding agent do that needs no model: one session of real local search, told as JSON lines.

Run as `python -I -S -E agent.py` in a worktree, the prompt on stdin. The lines on stdout are the protocol of any
program that ralphd runs as an agent: one JSON object a line, each of them optional, each key but `type` too; any
other line is plain text. Unknown types and keys are ignored. An absent or null number is unknown, never zero.

    {"type": "begin", "session": "…", "model": "…"}
    {"type": "text", "text": "what the agent says"}
    {"type": "call", "id": "1", "tool": "shell", "command": "make test"}
    {"type": "return", "id": "1", "text": "first line…", "error": false, "exit": 0}
    {"type": "usage", "input": 900, "output": 40, "cache_read": 0, "cost_usd": 0.01}     what this step took: adds up
    {"type": "compaction"}                                                                the context was compacted
    {"type": "error", "status": 529, "error": "overloaded", "message": "…", "retry_after_s": 3}
                                      a request for inference failed; status null: no answer came
    {"type": "result", "ok": true, "text": "…", "done": false}      the end; done: claims that the whole task is done

This agent asks no model, so it reports no usage. What goes wrong in a session is fixed by the loop's number and the
trajectory's (TROUBLES), and it really goes wrong.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import zlib
from dataclasses import dataclass

OPTIMUM = 7542
PYTHON = f"{shlex.quote(sys.executable)} -I"
GIT = "git -c user.name='ralphd demo' -c user.email=demo@ralphd.invalid -c commit.gpgsign=false"
CALLS = 3  # searches in a session
ROUNDS = 20  # restarts in a search: 0.4 s alone, so that four loops on two cores stay well under 4 s
CALL_CEILING_S = 10  # without a guard nobody else would end a call
OUTPUT_READ_BYTES = 65_536
PLAIN_TRAJECTORIES = 3  # the plan stays as it is while the troubles are met
STALLED_GAIN = 0.01  # a session that gained less than this changes the plan
LADDER = (("swap",), ("swap", "two_opt"), ("swap", "two_opt", "or_opt"))

CALL_IDS = itertools.count(1)

# (loop number modulo 4, trajectory) -> what goes wrong. All of it early: a night that reaches the optimum is over.
TROUBLES = {
    (1, 2): "overrun",
    (2, 2): "memory",
    (3, 2): "refused",
    (0, 2): "leftover",
    (1, 3): "false_done",
    (2, 3): "crash",
    (3, 3): "tamper",
}


@dataclass(frozen=True, kw_only=True)
class Session:
    """Which session this is: the loop's name and number, the trajectory's number, and its trouble ('' for none)."""

    loop: str
    trajectory: int
    trouble: str

    @property
    def seed(self) -> int:
        return zlib.crc32(f"{self.loop}/{self.trajectory}".encode()) % 100_000


@dataclass(frozen=True, kw_only=True)
class Returned:
    """What a call came to. ``exit`` is a shell's: 124 out of time, 137 out of memory or killed."""

    exit: int
    text: str


def emit(**line: object) -> None:
    print(json.dumps(line), flush=True)


def say(text: str) -> None:
    emit(type="text", text=text)


def session_of(environ: dict[str, str]) -> Session:
    loop = environ.get("RALPHD_LOOP") or "1"
    digits = re.findall(r"[0-9]+", loop)
    number = int(digits[-1]) if digits else zlib.crc32(loop.encode())
    given = environ.get("RALPHD_TRAJECTORY", "")
    trajectory = int(given) if given.isdecimal() else 1
    return Session(loop=loop, trajectory=trajectory, trouble=TROUBLES.get((number % 4, trajectory), ""))


def shell(command: str) -> Returned:
    """Run one line through the guard (`$RALPHD_GUARD LINE`), or through sh under a ceiling of our own."""
    guard = os.environ.get("RALPHD_GUARD", "")
    environ = os.environ | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    with tempfile.TemporaryFile() as output:  # not a pipe: what a call leaves behind would hold it open
        child = subprocess.Popen(
            [guard, command] if guard else ["sh", "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environ,
            start_new_session=not guard,
        )
        reason = ""
        try:
            code = child.wait(None if guard else CALL_CEILING_S)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            code, reason = 124, f"ended after {CALL_CEILING_S} s\n"
        output.seek(0)
        text = output.read(OUTPUT_READ_BYTES).decode(errors="replace") + reason
    return Returned(exit=code if code >= 0 else 128 - code, text=text.strip())


def call(command: str) -> Returned:
    """One tool call, told before and after."""
    name = str(next(CALL_IDS))
    emit(type="call", id=name, tool="shell", command=command)
    returned = shell(command)
    emit(type="return", id=name, text=returned.text[:400], error=returned.exit != 0, exit=returned.exit)
    return returned


def measure() -> int | None:
    """Ask the verifier about tour.txt; None when it says no number."""
    found = re.search(r"length: ([0-9]+)", call(f"{PYTHON} score.py").text)
    return int(found[1]) if found else None


def restore_protected() -> None:
    """Take the first commit's verifier again, should a session before this one have changed it."""
    first = "$(git rev-list --max-parents=0 HEAD | tail -1)"
    if call(f"git diff --stat --exit-code {first} -- score.py cities.txt").exit:
        say("score.py or cities.txt isn't what we were given. I put the original back.")
        call(f"git checkout -q {first} -- score.py cities.txt && {GIT} commit -q -m 'Restore the verifier'")


def start_length() -> int | None:
    """Measure what this session starts from; a tour that is none is taken from the last commit again."""
    if (before := measure()) is None:
        say("tour.txt is broken. I take the committed one.")
        call("git checkout -q HEAD -- tour.txt")
        before = measure()
    return before


def last_gain() -> float | None:
    """Read in NOTES.md what share the session before this one gained; None when nothing is known."""
    try:
        with open("NOTES.md", encoding="utf-8", errors="replace") as notes:
            known = re.findall(r": ([0-9]+) -> ([0-9]+)", notes.read(OUTPUT_READ_BYTES))
    except OSError:
        return None
    return 1 - int(known[-1][1]) / int(known[-1][0]) if known and int(known[-1][0]) else None


def change_plan(me: Session) -> None:
    """Stop at saturation: when the last session gained next to nothing, give solve.py one more move."""
    gain = last_gain()
    if me.trajectory <= PLAIN_TRAJECTORIES or gain is None or gain >= STALLED_GAIN:
        return
    with open("solve.py", encoding="utf-8") as program:
        text = program.read()
    for now, wider in itertools.pairwise(LADDER):
        if f"MOVES = {moves_text(now)}" in text:
            say(f"The last session gained {gain:.1%}: this plan is used up. I add {wider[-1]} to solve.py.")
            call(f"sed -i 's/^MOVES = .*/MOVES = {moves_text(wider)}/' solve.py")
            return


def moves_text(moves: tuple[str, ...]) -> str:
    return json.dumps(moves).replace("[", "(").replace("]", ",)" if len(moves) == 1 else ")")


def reason(text: str) -> str:
    """Find the guard's first line in a call's output; without one, how the output ends."""
    told = [line for line in text.splitlines() if line.startswith("[ralphd]")]
    return told[0] if told else text[-300:]


def overreach(method: str) -> None:
    """Ask for far too much, read why the call was ended, and think again."""
    say(f"I try the exact method ({method}).")
    ended = call(f"{PYTHON} solve.py --exact {method}")
    if ended.exit:
        say(f"That was too much (exit {ended.exit}): {reason(ended.text)}")
        say("I go on with short searches.")


def search(me: Session) -> None:
    for at in range(CALLS):
        call(f"{PYTHON} solve.py --seed {me.seed + at} --rounds {ROUNDS}")


def note(me: Session, before: int | None, after: int | None) -> None:
    """Leave the next session what this one found; a null too."""
    if before is not None and after is not None:
        with open("NOTES.md", "a", encoding="utf-8") as notes:
            notes.write(f"- session {me.trajectory}, seeds {me.seed} to {me.seed + CALLS - 1}: {before} -> {after}\n")


def commit_if_better(after: int | None) -> None:
    """solve.py writes shorter tours only, so a tour that differs from the commit is a better one."""
    if after is None or not shell("git diff --quiet HEAD -- tour.txt").exit:
        say("Nothing better this time. The notes say so.")
        return
    call(f"git add -- tour.txt NOTES.md solve.py && {GIT} commit -q -m 'Shorten the tour to {after}'")


def refused_once(me: Session) -> bool:
    """Whether this trajectory's request for inference has been refused already; the marker is ignored by git."""
    os.makedirs(".demo", exist_ok=True)
    try:
        os.close(os.open(f".demo/refused-{me.trajectory}", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        return True
    return False


def ask_closed_port() -> int:
    """Really ask where nobody listens; returns the exit status of a client that gave up."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = probe.getsockname()
    try:
        socket.create_connection(address, timeout=5).close()
    except OSError as trouble:
        message = f"connect to {address[0]}:{address[1]}: {trouble.strerror or trouble}"
        emit(type="error", status=None, error="connection", message=message)
    return 1


def crash() -> None:
    """Die as a program with a bad pointer does."""
    import ctypes  # noqa: PLC0415  # only here
    import resource  # noqa: PLC0415

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # no core file in the worktree
    say("I look at the tour's memory directly.")
    ctypes.string_at(0)


def leave_behind() -> None:
    """Start a watcher and forget it; it ends by itself after five minutes if nobody ends it before."""
    say("I keep an eye on the tour while I go on.")
    call("nohup timeout 300 tail -f tour.txt >/dev/null 2>&1 & echo watching as $!")


def tamper() -> None:
    say("The verifier is too strict. I simplify it.")
    call(f"echo 'print(\"length: {OPTIMUM}\")' > score.py && {GIT} commit -q -m 'Simplify the verifier' -- score.py")


def work(me: Session) -> int:
    """One session; returns the exit status."""
    restore_protected()
    before = start_length()
    change_plan(me)
    if me.trouble in ("overrun", "memory"):
        overreach("order" if me.trouble == "overrun" else "table")
    search(me)
    if me.trouble == "crash":
        crash()
    after = measure()
    note(me, before, after)
    commit_if_better(after)
    if me.trouble == "leftover":
        leave_behind()
    if me.trouble == "tamper":
        tamper()
    return conclude(me, before, after)


def conclude(me: Session, before: int | None, after: int | None) -> int:
    """Say the final line. Done is claimed at the optimum, and once when it isn't so."""
    done = after == OPTIMUM or me.trouble == "false_done"
    said = "There is nothing left to gain." if done else "There is more to find."
    emit(type="result", ok=True, text=f"From {before} to {after}. {said}", done=done)
    return 0


def main() -> int:
    prompt = sys.stdin.buffer.read()
    me = session_of(dict(os.environ))
    emit(type="begin", session=f"{me.loop}-{me.trajectory}", model="local search")
    if me.trouble == "refused" and not refused_once(me):
        return ask_closed_port()
    say(f"I have read the task ({len(prompt)} bytes). Seeds from {me.seed}.")
    return work(me)


if __name__ == "__main__":
    sys.exit(main())
