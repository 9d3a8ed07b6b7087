"""What looking in costs, and how soon it shows what happened: ``ralphd web`` and ``ralphd top`` beside a night."""

from __future__ import annotations

import contextlib
import re
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from statistics import median

from benchmarks.ground import RALPHD, BenchFailed, Ground, cpu_s, ground, until
from benchmarks.table import Row, quantile

GOAL_PERCENT, GOAL_S = 3.0, 2.0
LOOPS, SECONDS = 64, 30.0
SETTLE_S = 5.0  # until those who have just begun to look have loaded what they need
ROW = re.compile(r"^(loop-\d+) +\w+ +\S+ +\S+ +(\d+) ")  # of `ralphd top`: a loop and its session
CELLS = re.compile(r"/loop/(loop-\d+).*?(?:<td.*?</td>){3}<td[^>]*>(\d+)</td>")  # the same of `ralphd web`

# A session of half a minute that says something every three seconds, and when it began.
AGENT = """\
#!/bin/sh
read now rest </proc/uptime
echo "$RALPHD_LOOP $RALPHD_TRAJECTORY $now" >>"$BENCH/began"
for n in 1 2 3 4 5 6 7 8 9; do
    echo '{"type": "text", "text": "I look for the next one."}'
    sleep 3
done
sleep 0.${#RALPHD_LOOP}
"""

Seen = dict[tuple[str, str], float]  # a loop's session -> when it was first seen


def measure(runs: int = 1, seconds: float = SECONDS, loops: int = LOOPS) -> list[Row]:
    with ground(AGENT, f"[supervisor]\nwidth_max = {loops}\n") as place:
        place.ralphd("start", "--width", str(loops))
        daemon = place.daemon()
        until(lambda: len(set(_began(place))) >= loops, "every loop's first session")
        alone = _share([daemon], seconds / 2)
        with _web(place) as (web, on_web), _top(place) as (top, on_top):
            until(lambda: len(on_web) >= loops and len(on_top) >= loops // 4, "both show loops")
            time.sleep(SETTLE_S)
            shares = [_shares([web, top, daemon], seconds) for _ in range(runs)]
            late = {"web": _late(place, on_web), "top": _late(place, on_top)}
    both = tuple(web + top for web, top, _ in shares)
    return [
        Row(what=f"web and top beside {loops} loops", unit="% core", ours=median(both), judged=both, goal=GOAL_PERCENT),
        Row(what="  web, with a page open", unit="% core", ours=median(web for web, _, _ in shares)),
        Row(what="  top", unit="% core", ours=median(top for _, top, _ in shares)),
        Row(
            what="  the daemon (baseline: nobody looks)", unit="% core",
            ours=median(asked for _, _, asked in shares), bare=alone,
        ),
        *(_row(name, some) for name, some in late.items()),
    ]  # fmt: skip


def _row(name: str, late: list[float]) -> Row:
    slow = quantile(late, 0.99)
    what = f"  {name} shows a new session ({len(late)}; judged: the 99th of 100)"
    return Row(what=what, unit="s", ours=median(late), judged=(slow,), goal=GOAL_S)


def _shares(pids: list[int], seconds: float) -> list[float]:
    began, before = time.monotonic(), [cpu_s(pid) for pid in pids]
    time.sleep(seconds)
    wall = time.monotonic() - began
    return [100 * (cpu_s(pid) - used) / wall for pid, used in zip(pids, before, strict=True)]


def _share(pids: list[int], seconds: float) -> float:
    return sum(_shares(pids, seconds))


def _began(place: Ground) -> Seen:
    told = (line.split() for line in place.lines("began"))
    return {(loop, session): float(at) for loop, session, at in told}


def _late(place: Ground, seen: Seen) -> list[float]:
    """Return the seconds from the beginning of each session, as its agent knows it, until it was shown."""
    began, first = _began(place), min(seen.values())
    late = [seen[key] - at for key, at in began.items() if at > first and key in seen]
    if not late:
        raise BenchFailed("no session began while somebody looked")
    return late


@contextlib.contextmanager
def _web(place: Ground) -> Iterator[tuple[int, Seen]]:
    command = [RALPHD, "web"]
    with subprocess.Popen(command, env=place.environ(), cwd=place.repository, stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None
            address, _, token = child.stdout.readline().decode().strip().rpartition("/#")
            seen: Seen = {}
            with socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2]))) as page:
                host = address.removeprefix("http://")
                ask = f"GET /events/now HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\r\n"
                page.sendall(ask.encode())
                threading.Thread(target=_read, args=(page, seen), daemon=True).start()
                yield child.pid, seen
        finally:
            child.terminate()


def _read(page: socket.socket, seen: Seen) -> None:
    kept = b""
    with contextlib.suppress(OSError):
        while data := page.recv(1 << 16):
            *events, kept = (kept + data).split(b"\n\n")
            for event in events:
                for found in CELLS.finditer(event.decode(errors="replace").replace('\\"', '"')):
                    seen.setdefault(found.groups(), time.clock_gettime(time.CLOCK_BOOTTIME))  # type: ignore[arg-type]


@contextlib.contextmanager
def _top(place: Ground) -> Iterator[tuple[int, Seen]]:
    """Keep ``ralphd top`` in a terminal, and note what it shows."""
    tmux = ["tmux", "-f", "/dev/null", "-S", place.path("look.sock")]
    size = ["-x", "120", "-y", "60"]  # a whole screen: it shows half of 64 loops
    env = {**place.environ(), "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}

    def tell(*more: str) -> str:
        return subprocess.run(
            [*tmux, *more], env=env, cwd=place.repository, capture_output=True, text=True, check=True
        ).stdout

    tell("new-session", "-d", *size, "-s", "top", f"exec {RALPHD} top")
    seen: Seen = {}
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.1):
            for line in tell("capture-pane", "-p", "-t", "top").splitlines():
                if found := ROW.match(line):
                    seen.setdefault((found[1], found[2]), time.clock_gettime(time.CLOCK_BOOTTIME))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield int(tell("display-message", "-p", "-t", "top", "#{pane_pid}")), seen
    finally:
        over.set()
        watcher.join()
        tell("kill-server")
