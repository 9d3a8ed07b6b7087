"""Frozen records to JSON values and back, strictly: what does not fit is refused by name.

It reads the annotations as text, because ``typing`` would cost every pane a mebibyte.
Understood: str, int, float, bool, object, ``X | None``, ``tuple[X, ...]``, ``dict[str, X]``, enums and other records.
"""

from __future__ import annotations

import sys
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from math import isfinite

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    T = TypeVar("T")
    Reader = Callable[[object, str], object]


class Malformed(ValueError):
    """A value that does not have the shape of its record; the message names the field."""


def dump(value: object) -> object:
    """Return ``value`` as JSON-ready data. Records of a union carry their class name under ``"type"``."""
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: dump(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, (tuple, list)):
        return [dump(item) for item in value]
    if isinstance(value, dict):
        return {str(key): dump(item) for key, item in value.items()}
    return value


def load(cls: type[T], data: object, where: str = "") -> T:
    """Build ``cls`` from JSON data.

    Unknown fields are dropped (a newer writer may know more). Raises Malformed on a missing or misshapen field.
    """
    where = where or cls.__name__
    if not isinstance(data, dict):
        raise Malformed(f"{where}: expected an object, got {type(data).__name__}")
    values = {}
    for name, read, needed in _FIELDS.get(cls) or _fields(cls):
        if name in data:
            values[name] = read(data[name], f"{where}.{name}")
        elif needed:
            raise Malformed(f"{where}.{name}: missing")
    return cls(**values)


# What is known of each record after it was read once: a new daemon reads a whole night before it can go on.
_FIELDS: dict[type, tuple[tuple[str, Reader, bool], ...]] = {}


def _fields(cls: type) -> tuple[tuple[str, Reader, bool], ...]:
    """Return the fields of a record: the name, what reads the value, and whether it must be there."""
    module = sys.modules[cls.__module__]
    _FIELDS[cls] = tuple(
        (f.name, _reader(str(f.type).strip(), module), f.default is MISSING and f.default_factory is MISSING)
        for f in fields(cls)
    )
    return _FIELDS[cls]


def _reader(kind: str, module: object) -> Reader:
    """Return what reads a value of an annotated kind. It is called with the value and with where that stands."""
    if kind.endswith("| None"):
        inner = _reader(kind[: -len("| None")].strip(), module)
        return lambda data, where: None if data is None else inner(data, where)
    if kind.startswith("tuple["):
        return _tuple_reader(_reader(kind[len("tuple[") : -1].removesuffix(", ...").strip(), module))
    if kind.startswith("dict["):
        return _dict_reader(_reader(kind[len("dict[") : -1].split(",", 1)[1].strip(), module))
    if kind == "object":
        return lambda data, _where: data
    if kind in _PLAIN:
        return _plain_reader(kind, _PLAIN[kind])
    return _named_reader(kind, getattr(module, kind, None))


def _tuple_reader(inner: Reader) -> Reader:
    def read(data: object, where: str) -> object:
        if not isinstance(data, list):
            raise Malformed(f"{where}: expected a list, got {type(data).__name__}")
        return tuple([inner(item, f"{where}[{n}]") for n, item in enumerate(data)])

    return read


def _dict_reader(inner: Reader) -> Reader:
    def read(data: object, where: str) -> object:
        if not isinstance(data, dict):
            raise Malformed(f"{where}: expected an object, got {type(data).__name__}")
        return {key: inner(item, f"{where}.{key}") for key, item in data.items()}

    return read


_PLAIN: dict[str, tuple[type, ...]] = {"str": (str,), "int": (int,), "float": (float, int), "bool": (bool,)}


def _plain_reader(kind: str, types: tuple[type, ...]) -> Reader:
    def read(data: object, where: str) -> object:
        # By its very type, so that a bool is no number.
        if type(data) not in types or (type(data) is float and not isfinite(data)):
            raise Malformed(f"{where}: expected {kind}, got {type(data).__name__}")
        return float(data) if kind == "float" else data  # type: ignore[arg-type]  # one of its types

    return read


def _named_reader(kind: str, cls: object) -> Reader:
    def refuse(_data: object, where: str) -> object:
        raise Malformed(f"{where}: no such record type {kind}")

    def read_enum(data: object, where: str) -> object:
        try:
            return cls(data)  # type: ignore[operator]  # a class, see below
        except ValueError:
            raise Malformed(f"{where}: {str(data)[:60]!r} is not a {kind}") from None

    if not isinstance(cls, type):
        return refuse
    return read_enum if issubclass(cls, Enum) else lambda data, where: load(cls, data, where)
