"""What loops do to the repository that all share is noticed, told and put back."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from support.stories import Story

from ralphd.core import events
from ralphd.core.model import Task
from ralphd.core.outcomes import Kind
from ralphd.daemon import guarding


def told(story: Story) -> list[str]:
    story.drain()
    outcomes = [body.outcome for body in story.journal.bodies(events.OutcomeNoted)]
    return [outcome.evidence[0].what for outcome in outcomes if outcome.kind is Kind.FOREIGN_CHANGE]


@pytest.fixture
def story() -> Story:
    story = Story()
    story.repositories.prints = {"config": "good"}
    story.daemon.guarding.begin()
    story.begin()
    return story


def spoil(story: Story, *names: str) -> None:
    story.repositories.prints = {"config": "good", **dict.fromkeys(names, f"bad {story.clock.steady}")}
    story.repositories.to_put_back = names


def test_a_change_is_noted_and_put_back_once(story: Story) -> None:
    spoil(story, "config", "hooks/post-commit")
    story.daemon._changed("/n/repo.git/config")
    story.daemon._changed("/n/repo.git/hooks")
    assert told(story) == [
        "the night repository's config, hooks/post-commit changed; put back: config, hooks/post-commit"
    ]


def test_what_nothing_told_of_is_found_by_looking(story: Story) -> None:
    """As a loop's own configuration: nobody is told of changes there, for its folder changes with every commit."""
    story.repositories.to_put_back = ("worktrees/l1/config.worktree",)
    story.step(guarding.LOOK_EVERY_S)
    assert told(story) == ["put back: worktrees/l1/config.worktree"]


def test_a_harmless_change_is_noted_and_stays(story: Story) -> None:
    story.repositories.prints = {"config": "with a user.name"}
    for _ in range(3 * guarding.PUT_BACK_AT_ONCE):
        story.daemon._changed("/n/repo.git/config")
    assert told(story) == ["the night repository's config changed"]
    spoil(story, "config")
    story.daemon._changed("/n/repo.git/config")
    assert "put back: config" in told(story)[-1]


def test_what_changed_while_no_daemon_looked_is_put_back_by_the_next(story: Story) -> None:
    spoil(story, "config")
    story.start_daemon()
    story.daemon.guarding.begin()
    assert told(story) == ["the night repository was changed while nobody looked; put back: config"]
    story.daemon._changed("/n/repo.git/config")
    assert len(told(story)) == 1


def test_a_repository_that_is_read_for_the_first_time_has_not_changed(story: Story) -> None:
    story.daemon.guarding.prints.clear()
    story.daemon._changed("/n/repo.git/config")
    assert told(story) == []


def test_whoever_insists_is_answered_at_a_slower_pace_and_never_given_up(story: Story) -> None:
    for _ in range(guarding.PUT_BACK_AT_ONCE + 1):
        story.repositories.to_put_back = ("config",)
        story.daemon._changed("/n/repo.git/config")
    assert len(told(story)) == guarding.PUT_BACK_AT_ONCE + 1
    story.repositories.to_put_back = ("config",)
    story.daemon._changed("/n/repo.git/config")
    assert len(told(story)) == guarding.PUT_BACK_AT_ONCE + 1
    story.step(guarding.PUT_BACK_EVERY_S)
    assert len(told(story)) == guarding.PUT_BACK_AT_ONCE + 2
    assert story.repositories.to_put_back == ()


def test_what_cannot_be_put_back_is_told_once_and_tried_again(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_task: Task) -> Sequence[str]:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(story.repositories, "put_back_guarded", full)
        for _ in range(5):
            story.daemon._changed("/n/repo.git/config")
            story.clock.pass_time(guarding.AGAIN_AFTER_S)
    [line] = told(story)
    assert "No space left" in line
    spoil(story, "config")
    story.step(guarding.LOOK_EVERY_S)
    assert "put back: config" in told(story)[-1]
