"""Nights as the journal would hold them, built entry by entry."""

from __future__ import annotations

import hashlib

from ralphd.core import events, records
from ralphd.core.actions import Action, RestartLoop, Verify
from ralphd.core.events import Entry
from ralphd.core.model import Candidate, Loop, Task, Verdict, Verifier
from ralphd.core.outcomes import Evidence, Kind, Outcome

START = 1796076000.0  # 2026-11-30T22:00:00Z
NIGHT = "2026-11-30-a"


def commit(number: int) -> str:
    return hashlib.sha1(str(number).encode()).hexdigest()


class Night:
    """Collects entries; every call moves the clock by a minute."""

    def __init__(self, night: str = NIGHT) -> None:
        self.entries: list[Entry] = []
        self.night = night
        self.now = START
        self._seq: dict[str, int] = {}

    def say(self, body: events.Body, loop: str = "", trajectory: int = 0, generation: int = 1) -> Entry:
        runner = type(body).__name__ in events.RUNNER_BODIES
        if runner:
            self._seq[loop] = self._seq.get(loop, 0) + 1
        entry = Entry(
            id=len(self.entries) + 1,
            at=self.now,
            night=self.night,
            loop=loop,
            generation=generation if loop else 0,
            trajectory=trajectory,
            seq=self._seq[loop] if runner else 0,
            nonce="f" * 32 if runner else "",
            body=body,
        )
        self.entries.append(entry)
        self.now += 60
        return entry

    def started(self, width: int = 2, ends_at: float | None = START + 8 * 3600) -> Entry:
        return self.say(events.NightStarted(width=width, ends_at=ends_at, version="0.1", config={}))

    def task(
        self, name: str = "main", command: str = "pytest -q", direction: str = "max", goal: float | None = None
    ) -> Entry:
        task = Task(
            name=name,
            repository="/home/ann/work",
            night_repository="/state/repo.git",
            prompt="/home/ann/work/PROMPT.md",
            base=commit(1),
            verifier=Verifier(command=command, direction=direction, goal=goal),
        )
        return self.say(events.TaskAdded(task=task))

    def loop(self, id_: str, task: str = "main", pod: str = "") -> Entry:
        folder = f"/state/nights/{self.night}/loops/{id_}"
        loop = Loop(
            id=id_, task=task, pod=pod, branch=f"ralphd/{self.night}/{id_}", worktree=f"/state/worktrees/{id_}",
            folder=folder, nonce="0" * 32,
        )  # fmt: skip
        return self.say(events.LoopAdded(loop=loop), loop=id_)

    def began(self, loop: str, trajectory: int, head: str = "", generation: int = 1) -> Entry:
        body = records.TrajectoryStarted(
            head=head or commit(1), log=self.log(loop, trajectory), prompt_sha256="0" * 64, prompt_bytes=9
        )
        return self.say(body, loop, trajectory, generation)

    def ended(
        self,
        loop: str,
        trajectory: int,
        kind: Kind = Kind.NEXT,
        *,
        before: str = "",
        after: str = "",
        tokens: int | None = 1000,
        claims_done: bool = False,
        evidence: tuple[Evidence, ...] = (),
        generation: int = 1,
        usage: records.Usage | None = None,
    ) -> Entry:
        before = before or commit(1)
        usage = usage or (
            records.Usage()
            if tokens is None
            else records.Usage(tokens_in=tokens, tokens_out=tokens // 10, cost_usd=tokens / 1e5)
        )
        body = records.TrajectoryEnded(
            outcome=Outcome(kind=kind, evidence=evidence), head_before=before, head_after=after or before, claims_done=claims_done,
            usage=usage, compactions=0, seconds=60.0, attempts=1, calls=3, leftovers=0, log=self.log(loop, trajectory),
        )  # fmt: skip
        return self.say(body, loop, trajectory, generation)

    def verdict(
        self,
        score: float | None,
        loop: str = "",
        trajectory: int = 0,
        *,
        of: str = "",
        task: str = "main",
        passed: bool = False,
        submission: bool = False,
        kind: Kind | None = None,
        unverified: bool = False,
        counts: dict[str, int] | None = None,
        generation: int = 1,
    ) -> Entry:
        of = of or commit(1)
        verdict = Verdict(
            task=task, loop=loop, commit=of, tree=of[::-1], score=score, passed=passed, kind=kind, unverified=unverified, counts=counts,
        )  # fmt: skip
        return self.say(events.VerdictGiven(verdict=verdict, submission=submission), loop, trajectory, generation)

    def acted(self, action: Action, loop: str, why: str, by: str = "policy", result: str | None = "done") -> Entry:
        type_, args = events.action_to_json(action)
        intent = self.say(events.ActionIntended(type=type_, args=args, why=why, by=by), loop)
        if result is not None:
            self.say(events.ActionSettled(intent=intent.id, result=result), loop)
        return intent

    def over(self, why: str = "time") -> Entry:
        return self.say(events.NightEnded(why=why))

    def log(self, loop: str, trajectory: int) -> str:
        return f"/state/nights/{self.night}/loops/{loop}/logs/001-{trajectory:05d}.log"


def a_good_night() -> Night:
    """Two loops on one task: one fixes 5 of 12 tests and finishes, the other lies, hangs and is restarted clean."""
    night = Night()
    night.started()
    night.task(goal=12.0)
    night.loop("fix-1")
    night.loop("fix-2")
    night.verdict(7.0, counts={"tests": 12, "passed": 7, "failed": 5, "errors": 0, "skipped": 0})
    night.began("fix-1", 1)
    night.began("fix-2", 1)
    night.ended("fix-1", 1, after=commit(2))
    candidate = Candidate(task="main", loop="fix-1", generation=1, trajectory=1, commit=commit(2), tree=commit(2)[::-1])
    night.acted(Verify(candidate=candidate), "fix-1", "a new commit")
    night.verdict(9.0, "fix-1", 1, of=commit(2), submission=True)
    lie = night.ended("fix-2", 1, claims_done=True, after=commit(3), tokens=None)
    night.verdict(7.0, "fix-2", 1, of=commit(3))
    log = night.log("fix-2", 1)
    refuted = Outcome(
        kind=Kind.FALSE_DONE, evidence=(Evidence(what="said: all tests pass", file=log, start=120, end=141),)
    )
    night.say(events.ClaimSettled(entry=lie.id, outcome=refuted), "fix-2", 1)
    night.began("fix-2", 2, head=commit(3))
    hung = Evidence(what="no byte and no work for 900 s", file=night.log("fix-2", 2), start=4096, end=4096)
    night.ended("fix-2", 2, Kind.HUNG, before=commit(3), evidence=(hung,), tokens=None)
    night.acted(RestartLoop(loop="fix-2", reset_to=commit(1)), "fix-2", "the same trouble three times: agent.hung")
    slow = Evidence(what="sleep 1000 ran 300 s", file=night.log("fix-1", 2), start=10, end=20)
    night.began("fix-1", 2, head=commit(2))
    night.say(records.ToolEnded(outcome=Outcome(kind=Kind.TOOL_TIMEOUT, evidence=(slow,))), "fix-1", 2)
    lock = Outcome(kind=Kind.STALE_LOCK, detail={"path": "index.lock"})
    night.say(records.Repaired(outcome=lock, what="removed index.lock of a dead process"), "fix-1", 2)
    done = night.ended("fix-1", 2, before=commit(2), after=commit(4), claims_done=True)
    counts = {"tests": 12, "passed": 12, "failed": 0, "errors": 0, "skipped": 0}
    night.verdict(12.0, "fix-1", 2, of=commit(4), passed=True, submission=True, counts=counts)
    night.say(events.ClaimSettled(entry=done.id, outcome=Outcome(kind=Kind.FINISHED)), "fix-1", 2)
    night.over("goal")
    return night


def a_bare_night() -> Night:
    """One loop without a verifier, held because its key is refused; the night has no end yet."""
    night = Night()
    night.started(width=1, ends_at=None)
    night.task(command="")
    night.loop("go-1")
    night.began("go-1", 1)
    night.ended("go-1", 1, after=commit(2), tokens=None)
    night.verdict(None, "go-1", 1, of=commit(2), unverified=True)
    night.began("go-1", 2, head=commit(2))
    night.say(records.AttemptEnded(attempt=1, outcome=Outcome(kind=Kind.AUTH), wait_s=0.0), "go-1", 2)
    return night


def a_null_night() -> Night:
    """Two tasks that nothing could improve; one loop tampered with the tests."""
    night = Night()
    night.started()
    night.task()
    night.task("speed", direction="min")
    night.loop("fix-1")
    night.loop("fast-1", task="speed")
    night.verdict(7.0)
    night.verdict(2.5, task="speed")
    night.began("fix-1", 1)
    night.ended("fix-1", 1, after=commit(2))
    night.verdict(12.0, "fix-1", 1, of=commit(2), kind=Kind.TAMPERED)
    night.say(
        events.OutcomeNoted(outcome=Outcome(kind=Kind.TAMPERED, evidence=(Evidence(what="tests/test_x.py differs"),))),
        "fix-1",
        1,
    )
    night.began("fast-1", 1)
    night.ended("fast-1", 1, after=commit(3))
    night.verdict(2.75, "fast-1", 1, of=commit(3), task="speed")
    night.over()
    return night
