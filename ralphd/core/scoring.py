"""What a verifier's run says: a score, and whether it passed, read from hostile output."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite
from xml.etree import ElementTree as ET

from ralphd.core.model import Verifier

KINDS = ("exit", "junit", "regex", "json")


@dataclass(frozen=True, kw_only=True)
class Score:
    """``value`` None: no score is to be had, and ``why`` says so. ``counts``: junit only."""

    value: float | None
    passed: bool
    why: str
    counts: dict[str, int] | None = None


Read = Callable[[str], bytes | None]  # a file of the bench by its relative path; None when there is none


def parse(spec: str) -> tuple[str, str]:
    """Split ``kind:argument``. Raises ValueError with a sentence for the person who wrote it."""
    kind, _, argument = spec.partition(":")
    if kind not in KINDS:
        raise ValueError(f"score must be exit, junit:PATH, regex:PATTERN or json:PATH#/pointer, not {spec!r}")
    if (kind == "exit") == bool(argument):
        raise ValueError(
            "score exit takes nothing after it" if argument else f"score {kind} needs something after the colon"
        )
    if kind == "regex":
        try:
            re.compile(argument)
        except re.error as error:
            raise ValueError(f"score regex does not compile: {error}") from None
        except (OverflowError, RecursionError) as error:
            raise ValueError(f"score regex is too much to compile: {error}") from None
    if kind == "json" and "#" in argument and not argument.partition("#")[2].startswith("/"):
        raise ValueError("score json:PATH#/pointer: the pointer starts with a slash")
    return kind, argument


def score(verifier: Verifier, exit_code: int, output: str, read: Read, *, base_tests: int | None = None) -> Score:
    """Read the score of one run.

    junit: passed tests over all that count (skipped ones don't), from 0 to 1; never over fewer tests than the base ran
    (``base_tests``), so that a suite that lost tests, or skips them, doesn't gain. exit: 1 or 0. regex: the first group
    (or the match) of the last match in the output. json: the number at the pointer.
    """
    kind, argument = parse(verifier.score)
    match kind:
        case "exit":
            found = Score(value=float(exit_code == 0), passed=exit_code == 0, why=f"exit status {exit_code}")
        case "junit":
            found = _junit(read(argument), argument, exit_code, base_tests)
        case "regex":
            found = _regex(argument, output)
        case _:
            found = _json(argument, read)
    if found.value is None or verifier.goal is None:
        return found
    reached = verifier.reached(found.value) and (kind not in {"exit", "junit"} or exit_code == 0)
    return Score(value=found.value, passed=reached, why=found.why, counts=found.counts)


def _none(why: str) -> Score:
    return Score(value=None, passed=False, why=why)


def _regex(pattern: str, output: str) -> Score:
    matches = list(re.finditer(pattern, output))
    if not matches:
        return _none(f"the output has nothing that matches {pattern!r}")
    last = matches[-1]
    return _number(last.group(1) if last.re.groups else last.group(0), "the output")


def _json(argument: str, read: Read) -> Score:
    path, _, pointer = argument.partition("#")
    data = read(path)
    if data is None:
        return _none(f"the verifier wrote no {path}")
    try:
        value = _point(json.loads(data), pointer)
    except (ValueError, LookupError, RecursionError) as error:
        return _none(f"{path}{'#' if pointer else ''}{pointer}: {error}")
    return _number(value, path)


def _point(value: object, pointer: str) -> object:
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, list):
            value = value[int(name)]
        elif isinstance(value, dict):
            value = value[name]
        else:
            raise LookupError(f"nothing at {name!r}")
    return value


def _number(value: object, where: str) -> Score:
    try:
        number = float(value) if isinstance(value, (str, int, float)) else None
    except (ValueError, OverflowError):
        number = None
    if number is None or not isfinite(number):
        return _none(f"{where} holds no number but {str(value)[:40]!r}")
    return Score(value=number, passed=False, why=f"{number:g} in {where}")


def _junit(data: bytes | None, path: str, exit_code: int, base_tests: int | None) -> Score:
    if data is None:
        return _none(f"the verifier wrote no {path}")
    if b"<!DOCTYPE" in data or b"<!ENTITY" in data:
        return _none(f"{path} declares a document type, which no test report does")
    try:
        counts = _count(ET.fromstring(data))  # noqa: S314  # DOCTYPE and ENTITY are refused above
    except (ET.ParseError, ValueError) as error:
        return _none(f"{path} is no JUnit XML: {error}")
    ran = counts["tests"] - counts["skipped"]
    out_of = max(ran, base_tests or 0)
    if out_of <= 0:
        return _none(f"{path} reports no test that ran")
    why = f"{counts['passed']} of {out_of} tests pass"
    passed = exit_code == 0 and counts["passed"] == out_of
    return Score(value=counts["passed"] / out_of, passed=passed, why=why, counts=counts)


def _count(root: ET.Element) -> dict[str, int]:
    counts = {"tests": 0, "passed": 0, "failed": 0, "errors": 0, "skipped": 0}
    names = {"failure": "failed", "error": "errors", "skipped": "skipped"}
    for case in root.iter("testcase"):
        kinds = {names[child.tag] for child in case if child.tag in names}
        kind = next((k for k in ("errors", "failed", "skipped") if k in kinds), "passed")
        counts["tests"] += 1
        counts[kind] += 1
    return counts
