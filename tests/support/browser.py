"""A real headless Chromium, spoken to over its debugging pipes: what a page runs, asks for, complains of, and looks like."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-extensions", "--hide-scrollbars", "--mute-audio",
    "--remote-debugging-pipe",
)  # fmt: skip
DEADLINE_S = 120.0
PLACE = """
import os, sys
for number, given in ((3, sys.argv[1]), (4, sys.argv[2])):  # where the browser reads and writes
    os.dup2(int(given) if int(given) > 4 else os.dup(int(given)), number)
os.execv(sys.argv[3], sys.argv[3:])
"""


def program() -> str | None:
    return next(
        (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
    )


class Browser:
    """``calls`` go to one page. ``events`` keeps everything that the page told."""

    def __init__(self, folder: Path) -> None:
        chromium = program()
        assert chromium is not None
        read_end, self._out = os.pipe()
        self._in, write_end = os.pipe()

        env = {**os.environ, "HOME": str(folder)}
        argv = [chromium, *FLAGS, f"--user-data-dir={folder / 'profile'}", "about:blank"]
        self.process = subprocess.Popen(
            [sys.executable, "-c", PLACE, str(read_end), str(write_end), *argv],
            env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            pass_fds=(read_end, write_end), start_new_session=True,
        )  # fmt: skip
        os.close(read_end)
        os.close(write_end)
        self.events: list[dict] = []
        self._rest, self._number, self._session = b"", 0, None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params) -> dict:
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        return self._until(lambda told: told.get("id") == self._number)["result"]

    def _until(self, wanted) -> dict:
        end = time.monotonic() + DEADLINE_S
        while True:
            while b"\0" in self._rest:
                line, _, self._rest = self._rest.partition(b"\0")
                told = json.loads(line)
                if "method" in told:
                    self.events.append(told)
                if wanted(told):
                    assert "error" not in told, told
                    return told
            left = end - time.monotonic()
            assert left > 0, "the browser says nothing"
            ready = select.poll()  # unlike select, it takes any number of descriptor
            ready.register(self._in, select.POLLIN)
            assert ready.poll(left * 1000), "the browser says nothing"
            self._rest += os.read(self._in, 1 << 20)

    def open(self, url: str, *, width: int = 1000, dark: bool = False, media: str = "") -> None:
        self.events.clear()
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media=media, features=[scheme])
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        self.call("Page.navigate", url=url)
        self._until(lambda told: told.get("method") == "Page.loadEventFired")

    def value(self, expression: str):
        told = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in told, told
        return told["result"].get("value")

    def screenshot(self, path: Path) -> None:
        told = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(told["data"]))

    def complaints(self) -> list[str]:
        """Return errors of the console, and scripts that were refused."""
        told = [event["params"] for event in self.events if event["method"] == "Log.entryAdded"]
        errors = [one["entry"]["text"] for one in told if one["entry"]["level"] == "error"]
        thrown = [event for event in self.events if event["method"] == "Runtime.exceptionThrown"]
        return [*errors, *map(str, thrown)]

    def requests(self) -> list[str]:
        asked = [
            event["params"]["request"]["url"] for event in self.events if event["method"] == "Network.requestWillBeSent"
        ]
        return [url for url in asked if not url.startswith("data:")]

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._in)
        os.close(self._out)
