"""By what inference knows an agent: loops with the same key, address or login share its limits and its refusals."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping

# What names or proves an account, or tells where inference is asked. More than needed only tells apart what may differ.
_TELLING = re.compile(r"(?i)key|token|secret|credential|auth|profile|account|base_?url|api_base|endpoint|_host$")
_LOGINS = ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "HOME")  # where a login is kept


def account_of(night: str, cli: str, env: Mapping[str, str]) -> str:
    """Return a hash that is the same for agents of one account, in one night, and tells nothing of it elsewhere."""
    told = {name: value for name, value in env.items() if _TELLING.search(name)}
    told = told or {name: env[name] for name in _LOGINS if name in env}
    text = json.dumps([night, cli, sorted(told.items())])
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]
