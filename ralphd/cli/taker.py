"""From what a night verified to the person's repository: chosen, verified again on top of one another, and landed."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ralphd.cli import shipped
from ralphd.cli.place import Place
from ralphd.core import events
from ralphd.core.errors import NothingRunning, UsageError
from ralphd.core.events import Entry
from ralphd.core.model import Candidate, Task, Verdict
from ralphd.core.report import report
from ralphd.core.report_parts import LoopPart, Report
from ralphd.core.taken import Taken
from ralphd.core.taking import Joined, Means, Pick, Standing, Tried, ranked, stack
from ralphd.daemon.assign import base_environment
from ralphd.edges import rescued, takenfile, taking
from ralphd.edges.checkout import Checkout, describe_repo
from ralphd.edges.judge import Verifiers
from ralphd.edges.night_repository import NightRepository
from ralphd.edges.processes import LoopProcesses
from ralphd.edges.taking import Workshop

BEST, ALL = "best", "all"
NAMED = 10  # in a message


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What a person asks for. ``how``: branch, merge or patch; ``where``: the branch's name or the patch's path."""

    loops: tuple[str, ...]
    how: str
    where: str = ""
    task: str = ""
    batch: int = 1


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """The loops' best verified commits that are to be tried, the best first, and what they are measured against."""

    night: str
    task: Task
    picks: tuple[Pick, ...]
    base: Standing
    base_verdict: Verdict | None


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of it. ``taken`` None: nothing was good enough, and nothing has changed.

    ``patch``: what was asked for on standard output.
    """

    start: Standing
    tried: tuple[Tried, ...]
    taken: Taken | None
    patch: bytes = b""


def choose(night: str, entries: Sequence[Entry], wish: Wish) -> Chosen:
    """Settle which commits are meant. Raises UsageError or NothingRunning that says what there is."""
    told = report(entries, time.time())
    task = _task(entries, told, wish)
    loops = [loop for loop in told.loops if loop.task == task.name]
    picks = _picks(loops, task, wish)
    part = next(part for part in told.tasks if part.name == task.name)
    base = next((verdict for verdict in _verdicts(entries) if verdict.commit == task.base and not verdict.loop), None)
    passed = base is not None and base.passed
    start = Standing(commit=task.base, tree=base.tree if base else "", score=part.base_score, passed=passed)
    return Chosen(night=night, task=task, picks=picks, base=start, base_verdict=base)


def _task(entries: Sequence[Entry], told: Report, wish: Wish) -> Task:
    tasks = {entry.body.task.name: entry.body.task for entry in entries if isinstance(entry.body, events.TaskAdded)}
    of_loops = {loop.id: loop.task for loop in told.loops}
    for loop in wish.loops:
        if loop not in (BEST, ALL, *of_loops):
            raise NothingRunning(f"no loop named {loop!r}; there are: {', '.join(list(of_loops)[:NAMED])}")
    meant = {wish.task} if wish.task else {of_loops[loop] for loop in wish.loops if loop in of_loops} or set(tasks)
    if len(meant) != 1:
        raise UsageError(f"this night has several tasks; say which with --task: {', '.join(sorted(tasks))}")
    name = meant.pop()
    if name not in tasks:
        raise UsageError(f"no task named {name!r}; there are: {', '.join(sorted(tasks))}")
    return tasks[name]


def _picks(loops: Sequence[LoopPart], task: Task, wish: Wish) -> tuple[Pick, ...]:
    verified = bool(task.verifier.command)
    named = [loop for loop in loops if loop.id in wish.loops]
    if not verified and (not named or len(named) != len(wish.loops)):
        raise UsageError(f"the task {task.name} has no verifier, so nobody knows what is best: name a loop")
    wanted = loops if {BEST, ALL} & set(wish.loops) else named
    commits = {loop.id: loop.best_commit if verified else loop.head for loop in wanted}
    picks = [
        Pick(loop=loop.id, commit=commit, score=loop.best_score)
        for loop in wanted
        if (commit := commits[loop.id]) and commit != task.base
    ]
    if not picks:
        who = "no loop" if {BEST, ALL} & set(wish.loops) else ", ".join(loop.id for loop in named)
        raise NothingRunning(f"{who} has a {'verified commit' if verified else 'commit of its own'} in this night")
    order = ranked(picks, task.verifier)
    return tuple(order[:1] if BEST in wish.loops else order)


def _verdicts(entries: Sequence[Entry]) -> Iterator[Verdict]:
    return (entry.body.verdict for entry in reversed(entries) if isinstance(entry.body, events.VerdictGiven))


@dataclass(frozen=True, kw_only=True)
class Taker:
    """Does it. ``say`` gets a line for a person who waits; ``environ`` is the caller's."""

    place: Place
    chosen: Chosen
    wish: Wish
    environ: Mapping[str, str]
    say: Callable[[str], None]
    id: str = field(default_factory=lambda: f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{secrets.token_hex(2)}")

    def preview(self) -> list[str]:
        """Return a line for each commit that would be tried."""
        workshop, base = self._workshop(), self.chosen.task.base
        return [_shown(pick, workshop.changes(base, pick.commit)) for pick in self.chosen.picks]

    def take(self) -> Outcome:
        """Verify, then land what gains. Raises UsageError, GitError; then nothing has changed."""
        checkout = describe_repo(self.chosen.task.repository)
        self._refuse_unready(checkout)
        workshop = self._workshop()
        onto = workshop.fetch_head(checkout) if self.wish.how == "merge" else self.chosen.task.base
        start, tried = self._verified(workshop, onto)
        standing = tried[-1].standing
        if standing.commit == start.commit:
            return Outcome(start=start, tried=tried, taken=None)
        where, patch = self._land(checkout, workshop, start.commit, standing.commit, tried)
        taken = self._taken(checkout, start, standing, tried, where)
        takenfile.add(self.place.night(self.chosen.night), taken)
        return Outcome(start=start, tried=tried, taken=taken, patch=patch)

    def _workshop(self) -> Workshop:
        workshop = Workshop(NightRepository(self.chosen.task.night_repository))
        workshop.require()
        return workshop

    def _refuse_unready(self, checkout: Checkout) -> None:
        """Refuse what could not be landed before a verifier works for it, perhaps for an hour."""
        if self.wish.how == "patch":
            _refuse_patch(self.wish.where)
        elif self.wish.how == "branch" and (self.wish.where or len(self.chosen.picks) == 1):
            rescued.refuse_branch(checkout, self._branch([pick.loop for pick in self.chosen.picks]))
        if self.wish.how != "merge":
            return
        if checkout.mid_operation:
            raise UsageError(f"a {checkout.mid_operation} is open in {checkout.toplevel}: finish or abort it first")
        if checkout.branch is None:
            raise UsageError(f"no branch is checked out in {checkout.toplevel}: `git switch` to the one to merge into")
        changed = taking.changed_files(checkout)
        if changed:
            raise UsageError(
                f"{checkout.toplevel} has uncommitted changes in {', '.join(changed[:3])}"
                f"{' …' if len(changed) > 3 else ''}: commit or stash them, "
                "or take without --merge, which makes a branch"
            )

    def _verified(self, workshop: Workshop, onto: str) -> tuple[Standing, tuple[Tried, ...]]:
        task = replace(self.chosen.task, base=onto)  # protected paths are the person's own, as they are now
        if not task.verifier.command:
            return self._unverified(workshop, onto)
        with self._verifiers() as verifiers:
            bench = _Bench(verifiers=verifiers, task=task, say=self.say)
            start, base = self._start(workshop, onto, bench)
            message = f"Take {{loop}} of ralphd's night {self.chosen.night}"
            means = Means(
                join=lambda commit, picks: workshop.join(commit, picks, message),
                judge=lambda joined, picks: bench.judge(joined, picks, base),
                verifier=task.verifier,
            )
            return start, tuple(stack(start, self.chosen.picks, means, batch=self.wish.batch))

    def _start(self, workshop: Workshop, onto: str, bench: _Bench) -> tuple[Standing, Verdict | None]:
        """Say what is to be beaten: the night's own start, or what the person has checked out by now."""
        if onto == self.chosen.task.base and self.chosen.base_verdict is not None:
            return self.chosen.base, self.chosen.base_verdict
        tree = workshop.tree_of(onto)
        verdict = bench.judge(Joined(commit=onto, tree=tree), (), None)
        return Standing(commit=onto, tree=tree, score=verdict.score, passed=verdict.passed), verdict

    def _unverified(self, workshop: Workshop, onto: str) -> tuple[Standing, tuple[Tried, ...]]:
        if len(self.chosen.picks) != 1:
            raise UsageError("without a verifier nobody can tell whether several loops' work goes together: name one")
        (pick,) = self.chosen.picks
        start = Standing(commit=onto, tree=workshop.tree_of(onto), score=None, passed=False)
        joined = workshop.join(onto, [pick], f"Take {pick.loop} of ralphd's night {self.chosen.night}")
        if joined.conflicts:
            why = f"conflicts with what is checked out in {', '.join(joined.conflicts[:3])}"
            return start, (Tried(loops=(pick.loop,), kept=False, why=why, standing=start, conflicts=joined.conflicts),)
        after = Standing(commit=joined.commit, tree=joined.tree, score=None, passed=False)
        return start, (
            Tried(loops=(pick.loop,), kept=True, why="unverified: the task has no verifier", standing=after),
        )

    @contextlib.contextmanager
    def _verifiers(self) -> Iterator[Verifiers]:
        nonce = secrets.token_hex(16)
        processes = LoopProcesses(clock=time.monotonic, wait=time.sleep)
        folder = os.path.join(self.place.night(self.chosen.night), "takes", self.id)
        os.makedirs(folder, mode=0o700)
        verifiers = Verifiers(
            folder,
            (*shipped.LEAN_PYTHON, shipped.GUARDED),
            {**base_environment(self.environ), "RALPHD_NONCE": nonce},
            lambda: processes.end_leftovers([nonce]),
        )
        try:
            yield verifiers
        finally:
            verifiers.close()
            shutil.rmtree(os.path.join(folder, "benches"), ignore_errors=True)  # the outputs stay, as evidence

    def _land(
        self, checkout: Checkout, workshop: Workshop, start: str, commit: str, tried: tuple[Tried, ...]
    ) -> tuple[str, bytes]:
        """Bring the commit over; returns the branch's name or the patch's path, and the patch if nobody wrote it."""
        if self.wish.how == "patch":
            return self.wish.where, self._write_patch(workshop.patch(start, commit))
        taking.bring(checkout, workshop, commit, f"refs/ralphd/taken/{self.chosen.night}/{self.id}")
        if self.wish.how == "merge":
            taking.move_forward(checkout, commit)
            return checkout.branch or "", b""
        kept = [loop for one in tried if one.kept for loop in one.loops]
        name = self._branch(kept)
        rescued.make_branch(checkout, name, commit)
        return name, b""

    def _branch(self, loops: Sequence[str]) -> str:
        return self.wish.where or f"take-{self.chosen.night}-{loops[0] if len(loops) == 1 else f'{len(loops)}-loops'}"

    def _write_patch(self, patch: bytes) -> bytes:
        if self.wish.where == "-":
            return patch
        with open(self.wish.where, "xb") as file:
            file.write(patch)
        return b""

    def _taken(
        self, checkout: Checkout, start: Standing, standing: Standing, tried: tuple[Tried, ...], where: str
    ) -> Taken:
        return Taken(
            id=self.id,
            at=time.time(),
            task=self.chosen.task.name,
            loops=tuple(loop for one in tried if one.kept for loop in one.loops),
            commit=standing.commit,
            onto=start.commit,
            how=self.wish.how,
            where=where,
            repository=checkout.toplevel,
            score=standing.score,
            verified=bool(self.chosen.task.verifier.command),
        )


@dataclass(frozen=True, kw_only=True)
class _Bench:
    verifiers: Verifiers
    task: Task
    say: Callable[[str], None]

    def judge(self, joined: Joined, picks: Sequence[Pick], base: Verdict | None) -> Verdict:
        names = " + ".join(pick.loop for pick in picks) or "what is checked out"
        self.say(f"verifying {names} ({joined.commit[:12]}) in a clean place")
        loop = picks[-1].loop if picks else ""
        candidate = Candidate(
            task=self.task.name, loop=loop, generation=0, trajectory=0, commit=joined.commit, tree=joined.tree
        )
        return self.verifiers.judge(self.task, candidate, base)


def undo(place: Place, night: str) -> Taken:
    """Undo the newest take that isn't undone yet. Raises NothingRunning or UsageError; then nothing has changed."""
    open_ = [taken for taken in takenfile.read(place.night(night)) if taken.undone_at is None]
    if not open_:
        raise NothingRunning(f"nothing was taken of night {night} that isn't undone already")
    landed = [taken for taken in open_ if taken.how != "patch"]  # a patch has changed nothing in the repository
    if not landed:
        where = open_[-1].where if open_[-1].where != "-" else "standard output"
        raise UsageError(f"a patch was written to {where}; `git apply -R` undoes it where it was applied")
    taken = landed[-1]
    checkout = describe_repo(taken.repository)
    if taken.how == "merge":
        if checkout.branch != taken.where:
            raise UsageError(
                f"{taken.where} is not checked out in {taken.repository}: `git switch {taken.where}` first"
            )
        taking.move_back(checkout, taken.commit, taken.onto)
    else:
        taking.delete_branch(checkout, taken.where, taken.commit)
    undone = replace(taken, undone_at=time.time())
    takenfile.add(place.night(night), undone)
    return undone


def _refuse_patch(path: str) -> None:
    folder = os.path.dirname(path) or "."
    if path == "-":
        return
    if os.path.lexists(path):
        raise UsageError(f"{path} exists already, and stays as it is: name another file")
    if not os.path.isdir(folder):
        raise UsageError(f"the patch can't be written: there is no folder {folder}; make it, or name another file")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(f"the patch can't be written: {folder} can't be written to; name another file")


def _shown(pick: Pick, changes: tuple[int, int, int]) -> str:
    files, added, removed = changes
    score = "no score" if pick.score is None else f"verified at {pick.score:g} in the night"
    return f"{pick.loop} {pick.commit[:12]}: {score}; {files} file{'' if files == 1 else 's'}, +{added} -{removed}"
