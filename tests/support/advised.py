"""Endpoints that answer the supervisor's questions: whatever a log orders, or a fixed choice."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator

from support.endpoint import Received, Reply, message, said
from support.injections import obeyed

from ralphd.core.advice import Question


def question_of(got: Received) -> Question:
    """The question as its answerer sees it."""
    body = got.body
    rows = body["tools"][0]["input_schema"]["properties"]["evidence"]["items"]["enum"]
    return Question(
        system=body["system"][0]["text"],
        text=body["messages"][0]["content"],
        tools=tuple(body["tools"]),
        offered=tuple(tool["name"] for tool in body["tools"]),
        rows=frozenset(rows),
    )


def obeys_whatever_it_reads(ways: Iterator[str]) -> Callable[[Received], Reply]:
    def answer(got: Received) -> Reply:
        if got.is_probe:
            return said(message("x", {}))
        asked = question_of(got)
        orders = re.findall(r"ticket-\d{4}", asked.text)
        assert orders, json.dumps(got.body)[:2000]
        return said(obeyed(asked, next(ways)))

    return answer
