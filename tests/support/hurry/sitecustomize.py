"""Found by a CLI that runs under Python: what its libraries wait before they ask again passes fifty times as fast."""

import sys
import time

WAITING = ("tenacity", "openai", "litellm")
in_time = time.sleep


def sleep(seconds):
    waits = any(f"/{name}/" in sys._getframe(1).f_code.co_filename for name in WAITING)
    in_time(seconds / 50 if waits else seconds)


time.sleep = sleep
