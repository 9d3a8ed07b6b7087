"""The units as `ralphd service` writes them, and what it asks of systemctl.

No systemd manages anything here: a script stands in for systemctl, and `systemd-analyze verify` reads the units.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess

import pytest
from support.livenight import LiveNight
from support.needs import missing

FAKE = """#!/bin/sh
echo "$(basename "$0") $*" >>{log}
case "$*" in
*Version*) [ -z "$FAKE_ABSENT" ] || {{ echo "Failed to connect to bus: No medium found"; exit 1; }} ;;
*enable*) exit ${{FAKE_ENABLE:-0}} ;;
*show-user*) echo ${{FAKE_LINGER:-no}} ;;
*show*) echo LoadState=loaded; echo UnitFileState=enabled; echo ActiveState=active; echo SubState=running
        echo "StatusText=night x: 2 of 2 loops run" ;;
esac
"""


@pytest.fixture
def home(tmp_path):
    """A scratch home whose PATH begins with a systemctl and a loginctl that only write down what they are asked."""
    return _home(tmp_path)


def _home(root):
    live = LiveNight(root)
    fakes, live.asked = root / "fakes", root / "asked"
    fakes.mkdir()
    for name in ("systemctl", "loginctl"):
        (fakes / name).write_text(FAKE.format(log=f"'{live.asked}'"))
        (fakes / name).chmod(0o755)
    live.env = {name: value for name, value in live.env.items() if name != "XDG_CONFIG_HOME"}
    live.env["PATH"] = f"{fakes}:{live.env['PATH']}"
    live.units = root / ".config/systemd/user"
    return live


def asked(home):
    return home.asked.read_text().splitlines() if home.asked.exists() else []


def test_install_writes_both_units_and_enables_the_daemon(home):
    """Then nothing runs yet, and a second time changes nothing."""
    said = home.good("service", "install")
    assert sorted(path.name for path in home.units.iterdir()) == ["ralphd-tmux.service", "ralphd.service"]
    assert asked(home)[:3] == [
        "systemctl --user show --property=Version",
        "systemctl --user daemon-reload",
        "systemctl --user enable ralphd.service",
    ]
    assert "loginctl enable-linger" in said
    assert not any("start" in line.split() for line in asked(home))
    before = {path: (path.read_text(), path.stat().st_mtime_ns) for path in home.units.iterdir()}
    assert home.good("service", "install").count("is as it should be") == 2
    assert {path: (path.read_text(), path.stat().st_mtime_ns) for path in home.units.iterdir()} == before


def test_the_units_hold_what_this_shell_has(home):
    """The state, PATH and the configuration; no variable beyond the short list, so no secret."""
    home.env |= {"RALPHD_SECRET": "hush", "ANTHROPIC_API_KEY": "sk-hush", "FAKE_LINGER": "yes"}
    said = home.good("service", "install")
    texts = "".join(path.read_text() for path in home.units.iterdir())
    assert f'"RALPHD_STATE={home.state}"' in texts
    assert f'"PATH={home.env["PATH"]}"' in texts
    assert f'"--config" "{home.toml}"' in texts
    assert f'"{home.state}/tmux.sock"' in texts
    assert "hush" not in texts
    assert "linger" not in said


def test_lifetimes_are_apart(home):
    """What must never be lost in an edit: a restart of the daemon ends the daemon, and nothing else."""
    home.good("service", "install")
    daemon, tmux = ((home.units / name).read_text().splitlines() for name in ("ralphd.service", "ralphd-tmux.service"))
    for line in (
        "Type=notify",
        "KillMode=process",
        "Restart=on-failure",
        "RestartPreventExitStatus=2 75",
        "WatchdogSec=60",
    ):
        assert line in daemon
    ties = (
        "PartOf=",
        "BindsTo=",
        "Requires=",
        "Requisite=",
        "Upholds=",
        "StopWhenUnneeded=",
        "PropagatesStopTo=",
        "Conflicts=",
    )
    assert not [line for line in daemon + tmux if line.startswith(ties)]
    assert "[Install]" not in tmux
    for line in ("OOMPolicy=continue", "NoNewPrivileges=yes", "UMask=0077"):
        assert line in daemon
        assert line in tmux


def test_a_unit_of_somebody_else_stays(home):
    """Nothing is written at all then; --force replaces it, and a link is replaced, not followed."""
    home.units.mkdir(parents=True)
    theirs, elsewhere = home.units / "ralphd-tmux.service", home.root / "elsewhere"
    elsewhere.write_text("[Service]\n")
    theirs.symlink_to(elsewhere)
    done = home.ralphd("service", "install")
    assert done.returncode == 2
    assert f"{theirs} was not written by ralphd" in done.stderr
    assert [path.name for path in home.units.iterdir()] == ["ralphd-tmux.service"]
    assert "stays" in home.good("service", "uninstall")
    assert theirs.is_symlink()
    home.good("service", "install", "--force")
    assert not theirs.is_symlink()
    assert elsewhere.read_text() == "[Service]\n"


def test_uninstall_takes_back_what_install_did(home):
    """Disabled before it is removed; a second time there is nothing to do; nothing is stopped."""
    home.good("service", "install")
    home.asked.unlink()
    home.good("service", "uninstall")
    assert list(home.units.iterdir()) == []
    told = [line for line in asked(home) if "show" not in line]
    assert told == ["systemctl --user disable ralphd.service", "systemctl --user daemon-reload"]
    assert "nothing of ralphd's is installed" in home.good("service", "uninstall")


def test_without_a_manager_the_units_are_written_and_the_way_on_is_told(home):
    """As in a container, or after `su`."""
    home.env["FAKE_ABSENT"] = "1"
    said = home.good("service", "install")
    assert "no service manager answers here: Failed to connect to bus" in said
    assert "systemctl --user daemon-reload && systemctl --user enable ralphd.service" in said
    assert len(list(home.units.iterdir())) == 2
    done = home.ralphd("start", "--service")
    assert done.returncode == 2
    assert "`ralphd start` does without" in done.stderr
    assert not (home.state / "nights").exists()
    assert "removed" in home.good("service", "uninstall")


def test_systemctls_refusal_is_told(home):
    """One line with what was asked, exit 1."""
    home.env["FAKE_ENABLE"] = "5"
    done = home.ralphd("service", "install")
    assert done.returncode == 1
    assert "systemctl --user enable ralphd.service failed: exit status 5" in done.stderr


def test_status_tells_what_systemd_makes_of_it(home):
    """Exit 3 while nothing is installed; then the manager's own words."""
    done = home.ralphd("service", "status")
    assert done.returncode == 3
    assert "ralphd service install" in done.stderr
    home.good("service", "install")
    assert "ralphd.service: installed, enabled, active (running), night x: 2 of 2 loops run" in home.good(
        "service", "status"
    )
    told = json.loads(home.good("service", "status", "--json"))
    assert told["units"]["ralphd.service"]["systemd"]["ActiveState"] == "active"
    assert told["lingers"] is False


def test_xdg_config_home_counts(home):
    """The units lie where that user's manager looks for them."""
    home.env["XDG_CONFIG_HOME"] = str(home.root / "elsewhere")
    home.good("service", "install")
    assert (home.root / "elsewhere/systemd/user/ralphd.service").exists()


def test_a_name_that_no_unit_can_hold_is_refused(home):
    """A line break in a path would begin a line of its own."""
    odd = home.root / "a\nExecStartPre=touch x"
    odd.mkdir()
    shutil.copy(home.toml, odd / "ralphd.toml")
    done = home.ralphd("service", "install", cwd=odd)
    assert done.returncode == 2
    assert "can't be written into a unit" in done.stderr
    assert not home.units.exists()


@pytest.mark.parametrize("name", ["plain", "with space", "100% \"$HOME\" %h ${X} \\x; 'q' é"])
def test_systemd_accepts_the_units(tmp_path, name):
    """systemd-analyze reads every setting and finds every program, whatever the folders are called."""
    if shutil.which("systemd-analyze") is None:
        missing("systemd-analyze is missing: apt install systemd")
    (tmp_path / name).mkdir()
    home = _home(tmp_path / name)
    home.toml.write_text("")
    home.good("service", "install")
    runtime = tmp_path / "run"
    runtime.mkdir(mode=0o700)
    done = subprocess.run(
        ["systemd-analyze", "--user", "verify", *(str(path) for path in home.units.iterdir())],
        env={**os.environ, "HOME": str(home.root), "XDG_RUNTIME_DIR": str(runtime)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
