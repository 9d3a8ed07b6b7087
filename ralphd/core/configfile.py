"""Read the text of a ralphd.toml: every mistake is refused with its key, its line and the way out."""

from __future__ import annotations

import re
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any

from ralphd.core import config, cron, scoring, times
from ralphd.core.config import Config
from ralphd.core.errors import ConfigError, UsageError
from ralphd.core.exchange import Limits
from ralphd.core.model import Verifier

Convert = Callable[[object], Any]
Keys = Mapping[str, tuple[str, Convert]]  # toml key -> (field, conversion)

BRIEF_CHARS = 240  # of a refusal: three lines of a terminal
MOST_BYTES = (1 << 63) - 1  # what a system call takes
MOST_S = 1e9  # 31 years; no call waits for longer than 9.2e9 seconds
MOST_USD = 1e9
SIZES = {"": 1, "b": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40}
SIZES |= {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "kb": 10**3, "mb": 10**6, "gb": 10**9}
# The parser's time grows with the square of a key's parts: two minutes for a small file of nothing else.
_DEEP_KEY = re.compile(r"""(?<![\w"'.-])(?:[\w"'-]++\s*+\.\s*+){100}""")
_TASK_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")


def read(text: str, path: str = "ralphd.toml") -> Config:
    """Build a Config. Raises ConfigError; what is not set has its default."""
    deep = _DEEP_KEY.search(text)
    if deep:
        line = text.count("\n", 0, deep.start()) + 1
        raise ConfigError(f"{path}:{line}: this key has more parts than any setting", line=line)
    try:
        return _Reader(path, text).whole(tomllib.loads(text.removeprefix("\ufeff")))
    except RecursionError:
        raise ConfigError(f"{path}: this is nested too deeply for a configuration") from None
    except ValueError as error:  # TOMLDecodeError, or a number with more digits than Python reads
        line = _told_line(str(error), text)
        place = f"{path}:{line}" if line else path
        raise ConfigError(f"{place}: this is not TOML: {_brief(str(error))}", line=line) from None


def _told_line(complaint: str, text: str) -> int:
    """Find the line that the parser means, 0 if it names none."""
    found = re.search(r"\(at line (\d+), column \d+\)$", complaint)
    if found:
        return int(found.group(1))
    if complaint.endswith("(at end of document)"):
        return text.count("\n") + 1
    long_number = re.search(r"\d[\d_]{4000}", text)
    return text.count("\n", 0, long_number.start()) + 1 if long_number else 0


class _Reader:
    """Knows the text, so that a refusal can name the line."""

    def __init__(self, path: str, text: str) -> None:
        self._path = path
        self._lines = text.splitlines()

    def whole(self, data: dict[str, object]) -> Config:
        self._known("", data, {*SECTIONS, "task"})
        values: dict[str, Any] = {}
        for name, (field, cls, keys) in SECTIONS.items():
            if name in data:
                values[field] = cls(**self._section(name, self._table(name, data[name]), keys))
        if "task" in data:
            values["tasks"] = self._tasks(data["task"])
        built = Config(**values)
        self._agree(built)
        return built

    def _tasks(self, data: object) -> tuple[config.TaskConfig, ...]:
        if not isinstance(data, list) or not data:
            raise self._error("task", "write [[task]], in double brackets, once for each task")
        return tuple(self._task(f"task[{n}]" if n else "task", item) for n, item in enumerate(data))

    def _task(self, where: str, data: object) -> config.TaskConfig:
        table = dict(self._table(where, data))
        verify = table.pop("verify", {})
        self._known(where, table, {*TASK, "verify"})
        values = self._section(where, table, TASK)
        verifier = self._section(f"{where}.verify", self._table(f"{where}.verify", verify), VERIFY)
        if verifier.get("goal") is not None and not verifier.get("command"):
            raise self._error(f"{where}.verify.goal", "a goal needs a command that measures it")
        return config.TaskConfig(**values, verify=Verifier(**verifier))

    def _section(self, where: str, data: Mapping[str, object], keys: Keys) -> dict[str, Any]:
        self._known(where, data, keys)
        values = {}
        for name, value in data.items():
            field, convert = keys[name]
            try:
                values[field] = convert(value)
            except (ValueError, UsageError) as error:
                raise self._error(f"{where}.{name}", str(error)) from None
        return values

    def _table(self, where: str, data: object) -> Mapping[str, object]:
        if not isinstance(data, dict):
            raise self._error(where, f"is a section: write [{where}]")
        return data

    def _known(self, where: str, data: Mapping[str, object], known: set[str] | Keys) -> None:
        for name in data:
            if name not in known:
                close = get_close_matches(name[:80], list(known), n=1)
                hint = f"did you mean {close[0]}?" if close else f"known here: {', '.join(sorted(known))}"
                raise self._error(f"{where}.{name}" if where else name, f"no such setting; {hint}")

    def _agree(self, built: Config) -> None:
        """Refuse what is possible by itself and impossible together."""
        if built.night.until and built.night.for_s is not None:
            raise self._error("night.for", "until and for exclude each other: keep one")
        if built.night.budget_ends_night and built.night.budget_usd is None:
            raise self._error("night.budget_ends_night", "needs a budget: set budget_usd too")
        if built.limits.backoff_min_s > built.limits.backoff_max_s:
            raise self._error("limits.backoff_min_seconds", "must not be over backoff_max_seconds")
        if built.supervisor.width_min > built.supervisor.width_max:
            raise self._error("supervisor.width_min", "must not be over width_max")
        names = [task.name for task in built.tasks if task.name]
        double = next((name for name, count in Counter(names).items() if count > 1), "")
        if double or (len(built.tasks) > 1 and len(names) < len(built.tasks)):
            raise self._error(
                "task.name", "several tasks need names of their own" + (f": {double!r}" if double else "")
            )
        if sum(task.width or 1 for task in built.tasks) > built.night.width:
            raise self._error("night.width", "is less than the tasks' widths together")

    def _error(self, key: str, message: str) -> ConfigError:
        line = self._line(key)
        place = f"{self._path}:{line}" if line else self._path
        return ConfigError(f"{place}: {_brief(key)}: {_brief(message)}", key=key, line=line)

    def _line(self, key: str) -> int:
        """Find the line of a dotted key: below the right header (the n-th ``[[task]]``), else the header's own."""
        *section, name = key.split(".")
        wanted = ".".join(re.sub(r"\[\d+\]", "", part) for part in section)
        number = next((int(n) for part in section for n in re.findall(r"\[(\d+)\]", part)), 0)
        here, tasks, header_line = "", -1, 0
        for n, line in enumerate(self._lines, 1):
            header = re.match(r"\s*\[\[?\s*([^\]]+?)\s*\]", line)
            if header:
                here = header.group(1)
                tasks += line.lstrip().startswith("[[") and here == "task"
                header_line = n if here in {wanted, key} and max(tasks, 0) >= number else header_line
            elif (
                here == wanted
                and max(tasks, 0) >= number
                and re.match(rf"""\s*["']?{re.escape(name)}["']?\s*[=.]""", line)
            ):
                return n
        return header_line


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"must be a text in quotes, not {_shown(value)}")
    if "\0" in value:
        raise ValueError("holds a NUL character")
    return value


def _named(value: object) -> str:
    name = _text(value)
    if not _TASK_NAME.fullmatch(name):
        raise ValueError(f"must be 1 to 40 small letters, digits and dashes, not {name!r}")
    return name


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"must be true or false, not {_shown(value)}")
    return value


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError(f"must be a list of texts, not {_shown(value)}")
    return tuple(_text(item) for item in value)


def _environment(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        raise ValueError(f"must be a table of texts, not {_shown(value)}")
    bad = next((name for name in value if not name or "=" in name or "\0" in name), None)
    if bad is not None:
        raise ValueError(f"{bad!r} can't name an environment variable")
    return {name: _text(item) for name, item in value.items()}


def _whole(least: int, most: int) -> Convert:
    def convert(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise ValueError(f"must be a whole number from {least} to {most}, not {_shown(value)}")
        return value

    return convert


def _seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= MOST_S:
        raise ValueError(f"must be a number of seconds over 0 (and up to 31 years), not {_shown(value)}")
    return float(value)


def _dollars(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= MOST_USD:
        raise ValueError(f"must be a number of dollars over 0, not {_shown(value)}")
    return float(value)


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= sys.float_info.max:
        raise ValueError(f"must be a number, not {_shown(value)}")
    return float(value)


def size(value: object) -> int:
    """Bytes in ``1GiB``, ``512 MiB`` or a plain number. Raises ValueError."""
    text = value if isinstance(value, str) else str(value) if isinstance(value, int) and value <= MOST_BYTES else ""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", text.strip().lower())
    if isinstance(value, bool) or match is None or match.group(2) not in SIZES:
        raise ValueError(f'must be a size such as "1GiB", not {_shown(value)}')
    found = float(match.group(1)) * SIZES[match.group(2)]
    if found < 1:
        raise ValueError("must be over 0")
    if found > MOST_BYTES:
        raise ValueError("is more than any machine has")
    return int(found)


def _one_of(*choices: str) -> Convert:
    def convert(value: object) -> str:
        if value not in choices:
            raise ValueError(f"must be one of {', '.join(choices)}, not {_shown(value)}")
        return str(value)

    return convert


def _duration(value: object) -> float:
    return float(times.parse_duration(_text(value)))


def _time_of_day(value: object) -> str:
    times.parse_clock(_text(value))
    return _text(value)


def _schedule(value: object) -> str:
    return cron.parse_schedule(text) if (text := _text(value)) else ""


def _score(value: object) -> str:
    scoring.parse(_text(value))
    return _text(value)


def _relative(value: object) -> tuple[str, ...]:
    paths = _texts(value)
    bad = next((path for path in paths if not path or path.startswith("/") or ".." in path.split("/")), None)
    if bad is not None:
        raise ValueError(f"{bad!r} must be a path inside the repository")
    return paths


def _url(value: object) -> str:
    text = _text(value)
    if text and not re.match(r"https?://[^\s/@]+(/\S*)?$", text):
        raise ValueError(f"must be an address like https://host/path, without a name or password, not {_shown(value)}")
    return text


def _shown(value: object) -> str:
    return "that" if isinstance(value, int) and abs(value) > MOST_BYTES else repr(value)[:60]


def _brief(text: str) -> str:
    """Return ``text`` on one line, short, with nothing that a terminal would obey."""
    short = text if len(text) <= BRIEF_CHARS else f"{text[: BRIEF_CHARS - 63]}...{text[-60:]}"
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in short)


NIGHT: Keys = {
    "width": ("width", _whole(1, 4096)),
    "until": ("until", _time_of_day),
    "for": ("for_s", _duration),
    "schedule": ("schedule", _schedule),
    "budget_usd": ("budget_usd", _dollars),
    "budget_ends_night": ("budget_ends_night", _flag),
}
AGENT: Keys = {
    "cli": ("cli", _one_of(*config.CLIS)),
    "program": ("program", _text),
    "model": ("model", _text),
    "args": ("args", _texts),
    "env": ("env", _environment),
    "env_pass": ("env_pass", _texts),
    "resume": ("resume", _flag),
}
LIMITS: Keys = {
    "tool_seconds": ("tool_seconds", _seconds),
    "tool_memory": ("tool_memory_bytes", size),
    "compactions": ("compactions", _whole(1, 10_000)),
    "tool_output": ("tool_output_bytes", size),
    "quiet_seconds": ("quiet_s", _seconds),
    "stream_seconds": ("stream_s", _seconds),
    "result_grace_seconds": ("result_grace_s", _seconds),
    "backoff_min_seconds": ("backoff_min_s", _seconds),
    "backoff_max_seconds": ("backoff_max_s", _seconds),
}
TASK: Keys = {
    "name": ("name", _named),
    "repo": ("repo", _text),
    "prompt": ("prompt", _text),
    "base": ("base", _text),
    "width": ("width", _whole(1, 4096)),
}
VERIFY: Keys = {
    "command": ("command", _text),
    "score": ("score", _score),
    "direction": ("direction", _one_of("max", "min")),
    "goal": ("goal", _number),
    "protect": ("protect", _relative),
    "seconds": ("seconds", _seconds),
    "memory": ("memory_bytes", size),
    "slots": ("slots", _whole(1, 256)),
    "setup": ("setup", _text),
}
WORKTREE: Keys = {"include": ("include", _relative), "sparse": ("sparse", _relative)}
SUPERVISOR: Keys = {
    "model": ("model", _text),
    "base_url": ("base_url", _url),
    "calls": ("calls", _whole(0, 1_000_000)),
    "width_min": ("width_min", _whole(1, 4096)),
    "width_max": ("width_max", _whole(1, 4096)),
}
SECTIONS: Mapping[str, tuple[str, Callable[..., Any], Keys]] = {
    "night": ("night", config.NightConfig, NIGHT),
    "agent": ("agent", config.AgentConfig, AGENT),
    "limits": ("limits", Limits, LIMITS),
    "worktree": ("worktree", config.WorktreeConfig, WORKTREE),
    "supervisor": ("supervisor", config.SupervisorConfig, SUPERVISOR),
    "journal": ("journal", config.JournalConfig, {"url": ("url", _text)}),
    "notify": ("notify", config.NotifyConfig, {"urls": ("urls", _texts)}),
    "pods": ("pods", config.PodsConfig, {"size": ("size", _whole(1, 256))}),
}
