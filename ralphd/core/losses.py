"""What a damaged journal could not give back: as an outcome for the night, and back out of it for the report."""

from __future__ import annotations

from dataclasses import dataclass

from ralphd.core.outcomes import Evidence, Kind, Outcome


@dataclass(frozen=True, kw_only=True)
class Loss:
    """Entries ``first_id`` to ``last_id`` are gone, but for ``saved`` of them that were read out of the damaged file.

    ``last_id`` 0: nobody knows how many there were.

    ``since`` and ``until``: epoch seconds of the newest entry that was kept and of the last that was written, None
    where that is not known. ``set_aside`` and ``backup`` are paths, empty when there was none.
    """

    why: str
    first_id: int
    last_id: int = 0
    since: float | None = None
    until: float | None = None
    set_aside: str = ""
    backup: str = ""
    saved: int = 0

    @property
    def count(self) -> int:
        return max(0, self.last_id - self.first_id + 1 - self.saved)


def outcome_of_loss(loss: Loss) -> Outcome:
    """Return the entry's outcome: a sentence for a person, the figures for the report."""
    detail: dict[str, object] = {
        "lost_from_id": loss.first_id,
        "lost_to_id": loss.last_id or None,
        "lost_since": loss.since,
        "lost_until": loss.until,
        "saved": loss.saved,
        "set_aside": loss.set_aside,
        "backup": loss.backup,
    }
    seen = Evidence(what=sentence(loss), file=loss.set_aside)
    return Outcome(kind=Kind.JOURNAL_ERROR, detail=detail, evidence=(seen,))


def sentence(loss: Loss) -> str:
    lost = f"entries {span(loss)} are lost" if loss.count or not loss.last_id else "no entry is lost"
    parts = [
        loss.why,
        f"it was set aside as {loss.set_aside}" if loss.set_aside else "",
        f"restored from {loss.backup}" if loss.backup else "begun anew: there was no sound backup",
        lost,
        "what the loops recorded themselves was taken in again",
    ]
    return "; ".join(part for part in parts if part)


def span(loss: Loss) -> str:
    but = f" but for {loss.saved} of them" if loss.saved else ""
    return f"{loss.first_id} to {loss.last_id or 'an unknown end'}{but}"


def loss_in(outcome: Outcome) -> Loss | None:
    """Undo ``outcome_of_loss`` as far as the report needs it; None when the outcome tells of no loss."""
    detail = outcome.detail
    first = detail.get("lost_from_id")
    if outcome.kind is not Kind.JOURNAL_ERROR or not isinstance(first, int):
        return None
    saved = detail.get("saved")
    last, since, until = detail.get("lost_to_id"), detail.get("lost_since"), detail.get("lost_until")
    return Loss(
        why=outcome.evidence[0].what if outcome.evidence else "",
        first_id=first,
        last_id=last if isinstance(last, int) else 0,
        since=float(since) if isinstance(since, (int, float)) else None,
        until=float(until) if isinstance(until, (int, float)) else None,
        saved=saved if isinstance(saved, int) else 0,
        set_aside=str(detail.get("set_aside") or ""),
        backup=str(detail.get("backup") or ""),
    )
