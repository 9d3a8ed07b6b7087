"""What a night has cost so far, beside the budget that its person gave it: a line that warns, not a cap."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ralphd.core import actions
from ralphd.core.actions import Decision

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ralphd.core.policy.present import Present
    from ralphd.core.records import Usage
    from ralphd.core.state import NightState

    Price = Callable[[Usage], float | None]

KEY = "budget"
TITLE = "the night's budget is spent"


@dataclass(frozen=True, kw_only=True)
class Spending:
    """``usd``: by all loops whose cost is known, None: of none it is. ``ends_night``: the person wants it to."""

    usd: float | None = None
    estimated: bool = False  # some of it by list prices
    partial: bool = False  # some of it nobody knows
    budget_usd: float | None = None
    ends_night: bool = False

    @property
    def over(self) -> bool:
        return self.usd is not None and self.budget_usd is not None and self.usd >= self.budget_usd


def spending(state: NightState, price: Price) -> Spending:
    """Add up what the CLIs tell; by ``price`` where they don't, which is only asked when there is a budget."""
    budget = state.config.get("budget_usd")
    budget_usd = float(budget) if isinstance(budget, (int, float)) else None
    usage = [loop.tokens() for loop in state.loops.values()]
    told = [one.cost_usd for one in usage if one.cost_usd is not None]
    silent = [one for one in usage if one.cost_usd is None and one.tokens_out and budget_usd is not None]
    priced = [usd for one in silent if (usd := price(one)) is not None]
    return Spending(
        usd=round(sum((*told, *priced)), 6) if told or priced else None,
        estimated=bool(priced),
        partial=len(priced) < len(silent),
        budget_usd=budget_usd,
        ends_night=state.config.get("budget_ends_night") is True,
    )


def warn(state: NightState, present: Present) -> Iterator[Decision]:
    """Tell the person once."""
    if present.spending.over and KEY not in state.noticed and not state.ending:
        words = sentence(present.spending)
        yield Decision(action=actions.Notify(key=KEY, title=TITLE, body=words, told=words), why=TITLE)


def sentence(spent: Spending) -> str:
    """Say what is spent of the budget; empty where there is none."""
    if spent.budget_usd is None:
        return ""
    budget = f"the budget of {dollars(spent.budget_usd)}"
    if spent.usd is None:
        return f"What the night costs is not known, so nothing can warn of {budget}."
    about = "at least " if spent.partial else "about " if spent.estimated else ""
    cost = f"{about}{dollars(spent.usd)}"
    if not spent.over:
        return f"Spent so far: {cost} of {budget}."
    then = "The night ends." if spent.ends_night else "Nothing is stopped by that; `ralphd stop` ends the night."
    return f"The night has cost {cost}, and {budget} is spent. {then}"


def dollars(usd: float) -> str:
    """Return an amount of money to the cent, of less than one to a hundredth of it."""
    return f"${usd:,.2f}" if usd >= 0.01 or usd == 0 else f"${usd:.4f}"
