"""How is each real agent CLI found, and what does its user have at home so that it asks a model on loopback only?

Where that can be had, a client's own waits before it asks again pass fifty times as fast (see `hurry`): minutes
of them would show nothing that seconds don't.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from support.needs import missing

CHECKOUT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
INSTALLER = os.path.join(CHECKOUT, "scripts", "real-clients")
MADE_UP_KEY = "sk-test-000"
WINDOW_TOKENS = 100_000
CODEX_SILENCE_MS = 3000  # its own clock, which nobody hears in --json
HURRY = os.path.join(CHECKOUT, "tests", "support", "hurry")
NODE_HURRIES = {"NODE_OPTIONS": f"--require={HURRY}/hurry.cjs"}

Files = Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Client:
    """What the user of one CLI has set: `files` of the home by relative path, both for a base URL."""

    name: str
    model: str
    env: Callable[[str], Mapping[str, str]]
    files: Callable[[str], Files] = field(default=lambda url: {})
    args: tuple[str, ...] = ()
    minds_no_proxy: bool = True


def program(name: str) -> str:
    """The executable: $RALPHD_CLAUDE and the like, else what scripts/real-clients installed; a skip or a failure without."""
    if named := os.environ.get(f"RALPHD_{name.upper()}"):
        return named
    return installed(name) or missing(f"the real {name} is not installed: run scripts/real-clients {name}")


@functools.cache
def installed(name: str) -> str:
    """Where scripts/real-clients put it; empty when it has not run."""
    command = [sys.executable, INSTALLER, "--where", name]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def move_in(client: Client, base_url: str, home: str) -> dict[str, str]:
    """Lays the user's own files into `home`, and returns the whole environment of the client.

    The dead proxy stops whatever would still leave the machine.
    """
    for path, text in client.files(base_url).items():
        full = os.path.join(home, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as file:
            file.write(text)
    os.makedirs(home, exist_ok=True)
    dead_proxy = {"HTTPS_PROXY": "http://127.0.0.1:9"} if client.minds_no_proxy else {}  # discard: nobody listens
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": home,
        "LANG": "C.UTF-8",
        "NO_PROXY": "127.0.0.1",
        **dead_proxy,
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        **{f"GIT_{who}_NAME": "Agent" for who in ("AUTHOR", "COMMITTER")},
        **{f"GIT_{who}_EMAIL": "agent@example.org" for who in ("AUTHOR", "COMMITTER")},
        **client.env(base_url),
    }


def _qwen_env(url: str) -> Mapping[str, str]:
    return {"OPENAI_API_KEY": MADE_UP_KEY, "OPENAI_BASE_URL": f"{url}/v1", "OPENAI_MODEL": "scripted", **NODE_HURRIES}


def _codex(url: str) -> Files:
    config = f"""\
model_provider = "loopback"
[model_providers.loopback]
name = "loopback"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "LOOPBACK_KEY"
request_max_retries = 1
stream_max_retries = 1
stream_idle_timeout_ms = {CODEX_SILENCE_MS}
"""
    return {".codex/config.toml": config}


def _opencode(url: str) -> Files:
    model = {"name": "scripted", "tool_call": True, "limit": {"context": WINDOW_TOKENS, "output": 8000}}
    options = {"baseURL": f"{url}/v1", "apiKey": MADE_UP_KEY}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "loopback",
        "options": options,
        "models": {"scripted": model},
    }
    return {".config/opencode/opencode.json": json.dumps({"provider": {"loopback": provider}})}


def _pi(url: str) -> Files:
    free = dict.fromkeys(("input", "output", "cacheRead", "cacheWrite"), 0)
    model = {"id": "scripted", "name": "scripted", "contextWindow": WINDOW_TOKENS, "maxTokens": 8000, "reasoning": False,
             "input": ["text"], "cost": free}  # fmt: skip
    provider = {"baseUrl": f"{url}/v1", "apiKey": MADE_UP_KEY, "api": "openai-completions", "models": [model]}
    return {".pi/agent/models.json": json.dumps({"providers": {"loopback": provider}})}


def _gemini(url: str) -> Files:
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"maxAttempts": 3},
    }
    return {".gemini/settings.json": json.dumps(settings)}


def _qwen(url: str) -> Files:
    settings = {
        "security": {"auth": {"selectedType": "openai"}},
        "privacy": {"usageStatisticsEnabled": False},
        "model": {"generationConfig": {"maxRetries": 1}},
    }
    return {".qwen/settings.json": json.dumps(settings)}


CLIENTS = {
    client.name: client
    for client in (
        Client(
            name="claude",
            model="",
            env=lambda url: {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": MADE_UP_KEY},
        ),
        Client(name="codex", model="scripted", env=lambda url: {"LOOPBACK_KEY": MADE_UP_KEY}, files=_codex),
        Client(
            name="opencode",
            model="loopback/scripted",
            env=lambda url: {"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1"},
            files=_opencode,
        ),
        Client(name="pi", model="loopback/scripted", env=lambda url: NODE_HURRIES, files=_pi),
        Client(
            name="gemini",
            model="gemini-2.5-pro",
            env=lambda url: {"GEMINI_API_KEY": MADE_UP_KEY, "GOOGLE_GEMINI_BASE_URL": url, **NODE_HURRIES},
            files=_gemini,
        ),
        # It sends everything through HTTPS_PROXY, loopback too.
        Client(name="qwen", model="", env=_qwen_env, files=_qwen, minds_no_proxy=False),
        Client(
            name="mini",
            model="openai/scripted",
            env=lambda url: {
                "OPENAI_API_KEY": MADE_UP_KEY,
                "OPENAI_API_BASE": f"{url}/v1",
                "MSWEA_COST_TRACKING": "ignore_errors",
                "MSWEA_CONFIGURED": "true",
                "LITELLM_LOCAL_MODEL_COST_MAP": "True",
                "PYTHONPATH": HURRY,
            },
        ),
    )
}
