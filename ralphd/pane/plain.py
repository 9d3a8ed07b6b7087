"""What the records of a pane need of ``dataclasses``, by the same names: 0.3 MiB less a pane.

Nothing prints records here, and that nobody changes a frozen one is held by the type checker: neither is looked after.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    T = TypeVar("T")

MISSING = object()
_FIELDS = "__dataclass_fields__"
_NAMES: dict[str, object] = {"MISSING": MISSING}  # that the code of an ``__init__`` sees


class Field:
    __slots__ = ("default", "default_factory", "name", "type")

    def __init__(self, default: object, default_factory: object) -> None:
        self.name = self.type = ""
        self.default, self.default_factory = default, default_factory


def field(*, default: object = MISSING, default_factory: object = MISSING) -> Field:
    return Field(default, default_factory)


def fields(record: object) -> tuple[Field, ...]:
    return tuple(getattr(record, _FIELDS).values())


def is_dataclass(value: object) -> bool:
    return hasattr(value, _FIELDS)


def replace(record: T, **changes: object) -> T:
    return type(record)(**{known.name: getattr(record, known.name) for known in fields(record)} | changes)


def dataclass(cls: type | None = None, *, frozen: bool = False, kw_only: bool = False) -> object:
    def define(cls: type) -> type:
        known: dict[str, Field] = {}
        for base in reversed(cls.__mro__[1:]):
            known |= vars(base).get(_FIELDS, {})
        known |= {name: _field(cls, name, kind) for name, kind in cls.__annotations__.items()}
        setattr(cls, _FIELDS, known)
        cls.__init__ = _init(known, kw_only=kw_only)  # type: ignore[misc]  # that is what makes it a record
        cls.__eq__ = _equal  # type: ignore[method-assign,assignment]  # as above
        cls.__hash__ = _hash if frozen else None  # type: ignore[method-assign,assignment]  # as above
        return cls

    return define if cls is None else define(cls)


def _field(cls: type, name: str, kind: str) -> Field:
    default = vars(cls).get(name, MISSING)
    known = default if isinstance(default, Field) else Field(default, MISSING)
    known.name, known.type = name, kind
    if known is default:
        delattr(cls, name)
    return known


def _init(known: dict[str, Field], *, kw_only: bool) -> Callable[..., None]:
    """Return an ``__init__`` from a text, as ``dataclasses`` does: nothing else is as quick to call."""
    made = {name for name, field in known.items() if field.default_factory is not MISSING}
    optional = {name: field.default for name, field in known.items() if name in made or field.default is not MISSING}
    takes = ["self", *["*"][: kw_only and len(known)], *known]
    sets = [f"self.{name} = {name}" for name in known if name not in made]
    sets += [
        f"self.{name} = self.{_FIELDS}[{name!r}].default_factory() if {name} is MISSING else {name}" for name in made
    ]
    found: dict[str, Callable[..., None]] = {}
    exec(f"def __init__({', '.join(takes)}):\n {'; '.join(sets) or 'pass'}", _NAMES, found)  # noqa: S102  # names of fields
    init = found["__init__"]
    if kw_only:
        init.__kwdefaults__ = optional
    else:
        init.__defaults__ = tuple(optional.values())
    return init


def _equal(self: object, other: object) -> bool:
    return type(self) is type(other) and _values(self) == _values(other)


def _hash(self: object) -> int:
    return hash(_values(self))


def _values(record: object) -> tuple[object, ...]:
    return tuple(getattr(record, name) for name in getattr(record, _FIELDS))
