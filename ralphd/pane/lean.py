"""How a pane keeps its records small: import this before any module that defines one.

512 panes pay for every kibibyte. ``inspect`` (1.4 MiB) serves dataclasses only for the docstrings of records that have
none. Generated ``__repr__`` and the methods that freeze a record (0.4 MiB) serve nobody here: nothing prints records,
and that nobody changes one is held by the type checker.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def _import_without_inspect() -> None:
    sys.modules["inspect"] = stand_in = type(sys)("inspect")
    stand_in.signature = lambda _cls: ""  # type: ignore[attr-defined]  # what a record's docstring would show
    # From Python 3.12 on, dataclasses ask it for the annotations, which stand as text in every record of ours.
    stand_in.get_annotations = lambda cls: vars(cls).get("__annotations__", {})  # type: ignore[attr-defined]
    had_copy = "copy" in sys.modules
    sys.modules.setdefault("copy", type(sys)("copy"))  # 0.1 MiB, for asdict and astuple alone
    import dataclasses  # noqa: PLC0415  # that is the point

    del sys.modules["inspect"]
    if not had_copy:
        del sys.modules["copy"]
    if not _records_work():
        import inspect  # noqa: PLC0415  # a Python that needs more of it

        dataclasses.inspect = inspect  # type: ignore[attr-defined]


def _records_work() -> bool:
    from dataclasses import dataclass, fields  # noqa: PLC0415  # as above

    try:

        @dataclass(frozen=True, kw_only=True)
        class Record:
            size: int = 1

        return [field.name for field in fields(Record)] == ["size"] and Record(size=2).size == 2
    except AttributeError:
        return False


def _define_less() -> None:
    import dataclasses  # noqa: PLC0415  # only now may it be imported

    define: Callable[..., object] = dataclasses.dataclass

    def dataclass(cls: type | None = None, *, frozen: bool = False, **options: bool) -> object:
        return define(cls, repr=False, unsafe_hash=frozen, **options)

    dataclasses.dataclass = dataclass  # type: ignore[assignment]


if "dataclasses" not in sys.modules:
    _import_without_inspect()
    _define_less()
