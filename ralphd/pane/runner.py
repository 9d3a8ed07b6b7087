"""The owner of one loop: starts session after session in a pane, and is asked nothing by the daemon but its records.

Run as ``python -I -S -E runner.py LOOPDIR``: no site packages, no environment, a third of the memory. Short, because a
program is compiled at each start, where a module is not, and what that takes (0.3 MiB) never comes back.
"""

import sys

sys.path.insert(0, __file__.rsplit("/", 3)[0])

from ralphd.pane.begin import main

if __name__ == "__main__":
    sys.exit(main(sys.argv))
