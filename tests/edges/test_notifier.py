"""A person is told through apprise, in a process that can't hold anybody up and says nothing secret."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest
from support.hook import hook

from ralphd.core.errors import EdgeError
from ralphd.edges.notifier import MESSAGE_CHARS, Apprise

ENV = {"PATH": os.environ["PATH"]}


def test_every_place_is_told():
    with hook() as one, hook() as two:
        Apprise([one.url, two.url], ENV).notify("ralphd: a title", "what <b>is</b> so")
        for place in (one, two):
            [told] = place.told
            assert (told["title"], told["message"]) == ("ralphd: a title", "what <b>is</b> so")


def test_a_place_that_fails_is_named_without_its_secrets_and_the_others_are_told():
    with hook() as good, hook() as bad:
        bad.status = 500
        with pytest.raises(EdgeError, match=r"notify.urls\[0\] \(json\), notify.urls\[2\] ") as caught:
            Apprise([bad.url, good.url, "nonsense-with-s3cr3t"], ENV).notify("t", "b")
        assert "s3cr3t" not in str(caught.value)
        assert len(good.told) == 1


def test_a_place_that_never_answers_is_given_up_and_nothing_runs_on():
    with hook() as place:
        place.speaks.clear()
        notifier = Apprise([f"{place.url}?rto=600"], ENV, patience_s=4)
        begun = time.monotonic()
        with pytest.raises(EdgeError, match="no answer within 4 s"):
            notifier.notify("t", "b")
        assert time.monotonic() - begun < 60
        assert notifier._child is not None
        assert notifier._child.returncode is not None


def test_a_long_message_is_cut_and_not_refused():
    with hook() as place:
        Apprise([place.url], ENV).notify("t", "x" * 100_000)
        assert len(place.told[0]["message"]) == MESSAGE_CHARS


def test_places_are_tried_for_sense_without_being_asked():
    with hook() as place:
        assert Apprise([place.url, "gibberish://x"], ENV).refused() == ["notify.urls[1] (gibberish)"]
        assert place.told == []


def test_the_process_gets_nothing_of_an_agents_environment(monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere")
    with hook() as place:
        Apprise([place.url], ENV).notify("t", "b")
        assert len(place.told) == 1


def test_apprise_is_loaded_by_nobody_but_that_process():
    code = "import ralphd.cli.wire, ralphd.cli.doctor, ralphd.cli.notify, ralphd.cli.webserve, sys; print('apprise' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
