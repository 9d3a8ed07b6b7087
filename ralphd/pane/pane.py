"""What a runner works with for as long as it lives: its ears, orders, calls, records, gate, and the screen."""

from __future__ import annotations

import time
from dataclasses import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ralphd.core.records import RunnerBody
    from ralphd.pane.calls import CallWatch
    from ralphd.pane.digest import Digest
    from ralphd.pane.ears import Ears
    from ralphd.pane.gatekeeper import Gatekeeper
    from ralphd.pane.recorder import Recorder
    from ralphd.pane.wishes import Wishes


@dataclass(frozen=True, kw_only=True)
class Pane:
    """One of each, made by ``begin``."""

    ears: Ears
    wishes: Wishes
    watch: CallWatch
    recorder: Recorder
    digest: Digest
    gate: Gatekeeper

    def pause(self, seconds: float) -> None:
        """Wait a moment while others end; whatever comes meanwhile is taken."""
        self.ears.wait(seconds)

    def record(self, body: RunnerBody) -> None:
        """Write a record of this moment, and tell a person when the disk takes none."""
        before = self.recorder.trouble
        self.recorder.append(body, at=time.time())
        if self.recorder.trouble and self.recorder.trouble != before:
            self.say(f"records can't be written, they wait in memory: {self.recorder.trouble}")

    def say(self, text: str) -> None:
        """Show a person who attaches a line."""
        self.digest.say(text)
