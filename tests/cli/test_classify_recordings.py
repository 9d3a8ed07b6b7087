"""``ralphd classify`` explains every recording of every CLI as it was reviewed, whole and damaged."""

from __future__ import annotations

import json
import os

import pytest
from click.testing import CliRunner
from support.recordings import CORPUS, NAMES, cli_of, expectation, stream

from ralphd.agents import adapter
from ralphd.cli.classify import classify
from ralphd.core.outcomes import TABLE, Kind


def ask(log: str, name: str, *more: str) -> dict[str, object]:
    expected, errors = expectation(name), f"{CORPUS}/{name}.stderr"
    how = ("--exit", expected["exit"]) if expected["signal"] is None else ("--signal", expected["signal"])
    stderr = ("--stderr", errors) if os.path.exists(errors) else ()
    ended_by = ("--ended-by", expected["ended_by"]) if expected.get("ended_by") else ()
    arguments = [log, "--cli", cli_of(name), *map(str, how), *ended_by, *stderr, *more]
    ran = CliRunner().invoke(classify, arguments, catch_exceptions=False)
    assert ran.exit_code == 0, ran.output
    return json.loads(ran.stdout) if "--json" in more else {"text": ran.stdout}


@pytest.mark.parametrize("name", NAMES)
def test_a_log_is_explained_as_it_was_reviewed(name):
    log, expected = f"{CORPUS}/{name}.jsonl", expectation(name)
    told = ask(log, name, "--json")
    compactions = expected["compactions"]
    if not compactions and not adapter(cli_of(name)).TELLS.compactions:
        compactions = None  # it tells none, so there is nothing to count
    assert [told[key] for key in ("kind", "tokens_in", "tokens_out", "compactions")] == [
        expected["kind"],
        expected["tokens_in"],
        expected["tokens_out"],
        compactions,
    ]
    consequence = TABLE[Kind(told["kind"])]
    assert [told[key] for key in ("charge", "contamination", "response")] == [
        consequence.charge.value,
        consequence.contamination.value,
        consequence.response.value,
    ]
    assert told["evidence"]
    for evidence in told["evidence"]:
        assert evidence["file"] in ("", log, f"{CORPUS}/{name}.stderr")
        assert evidence["end"] <= os.path.getsize(log)


@pytest.mark.parametrize("name", NAMES)
def test_a_damaged_log_is_explained_without_a_mishap(name, tmp_path):
    """Cut in the middle of its last line, with a strange line before and one without an end after."""
    whole = stream(name)
    log = tmp_path / "the.log"
    log.write_bytes(b'\xff\0{"type":"weather"}\n' + whole[: len(whole) * 2 // 3] + b'\n{"type":"result","status":"err')
    told = ask(str(log), name, "--json")
    assert Kind(told["kind"])
    if expectation(name)["signal"] is not None and "ended_by" not in expectation(name):
        assert told["kind"] == "agent.signalled"


@pytest.mark.parametrize("cli", sorted({cli_of(name) for name in NAMES}))
def test_a_person_reads_the_kind_the_rule_and_the_evidence(cli):
    name = next(name for name in NAMES if cli_of(name) == cli and expectation(name)["kind"].startswith("inference."))
    text = ask(f"{CORPUS}/{name}.jsonl", name)["text"]
    assert text.startswith(f"{expectation(name)['kind']}, by the rule ")
    assert "evidence: " in text
