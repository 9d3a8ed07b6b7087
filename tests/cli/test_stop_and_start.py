"""`ralphd stop && ralphd start`, as a script would have it: the second finds nobody of the first."""

from __future__ import annotations

import subprocess
import sys

from ralphd.edges.ownership import open_state

# Answers a stop, and takes its time to leave.
DAEMON = """
import sys, threading, time
from pathlib import Path
from ralphd.edges.control import ControlServer
from ralphd.edges.ownership import own

asked = threading.Event()
def answer(request, reply):
    reply({"ok": True, "code": 0, "data": {"night": "n-1"}}, True)
    asked.set()

owner = own(sys.argv[1], version="0", started_at="2026-11-30T00:00:00Z")
server = ControlServer(Path(sys.argv[1]), answer)
print("up", flush=True)
asked.wait()
time.sleep(1.5)
server.close()
"""


def test_a_stop_returns_when_its_daemon_has_gone(night):
    """Its good-bye comes a moment before it lets go of the state folder."""
    open_state(str(night.state))
    daemon = subprocess.Popen([sys.executable, "-c", DAEMON, str(night.state)], env=night.env, stdout=subprocess.PIPE)
    try:
        assert daemon.stdout is not None
        assert daemon.stdout.readline() == b"up\n"
        assert "night n-1 has ended" in night.good("stop")
        assert daemon.poll() == 0
    finally:
        daemon.kill()
        daemon.communicate()
