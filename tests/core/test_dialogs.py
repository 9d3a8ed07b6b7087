from __future__ import annotations

import time

import pytest

from ralphd.core.classify import classify
from ralphd.core.dialogs import plain, question_in
from ralphd.core.facts import EndedBy, Facts
from ralphd.core.outcomes import Kind
from ralphd.core.reading import Reading
from ralphd.core.signals import Asked, Began, Called, Resulted, Said, Unread

TRUST = ("Do you trust the files in this folder?", "/work/never-seen", "\u276f 1. Yes, proceed", "  2. No, exit")
DIALOGS = {
    "trust": TRUST,
    "trust, refusal first": (*TRUST[:2], "\u276f 1. No, exit", "  2. Yes, proceed", "Enter to confirm · Esc to exit"),
    "trust in a frame": ("╭──────────╮", "│ Is this a project you created or one you trust? │", "╰──────────╯"),
    "colours": ("\x1b[1m\x1b[36mDo you want to \x1b[0mproceed\x1b[K?\x1b[0m",),
    "permission": ("Allow execution of: 'npm test'?", "● 1. Yes, allow once", "  2. No (esc)"),
    "yes or no": ("Overwrite existing configuration? [y/N] ",),
    "ssh": ("Are you sure you want to continue connecting (yes/no/[fingerprint])? ",),
    "password": ("Password: ",),
    "git": ("Username for 'https://example.org': ",),
    "login": ("Select login method:", "  1. Account with subscription"),
    "device": ("Open https://example.org/device in your browser and enter the code ABCD-EFGH",),
    "wait": ("Waiting for authorization...",),
    "key": ("Press Enter to continue…",),
    "api key": ("Please enter your API key:",),
}
WORK = (
    "Running the tests",
    "12 passed, 3 failed",
    "error: rate limit",
    "I trust that this is done.",
    "$ git log",
    "yes",
    "#1.",
)


@pytest.mark.parametrize("lines", DIALOGS.values(), ids=DIALOGS.keys())
def test_dialogs_are_known_whatever_is_drawn_around_them(lines):
    question = question_in(lines)
    assert question
    assert "\x1b" not in question
    assert question in {plain(line) for line in lines}


def test_what_agents_print_at_work_is_no_dialog():
    assert question_in(WORK) == ""


def test_a_hostile_line_costs_no_time_and_shows_no_control_sequence():
    began = time.process_time()
    for line in ("\x1b[" * 9999, "do you want to " * 9999, "\x1b]0;" + "x" * 9999, "trust the files in " * 999):
        assert "\x1b[2J" not in question_in((line + "\x1b[2J?",))
    assert time.process_time() - began < 5.0


def facts(*signals, lines=(), stderr="", **more):
    reading = Reading()
    for signal in (*signals, *(Unread(text=line) for line in lines)):
        reading.add(signal)
    return Facts(cli="command", **{"exit_code": None, **more}, reading=reading, stderr_tail=stderr)


@pytest.mark.parametrize("lines", DIALOGS.values(), ids=DIALOGS.keys())
def test_a_program_that_fell_silent_at_a_dialog_waits_for_a_person(lines):
    outcome = classify(facts(lines=lines, ended_by=EndedBy.QUIET, signal=15))
    assert outcome.kind is Kind.WAITING_FOR_INPUT
    assert outcome.detail["question"] in str(outcome.detail["message"])
    assert classify(facts(stderr="\n".join(lines), ended_by=EndedBy.QUIET, signal=15)).kind is Kind.WAITING_FOR_INPUT


def test_a_program_that_could_not_ask_and_left_waits_for_a_person():
    assert classify(facts(lines=TRUST, exit_code=1)).kind is Kind.WAITING_FOR_INPUT


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        # silence alone is hung, words alone are nothing
        (facts(lines=WORK, ended_by=EndedBy.QUIET, signal=15), Kind.HUNG),
        (facts(lines=TRUST, exit_code=0, files_changed=True), Kind.NEXT),
        (facts(lines=TRUST, exit_code=1, head_moved=True), Kind.EXITED),
        (facts(lines=TRUST, exit_code=None, signal=9), Kind.SIGNALLED),
        # the words of a model, of a tool's result
        (facts(Said(text="Do you want to proceed? (y/n)"), ended_by=EndedBy.QUIET, signal=15), Kind.HUNG),
        (facts(Called(id="1", tool="sh"), lines=TRUST, exit_code=1), Kind.EXITED),
        (facts(Called(id="1", tool="sh"), lines=TRUST, ended_by=EndedBy.QUIET, signal=15), Kind.HUNG),
        (facts(lines=TRUST, ended_by=EndedBy.OPERATOR, signal=15), Kind.STOPPED),
        (facts(Resulted(ok=True), lines=TRUST, ended_by=EndedBy.RESULT_GRACE, signal=15), Kind.HUNG_AFTER_RESULT),
    ],
)
def test_words_of_a_dialog_alone_are_no_evidence(given, kind):
    assert classify(given).kind is kind


def test_a_question_that_the_cli_tells_in_its_own_way_needs_no_words():
    asked = facts(Began(), Asked(question="May I?"), ended_by=EndedBy.QUIET, signal=15)
    assert (classify(asked).kind, classify(asked).detail["question"]) == (Kind.WAITING_FOR_INPUT, "May I?")
