"""What is judged: bases, claims, what sessions leave and new tips; and what follows from verdicts that are known."""

from __future__ import annotations

from collections.abc import Iterator

from ralphd.core import actions, codec, events
from ralphd.core.actions import Decision
from ralphd.core.exchange import Want
from ralphd.core.history import Session
from ralphd.core.model import Candidate, Verdict, Verifier, is_submission
from ralphd.core.outcomes import Evidence, Kind, Outcome
from ralphd.core.policy.present import Head, LoopNow, Present
from ralphd.core.policy.running import LEFT_BY_HANGUP
from ralphd.core.policy.troubles import UNSCORED
from ralphd.core.state import Ending, LoopState, NightState, TaskState
from ralphd.core.verdicts import to_beat


def verify_bases(state: NightState, _present: Present) -> Iterator[Decision]:
    for task in state.tasks.values():
        if task.base is None and task.task.verifier.command:
            candidate = Candidate(
                task=task.task.name, loop="", generation=0, trajectory=0, commit=task.task.base, tree=""
            )
            yield Decision(
                action=actions.Verify(candidate=candidate), why="the base is what all else is measured against"
            )


def verify_claims(state: NightState, _present: Present) -> Iterator[Decision]:
    for loop in state.loops.values():
        task = state.tasks[loop.loop.task]
        if loop.claim is not None and _worth(state, task, loop.claim.head):
            action = actions.Verify(candidate=_left_by(loop, loop.claim))
            yield Decision(action=action, why="a session claims that the task is done")


def verify_ends(state: NightState, _present: Present) -> Iterator[Decision]:
    for loop in state.loops.values():
        task = state.tasks[loop.loop.task]
        if (
            loop.ended is not None
            and _worth(state, task, loop.ended.head)
            and not _overtaken(task, loop, loop.ended.head)
        ):
            yield Decision(action=actions.Verify(candidate=_left_by(loop, loop.ended)), why="a session ended with it")


def verify_heads(state: NightState, present: Present) -> Iterator[Decision]:
    for loop in state.loops.values():
        head = present.loops[loop.loop.id].head
        task = state.tasks[loop.loop.task]
        if head is None or head.tree in task.judged or _overtaken(task, loop, head.commit):
            continue
        if _worth(state, task, head.commit):
            yield Decision(action=actions.Verify(candidate=_candidate(loop, head)), why="a new commit")


def _overtaken(task: TaskState, loop: LoopState, commit: str) -> bool:
    """Tell whether a newer commit, which holds all of this one, waits to be judged or is the loop's best."""
    newer = loop.overtaken.get(commit, "")
    return bool(newer) and (newer not in task.commits or newer == loop.best_commit)


def verify_passed_over(state: NightState, _present: Present) -> Iterator[Decision]:
    for loop in state.loops.values():
        session = passed_over(state, loop)
        if session is not None:
            left = Ending(entry=0, generation=session.generation, trajectory=session.trajectory, head=session.after)
            yield Decision(
                action=actions.Verify(candidate=_left_by(loop, left)),
                why="what came after it is no gain, and nobody judged whether this was one",
            )


def newest_unjudged(state: NightState, loop: LoopState) -> bool:
    """Tell whether what the newest session left is still to be judged."""
    sessions = loop.past.sessions
    return bool(sessions) and _worth(state, state.tasks[loop.loop.task], sessions[-1].after)


def passed_over(state: NightState, loop: LoopState) -> Session | None:
    """Return the newest session whose end nobody judged, though a later one was judged and is not the loop's best.

    Usually a newer commit holds all that an older one had, so that only the newest is judged. Not when it is worse.
    A person who waits for the end of the night waits no longer for these than one verification may take.
    """
    if state.ending and state.seen_s - state.ending_s > state.tasks[loop.loop.task].task.verifier.seconds:
        return None
    task, sessions = state.tasks[loop.loop.task], loop.past.sessions
    gained = loop.past.gains[-1] if loop.past.gains else None
    if not sessions or (gained is not None and gained.commit == sessions[-1].after):
        return None
    if sessions[-1].after not in {*task.commits, task.task.base}:
        return None
    for session in reversed(sessions):
        if session.moved and _worth(state, task, session.after):
            return session
        if gained is not None and session.key == gained.key:
            return None
    return None


def _worth(state: NightState, task: TaskState, commit: str) -> bool:
    judgeable = bool(task.task.verifier.command) and task.base is not None and not state.skip_verification
    return judgeable and bool(commit) and commit != task.task.base and commit not in task.commits


def _left_by(loop: LoopState, ending: Ending) -> Candidate:
    return Candidate(
        task=loop.loop.task,
        loop=loop.loop.id,
        generation=ending.generation,
        trajectory=ending.trajectory,
        commit=ending.head,
        tree="",
    )


def _candidate(loop: LoopState, head: Head) -> Candidate:
    return Candidate(
        task=loop.loop.task,
        loop=loop.loop.id,
        generation=loop.generation,
        trajectory=loop.trajectory,
        commit=head.commit,
        tree=head.tree,
    )


def settle(state: NightState, present: Present) -> Iterator[tuple[str, events.Body]]:
    """Type the ends of lost runners, give known verdicts to whom they belong, and settle claims."""
    for loop in state.loops.values():
        task = state.tasks[loop.loop.task]
        seen = present.loops[loop.loop.id]
        hung_up = loop.left.startswith(LEFT_BY_HANGUP) and not seen.server_lives
        if (loop.runner_up or hung_up) and not seen.alive and loop.want is Want.RUNNING:
            yield loop.loop.id, _lost(seen)
        yield from _known_verdict(task, loop, present.loops[loop.loop.id].head)
        yield from _settled_claim(task, loop)


def _lost(seen: LoopNow) -> events.Body:
    """Type the end of a runner that did not leave by itself: its window is gone, or the whole server."""
    if seen.server_lives:
        outcome = Outcome(kind=Kind.PANE_LOST, evidence=(Evidence(what="the runner is gone and the tmux server runs"),))
    else:
        outcome = Outcome(kind=Kind.SERVER_LOST, evidence=(Evidence(what="the tmux server is gone"),))
    return events.OutcomeNoted(outcome=outcome)


def _known_verdict(task: TaskState, loop: LoopState, head: Head | None) -> Iterator[tuple[str, events.Body]]:
    if head is None or head.commit in loop.judged or head.commit == task.task.base:
        return
    if not task.task.verifier.command:
        verdict = Verdict(
            task=task.task.name,
            loop=loop.loop.id,
            commit=head.commit,
            tree=head.tree,
            score=None,
            passed=False,
            unverified=True,
            why="the task has no verifier",
        )
        yield loop.loop.id, events.VerdictGiven(verdict=verdict, submission=False)
    elif head.tree in task.judged:
        known = task.judged[head.tree]
        data = codec.dump(known)
        assert isinstance(data, dict)
        same = codec.load(
            Verdict,
            data | {"loop": loop.loop.id, "commit": head.commit, "why": f"the same tree as {known.commit[:12]}"},
        )
        fresh = task.base is None or head.tree != task.base.tree
        best = to_beat(task, loop)
        better = known.score is not None and task.task.verifier.better(known.score, best)
        counts = fresh and better and is_submission(same, task.task.verifier, best)
        yield loop.loop.id, events.VerdictGiven(verdict=same, submission=counts)


def _settled_claim(task: TaskState, loop: LoopState) -> Iterator[tuple[str, events.Body]]:
    claim, verifier = loop.claim, task.task.verifier
    if claim is None or not checkable(verifier):
        return
    verdict = task.base if claim.head == task.task.base else task.judged.get(task.commits.get(claim.head, ""))
    if verdict is None or _blind(task, verdict):
        return
    agrees = verdict.passed and verdict.kind is None
    detail: dict[str, object] = {"claimed": True, "score": verdict.score, "goal": verifier.goal, "commit": claim.head}
    evidence = Evidence(what=f"the verifier: {verdict.why or 'no reason given'}", file=verdict.output)
    outcome = Outcome(kind=Kind.FINISHED if agrees else Kind.FALSE_DONE, detail=detail, evidence=(evidence,))
    yield loop.loop.id, events.ClaimSettled(entry=claim.entry, outcome=outcome)


def _blind(task: TaskState, verdict: Verdict) -> bool:
    """Tell whether the verifier can't judge even the start: then what it makes of a claim says nothing of that."""
    start = task.base
    return start is not None and start.score is None and verdict.score is None and verdict.kind in UNSCORED


def checkable(verifier: Verifier) -> bool:
    """Tell whether a verdict can agree with a claim at all: a bare number without a goal can't."""
    return bool(verifier.command) and (verifier.goal is not None or verifier.score.split(":")[0] in {"exit", "junit"})
