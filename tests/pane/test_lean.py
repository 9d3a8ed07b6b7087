"""What a pane's records are made of instead of dataclasses, and what its runner does without."""

from __future__ import annotations

import dataclasses
import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from ralphd.pane import plain

ROOT = Path(__file__).resolve().parents[2]
RECORDS = """
import sys; sys.path.insert(0, sys.argv[1])
import ralphd.pane.lean
import json, os
for layer in ("pane", "agents"):
    for name in sorted(os.listdir(os.path.join(sys.argv[1], "ralphd", layer))):
        if name.endswith(".py") and name != "runner.py":
            __import__(f"ralphd.{layer}.{name[:-3]}")
import dataclasses
found = {}
for module in list(sys.modules.values()):
    for cls in list(vars(module).values()):
        if isinstance(cls, type) and dataclasses.is_dataclass(cls):
            found[f"{cls.__module__}:{cls.__name__}"] = [
                (field.name, field.type, field.default is not dataclasses.MISSING, field.default_factory is not dataclasses.MISSING)
                for field in dataclasses.fields(cls)
            ]
print(json.dumps(found))
"""


def in_a_pane(code: str) -> str:
    argv = [sys.executable, "-I", "-S", "-E", "-c", code, str(ROOT)]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def test_every_record_that_a_pane_loads_has_the_fields_it_has_elsewhere() -> None:
    found = json.loads(in_a_pane(RECORDS))
    assert len(found) > 80
    for name, fields in found.items():
        module, _, cls = name.partition(":")
        known = dataclasses.fields(getattr(importlib.import_module(module), cls))
        missing = dataclasses.MISSING
        here = [[f.name, f.type, f.default is not missing, f.default_factory is not missing] for f in known]
        assert fields == here, name


@plain.dataclass(frozen=True, kw_only=True)
class Animal:
    name: str
    legs: int = 4


@plain.dataclass(frozen=True, kw_only=True)
class Bird(Animal):
    legs: int = 2
    eggs: list[int] = plain.field(default_factory=list)


@plain.dataclass
class Point:
    x: int
    y: int = 0


def test_a_record_takes_its_fields_by_name_and_its_bases_too() -> None:
    bird = Bird(name="wren")
    assert (bird.name, bird.legs, bird.eggs) == ("wren", 2, [])
    assert Animal(name="cat").legs == 4
    assert Bird(name="auk", eggs=[1]).eggs == [1]
    assert [field.name for field in plain.fields(Bird)] == ["name", "legs", "eggs"]
    assert plain.is_dataclass(bird)
    assert not plain.is_dataclass("bird")


def test_what_is_made_for_one_record_is_not_shared_with_the_next() -> None:
    Bird(name="wren").eggs.append(1)
    assert Bird(name="wren").eggs == []


@pytest.mark.parametrize("given", [{}, {"name": "cat", "tail": 1}])
def test_a_field_that_is_missing_or_unknown_is_refused(given) -> None:
    with pytest.raises(TypeError):
        Animal(**given)


def test_only_a_record_of_names_refuses_a_place() -> None:
    assert (Point(1).x, Point(1).y, Point(1, 2).y) == (1, 0, 2)
    with pytest.raises(TypeError):
        Animal("cat")


def test_records_are_equal_by_class_and_fields_and_frozen_ones_can_be_kept_in_a_set() -> None:
    assert Animal(name="cat") == Animal(name="cat") != Animal(name="cat", legs=3)
    assert Animal(name="cat", legs=2) != Bird(name="cat")
    assert len({Animal(name="cat"), Animal(name="cat")}) == 1
    with pytest.raises(TypeError):
        hash(Point(1))


def test_a_changed_record_is_another_one() -> None:
    bird = Bird(name="wren", eggs=[1])
    assert plain.replace(bird, name="auk") == Bird(name="auk", eggs=[1])
    assert bird.name == "wren"


def test_what_stood_in_while_the_runner_loaded_is_gone_and_the_rest_works() -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import ralphd.pane.begin\n"
        "import collections, operator, reprlib, functools\n"
        "assert collections.Counter('aa')['a'] == operator.add(1, 1) == 2\n"
        "assert functools.lru_cache(len)('ab') == 2 and reprlib.repr('a')\n"
        "print(collections.deque([1]).pop())"
    )
    assert in_a_pane(code) == "1\n"
