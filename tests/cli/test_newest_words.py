"""What the supervisor's model is shown of a loop's log is read as that of the CLI which the loop runs now."""

from __future__ import annotations

import json
from pathlib import Path

from ralphd.cli.wire import newest_words

SAID = {
    "type": "assistant",
    "message": {"id": "a", "model": "m", "content": [{"type": "text", "text": "The key 0123456789"}]},
}


def test_a_log_is_read_by_the_cli_that_the_loop_was_given_last(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "001-00001.log").write_text(json.dumps(SAID) + "\n")
    told = {}
    for cli in ("codex", "claude"):
        (tmp_path / "loop.json").write_text(json.dumps({"cli": cli, "secrets": ["0123456789"]}))
        told[cli] = newest_words(str(tmp_path), lambda text: text.replace("key", "[hidden]"))
    assert told["claude"] == "says: The [hidden] [redacted]"
    assert told["codex"] != told["claude"]
