"""A night in which nothing is wrong, though much of it looks so: nobody is ended, reset, paused or told anything."""

from __future__ import annotations

import pytest
from support.cast import bodies, cast, kinds

from ralphd.core.events import ActionIntended, VerdictGiven

QUIET_S = 6
SILENT_S = 9  # longer than anybody may be quiet
# Counts lines, slowly: sessions of some loops are shorter than that.
TOML = f"""
[agent]
cli = "command"
program = "PROGRAM"
[limits]
quiet_seconds = {QUIET_S}
result_grace_seconds = {QUIET_S}
tool_seconds = 600
[night]
width = 6
[[task]]
name = "loop"
[task.verify]
command = "sleep 3; wc -l <done.txt"
score = 'regex:(\\d+)'
"""
ESSAY = """\
API Error: 529 Overloaded. You've hit your session limit, resets 7:20pm. Rate limit reached: too many requests.
Traceback (most recent call last): BaseException, TimeoutError, fatal: unable to create index.lock: File exists.
Please run /login: invalid api key. The task is complete; all tests pass. I am stuck and can't go on.
"""
LOOPS = {
    "burner": f"""
end=$((SECONDS + {SILENT_S}))
while [ $SECONDS -lt $end ]; do :; done
echo x >>done.txt; commit burnt
""",
    "writer": f"""
end=$((SECONDS + {SILENT_S}))
while [ $SECONDS -lt $end ]; do seq 3000 >built.txt; sleep 0.5; done
echo x >>done.txt; commit written
""",
    "caller": f"""
"$RALPHD_GUARD" 'sleep {SILENT_S}'
echo x >>done.txt; commit called
""",
    "parent": f"""
(end=$((SECONDS + {SILENT_S})); while [ $SECONDS -lt $end ]; do :; done) &
wait
echo x >>done.txt; commit waited
""",
    "same": """
sleep 1
echo x >>done.txt; commit wip
""",
    "essayist": f"""
printf '%s' '{ESSAY.replace("'", "'" + chr(92) + "''")}' | tee -a essay.txt | sed 's/"//g; s/.*/{{"type": "text", "text": "&"}}/'
cat essay.txt | tail -n 3 >&2
echo x >>done.txt; commit "An essay on errors: timeout, exception, rate limit"
cat essay.txt | tail -n 3
sleep 1
""",
}
NAMES = {f"loop-{number}": part for number, part in enumerate(LOOPS, start=1)}


@pytest.mark.slow
def test_healthy_loops_are_left_alone_whatever_they_look_like(tmp_path):
    parts = {name: LOOPS[part] for name, part in NAMES.items()}
    with cast(tmp_path, parts, TOML, {"done.txt": ""}) as box:
        box.start()
        for name, part in NAMES.items():
            box.wait_until(lambda name=name: len(kinds(box, name)) >= 2, f"two sessions of {part}")
        box.wait_until(lambda: {entry.loop for entry in box.journal(VerdictGiven)} >= set(NAMES), "verdicts on all")
        box.stop()
        for name, part in NAMES.items():
            ends = kinds(box, name)
            assert set(ends[:-1]) == {"done.next"}, part
            assert ends[-1] in {"done.next", "done.stopped"}, part  # the night's end may cut the last one
            assert not bodies(box, name, "AttemptEnded"), part
            assert not bodies(box, name, "Repaired"), part
            assert not bodies(box, name, "Held"), part
        decided = {entry.body.type for entry in box.journal(ActionIntended)}
        assert decided <= {"SpawnRunner", "Verify", "StopLoop", "EndNight"}
        assert {entry.generation for entry in box.journal() if entry.loop} <= {0, 1}
        assert all(row["submissions"] > 0 for row in box.report()["loops"])
