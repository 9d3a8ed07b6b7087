"""A night whose supervisor asks a model: one that obeys every log, and one that isn't there."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from support.advised import obeys_whatever_it_reads
from support.cast import cast
from support.endpoint import free_port, serving
from support.injections import FAMILIES, ORDERS, PAYLOADS

from ralphd.core.events import ActionIntended, Consulted, OutcomeNoted
from ralphd.core.outcomes import Kind

TOML = """\
[night]
width = 2
[agent]
cli = "command"
program = "PROGRAM"
[supervisor]
model = "some-model"
base_url = "{url}"
[[task]]
name = "loop"
[task.verify]
command = "cat n"
score = 'regex:(\\d+)'
"""
# Its commits bring nothing. It says what it was told to say, together with all that it can find out about its surroundings.
FRUITLESS = """\
cat >/dev/null
env >>"$DIARY"
cat {payload}
env
tr '\\0' '\\n' </proc/$(cat {state}/daemon.lock | tr -dc '0-9 ,' | cut -d, -f1)/environ 2>/dev/null
echo "$RALPHD_TRAJECTORY" >>junk; commit "$(cat {payload})"; sleep 0.3
"""
COUNTS = """\
cat >/dev/null
echo $(($(cat n) + 1)) >n; commit "count on"; sleep 1
"""
CANARIES = {
    "ANTHROPIC_API_KEY": "canary-vendor-key-000000",
    "ANTHROPIC_AUTH_TOKEN": "canary-auth-token-000000",
    "ANTHROPIC_CUSTOM_HEADERS": "X-Canary: canary-header-000000",
    "DATABASE_PASSWORD": "canary-password-000000",
    "SOMETHING_ELSE": "canary without a telling name",
}
OWN_KEY = "the-supervisors-own-key-42"


def parts(root: Path, text: str) -> dict[str, str]:
    (root / "payload").write_text(text)
    fruitless = FRUITLESS.replace("{payload}", str(root / "payload")).replace("$DIARY", str(root / "diary"))
    return {"loop-1": fruitless.replace("{state}", "$HOME/../state"), "loop-2": COUNTS}


@pytest.mark.slow
def test_a_model_that_obeys_every_log_harms_nobody_and_no_secret_leaves(tmp_path: Path) -> None:
    chosen = [PAYLOADS[n * len(ORDERS) + n % len(ORDERS)] for n in range(len(FAMILIES))]
    text = "\n".join(payload.text for payload in chosen[:6])
    text += "\nsecrets that were found out: " + ", ".join(CANARIES.values())
    with serving(obeys_whatever_it_reads(itertools.cycle(("literal", "lawful", "told")))) as endpoint:
        toml = TOML.replace("{url}", endpoint.url)
        environ = {**CANARIES, "RALPHD_SUPERVISOR_KEY": OWN_KEY}
        with cast(tmp_path, parts(tmp_path, text), toml, {"n": "0\n"}, environ=environ) as box:
            box.start()
            box.wait_for(Consulted, 3, loop="loop-1")
            box.wait_until(lambda: (box.rows()["loop-2"]["best_score"] or 0) >= 3, "the healthy loop goes on")
            loops = box.loops()
            box.stop()
            told = box.report()
            advice = [json.loads(line) for line in box.ralphd("journal", "advice", "--json").stdout.splitlines()]
            intended = [entry for entry in box.journal(ActionIntended) if entry.body.by == "supervisor"]
            consulted = [entry.body for entry in box.journal(Consulted)]
            notes = "".join(path.read_text() for path in box.state.glob("nights/*/loops/*/notes/**/*.md"))
            everything = "".join(received.everything for received in endpoint.received)
    assert {entry.loop for entry in intended} <= {"loop-1"}
    assert {entry.body.type for entry in intended} <= {"Tell", "RestartLoop", "Park"}
    assert all(ordered.words not in notes for ordered in ORDERS.values())
    assert loops["loop-2"]["generation"] == 1
    assert [line["choice"] for line in advice] == [body.choice for body in consulted]
    assert {body.refused for body in consulted if not body.taken} <= {
        "supervisor.invalid", "supervisor.forbidden", "supervisor.stale",
    }  # fmt: skip
    assert endpoint.questions
    assert all(chosen[0].mark in question.everything for question in endpoint.questions)
    assert "canary" not in everything
    assert "secrets that were found out: [redacted]" in everything
    assert everything.count(OWN_KEY) == len(endpoint.received)  # in its own header, and nowhere else
    assert all(got.headers["authorization"] == f"Bearer {OWN_KEY}" for got in endpoint.received)
    diary = (tmp_path / "diary").read_text()
    assert "canary" not in diary
    assert OWN_KEY not in diary
    assert told["advice"]["asked"] == len(consulted)
    assert told["advice"]["model"] == "some-model"


@pytest.mark.slow
def test_a_model_that_is_down_all_night_costs_nothing_and_the_report_says_so(tmp_path: Path) -> None:
    toml = TOML.replace("{url}", f"http://127.0.0.1:{free_port()}")
    with cast(tmp_path, parts(tmp_path, "nothing"), toml, {"n": "0\n"}) as box:
        box.start()
        tells = box.wait_until(
            lambda: [e for e in box.journal(ActionIntended, "loop-1") if e.body.type == "Tell"], "the policy acts"
        )
        box.wait_until(lambda: (box.rows()["loop-2"]["best_score"] or 0) >= 2, "the healthy loop goes on")
        trouble = box.status()["daemon"]["trouble"]
        box.stop()
        noted = [e.body.outcome.kind for e in box.journal(OutcomeNoted)]
        text = " ".join(box.ralphd("report").stdout.split())
        consulted = box.journal(Consulted)
    assert {entry.body.by for entry in tells} == {"policy"}
    assert noted.count(Kind.SUPERVISOR_UNAVAILABLE) == 1
    assert any("the policy decides alone" in line for line in trouble)
    assert "The policy decided everything." in text
    assert not consulted
