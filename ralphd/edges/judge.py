"""Run a verifier over a candidate in a bench of its own, under limits, and read the score."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from queue import SimpleQueue

from ralphd.core import scoring
from ralphd.core.errors import GitError
from ralphd.core.model import Candidate, Task, Verdict
from ralphd.core.outcomes import Kind
from ralphd.edges.bench import Bench, Prepared
from ralphd.edges.night_repository import NightRepository

OUTPUT_BYTES = 16 << 20  # of a verifier's own output, kept for a person; what it says last is what counts
SCORED_BYTES = 1 << 20  # of that output's end, searched for a score
FILE_BYTES = 64 << 20  # the largest score file that is read
SETUP_SECONDS = 3600.0  # a setup may build a whole toolchain; it still ends some day
GUARD_PATIENCE_S = 60.0  # past the limit: then the guard itself was stopped or killed by what it guards


@dataclass(frozen=True, kw_only=True)
class Run:
    """How one command in a bench ended. ``kind``: the trouble, if any. ``code``: its exit status, else None.

    ``cut_off``: nobody knows how it would have ended, for its guard was killed or told to stop.
    """

    code: int | None
    kind: Kind | None
    why: str
    output: str
    cut_off: bool = False


class Verifiers:
    """The working default of ports.Judge: for each task as many benches as it has slots, made when first needed.

    ``guarded`` is the argv that runs a command under limits (``ralphd/pane/guarded.py`` says how); ``environment`` is
    what verifiers get, and carries a nonce; ``end_leftovers`` ends whatever carries it. Outputs are kept in
    ``<folder>/verdicts/``.
    """

    def __init__(
        self,
        folder: str,
        guarded: Sequence[str],
        environment: Mapping[str, str],
        end_leftovers: Callable[[], object] = int,
    ) -> None:
        self._folder = folder
        self._guarded = tuple(guarded)
        self._environment = dict(environment)
        self._end_leftovers = end_leftovers
        self._benches: dict[str, SimpleQueue[Bench | int]] = {}
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._closing = False
        os.makedirs(os.path.join(folder, "verdicts"), mode=0o700, exist_ok=True)

    def judge(self, task: Task, candidate: Candidate, base: Verdict | None) -> Verdict:
        started = time.monotonic()
        with self._bench(task) as bench:
            verdict = self._judge(task, candidate, base, bench)
        return replace(verdict, seconds=time.monotonic() - started)

    def close(self) -> None:
        """End the runs under way; each comes back as verify.failed_to_run. Nothing of any run lives on."""
        with self._lock:
            self._closing = True
            for run in self._running:
                run.terminate()
        self._end_leftovers()

    def _judge(self, task: Task, candidate: Candidate, base: Verdict | None, bench: Bench) -> Verdict:
        verdict = Verdict(
            task=task.name,
            loop=candidate.loop,
            commit=candidate.commit,
            tree=candidate.tree,
            score=None,
            passed=False,
        )
        try:
            tree = candidate.tree or NightRepository(task.night_repository).tree_of(candidate.commit)
            verdict = replace(verdict, tree=tree)
            trouble = self._set_up(task, bench)
            prepared = bench.prepare(candidate.commit, task.verifier.protect, task.base)
        except (GitError, OSError) as error:
            why = f"the bench can't be made ready: {error}"
            return replace(verdict, kind=Kind.VERIFY_FAILED, why=why, cut_off=True)
        if trouble is not None:
            # A setup runs on the base, so it says nothing of a candidate.
            cut_off = trouble.cut_off or bool(candidate.loop)
            return replace(
                verdict, kind=trouble.kind, why=f"setup: {trouble.why}", output=trouble.output, cut_off=cut_off
            )
        return self._run_and_score(task, candidate, base, prepared, verdict)

    def _run_and_score(
        self, task: Task, candidate: Candidate, base: Verdict | None, prepared: Prepared, verdict: Verdict
    ) -> Verdict:
        verifier = task.verifier
        run = self._run(verifier.command, prepared.tree, verifier.seconds, verifier.memory_bytes, candidate.commit)
        verdict = replace(verdict, output=run.output, tampered=prepared.tampered)
        if run.code is None or run.kind is not None:
            return replace(verdict, kind=run.kind or Kind.VERIFY_FAILED, why=run.why, cut_off=run.cut_off)
        tests = None
        if base is not None and base.counts is not None:
            tests = base.counts["tests"] - base.counts["skipped"]
        text = _end_of(run.output).decode("utf-8", "replace")
        score = scoring.score(verifier, run.code, text, lambda path: _read(prepared.tree, path), base_tests=tests)
        kind = None if score.value is not None else Kind.VERIFY_FAILED
        why, passed = score.why, score.passed
        if prepared.tampered:
            kind, passed = Kind.TAMPERED, False
            why = f"changes protected paths ({', '.join(prepared.tampered[:5])}); {why}"
        return replace(verdict, score=score.value, passed=passed, counts=score.counts, why=why, kind=kind)

    def _set_up(self, task: Task, bench: Bench) -> Run | None:
        """Run the task's setup once in this bench; returns how it failed, or None."""
        if not task.verifier.setup or bench.is_saved:
            return None
        prepared = bench.prepare(task.base, task.verifier.protect, task.base)
        run = self._run(task.verifier.setup, prepared.tree, SETUP_SECONDS, task.verifier.memory_bytes, "setup")
        if run.code != 0:
            return replace(run, kind=run.kind or Kind.VERIFY_FAILED, why=run.why or f"exit status {run.code}")
        bench.save()
        return None

    def _run(self, command: str, tree: str, seconds: float, memory_bytes: int, name: str) -> Run:
        output = os.path.join(self._folder, "verdicts", f"{name}-{time.time_ns()}.log")
        result = f"{output}.json"
        limits = ("--seconds", f"{seconds:g}", "--memory", str(memory_bytes), "--output", str(OUTPUT_BYTES))
        files = ("--save", output, "--result", result)
        # When the daemon is killed nobody waits for this run any more, and a new daemon wants the bench.
        mine = ("--parent", str(os.getpid()))
        argv = [*self._guarded, *limits, *files, *mine, "--", "/bin/sh", "-c", command]
        with self._lock:
            if self._closing:
                return Run(code=None, kind=None, why="the night is ending", output="", cut_off=True)
            process = subprocess.Popen(
                argv,
                cwd=tree,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
            self._running.add(process)
        said = _wait(process, seconds + GUARD_PATIENCE_S)
        with self._lock:
            self._running.discard(process)
        return _ending(process.returncode, result, output, said)

    @contextmanager
    def _bench(self, task: Task) -> Iterator[Bench]:
        with self._lock:
            free = self._benches.get(task.name)
            if free is None:
                free = self._benches[task.name] = SimpleQueue()
                for number in range(task.verifier.slots):
                    free.put(number)
        place = free.get()
        try:
            if isinstance(place, int):
                at = os.path.join(self._folder, "benches", f"{task.name}-{place}")
                os.makedirs(at, mode=0o700, exist_ok=True)
                place = Bench(NightRepository(task.night_repository), at)
            yield place
        finally:
            free.put(place)


def _wait(guard: subprocess.Popen[bytes], seconds: float) -> bytes:
    """Wait for a guard, which ends by itself unless what it guards stopped it; return what it said."""
    try:
        return guard.communicate(timeout=seconds)[1]
    except subprocess.TimeoutExpired:
        guard.kill()
        return guard.communicate()[1]


_LIMITS = {"time": Kind.VERIFY_TIMEOUT, "memory": Kind.VERIFY_MEMORY}


def _ending(returncode: int, result: str, output: str, said: bytes) -> Run:
    """Read how the guarded command ended. The result file of a guard that was killed may be the command's forgery."""
    try:
        with open(result, "rb") as file:
            told = json.loads(file.read(1 << 16))
        os.unlink(result)
    except (OSError, ValueError):
        told = None
    if returncode < 0 or not isinstance(told, dict):
        ended = signal.Signals(-returncode).name if returncode < 0 else f"exit status {returncode}"
        why = f"the verifier's guard ended with {ended}: {said.decode('utf-8', 'replace').strip()[-200:]}"
        return Run(code=None, kind=Kind.VERIFY_FAILED, why=why, output=output, cut_off=True)
    limit = told.get("limit")
    if limit:
        why = f"the verifier passed its limit of {limit}: {told.get('figure'):g} of {told.get('allowed'):g}"
        return Run(code=None, kind=_LIMITS.get(limit, Kind.VERIFY_FAILED), why=why, output=output)
    status, signalled = told.get("status"), told.get("signal")
    if told.get("stopped") is not None:
        return Run(code=None, kind=Kind.VERIFY_FAILED, why="the verifier was stopped", output=output, cut_off=True)
    if not isinstance(status, int):
        return Run(code=None, kind=Kind.VERIFY_FAILED, why=f"the verifier died of signal {signalled}", output=output)
    if status in {126, 127}:
        why = f"the verifier can't run (exit status {status}): {_last_line(output)}"
        return Run(code=status, kind=Kind.VERIFY_FAILED, why=why, output=output)
    return Run(code=status, kind=None, why="", output=output)


def _last_line(path: str) -> str:
    lines = _end_of(path)[-400:].decode("utf-8", "replace").strip().splitlines()
    return "".join(c for c in lines[-1] if c.isprintable()) if lines else "it said nothing"


def _end_of(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - SCORED_BYTES))
            return file.read(SCORED_BYTES)
    except OSError:
        return b""


def _read(tree: str, path: str) -> bytes | None:
    """Read a score file that the candidate's own code wrote: a plain file inside the tree, of sensible size."""
    try:
        real = os.path.realpath(os.path.join(tree, path))
        if not real.startswith(os.path.realpath(tree) + os.sep):
            return None
        fd = os.open(real, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):  # a name that no file can have
        return None
    with os.fdopen(fd, "rb") as file:
        info = os.fstat(fd)
        return file.read(FILE_BYTES) if os.path.isfile(f"/proc/self/fd/{fd}") and info.st_size <= FILE_BYTES else None
