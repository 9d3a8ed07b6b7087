"""Reading a score from what a verifier left, hostile or broken as it may be."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralphd.core.model import Verifier
from ralphd.core.scoring import parse, score


def run(
    spec: str, *, code: int = 0, output: str = "", files: dict | None = None, goal=None, direction="max", base=None
):
    files = {name: text.encode() if isinstance(text, str) else text for name, text in (files or {}).items()}
    verifier = Verifier(command="x", score=spec, goal=goal, direction=direction)
    return score(verifier, code, output, files.get, base_tests=base)


def junit(passed: int, failed: int = 0, errors: int = 0, skipped: int = 0) -> str:
    cases = ["<testcase/>"] * passed
    cases += ["<testcase><failure/></testcase>"] * failed
    cases += ["<testcase><error/></testcase>"] * errors
    cases += ["<testcase><skipped/></testcase>"] * skipped
    return f"<testsuites><testsuite tests='99'>{''.join(cases)}</testsuite></testsuites>"


def test_exit_is_all_or_nothing():
    assert (run("exit").value, run("exit").passed) == (1.0, True)
    assert (run("exit", code=3).value, run("exit", code=3).passed) == (0.0, False)


def test_regex_takes_the_last_match():
    """The first group, or the whole match; a number alone passes nothing."""
    found = run(r"regex:score: ([\d.]+)", output="score: 1\nscore: 2.5\n")
    assert (found.value, found.passed) == (2.5, False)
    assert run(r"regex:\d+", output="7 of 9").value == 9.0
    assert run(r"regex:(\w+)", output="many").value is None
    assert run("regex:x", output="").value is None


def test_json_follows_the_pointer():
    data = json.dumps({"a/b": [{"~": 1.5}], "t": "2", "n": None, "b": True})
    assert run("json:o.json#/a~1b/0/~0", files={"o.json": data}).value == 1.5
    assert run("json:o.json#/t", files={"o.json": data}).value == 2.0
    for pointer in ("/none", "/n", "/a~1b/9", "/a~1b/x", "/t/deeper"):
        found = run(f"json:o.json#{pointer}", files={"o.json": data})
        assert found.value is None
        assert found.why


@pytest.mark.parametrize("data", ["", "[", "NaN", "Infinity", '"1e999"', "[" * 100_000, '{"a":1', "\x00"])
def test_broken_json_is_no_score(data):
    assert run("json:o.json", files={"o.json": data}).value is None


def test_junit_is_the_share_of_tests_that_pass():
    """Counted by case, whatever the suite's own attributes claim; skipped ones don't count."""
    found = run("junit:r.xml", code=1, files={"r.xml": junit(6, failed=1, errors=1, skipped=2)})
    assert (found.value, found.passed) == (0.75, False)
    assert found.counts == {"tests": 10, "passed": 6, "failed": 1, "errors": 1, "skipped": 2}
    assert run("junit:r.xml", files={"r.xml": junit(3)}).passed
    assert not run("junit:r.xml", code=1, files={"r.xml": junit(3)}).passed


def test_a_suite_that_lost_tests_gains_nothing():
    """Deleted or skipped: the share is of what the base ran."""
    assert run("junit:r.xml", files={"r.xml": junit(5)}, base=10).value == 0.5
    assert run("junit:r.xml", files={"r.xml": junit(5, skipped=5)}, base=10).value == 0.5
    assert not run("junit:r.xml", files={"r.xml": junit(5)}, base=10).passed
    assert run("junit:r.xml", files={"r.xml": junit(12)}, base=10).value == 1.0


@pytest.mark.parametrize(
    "data",
    [None, "", "<a", junit(0), junit(0, skipped=4), "<!DOCTYPE x [<!ENTITY a 'b'>]><x/>", "<html/>", "\xff\xfe"],
)
def test_a_report_that_is_none_is_no_score(data):
    """Entities are refused unread."""
    found = run("junit:r.xml", files={} if data is None else {"r.xml": data})
    assert (found.value, found.passed) == (None, False)
    assert found.why


def test_a_document_type_is_refused_unread():
    """Even when the tests in it are fine: entities can blow up, and no runner writes any."""
    found = run("junit:r.xml", files={"r.xml": "<!DOCTYPE x>" + junit(3)})
    assert found.value is None
    assert "document type" in found.why


def test_a_goal_decides_whether_it_passed():
    """In its direction; a failed run of tests passes nothing, however good the figure."""
    assert run(r"regex:(\d+)", output="8", goal=8).passed
    assert not run(r"regex:(\d+)", output="7", goal=8).passed
    assert run(r"regex:(\d+)", output="7", goal=8, direction="min").passed
    assert run("junit:r.xml", files={"r.xml": junit(9, failed=1)}, code=1, goal=0.9).passed is False
    assert run("junit:r.xml", files={"r.xml": junit(9)}, goal=0.9).passed


@pytest.mark.parametrize("spec", ["", "exit:1", "junit", "regex:", "regex:(", "json:", "json:a#b", "xml:a", "Exit"])
def test_a_wrong_spec_says_what_is_wrong(spec):
    with pytest.raises(ValueError, match="score"):
        parse(spec)


def test_a_pattern_may_hold_colons():
    assert parse("regex:a: (b)") == ("regex", "a: (b)")


@given(
    st.binary(max_size=300), st.text(max_size=100), st.sampled_from(["junit:f", "json:f", "json:f#/a", r"regex:(\S+)"])
)
def test_any_bytes_give_a_finite_score_or_none(data, output, spec):
    """Whatever an agent makes the verifier print."""
    found = run(spec, output=output, files={"f": data})
    assert found.value is None or abs(found.value) < float("inf")
    assert isinstance(found.passed, bool)
