"""Who gets which width, name and place in a night."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralphd.core import plan
from ralphd.core.config import Config, NightConfig, PodsConfig, TaskConfig
from ralphd.core.model import is_loop_id

NIGHT = "2026-11-30-a"


def loops(config: Config, names):
    numbers = itertools.count()
    return plan.loops_of(config, names, NIGHT, "/state", lambda: f"nonce-{next(numbers)}")


def test_one_task_takes_the_whole_width():
    """Its loops have short names, places of their own and nonces of their own."""
    made = loops(Config(night=NightConfig(width=3)), ["thing"])
    assert [loop.id for loop in made] == ["loop-1", "loop-2", "loop-3"]
    first = made[0]
    assert first.branch == "ralphd/2026-11-30-a/loop-1"
    assert first.worktree == "/state/worktrees/2026-11-30-a/loop-1"
    assert first.folder == "/state/nights/2026-11-30-a/loops/loop-1"
    assert len({loop.nonce for loop in made}) == 3


def test_several_tasks_name_their_loops():
    tasks = (TaskConfig(name="a", width=1), TaskConfig(name="b"))
    assert [loop.id for loop in loops(Config(night=NightConfig(width=3), tasks=tasks), ["a", "b"])] == [
        "a-1",
        "b-1",
        "b-2",
    ]


def test_pods_hold_as_many_as_they_are_told():
    made = loops(Config(night=NightConfig(width=5), pods=PodsConfig(size=2)), ["t"])
    assert [loop.pod for loop in made] == ["pod-1", "pod-1", "pod-2", "pod-2", "pod-3"]


@given(st.lists(st.one_of(st.none(), st.integers(1, 5)), min_size=1, max_size=6), st.integers(0, 20))
def test_shares_add_up_and_are_fair(wishes, spare):
    """A wish is kept; the rest differ by one at most and use up the width."""
    tasks = [TaskConfig(width=wish) for wish in wishes]
    width = sum(wish or 1 for wish in wishes) + spare
    given_ = plan.shares(width, tasks)
    assert all(share == wish for share, wish in zip(given_, wishes, strict=True) if wish is not None)
    free = [share for share, wish in zip(given_, wishes, strict=True) if wish is None]
    if free:
        assert sum(given_) == width
        assert max(free) - min(free) <= 1
        assert min(free) >= 1


@pytest.mark.parametrize(
    ("wish", "repository", "name"),
    [
        ("mine", "/x/y", "mine"),
        ("", "/x/My Repo.v2/", "my-repo-v2"),
        ("", "/x/---", "main"),
        ("", "/", "main"),
        ("", "/x/日本", "main"),
    ],
)
def test_a_task_is_named_as_wished_or_after_its_folder(wish, repository, name):
    assert plan.task_name(wish, repository) == name


@given(st.text(max_size=80))
def test_any_folder_gives_a_name_that_loops_can_carry(folder):
    """With a number behind it, it still fits."""
    assert is_loop_id(f"{plan.task_name('', '/' + folder)}-4096")


def test_new_loops_are_named_on_and_go_to_the_task_with_the_fewest():
    config = Config(night=NightConfig(width=3), tasks=(TaskConfig(), TaskConfig()), pods=PodsConfig(size=2))
    known = plan.loops_of(config, ["fast-er", "main"], "n", "/s", lambda: "0")
    new = plan.more_loops(known, ["fast-er", "main"], 3, lambda: "1")
    assert [loop.id for loop in new] == ["main-2", "fast-er-3", "main-3"]
    assert [loop.pod for loop in new] == ["pod-2", "pod-3", "pod-3"]
    assert (new[0].branch, new[0].worktree) == ("ralphd/n/main-2", "/s/worktrees/n/main-2")
    assert new[0].folder == "/s/nights/n/loops/main-2"
    alone = plan.loops_of(Config(night=NightConfig(width=2)), ["main"], "n", "/s", lambda: "0")
    assert [loop.id for loop in plan.more_loops(alone[1:], ["main"], 2, lambda: "1")] == ["loop-3", "loop-4"]


@given(st.lists(st.sampled_from(["a", "a-1", "a-1-1", "loop", "loop-1", "b"]), min_size=1, max_size=6, unique=True))
def test_no_two_loops_share_a_branch_whatever_their_tasks_are_called(names: list[str]) -> None:
    tasks = tuple(TaskConfig(name=name, width=12) for name in names)
    made = loops(Config(night=NightConfig(width=12 * len(names)), tasks=tasks), names)
    more = plan.more_loops(made, names, 5, lambda: "nonce")
    assert len({loop.branch for loop in (*made, *more)}) == len(made) + 5
