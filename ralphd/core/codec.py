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
    from typing import TypeVar

    T = TypeVar("T")


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
    for f in fields(cls):  # type: ignore[arg-type]  # every caller passes a dataclass
        if f.name in data:
            values[f.name] = _value(str(f.type), data[f.name], sys.modules[cls.__module__], f"{where}.{f.name}")
        elif f.default is MISSING and f.default_factory is MISSING:
            raise Malformed(f"{where}.{f.name}: missing")
    return cls(**values)


def _value(kind: str, data: object, module: object, where: str) -> object:
    kind = kind.strip()
    if kind.endswith("| None"):
        return None if data is None else _value(kind[: -len("| None")], data, module, where)
    if kind.startswith("tuple["):
        if not isinstance(data, list):
            raise Malformed(f"{where}: expected a list, got {type(data).__name__}")
        inner = kind[len("tuple[") : -1].removesuffix(", ...")
        return tuple(_value(inner, item, module, f"{where}[{n}]") for n, item in enumerate(data))
    if kind.startswith("dict["):
        if not isinstance(data, dict):
            raise Malformed(f"{where}: expected an object, got {type(data).__name__}")
        inner = kind[len("dict[") : -1].split(",", 1)[1]
        return {key: _value(inner, item, module, f"{where}.{key}") for key, item in data.items()}
    return _plain(kind, data, module, where)


_PLAIN: dict[str, tuple[type, ...]] = {"str": (str,), "int": (int,), "float": (int, float), "bool": (bool,)}


def _plain(kind: str, data: object, module: object, where: str) -> object:
    if kind == "object":
        return data
    if kind in _PLAIN:
        right = isinstance(data, _PLAIN[kind]) and (kind == "bool" or not isinstance(data, bool))
        if not right or (isinstance(data, float) and not isfinite(data)):
            raise Malformed(f"{where}: expected {kind}, got {type(data).__name__}")
        return float(data) if kind == "float" and isinstance(data, int) else data
    cls = getattr(module, kind, None)
    if not isinstance(cls, type):
        raise Malformed(f"{where}: no such record type {kind}")
    if issubclass(cls, Enum):
        try:
            return cls(data)
        except ValueError:
            raise Malformed(f"{where}: {str(data)[:60]!r} is not a {kind}") from None
    return load(cls, data, where)
