"""`ralphd notify` and the check of `ralphd doctor`: the way to the person is tried before the night."""

from __future__ import annotations

import json

from support.hook import hook
from support.livenight import LiveNight


def test_the_test_verb_reaches_every_place_or_says_which_it_does_not(tmp_path):
    night = LiveNight(tmp_path)
    assert "write [notify]" in night.ralphd("notify").stderr
    with hook() as place:
        night.toml.write_text(f'[notify]\nurls = ["{place.url}"]\n')
        assert "told in 1 place" in night.good("notify")
        assert place.told[0]["title"] == "ralphd: test"
        night.toml.write_text(f'[notify]\nurls = ["{place.url}", "gibberish://s3cr3t"]\n')
        done = night.ralphd("notify")
        assert done.returncode == 1
        assert "notify.urls[1] (gibberish)" in done.stderr
        assert "s3cr3t" not in done.stderr + done.stdout
        checks = json.loads(night.ralphd("doctor", "--json").stdout)["checks"]
        [found] = [check for check in checks if check["check"] == "notify"]
        assert (found["level"], "gibberish" in found["found"]) == ("fail", True)
        assert len(place.told) == 2  # the doctor asked nobody
