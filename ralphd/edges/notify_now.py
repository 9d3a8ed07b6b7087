"""The process that tells a person something: an order on standard input, the places that failed on standard output."""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any


def main() -> None:
    """Read ``{"urls", "title", "body"}``, write ``{"failed": [numbers]}``. Without a title nobody is told."""
    order = json.load(sys.stdin)
    urls = order["urls"]
    with ThreadPoolExecutor(max(1, len(urls))) as pool:
        went = list(pool.map(lambda url: tell(url, order), urls))
    json.dump({"failed": [number for number, well in enumerate(went) if not well]}, sys.stdout)


def tell(url: str, order: dict[str, Any]) -> bool:
    from apprise import Apprise, NotifyFormat  # noqa: PLC0415  # 0.3 s; a bad order is told without it

    place = Apprise()
    if not place.add(url):
        return False
    if "title" not in order:
        return True
    return bool(place.notify(title=order["title"], body=order["body"], body_format=NotifyFormat.TEXT))


if __name__ == "__main__":
    main()
