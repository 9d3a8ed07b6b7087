"""Do the prompts hold the slots that their README promises, and no others?"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PROMPTS = Path(__file__).resolve().parents[2] / "prompts"
README = (PROMPTS / "README.md").read_text()
PROMISED = {
    row[1]: set(re.findall(r"\{(\w+)\}", row[0]))
    for row in re.finditer(r"^\| `([\w-]+\.md)` \|.*$", README, re.MULTILINE)
}


def test_each_prompt_is_in_the_readme_and_each_row_is_a_file():
    assert set(PROMISED) == {path.name for path in PROMPTS.glob("*.md")} - {"README.md"}


@pytest.mark.parametrize("name", PROMISED)
def test_a_prompt_has_the_slots_that_the_readme_promises(name):
    assert set(re.findall(r"\{(\w+)\}", (PROMPTS / name).read_text())) == PROMISED[name]


def test_each_slot_is_explained():
    explained = README.split("What a slot holds:")[1]
    assert all(f"`{{{slot}}}`" in explained for slots in PROMISED.values() for slot in slots)


def test_the_preamble_is_short_and_says_how_to_claim():
    preamble = (PROMPTS / "preamble.md").read_text()
    assert len(preamble.splitlines()) < 70
    assert "`RALPHD: DONE`" in preamble
    assert not re.search(r"^\s*RALPHD: DONE\s*$", preamble, re.MULTILINE)  # an echoed prompt must not read as a claim
