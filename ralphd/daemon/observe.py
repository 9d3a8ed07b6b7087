"""Hear what the runners told, and look which of them live and where the branches stand."""

from __future__ import annotations

from dataclasses import dataclass, field

from ralphd.core import actions, records
from ralphd.core.errors import EdgeError
from ralphd.core.events import Entry
from ralphd.core.policy import Head, LoopNow, Moved, Strain
from ralphd.core.state import LoopState, NightState
from ralphd.daemon.world import World

# Branches move only while somebody commits; without news from a runner one look in this many seconds finds the rest.
HEADS_EVERY_S = 3.0


@dataclass(kw_only=True)
class Sight:
    """What was seen last, kept between passes. None of it is in the journal: a new daemon looks again."""

    heads: dict[str, Head] = field(default_factory=dict)
    heads_at: float = float("-inf")
    alive: dict[str, bool] = field(default_factory=dict)
    spawns: dict[str, int] = field(default_factory=dict)
    spawned_at: dict[str, float] = field(default_factory=dict)
    silent: set[str] = field(default_factory=set)  # loops with a new window out of which nothing has come yet
    last_seq: dict[str, int] = field(default_factory=dict)
    nonces: dict[str, str] = field(default_factory=dict)  # of each loop's newest session
    servers: dict[str, str] = field(default_factory=dict)  # the tmux server that each loop came up in
    server: str = ""
    refused: int = 0
    suspects: dict[str, str] = field(default_factory=dict)  # loop -> where its branch is, but not by its worktree
    moved: dict[str, Moved] = field(default_factory=dict)  # the same, seen twice
    strains: tuple[Strain, ...] = ()  # what the machine is short of
    heard: bool = False  # at least once: before, who lives is not known

    def now(self, loop: str) -> LoopNow:
        return LoopNow(
            alive=self.alive.get(loop, False),
            head=self.heads.get(loop),
            server_lives=bool(self.server) and self.servers.get(loop, self.server) == self.server,
            spawns=self.spawns.get(loop, 0),
            spawned_at=self.spawned_at.get(loop, 0.0),
            moved=self.moved.get(loop),
        )


def hear(world: World, state: NightState, sight: Sight, *, listen: bool = True) -> list[Entry]:
    """Return what the runners told since the last time; note in ``sight`` who lives.

    Without ``listen`` their records are left where they are: they keep, and are read another time.
    """
    news: list[Entry] = []
    for loop in state.loops.values():
        # before its records: a runner that is gone now has written all it had to say
        sight.alive[loop.loop.id] = world.folders.alive(loop.loop.folder)
        if not listen:
            continue
        try:
            told = world.folders.told(loop.loop, state.id, sight.last_seq.get(loop.loop.id, 0))
        except OSError as error:  # what the others told has been read, and is read once
            world.log.warning("records can't be read", loop=loop.loop.id, error=str(error))
            continue
        genuine = _genuine(loop, told.entries, sight)
        sight.refused += told.refused + len(told.entries) - len(genuine)
        news += genuine
        if any(isinstance(entry.body, records.TrajectoryStarted) for entry in genuine):
            sight.spawns[loop.loop.id] = 0
        if genuine:
            sight.silent.discard(loop.loop.id)
    sight.heard = True
    return news


def look(world: World, state: NightState, sight: Sight, *, urgent: bool) -> None:
    """Note in ``sight`` which tmux server runs and where the branches are; ``urgent``: now, not every few seconds."""
    _see_server(world, state, sight)
    _see_heads(world, state, sight, urgent=urgent)


def _see_server(world: World, state: NightState, sight: Sight) -> None:
    """Know which tmux server each living loop is in, so that a server's end is not taken for a closed window."""
    gone = any((loop.left or loop.runner_up) and not sight.alive[name] for name, loop in state.loops.items())
    fresh = [name for name in state.loops if sight.alive[name] and name not in sight.servers]
    if not gone and not fresh:
        return
    try:
        sight.server = world.panes.server()
    except EdgeError as error:
        world.log.warning("the tmux server doesn't answer", error=str(error))
        return
    sight.servers.update(dict.fromkeys(fresh, sight.server))


def _genuine(loop: LoopState, told: tuple[Entry, ...], sight: Sight) -> list[Entry]:
    """Drop ends that carry another nonce than their trajectory's start: forged, or of a session long gone.

    The start may have been heard and not be stored yet, so ``loop`` alone doesn't know its nonce.
    """
    nonce = sight.nonces.get(loop.loop.id, loop.nonce)
    genuine = []
    for entry in told:
        if isinstance(entry.body, records.TrajectoryStarted):
            nonce = entry.nonce
        if isinstance(entry.body, (records.TrajectoryEnded, records.AttemptEnded)) and entry.nonce != nonce:
            continue
        genuine.append(entry)
    sight.nonces[loop.loop.id] = nonce
    return genuine


def _see_heads(world: World, state: NightState, sight: Sight, *, urgent: bool) -> None:
    if not urgent and world.clock.monotonic() < sight.heads_at + HEADS_EVERY_S:
        return
    sight.heads_at = world.clock.monotonic()
    for task in state.tasks.values():
        try:
            heads = world.repositories.heads(task.task, state.id)
        except EdgeError as error:
            world.log.warning("the night repository can't be read", task=task.task.name, error=str(error))
            continue
        for name, head in heads.items():
            if name in state.loops:
                _see_head(world, state, sight, state.loops[name], head)


def _see_head(world: World, state: NightState, sight: Sight, loop: LoopState, head: Head) -> None:
    """Take a tip for its loop's work, unless somebody else put the branch there: then it stays where it was seen last.

    That must be seen twice: git moves a branch a moment before it writes so into the worktree's log.
    """
    name = loop.loop.id
    left_at = _left_at(world, state, sight, loop, head.commit)
    lasting = head.commit in loop.returned and not _returning(state, name)  # it could not be put back, or came again
    if lasting or not left_at:
        sight.heads[name] = head
        sight.suspects.pop(name, None)
        sight.moved.pop(name, None)
    elif sight.suspects.get(name) == head.commit:
        sight.moved[name] = Moved(found=head.commit, to=left_at)
    else:
        sight.suspects[name] = head.commit


def _left_at(world: World, state: NightState, sight: Sight, loop: LoopState, found: str) -> str:
    """Return where the loop left its branch if others took it from there to ``found``, else an empty string."""
    seen = sight.heads.get(loop.loop.id)
    task = state.tasks[loop.loop.task].task
    for known in {loop.tip, seen.commit if seen else ""} - {"", found}:
        if world.repositories.moved_by_others(task, loop.loop, known, found):
            return known
    return ""


def _returning(state: NightState, loop: str) -> bool:
    kind = actions.ReturnBranch.__name__
    return any(intent.type == kind and intent.args.get("loop") == loop for intent in state.intents.values())
