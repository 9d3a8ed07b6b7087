"""What do agents do to their worktrees, branches and locks, and does each loop go on from there with nothing lost?

All parts share one night: while one worktree is deleted the others commit, and somebody packs the repository.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.cast import bodies, cast, kinds
from support.nightbox import NightBox
from support.repositories import git

from ralphd.core import events
from ralphd.core.worktrees import is_object_id

TOML = """\
[night]
width = 15
[agent]
cli = "command"
program = "PROGRAM"
"""
# The first session commits `work`; the second does the damage; all later ones commit on.
PART = """
cat >/dev/null
pwd >>"$HOME/places"
branch=ralphd/$(basename "$(dirname "$PWD")")/$RALPHD_LOOP
lock() { echo "$(git rev-parse --git-dir)/index.lock"; }
if ! from 2; then echo work >work; commit work; exit; fi
if from 6; then sleep 2; fi
if from 3; then echo "$RALPHD_TRAJECTORY" >"on"; commit "on $RALPHD_TRAJECTORY"; exit; fi
"""
DAMAGE = {
    "deleted": 'echo more >more; commit more; cd /; rm -rf "$OLDPWD"',
    "untied": "echo unsaved >unsaved; rm .git",
    "unregistered": 'rm -rf "$(git rev-parse --git-dir)"; echo unsaved >unsaved',
    "locked": 'echo 1 >"$HOME/reason"; git worktree lock --reason "not now" .; cd /; rm -rf "$OLDPWD"',
    "dead_lock": ': >"$(lock)"',
    "live_lock": ': >"$(lock)"; sleep 4; [ -e "$(lock)" ] && touch "$HOME/held"; rm "$(lock)"; echo l >l; commit l',
    "moved_back": "git reset -q --hard HEAD~1",
    "rewritten": "git commit -q --amend -m rewritten",
    "detached": "git checkout -q --detach HEAD~1; echo d >d; commit detached",
    "branch_deleted": 'git checkout -q --detach HEAD~1; git branch -qD "$branch"',
    "merging": (
        "git checkout -q -b side HEAD~1; echo other >work; commit other; git checkout -q -; git merge -q side; true"
    ),
    "packing": "git gc -q --prune=now; git worktree prune; git pack-refs --all",
    "hijacker": 'until [ -e "$HOME/victim" ]; do sleep 0.1; done; '
    'git update-ref "$(cat "$HOME/victim")" "$(git commit-tree -m stolen HEAD^{tree})"; touch "$HOME/stolen"; '
    'until [ -e "$HOME/working" ]; do sleep 0.1; done; '
    'git update-ref "$(cat "$HOME/working")" "$(git commit-tree -p "$(cat "$HOME/working")" -m added HEAD^{tree})"',
    "victim": 'echo mine >mine; echo "refs/heads/$branch" >"$HOME/victim"; '
    'until [ -e "$HOME/stolen" ]; do sleep 0.1; done',
    # its session is still open when the daemon puts the branch back
    "working": 'start=$(git rev-parse HEAD); echo "refs/heads/$branch" >"$HOME/working"; '
    'until [ "$(git rev-parse HEAD)" != "$start" ]; do sleep 0.1; done; '
    'until [ "$(git rev-parse HEAD)" = "$start" ]; do echo .; sleep 0.2; done; touch "$HOME/returned"',
}
LOOPS = {name: f"loop-{n}" for n, name in enumerate(DAMAGE, 1)}
PARTS = {loop: f"{PART}{DAMAGE[name]}\n" for name, loop in LOOPS.items()}
EXPECTED = {
    "deleted": {"git.worktree_gone"},
    "untied": {"git.worktree_gone"},
    "unregistered": {"git.worktree_gone"},
    "locked": {"git.worktree_gone"},
    "dead_lock": {"git.stale_lock"},
    "live_lock": set(),
    "moved_back": {"git.branch_moved"},
    "rewritten": {"git.history_rewritten"},
    "detached": {"git.worktree_detached"},
    "branch_deleted": {"git.branch_moved", "git.worktree_detached"},
    "merging": {"git.mid_operation"},
    "packing": set(),
    "hijacker": set(),
    "victim": {"git.foreign_change"},
    "working": set(),  # what the daemon saw is charged to nobody in particular
}
pytestmark = pytest.mark.slow


@dataclass(frozen=True, kw_only=True)
class Told:
    """What the night left, after it was stopped."""

    box: NightBox
    outcomes: dict[str, list[str]]
    repairs: dict[str, list[dict]]
    before: dict[str, tuple[int, str]]
    rescued: list[dict]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    with cast(tmp_path_factory.mktemp("git"), PARTS, TOML, {"n": "0\n"}) as box:
        before = box.user_files()
        box.start("--for", "1h")
        box.wait_until(lambda: all(len(kinds(box, loop)) >= 5 for loop in PARTS), "five sessions of each")
        box.stop()
        lines = box.ralphd("journal", "rescue", "--json").stdout.splitlines()
        yield Told(
            box=box,
            outcomes={loop: box.outcomes(loop) for loop in PARTS},
            repairs={name: bodies(box, loop, "Repaired") for name, loop in LOOPS.items()},
            before=before,
            rescued=[json.loads(line) for line in lines],
        )


def subjects(told: Told, name: str) -> list[str]:
    """The subjects on the loop's branch as it was brought over, newest first."""
    ref = f"refs/ralphd/{told.box.nights()[-1]}/{LOOPS[name]}"
    return git(told.box.repo, "log", "--format=%s", ref).splitlines()


@pytest.mark.parametrize("name", DAMAGE)
def test_the_damage_is_named_and_the_loop_goes_on(told: Told, name: str) -> None:
    found = told.outcomes[LOOPS[name]]
    assert {kind for kind in found if kind.startswith("git.")} == EXPECTED[name]
    assert found.count("done.next") >= 4
    assert subjects(told, name)[0].startswith("on ")


@pytest.mark.parametrize("name", [name for name in DAMAGE if name != "rewritten"])
def test_every_commit_is_still_there(told: Told, name: str) -> None:
    assert "work" in subjects(told, name)
    assert (name != "deleted") or "more" in subjects(told, name)


@pytest.mark.parametrize(("name", "file", "text"), [("untied", "unsaved", "unsaved"), ("victim", "mine", "mine")])
def test_unsaved_files_stay_where_they_are(told: Told, name: str, file: str, text: str) -> None:
    ref = f"refs/ralphd/{told.box.nights()[-1]}/{LOOPS[name]}"
    assert git(told.box.repo, "show", f"{ref}:{file}") == text


@pytest.mark.parametrize(("name", "subject"), [("rewritten", "work"), ("detached", "detached"), ("victim", "stolen")])
def test_what_was_taken_off_a_branch_is_in_a_rescue_ref(told: Told, name: str, subject: str) -> None:
    (ref,) = {repair["ref"] for repair in told.repairs[name] if repair["ref"]}
    assert subject in git(told.box.repo, "log", "--format=%s", ref).splitlines()
    (line,) = (line for line in told.rescued if line["ref"] == ref)
    assert (line["loop"], line["delivered"]) == (LOOPS[name], True)


def test_a_branch_is_put_back_under_a_session_that_goes_on(told: Told) -> None:
    assert (told.box.home / "returned").exists()
    (noted,) = (entry.body.outcome for entry in told.box.journal(events.OutcomeNoted))
    assert (noted.kind, noted.detail["loop"]) == ("git.foreign_change", LOOPS["working"])
    (line,) = (line for line in told.rescued if line["ref"] == noted.detail["ref"])
    assert line["loop"] == LOOPS["working"]
    assert "added" in git(told.box.repo, "log", "--format=%s", line["ref"])
    assert "added" not in subjects(told, "working")


def test_a_lock_of_a_living_process_is_left_to_it(told: Told) -> None:
    assert (told.box.home / "held").exists()
    assert "l" in subjects(told, "live_lock")


def test_no_session_ran_anywhere_but_in_its_own_worktree(told: Told) -> None:
    night = told.box.nights()[-1]
    places = set((told.box.home / "places").read_text().splitlines())
    assert places == {str(told.box.state / "worktrees" / night / loop) for loop in PARTS}
    assert told.box.user_files() == told.before


def test_both_repositories_are_whole(told: Told) -> None:
    (night,) = (told.box.state / "nights").glob("*/repositories/*/repo.git")
    for repository in (Path(night), told.box.repo):
        said = git(repository, "fsck", "--no-dangling", "--no-progress")
        assert not [line for line in said.splitlines() if "missing" in line or "broken" in line or "error" in line]
    assert is_object_id(git(told.box.repo, "rev-parse", "HEAD"))
