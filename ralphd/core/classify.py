"""How one process of an agent ended: a chain of rules, the strongest evidence first.

Exit status and signal, then structured events, then what the process did, then git facts, then text. The first rule
that has an answer gives it; the last one always has.
"""

from __future__ import annotations

import re
from dataclasses import replace
from signal import Signals

from ralphd.core.facts import EndedBy, Facts
from ralphd.core.outcomes import Evidence, Kind, Outcome
from ralphd.core.signals import Failed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ralphd.core.signals import Resulted, Signal, Unread

    Rule = Callable[[Facts], Outcome | None]

MESSAGE_CHARS = 500
SIGNAL_BASE = 128  # a program that catches a signal exits with this much more
FIRST_OWN_CODE = 124  # from here on an exit code tells of a time-out, a shell's trouble or a signal, not of inference
CATCHES_SIGNALS = (
    "claude",
    "pi",
    "qwen",
)  # CLIs whose 129 and 143 mean the signal; of any other program they are just numbers
CODES_OF_HTTP = ("gemini",)  # CLIs that exit with the HTTP status of the failure, of which 8 bits are left
HTTP_BASE = 256
ENDS_WITH_RESULT = ("claude", "codex", "gemini", "mini", "opencode", "qwen")  # CLIs that tell a result last
OWN_WORDS_APART = ("gemini", "qwen")  # CLIs whose adapter separates what they say of a failure from what the model says
DIALOG_LINES = 8  # a question, its choices, and how to choose
ANY_LAST_WORDS = 4  # lines: a CLI's error is among its last, whatever it adds about help and logs
ANY_FIRST_WORDS = 40  # lines: of a program that began nothing, all that it said is why; some quote a whole file
NO_SESSION = "No conversation found with session ID"  # it can't be taken up again: begin a fresh one
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
NEVER_STARTED = re.compile(
    r"cannot be used with root|requires --verbose|session id \S* ?is already in use|invalid session id"
    r"|input must be provided|(?:unknown|invalid|unrecognized|unexpected) (?:option|argument)"
    r"|config file at \S{1,300} is not valid|configuration is invalid at|failed to load extension",
    re.IGNORECASE,
)


def classify(facts: Facts) -> Outcome:
    """Say how this process ended. Total: every Facts has an outcome."""
    return explain(facts)[0]


def explain(facts: Facts) -> tuple[Outcome, str]:
    """Say how it ended, and which rule said so."""
    for rule in RULES:
        outcome = rule(facts)
        if outcome is not None:
            return outcome, rule.__name__
    return unknown(facts), unknown.__name__


def start_failed(facts: Facts) -> Outcome | None:
    if not facts.start_error:
        return None
    error = facts.start_error[:MESSAGE_CHARS]
    return Outcome(kind=Kind.START_FAILED, detail={"error": error}, evidence=(Evidence(what=error),))


def compaction_limit(facts: Facts) -> Outcome | None:
    if facts.ended_by is not EndedBy.COMPACTIONS:
        return None
    count = facts.reading.compactions
    return _ended(facts, Kind.COMPACTION_LIMIT, f"the context was compacted {count} times", compactions=count)


def stopped(facts: Facts) -> Outcome | None:
    if facts.ended_by is EndedBy.NOTE:
        return _ended(facts, Kind.STOPPED, "ended to be taken up again with a note", for_a_note=True)
    if facts.ended_by is not EndedBy.OPERATOR:
        return None
    return _ended(facts, Kind.STOPPED, "ended by the operator")


def ended_after_failure(facts: Facts) -> Outcome | None:
    """Blame what it told of last; that it then hung, or asked on without end, is the lesser trouble."""
    if facts.ended_by not in (EndedBy.RESULT_GRACE, EndedBy.ENDLESS):
        return None
    return failure(facts)


def hung_after_result(facts: Facts) -> Outcome | None:
    if facts.ended_by is not EndedBy.RESULT_GRACE:
        return None
    return _ended(facts, Kind.HUNG_AFTER_RESULT, "did not exit after its final result", **_result_detail(facts))


def waiting_for_input(facts: Facts) -> Outcome | None:
    if not facts.reading.asked or facts.reading.settled or facts.exit_code == 0:
        return None
    question = facts.reading.asked[:MESSAGE_CHARS]
    return _ended(facts, Kind.WAITING_FOR_INPUT, f"asked: {question}", question=question)


def came_to_rest_asking(facts: Facts) -> Outcome | None:
    """Recognize a dialog where an idle program fell silent: it isn't hung, it waits for a person."""
    return _dialog(facts) if facts.ended_by is EndedBy.QUIET and not facts.reading.running else None


def gave_up_asking(facts: Facts) -> Outcome | None:
    """Recognize a dialog that nobody could answer: the program did nothing else, and left with an error."""
    code = facts.exit_code
    return _dialog(facts) if code and code < FIRST_OWN_CODE and _idle(facts) else None


def _dialog(facts: Facts) -> Outcome | None:
    if facts.reading.settled:
        return None
    from ralphd.core.dialogs import question_in  # noqa: PLC0415  # most sessions ask nobody

    for line, evidence in _last_words(facts, DIALOG_LINES)[::-1]:
        if question := question_in((line,)):
            detail: dict[str, object] = {"question": question, "message": f"it asks: {question}"}
            return Outcome(kind=Kind.WAITING_FOR_INPUT, detail=detail, evidence=(*_exit(facts), evidence))
    return None


def hung(facts: Facts) -> Outcome | None:
    if facts.ended_by is not EndedBy.QUIET:
        return None
    running = ", ".join(facts.reading.running.values())
    return _ended(facts, Kind.HUNG, "no output and an idle process tree", running=running)


def repeating(facts: Facts) -> Outcome | None:
    if facts.ended_by is not EndedBy.REPEATING:
        return None
    return _ended(facts, Kind.REPEATING, "the same calls with the same results, over and over")


def stalled(facts: Facts) -> Outcome | None:
    if facts.ended_by is not EndedBy.SILENT_STREAM:
        return None
    return _ended(facts, Kind.STALLED, "a request streamed nothing")


def asked_anew(facts: Facts) -> Outcome | None:
    """Blame what the CLI was waiting for when a person wanted no more waiting."""
    if facts.ended_by is not EndedBy.ASKED_ANEW:
        return None
    from ralphd.core.ownretries import retry_kind  # noqa: PLC0415  # a rare wish

    retrying = facts.reading.retrying
    kind = Kind.CONNECTION if retrying is None else retry_kind(retrying)
    return _ended(facts, kind, "the CLI waited by itself, and a person wants inference asked now", asked_anew=True)


def left_to_the_gate(facts: Facts) -> Outcome | None:
    """Blame what the CLI would have waited for; how long it would have may be what the server named."""
    retrying, result = facts.reading.retrying, facts.reading.result
    if facts.ended_by is not EndedBy.GATE or retrying is None or (result is not None and result.ok):
        return None
    from ralphd.core.ownretries import retry_kind  # noqa: PLC0415  # as above

    told = {
        "status": retrying.status,
        "message": retrying.error or None,
        "client_wait_s": retrying.delay_s,
        "resets_at": retrying.resets_at,
    }
    known = {name: value for name, value in told.items() if value is not None}
    what = "the CLI was about to ask again by itself, and one asks for all loops of the account"
    outcome = _ended(facts, retry_kind(retrying), what, **known)
    return replace(outcome, evidence=(*outcome.evidence, _seen(facts, retrying, "its own wait")))


def interrupted(facts: Facts) -> Outcome | None:
    """Recognize Ctrl-C from elsewhere: Claude Code exits 0 after it and calls its own last result aborted."""
    result = facts.reading.result
    if result is None or result.ok or not result.terminal.startswith("aborted_"):
        return None
    return Outcome(
        kind=Kind.SIGNALLED,
        detail={"signal": int(Signals.SIGINT), "name": "SIGINT", "terminal": result.terminal},
        evidence=(_seen(facts, result, f"the run was interrupted: {result.terminal}"), *_exit(facts)),
    )


def signalled(facts: Facts) -> Outcome | None:
    number = facts.signal
    if number is None and facts.cli in CATCHES_SIGNALS and facts.exit_code is not None:
        number = facts.exit_code - SIGNAL_BASE
    name = _signal_name(number)
    if number is None or (not name and facts.signal is None):
        return None
    detail = {"signal": number, "name": name, **_result_detail(facts)}
    return Outcome(kind=Kind.SIGNALLED, detail=detail, evidence=_exit(facts))


def config_error(facts: Facts) -> Outcome | None:
    """Recognize a CLI that refused its command line: it exited with an error and nothing had begun."""
    if not facts.exit_code or facts.reading.begun or not _idle(facts):
        return None
    for line, evidence in _last_words(facts, ANY_FIRST_WORDS):
        if NEVER_STARTED.search(line):
            detail: dict[str, object] = {"code": facts.exit_code, "message": line[:MESSAGE_CHARS]}
            return Outcome(kind=Kind.CONFIG_ERROR, detail=detail, evidence=(*_exit(facts), evidence))
    return None


def failure(facts: Facts) -> Outcome | None:
    """Recognize what the CLI itself reports about inference, whatever it exits with."""
    told, status = facts.reading.failed, _status_of_exit(facts)
    if told is None and status is None:
        return None
    from ralphd.core.failures import kind_of  # noqa: PLC0415  # 0.2 MiB a loop, and most sessions fail in no way

    failed = Failed(status=status) if told is None else replace(told, status=told.status or status)
    kind = kind_of(failed)
    if kind is None:
        return None
    what = f"{failed.status or ''} {failed.error} {failed.message}".strip()
    where = () if told is None else (_seen(facts, told, what[:MESSAGE_CHARS]),)
    return Outcome(kind=kind, detail=_failure_detail(failed), evidence=(*where, *_exit(facts)))


def last_words(facts: Facts) -> Outcome | None:
    """Recognize a limit or an outage told in plain text by a run that did nothing else."""
    code = facts.exit_code
    if code is None or code >= FIRST_OWN_CODE or not _idle(facts):
        return None
    from ralphd.core.failures import kind_of_words  # noqa: PLC0415  # as above

    for line, evidence in _last_words(facts):
        kind = kind_of_words(line)
        if kind is not None:
            detail: dict[str, object] = {"code": code, "message": line[:MESSAGE_CHARS]}
            return Outcome(kind=kind, detail=detail, evidence=(*_exit(facts), evidence))
    return None


def exited(facts: Facts) -> Outcome | None:
    """Take every other failure as what it is: a code, and a message if there was one."""
    failed, result = facts.reading.failed, facts.reading.result
    if facts.exit_code is None or (facts.exit_code == 0 and failed is None and (result is None or result.ok)):
        return None
    detail: dict[str, object] = {"code": facts.exit_code, **_result_detail(facts)}
    evidence = _exit(facts)
    if failed is not None:
        detail |= _failure_detail(failed)
        if NO_SESSION in failed.message:
            detail["fresh"] = True
        evidence = (*evidence, _seen(facts, failed, f"{failed.error} {failed.message}".strip()[:MESSAGE_CHARS]))
    elif facts.stderr_tail.strip():
        last = facts.stderr_tail.strip().rsplit("\n", 1)[-1][:MESSAGE_CHARS]
        detail["message"] = last
        evidence = (*evidence, Evidence(what=last, file=facts.stderr_file))
    return Outcome(kind=Kind.EXITED, detail=detail, evidence=evidence)


def unfinished(facts: Facts) -> Outcome | None:
    """Recognize a run that was cut off: an exit status of 0 alone ends nothing (Gemini CLI exits so on SIGTERM)."""
    begun = facts.reading.begun and not facts.reading.settled
    if facts.exit_code != 0 or facts.cli not in ENDS_WITH_RESULT or not begun:
        return None
    return _ended(facts, Kind.EXITED, "it had begun, and told no final result", code=0, result="none")


def noop(facts: Facts) -> Outcome | None:
    if facts.exit_code != 0 or facts.head_moved or facts.worked_before or facts.files_changed is not False:
        return None
    return _ended(facts, Kind.NOOP, "no commit and no changed file", **_result_detail(facts))


def next_(facts: Facts) -> Outcome | None:
    if facts.exit_code != 0:
        return None
    return _ended(facts, Kind.NEXT, "new commits" if facts.head_moved else "a clean exit", **_result_detail(facts))


def told_well(facts: Facts) -> Outcome | None:
    """Believe a final result where nobody knows how the process ended: it is the next best evidence."""
    result, known = facts.reading.result, facts.exit_code is not None or facts.signal is not None
    if known or result is None or not (result.ok and facts.reading.settled):
        return None
    return _ended(facts, Kind.NEXT, "it told a good final result; how it exited is not known", **_result_detail(facts))


def unknown(facts: Facts) -> Outcome:
    return _ended(facts, Kind.UNKNOWN, "neither an exit status nor a signal is known")


RULES: tuple[Rule, ...] = (
    start_failed,
    compaction_limit,
    stopped,
    ended_after_failure,
    hung_after_result,
    waiting_for_input,
    came_to_rest_asking,
    hung,
    repeating,
    stalled,
    asked_anew,
    left_to_the_gate,
    interrupted,
    signalled,
    config_error,
    failure,
    last_words,
    gave_up_asking,
    exited,
    unfinished,
    noop,
    next_,
    told_well,
    unknown,
)


def _ended(facts: Facts, kind: Kind, what: str, **detail: object) -> Outcome:
    result = facts.reading.result
    where = () if result is None else (_seen(facts, result, "its final result"),)
    return Outcome(kind=kind, detail=detail, evidence=(Evidence(what=what), *_exit(facts), *where))


def _exit(facts: Facts) -> tuple[Evidence, ...]:
    if facts.signal is not None:
        return (Evidence(what=f"ended by signal {facts.signal} {_signal_name(facts.signal)}".rstrip()),)
    if facts.exit_code is not None:
        return (Evidence(what=f"exit status {facts.exit_code}"),)
    return ()


def _seen(facts: Facts, signal: Signal, what: str) -> Evidence:
    return Evidence(what=what, file=facts.log, start=signal.start, end=signal.end)


def _status_of_exit(facts: Facts) -> int | None:
    """Return the HTTP status of an error that the exit status is what is left of."""
    code, result = facts.exit_code, facts.reading.result
    if code is None or facts.cli not in CODES_OF_HTTP or (result is not None and result.ok):
        return None
    return code + HTTP_BASE if 400 <= code + HTTP_BASE <= 511 else None


def _signal_name(number: int | None) -> str:
    try:
        return Signals(number).name if number else ""
    except ValueError:
        return ""


def _result_detail(facts: Facts) -> dict[str, object]:
    result = facts.reading.result
    if result is None:
        return {}
    claimed: dict[str, object] = {"claimed_done": True} if result.claims_done else {}
    return {"result": "ok" if result.ok else result.terminal or "failed", **claimed}


def _failure_detail(failed: Failed) -> dict[str, object]:
    told = {
        "status": failed.status,
        "error": failed.error or None,
        "message": failed.message[:MESSAGE_CHARS] or None,
        "retry_after_s": failed.retry_after_s,
        "retry_after": failed.retry_after[:MESSAGE_CHARS] or None,
        "resets_at": failed.resets_at,
    }
    return {name: value for name, value in told.items() if value is not None}


def _idle(facts: Facts) -> bool:
    """Tell whether nothing shows that the agent worked."""
    return not facts.head_moved and facts.files_changed is not True and facts.reading.calls == 0


def _by_the_model(facts: Facts) -> bool:
    """Tell whether a final answer is surely the model's own: it cost output, or the CLI's own words come apart."""
    return bool(facts.reading.tokens_out) or facts.cli in OWN_WORDS_APART


def _last_words(facts: Facts, count: int = ANY_LAST_WORDS) -> list[tuple[str, Evidence]]:
    """Return the last lines that are the CLI's own, newest first, with where they stand."""
    told = COLOURS.sub("", facts.stderr_tail).splitlines()
    lines = [line.strip() for line in told if line.strip()][-count:]
    words = [(line, Evidence(what=line[:MESSAGE_CHARS], file=facts.stderr_file)) for line in reversed(lines)]
    printed: list[Unread | Resulted] = [*reversed(facts.reading.plain[-count:])]
    if facts.reading.result is not None and not _by_the_model(facts):
        printed.append(facts.reading.result)
    heard = [(signal.text.strip(), signal) for signal in printed]
    return [*words, *((line, _seen(facts, signal, line[:MESSAGE_CHARS])) for line, signal in heard)]
