"""ralphd.toml as values: what may be set, its defaults, and a clear refusal of everything else."""

from __future__ import annotations

from dataclasses import dataclass, field

from ralphd.core.exchange import Limits
from ralphd.core.model import Verifier

CLIS = ("claude", "codex", "opencode", "pi", "gemini", "qwen", "mini", "command", "demo")


@dataclass(frozen=True, kw_only=True)
class NightConfig:
    """``[night]``: ``until`` a local time ("07:00"), ``for_s`` seconds; neither: until stopped.

    ``budget_usd`` warns when it is spent; only ``budget_ends_night`` makes it a cap.
    """

    width: int = 8
    until: str = ""
    for_s: float | None = None
    schedule: str = ""
    budget_usd: float | None = None
    budget_ends_night: bool = False


@dataclass(frozen=True, kw_only=True)
class AgentConfig:
    """``[agent]``: which CLI, how it is called, and which environment it gets."""

    cli: str = "claude"
    program: str = ""  # empty: the CLI's own name
    model: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    env_pass: tuple[str, ...] = ()
    resume: bool = False


@dataclass(frozen=True, kw_only=True)
class TaskConfig:
    """``[[task]]``: a question. ``name`` empty: named after the repository."""

    name: str = ""
    repo: str = "."
    prompt: str = "PROMPT.md"
    base: str = "HEAD"
    width: int | None = None
    verify: Verifier = field(default_factory=Verifier)


@dataclass(frozen=True, kw_only=True)
class WorktreeConfig:
    """``[worktree]``: ignored files to copy, and cone patterns."""

    include: tuple[str, ...] = ()
    sparse: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class SupervisorConfig:
    """``[supervisor]``: the model that is consulted, if any, and the bounds of the width.

    ``calls``: how often it may be asked in a night.
    """

    model: str = ""
    base_url: str = ""
    calls: int = 200
    width_min: int = 1
    width_max: int = 16


@dataclass(frozen=True, kw_only=True)
class JournalConfig:
    """``[journal]``: empty: SQLite in the state folder."""

    url: str = ""


@dataclass(frozen=True, kw_only=True)
class NotifyConfig:
    """``[notify]``: apprise URLs."""

    urls: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class PodsConfig:
    """``[pods]``: loops that share one forum."""

    size: int = 1


@dataclass(frozen=True, kw_only=True)
class Config:
    """A whole ralphd.toml."""

    night: NightConfig = field(default_factory=NightConfig)
    agent: AgentConfig = field(default_factory=AgentConfig)
    limits: Limits = field(default_factory=Limits)
    tasks: tuple[TaskConfig, ...] = (TaskConfig(),)
    worktree: WorktreeConfig = field(default_factory=WorktreeConfig)
    supervisor: SupervisorConfig = field(default_factory=SupervisorConfig)
    journal: JournalConfig = field(default_factory=JournalConfig)
    notify: NotifyConfig = field(default_factory=NotifyConfig)
    pods: PodsConfig = field(default_factory=PodsConfig)
