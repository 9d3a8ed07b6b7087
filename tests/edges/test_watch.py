"""Changes of rarely changing files are told once, whatever way an editor writes them."""

from __future__ import annotations

import errno
import os
import queue
import shutil
import threading

import pytest
from watchdog.observers import Observer

from ralphd.edges.watch import Watch

LONG_S = 60.0  # a deadline, not a measurement


@pytest.fixture
def watching():
    watches = []
    threads = set(threading.enumerate())
    told = queue.Queue()

    def start(*paths, **how):
        watches.append(Watch([str(path) for path in paths], told.put, **{"look_anyway_s": 3600, **how}))
        return watches[-1]

    start.told = told
    yield start
    for watch in watches:
        watch.close()
    assert set(threading.enumerate()) <= threads


def write(path):
    path.write_text("new")


def replace(path):
    other = path.with_name("." + path.name + ".swp")
    other.write_text("new")
    os.replace(other, path)


def backup_and_write(path):
    os.rename(path, path.with_name(path.name + "~"))
    path.write_text("new")


def remove(path):
    path.unlink()


def touch_mode(path):
    path.chmod(0o600 if path.stat().st_mode & 0o077 else 0o644)


@pytest.mark.parametrize("edit", [write, replace, backup_and_write, remove, touch_mode])
def test_every_way_of_editing_is_told_by_path(watching, tmp_path, edit):
    config, other = tmp_path / "ralphd.toml", tmp_path / "PROMPT.md"
    config.write_text("old!")
    other.write_text("old!")
    watch = watching(config, other)
    assert watch.mode == "inotify"
    edit(config)
    assert watching.told.get(timeout=LONG_S) == str(config)
    other.write_text("and then this")
    assert watching.told.get(timeout=LONG_S) == str(other)


def test_one_save_of_many_writes_is_one_change(watching, tmp_path):
    config = tmp_path / "ralphd.toml"
    sentinel = tmp_path / "sentinel"
    watching(config, sentinel, debounce_s=2)
    for n in range(20):
        config.write_text("x" * n)
        replace(config)
    assert watching.told.get(timeout=LONG_S) == str(config)
    sentinel.touch()
    assert watching.told.get(timeout=LONG_S) == str(sentinel)


def test_a_missing_file_is_told_when_it_comes_and_again_after_it_went(watching, tmp_path):
    config = tmp_path / "ralphd.toml"
    watching(config)
    for change in (config.touch, config.unlink, config.touch):
        change()
        assert watching.told.get(timeout=LONG_S) == str(config)


def test_a_hook_that_appears_is_told_as_its_folder(watching, tmp_path):
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    (hooks / "pre-commit").write_text("#!/bin/sh\n")
    watching(hooks)
    (hooks / "post-commit").write_text("#!/bin/sh\n")
    assert watching.told.get(timeout=LONG_S) == str(hooks)
    replace(hooks / "pre-commit")
    assert watching.told.get(timeout=LONG_S) == str(hooks)
    shutil.rmtree(hooks)
    assert watching.told.get(timeout=LONG_S) == str(hooks)


def test_a_file_behind_a_link_is_watched_where_it_lies(watching, tmp_path):
    (tmp_path / "dotfiles").mkdir()
    (tmp_path / "repo").mkdir()
    real, link = tmp_path / "dotfiles" / "PROMPT.md", tmp_path / "repo" / "PROMPT.md"
    real.write_text("old!")
    link.symlink_to(real)
    watching(link)
    replace(real)
    assert watching.told.get(timeout=LONG_S) == str(link)


def test_reading_and_neighbours_are_not_changes(watching, tmp_path):
    config, sentinel = tmp_path / "ralphd.toml", tmp_path / "sentinel"
    config.write_text("old!")
    watching(config, sentinel)
    config.read_text()
    (tmp_path / "neighbour").write_text("x")
    sentinel.touch()
    assert watching.told.get(timeout=LONG_S) == str(sentinel)
    assert watching.told.empty()


def no_watches_left():
    class Exhausted(Observer):
        def schedule(self, *_, **__):
            raise OSError(errno.ENOSPC, "inotify watch limit reached")

    return Exhausted()


def no_instances_left():
    raise OSError(errno.EMFILE, "inotify instance limit reached")


@pytest.mark.parametrize("observer", [no_watches_left, no_instances_left])
def test_without_inotify_it_polls_and_says_so(watching, tmp_path, observer):
    config = tmp_path / "ralphd.toml"
    watch = watching(config, observer=observer)
    assert watch.mode == "polling"
    assert "limit reached" in watch.why
    config.write_text("new")
    assert watching.told.get(timeout=LONG_S) == str(config)


def test_a_folder_that_did_not_exist_is_looked_at_anyway(watching, tmp_path):
    config = tmp_path / "later" / "ralphd.toml"
    watching(config, look_anyway_s=0.1)
    config.parent.mkdir()
    config.touch()
    assert watching.told.get(timeout=LONG_S) == str(config)


def test_nothing_is_told_after_close(watching, tmp_path):
    config = tmp_path / "ralphd.toml"
    watch = watching(config)
    watch.close()
    config.write_text("new")
    watch.close()
    assert watching.told.empty()
