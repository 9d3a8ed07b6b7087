"""What does a request say of itself, whatever protocol it came in?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

LAST_MESSAGES = 3  # a client may put notes of its own after the prompt that asks for a compaction
# Claude Code puts it where the model's answer would be, when a session is taken up whose request was cut off.
SAID_BY_CLIENTS = {"No response requested."}
TEXT_KEYS = ("text", "content", "output", "parts", "response", "functionResponse", "error")


@dataclass(frozen=True, kw_only=True)
class Message:
    """One message of a conversation. `role` is `model` for the model's own answers, `user`, `system` or `tool` else."""

    role: str
    text: str
    last_text: str = ""  # of its last block: the prompt, behind reminders of the client's own


@dataclass(frozen=True, kw_only=True)
class Heard:
    """A request taken apart: `system` beside the messages, the names of the tools that the client offers."""

    messages: tuple[Message, ...]
    system: str = ""
    session_id: str = ""
    stream: bool = False
    model: str = "scripted"
    tools: tuple[str, ...] = ()

    @property
    def answers(self) -> int:
        return sum(message.role == "model" and message.text.strip() not in SAID_BY_CLIENTS for message in self.messages)

    @property
    def told(self) -> str:
        """All the words that are not the model's own."""
        return "\n".join((self.system, *(message.text for message in self.messages if message.role != "model")))

    @property
    def prompt(self) -> str:
        """The last words before the model's first answer that a user said."""
        users = [message.last_text for message in self.messages[: self._first_answer()] if message.role == "user"]
        return users[-1] if users else ""

    @property
    def news(self) -> str:
        """What came after the model's last answer: the prompt at first, tool results later."""
        spoken = [index for index, message in enumerate(self.messages) if message.role == "model"]
        return "\n".join(message.text for message in self.messages[spoken[-1] + 1 if spoken else 0 :])

    @property
    def last_words(self) -> str:
        return "\n".join(message.text for message in self.messages[-LAST_MESSAGES:])

    def _first_answer(self) -> int:
        answers = (index for index, message in enumerate(self.messages) if message.role == "model")
        return next(answers, len(self.messages))


def text_of(value: object) -> str:
    """All the text in a message, a content block or a list of them, in order."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(filter(None, map(text_of, value)))
    if isinstance(value, Mapping):
        return "\n".join(filter(None, (text_of(value.get(key)) for key in TEXT_KEYS)))
    return ""


def message(role: str, content: object) -> Message:
    last = text_of(content[-1]) if isinstance(content, list) and content else text_of(content)
    return Message(role=role, text=text_of(content), last_text=last)


def names(tools: Iterable[Mapping[str, Any]] | None) -> tuple[str, ...]:
    return tuple(str(tool["name"]) for tool in tools or () if "name" in tool)


def halves(text: str) -> Sequence[str]:
    """A text in two pieces, as a stream brings it."""
    return text[: len(text) // 2], text[len(text) // 2 :]
