"""How a pane keeps what it imports small: import this before any module that defines a record.

512 panes pay for every kibibyte.
"""

from __future__ import annotations

import sys

# Of each of these ``functools`` and ``enum`` want one thing, ``re`` wants the two, and ``json`` wants ``re``: 0.4 MiB.
STAND_INS: dict[str, dict[str, object]] = {
    "collections": {"namedtuple": lambda *_args, **_more: tuple},  # for ``cache_info()``, which nobody asks for here
    "reprlib": {"recursive_repr": lambda: lambda function: function},  # for printing a ``partial``
    "operator": {"or_": lambda one, other: one | other},
}


def _import_with_stand_ins() -> None:
    for name, offers in STAND_INS.items():
        sys.modules[name] = stand_in = type(sys)(name)
        vars(stand_in).update(offers)
    import enum  # noqa: F401, PLC0415  # that is the point

    for name in STAND_INS:
        del sys.modules[name]


if not {"enum", "functools", *STAND_INS} & set(sys.modules):
    _import_with_stand_ins()
if "dataclasses" not in sys.modules:
    from ralphd.pane import plain

    sys.modules["dataclasses"] = plain
