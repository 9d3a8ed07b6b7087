"""What README and CONTRIBUTING name is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ("README.md", ".github/CONTRIBUTING.md")
LAYERS = {path.name for path in (ROOT / "ralphd").iterdir() if path.is_dir()}
TOP = {"prompts", "migrations", "systemd", "scripts", "tests", "ralphd", ".github", ".ci"}
# A name in backquotes that could be a file of the house: no address, no variable, no place of the operator's.
PATH = re.compile(r"`([\w.-]+/[\w./-]*)`")
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")


def named(text: str) -> list[str]:
    found = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    return [path for path in PATH.findall(found) if path.split("/")[0] in LAYERS | TOP]


@pytest.mark.parametrize("doc", DOCS)
def test_every_file_that_is_named_is_there(doc: str) -> None:
    paths = named((ROOT / doc).read_text())
    assert [path for path in paths if not any((place / path).exists() for place in (ROOT, ROOT / "ralphd"))] == []
    assert doc == "README.md" or len(paths) > 30


@pytest.mark.parametrize("doc", DOCS)
def test_every_link_leads_somewhere(doc: str) -> None:
    links = LINK.findall((ROOT / doc).read_text())
    assert [link for link in links if not (ROOT / doc).parent.joinpath(link).exists()] == []


@pytest.mark.parametrize("doc", DOCS)
def test_every_script_in_a_command_is_there(doc: str) -> None:
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / doc).read_text(), re.DOTALL)
    scripts = re.findall(r"^((?:scripts|\.ci)/\S+)", "".join(blocks), re.MULTILINE)
    assert scripts
    assert [script for script in scripts if not (ROOT / script).exists()] == []
