"""What a person asks of the running night, vetted by the same policy as everything else."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ralphd.core import actions, events, plan, policy
from ralphd.core.actions import Action, Decision
from ralphd.core.exchange import Want
from ralphd.core.quoting import QUOTED_CHARS, quoted
from ralphd.core.spending import spending
from ralphd.core.state import NightState
from ralphd.core.status import DaemonFacts, status
from ralphd.daemon.inbox import Asked
from ralphd.daemon.tick import Night

Reply = Callable[[dict[str, object], bool], None]
WRONG_USAGE, NOTHING = 2, 3


@dataclass(kw_only=True)
class Desk:
    """Answers requests in the main thread. ``leavers`` wait for the end of the night; ``hide`` takes secrets out."""

    night: Night
    facts: Callable[[], DaemonFacts]
    hide: Callable[[str], str] = str
    leavers: list[Reply] = field(default_factory=list)

    def answer(self, asked: Asked) -> None:
        verb = asked.request.get("verb")
        match verb:
            case "status":
                asked.reply({"ok": True, "code": 0, "data": self.status()}, True)
            case "pause" | "resume" | "restart":
                self._steer(asked, str(verb))
            case "scale":
                self._scale(asked)
            case "repair":
                self._repair(asked)
            case "stop":
                self._stop(asked)
            case _:
                refuse(asked.reply, f"unknown request {str(verb)[:40]!r}", WRONG_USAGE)

    def status(self) -> dict[str, object]:
        night = self.night
        loops = {name: night.sight.now(name) for name in night.state.loops}
        told = status(
            night.state,
            loops,
            len(night.doer.queue.running),
            self.facts(),
            night.world.clock.now(),
            spent=spending(night.state, night.world.price),
        )
        return self._hidden(told)

    def _hidden(self, told: dict[str, Any]) -> dict[str, object]:
        """Take secrets out of what agents said: the journal's rows are clean, what we hold in memory isn't."""
        for row in told["loops"]:
            row["note"] = self.hide(row["note"])
        told["daemon"]["trouble"] = [self.hide(line) for line in told["daemon"]["trouble"]]
        return told

    def say_goodbye(self, data: dict[str, object]) -> None:
        for reply in self.leavers:
            reply(data, True)
        self.leavers.clear()

    def _steer(self, asked: Asked, verb: str) -> None:
        names = self._names(asked)
        proposals = [_proposal(self.night.state, verb, name, asked.request) for name in names]
        self._propose(asked, proposals, actions.ASKED)

    def _repair(self, asked: Asked) -> None:
        note = str(asked.request.get("note") or "").strip()
        if len(note) > QUOTED_CHARS:
            words = (
                f"a note may have {QUOTED_CHARS} characters, this one has {len(note)}; put it into a file and name it"
            )
            refuse(asked.reply, words, WRONG_USAGE)
            return
        template, slots = ("repair-operator", {"note": quoted(note)}) if note else ("repair-look", {})
        proposals: list[Action] = [
            actions.Tell(loop=name, template=template, slots=slots, now=True) for name in self._named(asked)
        ]
        self._propose(asked, proposals, actions.ASKED)

    def _stop(self, asked: Asked) -> None:
        now = asked.request.get("now") is True
        if asked.request.get("loops"):
            proposals: list[Action] = [actions.StopLoop(loop=name, now=True) for name in self._names(asked)]
            self._propose(asked, proposals, actions.ASKED)
            return
        if self.night.state.ending and not now:
            asked.reply({"ok": True, "progress": "the night is ending already"}, False)
        else:
            self.night.intend([Decision(action=actions.EndNight(now=now), why=actions.ASKED, by="operator")])
            alive = sum(self.night.sight.alive.values())
            asked.reply({"ok": True, "progress": f"ending {alive} running {'loop' if alive == 1 else 'loops'}"}, False)
        self.leavers.append(asked.reply)

    def _scale(self, asked: Asked) -> None:
        """Run so many loops at once; what is missing is added to the night first."""
        width, state, supervisor = asked.request.get("width"), self.night.state, self.night.world.config.supervisor
        if not isinstance(width, int) or isinstance(width, bool):
            refuse(asked.reply, "scale takes a number of loops", WRONG_USAGE)
            return
        bounds = policy.Bounds(least=supervisor.width_min, most=supervisor.width_max)
        if refusal := policy.vet(state, actions.Scale(width=width), bounds):
            refuse(asked.reply, refusal, WRONG_USAGE)
            return
        there = [loop.loop for loop in state.loops.values() if loop.want is not Want.STOPPED]
        tasks = [name for name, task in state.tasks.items() if not task.done]
        known = [loop.loop for loop in state.loops.values()]
        new = plan.more_loops(known, tasks, max(0, width - len(there)), lambda: secrets.token_hex(16))
        self.night.record(self.night.entry(loop.id, events.LoopAdded(loop=loop)) for loop in new)
        self.night.intend([Decision(action=actions.Scale(width=width), why=actions.ASKED, by="operator")])
        data = {"width": width, "was": state.width, "new": [loop.id for loop in new]}
        asked.reply({"ok": True, "code": 0, "data": data}, True)

    def _propose(self, asked: Asked, proposals: list[Action], why: str) -> None:
        refusals = [refusal for action in proposals if (refusal := policy.vet(self.night.state, action))]
        if refusals or not proposals:
            refuse(asked.reply, "; ".join(refusals) or "every loop has been stopped for this night", NOTHING)
            return
        self.night.intend(Decision(action=action, why=why, by="operator") for action in proposals)
        asked.reply({"ok": True, "code": 0, "data": {"loops": [getattr(a, "loop", "") for a in proposals]}}, True)

    def _names(self, asked: Asked) -> list[str]:
        """Return the loops that are named, each once; all that were not stopped when none is."""
        return self._named(asked) or [
            name for name, loop in self.night.state.loops.items() if loop.want is not Want.STOPPED
        ]

    def _named(self, asked: Asked) -> list[str]:
        given = asked.request.get("loops")
        return list(dict.fromkeys(map(str, given))) if isinstance(given, list) else []


def _proposal(state: NightState, verb: str, name: str, request: dict[str, object]) -> Action:
    if verb == "pause":
        return actions.Pause(loop=name, now=request.get("now") is True)
    if verb == "resume":
        return actions.Resume(loop=name, now=request.get("now") is True)
    loop = state.loops.get(name)
    clean = request.get("clean") is True and loop is not None
    reset_to = (loop.best_commit or state.tasks[loop.loop.task].task.base) if loop is not None and clean else ""
    return actions.RestartLoop(loop=name, reset_to=reset_to)


def refuse(reply: Reply, error: str, code: int) -> None:
    reply({"ok": False, "error": error, "code": code}, True)
