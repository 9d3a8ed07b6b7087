"""`ralphd top` as its program runs it: a faked night, real keys, a real screen without a terminal."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest
from textual.widgets import Input

from ralphd.core.errors import NothingRunning
from ralphd.views.top_app import Source, Top

SIZE = (80, 24)
DEADLINE_S = 60.0


class FakeNight:
    """What the daemon would say. ``gone``: there is none; ``slow``: it doesn't answer until that is set."""

    def __init__(self, loops: int = 3) -> None:
        self.loops = [
            {"id": f"loop-{n}", "state": "running", "trajectory": 1, "score": None, "best_score": None,
             "last_outcome": None, "quiet_for_s": 1.0, "needs_person": False, "note": ""}
            for n in range(1, loops + 1)
        ]  # fmt: skip
        self.gone = ""
        self.slow: threading.Event | None = None
        self.asked: list[dict] = []
        self.attached: list[str] = []
        self.trouble: list[str] = []
        self.asked_on: set[str] = set()

    def status(self) -> dict:
        self.asked_on.add(threading.current_thread().name)
        if self.slow:
            self.slow.wait(DEADLINE_S)
        if self.gone:
            raise NothingRunning(self.gone)
        night = {"id": "2026-11-30-a", "state": "running", "started_at": "2026-11-30T22:00:00Z", "ends_at": None}
        loops = [dict(loop) for loop in self.loops]
        return {"night": night, "fleet": {"running": len(loops)}, "daemon": {"trouble": self.trouble}, "loops": loops}

    def act(self, request: dict) -> str:
        self.asked.append(request)
        if request["verb"] == "pause":
            for loop in self.loops:
                if loop["id"] in request["loops"]:
                    loop["state"] = "paused"
        return f"done: {request['verb']}"

    def source(self) -> Source:
        log = lambda name: [f"{name} says [red]hello[/red]", "\x1b[2Jand \u202egoes on"]  # noqa: E731 -- a stub
        return Source(status=self.status, log=log, act=self.act, attach=self.attached.append)


def text_of(app: Top) -> str:
    """All that the screen shows, line by line."""
    lines = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in line) for line in lines)


async def until(pilot, ask, what: str = "") -> None:
    end = time.monotonic() + DEADLINE_S
    while not ask():
        assert pilot.app.is_running, what
        assert time.monotonic() < end, f"{what}\n{text_of(pilot.app)}"
        await pilot.pause(0.05)


def run(night: FakeNight, play, size=SIZE) -> None:
    async def scene() -> None:
        app = Top(night.source())
        async with app.run_test(size=size) as pilot:
            await play(app, pilot)

    asyncio.run(scene())


def test_it_shows_the_night_the_loops_a_log_and_its_keys():
    night = FakeNight()
    night.trouble = ["the [b]disk[/b] is nearly full"]

    async def play(app, pilot):
        await until(pilot, lambda: "loop-1 says" in text_of(app), "the log")
        text = text_of(app)
        assert "Night 2026-11-30-a running" in text
        assert "Needs you: the [b]disk[/b] is nearly full" in text
        assert "loop-1 says [red]hello[/red]" in text
        assert "and goes on" in text
        for name in ("loop-1", "loop-2", "loop-3", "last outcome", "note"):
            assert name in text, name
        keys = ("attach", "pause", "resume", "restart", "repair", "scale", "quit")
        await until(pilot, lambda: all(key in text_of(app).splitlines()[-1] for key in keys), "the keys")

    run(night, play)
    assert night.asked_on == {"top"}


def test_keys_act_on_the_loop_under_the_cursor_and_the_effect_is_seen():
    night = FakeNight()

    async def play(app, pilot):
        await until(pilot, lambda: "loop-3" in text_of(app))
        await pilot.press("down", "p")
        await until(pilot, lambda: "done: pause" in text_of(app), "the answer")
        assert night.asked == [{"verb": "pause", "loops": ["loop-2"]}]
        # It stands first now, and the cursor went with it.
        await until(pilot, lambda: app._shown.names[0] == "loop-2")
        assert app.chosen == "loop-2"
        await pilot.press("r")
        await until(pilot, lambda: night.asked[-1] == {"verb": "resume", "loops": ["loop-2"]})

    run(night, play)


def test_what_ends_or_tells_something_asks_first():
    night = FakeNight()

    async def play(app, pilot):
        await until(pilot, lambda: "loop-3" in text_of(app))
        await pilot.press("x")
        await until(pilot, lambda: "Restart loop-1?" in text_of(app))
        await pilot.press("n", "enter")
        await pilot.press("x", "escape")
        await pilot.press("n", *"go", "enter")
        await until(pilot, lambda: night.asked == [{"verb": "repair", "loops": ["loop-1"], "note": "go"}])
        await pilot.press("x", "y", "enter")
        await until(pilot, lambda: night.asked[-1] == {"verb": "restart", "loops": ["loop-1"]})
        await pilot.press("s", *"five", "enter")
        await until(pilot, lambda: "five is not a number of loops" in text_of(app))
        await pilot.press("s", *"5", "enter")
        await until(pilot, lambda: night.asked[-1] == {"verb": "scale", "width": 5})
        assert len(night.asked) == 3
        await pilot.press("a")
        await until(pilot, lambda: "can't be handed over" in text_of(app))
        await pilot.press("q")

    run(night, play)
    assert night.attached == []


def test_without_a_daemon_it_says_so_and_goes_on_when_there_is_one():
    night = FakeNight()
    night.gone = "no night runs; `ralphd start` begins one"

    async def play(app, pilot):
        await until(pilot, lambda: "No answer: no night runs" in text_of(app))
        assert "Asking again" in text_of(app)
        await pilot.press("p", "x", "n", "a", "down")  # with no loop there is nothing to act on
        assert night.asked == []
        night.gone = ""
        await until(pilot, lambda: "loop-3" in text_of(app))
        night.gone = "the daemon went away"
        await until(pilot, lambda: "the daemon went away" in text_of(app))
        assert "the last that was told" in text_of(app)
        assert "loop-3" in text_of(app)

    run(night, play)


def test_a_daemon_that_does_not_answer_holds_up_no_key():
    night = FakeNight()

    async def play(app, pilot):
        await until(pilot, lambda: "loop-3" in text_of(app))
        night.slow = threading.Event()
        app.watcher.hurry()
        await pilot.press("down", "down")
        assert app.chosen == "loop-3"
        await pilot.press("s")
        await until(pilot, lambda: app.screen.query(Input))
        night.slow.set()

    run(night, play)


@pytest.mark.parametrize("name", ["[red]x[/red]", "[@click=app.quit]x[/]", "\x1b]0;x\x07", "\u202eabc", "[/]", "$x"])
def test_a_hostile_name_or_note_is_only_text(name):
    night = FakeNight(2)
    night.loops[0] |= {"id": name, "note": name, "last_outcome": name, "needs_person": True}

    async def play(app, pilot):
        await until(pilot, lambda: "loop-2" in text_of(app))
        from ralphd.views.text import clean

        assert clean(name)[:10] in text_of(app)
        assert "\x1b" not in text_of(app)
        await pilot.press("p")
        await until(pilot, lambda: night.asked)

    run(night, play, size=(120, 30))


def test_of_five_hundred_loops_only_what_changed_is_drawn_again():
    night = FakeNight(512)
    drawn = []

    async def play(app, pilot):
        await until(pilot, lambda: len(app.rows.lines) == 512 and "loop-9 " in text_of(app), "all rows")
        rows = app.rows
        draw = rows.render_line
        rows.render_line = lambda y: (drawn.append(y), draw(y))[1]
        night.loops[7] |= {"trajectory": 2, "quiet_for_s": 1.0}
        night.loops[300] |= {"trajectory": 2}  # nobody sees it
        await until(pilot, lambda: rows.lines[7].split()[4] == "2" and drawn, "the new session")
        assert set(drawn) == {7}
        assert any(line.startswith("loop       state") for line in text_of(app).splitlines())  # not scrolled sideways
        await pilot.press("ctrl+end")
        await until(pilot, lambda: app.chosen == "loop-512", "the last row")
        await until(pilot, lambda: "loop-512" in text_of(app))

    run(night, play)


def test_the_cursor_is_moved_by_keys_and_the_mouse_and_stays_in_sight():
    night = FakeNight(100)

    async def play(app, pilot):
        await until(pilot, lambda: "loop-3 " in text_of(app))
        for keys, name in (
            (["up"], "loop-1"), (["down"] * 3, "loop-4"), (["end"], "loop-100"), (["down"], "loop-100"),
            (["home"], "loop-1"), (["pagedown"], ""), (["pageup"], "loop-1"), (["ctrl+end", "up"], "loop-99"),
        ):  # fmt: skip
            await pilot.press(*keys)
            assert app.chosen == name or not name
            await until(pilot, lambda: f"{app.chosen} " in text_of(app), "the chosen row")
        await pilot.press("home")
        await pilot.click(app.rows, offset=(3, 2))
        await until(pilot, lambda: app.chosen == "loop-3", "the row that was clicked")

    run(night, play)


def test_another_width_of_the_terminal_is_taken_up():
    night = FakeNight()
    night.loops[1]["note"] = "waits 20 s: inference.overloaded and so on and on"

    async def play(app, pilot):
        await until(pilot, lambda: "loop-3" in text_of(app))
        await pilot.press("down")
        assert "and so on and on" not in text_of(app).splitlines()[5]
        await pilot.resize_terminal(160, 30)
        row = lambda: [line for line in text_of(app).splitlines() if line.startswith("loop-2 ")]  # noqa: E731
        await until(pilot, lambda: row() and "and so on and on" in row()[0], "the whole note")
        assert app.chosen == "loop-2"

    run(night, play)
