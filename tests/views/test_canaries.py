"""Forty secrets into everything that a person, a file that lasts or a model is shown: none may come out."""

from __future__ import annotations

import base64
import contextlib
import io
import itertools
import json
import re
import types
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from support.nights import NIGHT, Night, commit

from ralphd.cli import logs, reports, shipped, take, webserve
from ralphd.cli.daemonlog import DaemonLog
from ralphd.cli.excerpt import excerpt
from ralphd.cli.place import Place
from ralphd.cli.taker import Outcome as TakeOutcome
from ralphd.core import events, records
from ralphd.core.actions import Pause
from ralphd.core.advice import Case, Row, question
from ralphd.core.model import Verdict
from ralphd.core.outcomes import Evidence, Kind, Outcome
from ralphd.core.redact import MARK, Redactor
from ralphd.core.report import report, to_json
from ralphd.core.signals import Said
from ralphd.core.taking import Standing, Tried
from ralphd.daemon.act import Doer
from ralphd.daemon.requests import Desk
from ralphd.edges import nightfile
from ralphd.edges.journal import Journal, JournalReader
from ralphd.pane.digest import Digest
from ralphd.views import html, markdown, terminal, webpages
from ralphd.views.text import lines

KNOWN = (  # what ralphd.toml passes on: it needs no shape
    "correct horse battery staple", "a.b*c[d](e)\\f$g^h|i", "p@ss/w0rd+with=signs&more", "x1y2" * 50, "s3cr3t",
    "пароль-ключ-鍵-🔑", "'single' and \"double\"", "<b>markup&amp;</b>", "`back`tick`", "tab\tinside it", "{{braces}}",
    "trailing space ", "-leading-dash", "%41%42%43 percent", "C:\\windows\\path", "0123456789", "true-or-false", "ünïcödé",
    "$(command) ${VAR}", "semi;colon,comma",
)  # fmt: skip
SHAPED = (
    "sk-ant-api03-AbCdEfGh1234567890-xyzXYZ", "sk-proj-a1b2c3d4e5f6g7h8i9", "sk-or-v1-" + "a1b2" * 8, "ghp_" + "a1B2" * 9,
    "gho_" + "c3D4" * 9, "ghs_" + "e5F6" * 9, "github_pat_" + "g7H8" * 9, "glpat-a1b2c3d4e5f6g7h8i9j0",
    "xoxb-123456789012-abcdef", "xoxp-987654321098-fedcba", "AKIAIOSFODNN7EXAMPLE", "ASIAIOSFODNN7EXAMPL2",
    "AIza" + "Sy1a" * 9, "hf_" + "i9J0" * 6, "npm_" + "k1L2" * 9, "dckr_pat_" + "m3N4" * 7,
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N", "Bearer abc123def456ghi", "https://ann:hunter22xyz@host/x",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA1234\n-----END RSA PRIVATE KEY-----",
)  # fmt: skip
CANARIES = (*KNOWN, *SHAPED)
KEPT = {"https://ann:hunter22xyz@host/x": "hunter22xyz", "Bearer abc123def456ghi": "abc123def456ghi"}  # the secret part
KEPT |= {SHAPED[-1]: "MIIEowIBAAKCAQEA1234"}

# What no screen shows, or what goes from text before it is shown: a secret with one inside would be put together there.
UNSEEN = (
    "\x1b[01;31m", "\x1b[K", "\x1b[m\x1b[K", "\x1b]8;;http://x\x1b\\", "\x1b]0;a title\x07", "\x1bPq#0\x1b\\", "\x1b(B", "\x1b",
    "\x9b1m", "\x9d0;a title\x9c", "\x84", "\x00", "\x08", "\x7f", "\xad", "\u200b", "\u200d", "\u202e", "\u2060", "\ufeff",
    "\u034f", "\ufe0f", "\U000e0061", "\U000e0101", "\u3164", "\ue000",
)  # fmt: skip


def split(canary: str, by: str) -> str:
    """Put ``by`` into the secret part, near its beginning and into its middle."""
    part = KEPT.get(canary, canary)
    parts = part[:2], part[2 : len(part) // 2], part[len(part) // 2 :]
    return canary.replace(part, by.join(parts))


def forms(canary: str) -> set[str]:
    """The ways it may appear in a text of any kind: plain, in JSON, in HTML, behind backslashes, without odd letters."""
    part = KEPT.get(canary, canary).strip()
    quoted = {
        json.dumps(part)[1:-1],
        json.dumps(part, ensure_ascii=False)[1:-1],
        html.safe(part),
        markdown.escape(part),
    }
    return {part, repr(part)[1:-1], part.replace("\t", " "), *quoted}


def leaked(text: str) -> list[str]:
    return [canary for canary in CANARIES if any(form in text for form in forms(canary))]


def put_together(text: str) -> str:
    """Return what somebody sees of ``text``, after its escapes in JSON, of Python or of a pane were followed as well."""
    text = re.sub(
        r"\\x([0-9a-f]{2})|\\u([0-9a-f]{4})|\\U([0-9a-f]{8})", lambda m: chr(int(m[1] or m[2] or m[3], 16)), text
    )
    return re.sub("[\u034f\ufe0f\U000e0101\u3164]", "", "\n".join(lines(text)))


def a_night_that_tells(secret: str) -> Night:
    """Wherever a record or an entry holds anybody's words, they are these."""
    words = f"the key is {secret} !"
    outcome = Outcome(kind=Kind.EXITED, detail={"said": words, words: words, "deep": [{"stderr": words}]},
                      evidence=(Evidence(what=words, file="/x/1.log", start=1, end=2),))  # fmt: skip
    night = Night()
    night.say(
        events.NightStarted(
            width=2, ends_at=None, version="0.1", config={"agent": {"args": [words], "env": {"K": words}}}
        )
    )
    night.task(command=f"curl -H '{secret}'")
    night.loop("fix-1")
    night.verdict(1.0)
    night.began("fix-1", 1)
    night.say(records.AttemptEnded(attempt=1, outcome=outcome, wait_s=1.0), "fix-1", 1)
    night.say(records.Held(kind="inference.auth", why=words), "fix-1", 1)
    night.ended("fix-1", 1, Kind.EXITED, evidence=outcome.evidence, after=commit(2))
    night.say(records.Repaired(outcome=outcome, what=words), "fix-1", 1)
    night.say(events.OutcomeNoted(outcome=outcome), "fix-1", 1)
    night.verdict(2.0, "fix-1", 1, of=commit(2), submission=True)
    night.acted(Pause(loop="fix-1"), "fix-1", words, by="supervisor", result=words)
    night.say(events.Consulted(model="m", trouble=words, prompt_sha256="0" * 64, offered=("pause",), choice="pause",
                               evidence=(1,), why=words, taken=False, refused="supervisor.invalid", reason=words), "fix-1", 1)  # fmt: skip
    night.say(events.NightEnded(why=words))
    return night


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What each way out of the house says of all of them, by its name."""
    return ways_out(tmp_path_factory.mktemp("told"), CANARIES)


@pytest.fixture(scope="module")
def shown_split(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The same of each with something unseen inside, which is something else for every one."""
    pairs = zip(CANARIES, itertools.cycle(UNSEEN), strict=False)
    return ways_out(tmp_path_factory.mktemp("split"), [split(canary, by) for canary, by in pairs])


def ways_out(folder: Path, canaries: Iterable[str]) -> dict[str, str]:
    texts = dict[str, list[str]]()
    for number, canary in enumerate(canaries):
        place = folder / str(number)
        place.mkdir()
        for name, text in (
            *kept(place, canary),
            *looked(place, canary),
            *taking(place, canary),
            *told(place, canary),
        ):
            texts.setdefault(name, []).append(text)
    return {name: "\n".join(parts) for name, parts in texts.items()}


def kept(place: Path, canary: str) -> Iterator[tuple[str, str]]:
    """Files that last, and what is made of them."""
    redact, path = Redactor(KNOWN), str(place / "journal.db")
    journal = Journal.open(path, shipped.folder("migrations"), redact)
    entries = journal.append(a_night_that_tells(canary).entries)
    journal.close()
    yield "journal.db", "".join(file.read_bytes().decode("utf-8", "replace") for file in place.glob("journal.db*"))
    with contextlib.closing(JournalReader.open(path)) as reader:
        stored = list(reader.entries(NIGHT))
    assert len(stored) == len(entries)
    yield "journal entries --json", "\n".join(repr(entry.body) for entry in stored)
    nightfile.write(str(place), a_night_that_tells(canary).entries, redact)
    yield "night.json", (place / nightfile.NAME).read_text()
    log = DaemonLog(str(place / "daemon.log"), redact)
    log.error(f"it said {canary}", why=canary, also=[canary])  # noqa: G004 -- ours, and not of logging
    yield "daemon.log", (place / "daemon.log").read_text()
    made = report(stored, 0.0)
    yield "report --json", json.dumps(to_json(made)) + json.dumps(to_json(made), ensure_ascii=False)
    yield "report --markdown", markdown.render_report(made)
    yield "report", terminal.render_report(made)
    yield "report --html", html.render_report(made, extras(place, canary))


def extras(place: Path, canary: str) -> html.Extras:
    """A subject and a patch as the report verb cleans them: by what the loops' assignments call secret."""
    loop = place / "loops" / "fix-1"
    loop.mkdir(parents=True)
    (loop / "loop.json").write_text(json.dumps({"cli": "command", "secrets": KNOWN}))
    made = types.SimpleNamespace(night=types.SimpleNamespace(id="x"), loops=[types.SimpleNamespace(id="fix-1")])
    hide = reports._hiding(types.SimpleNamespace(night=lambda _id: str(place)), made)  # type: ignore[arg-type]
    patch = f"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+{canary}\n"
    return html.Extras(patches={"main": hide(patch)}, subjects={commit(2): hide(f"the key is {canary}")})


def looked(place: Path, canary: str) -> Iterator[tuple[str, str]]:
    """What the dashboard's pages are made of, out of the same folder; a sentence is cut, and colours are in it."""
    loop = place / "nights" / NIGHT / "loops" / "fix-1"
    (loop / "logs").mkdir(parents=True)
    (loop / "loop.json").write_text(json.dumps({"cli": "command", "secrets": KNOWN}))
    said = [json.dumps({"type": "text", "text": f"{'.' * before}{canary}"}) for before in (10, *range(360, 404, 8))]
    (loop / "logs" / "001-00001.log").write_text("\n".join(said) + "\n")
    made = webserve.sources(Place(state=str(place)), None, allow_actions=False)
    digest = made.digest(NIGHT, "fix-1")
    assert digest.count("says:") == len(said)
    assert not [part for part in ("correct", "sk-an", "ghp_a", "p@ss", "AKIAI") if part in digest]
    regions = webpages.loop_regions({"id": "fix-1"}, made.outcomes(NIGHT, "fix-1"), digest)
    yield "web: a loop", webpages.loop_page({"id": "fix-1"}, regions, actions=True)
    yield "web: the report", made.report(NIGHT)[1]


def taking(place: Path, canary: str) -> Iterator[tuple[str, str]]:
    """What `take` says of a verifier that quotes what it judged."""
    at = Standing(commit="a" * 40, tree="b" * 40, score=1.0, passed=False)
    verdict = Verdict(task="main", loop="fix-1", commit="a" * 40, tree="b" * 40, score=None, passed=False, why=canary)
    outcome = TakeOutcome(
        start=at, tried=(Tried(loops=("fix-1",), kept=False, why=canary, standing=at, verdict=verdict),), taken=None
    )
    for name, as_json in (("take", False), ("take --json", True)):
        said = io.StringIO()
        with contextlib.redirect_stdout(said), pytest.raises(take.NotTakenError):
            take._tell(Place(state=str(place)), outcome, NIGHT, as_json=as_json)
        yield name, said.getvalue()


def told(place: Path, canary: str) -> Iterator[tuple[str, str]]:
    """What is said to somebody as it happens."""
    redact, written = Redactor(KNOWN), list[bytes]()
    digest = Digest(written.append, clock=lambda: 1.0, width=lambda: 10_000)
    digest.secrets = KNOWN
    digest.say(f"the key is {canary}")
    digest.show(Said(start=0, end=1, text=f"the key is {canary}"))
    digest.show_error(f"stderr: {canary}".encode())
    yield "pane", b"".join(written).decode()
    sent, notifier = list[str](), types.SimpleNamespace()
    notifier.notify = lambda title, body: sent.extend([title, body])
    doer = types.SimpleNamespace(world=types.SimpleNamespace(notifier=notifier, hide=redact.text))
    Doer.tell_person(doer, f"held: {canary}", f"fix-1: {canary}")  # type: ignore[arg-type]
    yield "notification", "\n".join(sent)
    case = Case(
        trouble=canary, facts=(("the verifier", canary),), rows=(Row(id=1, text=canary),), excerpt=f"a {canary}"
    )
    asked = question(case, (types.SimpleNamespace(name="pause", why="w"),), system=canary, fence="f", hide=redact.text)
    yield "the model's question", f"{asked.system}\n{asked.text}\n{json.dumps(asked.tools)}"
    row = {"id": "fix-1", "note": f"held: {canary}"}
    desk = types.SimpleNamespace(hide=redact.text)
    yield "status", str(Desk._hidden(desk, {"loops": [row], "daemon": {"trouble": [canary]}}))  # type: ignore[arg-type]


def test_there_are_forty_and_twelve_ways_out(shown: dict[str, str]) -> None:
    assert len(CANARIES) == 40
    assert len(shown) >= 12


WAYS = pytest.mark.parametrize(
    "way",
    ["journal.db", "journal entries --json", "night.json", "daemon.log", "report --json", "report --markdown", "report",
     "report --html", "web: a loop", "web: the report", "take", "take --json", "pane", "notification", "the model's question", "status"],
)  # fmt: skip


@WAYS
def test_no_secret_comes_out(shown: dict[str, str], way: str) -> None:
    assert leaked(shown[way]) == []
    assert (
        shown[way].count(MARK) + shown[way].count(markdown.escape(MARK)) >= len(CANARIES) // 2
    )  # its words were there


@WAYS
def test_none_is_put_together_where_its_escapes_are_taken_out(shown_split: dict[str, str], way: str) -> None:
    """A colour, a link, a mark of no width in the middle of a secret: it is cleaned first, then hidden."""
    assert leaked(shown_split[way]) == []
    assert leaked(put_together(shown_split[way])) == []
    assert shown_split[way].count(MARK) + shown_split[way].count(markdown.escape(MARK)) >= len(CANARIES) // 2


@pytest.mark.parametrize("stderr", [False, True])
def test_nor_by_reading_a_log(tmp_path: Path, capsys: pytest.CaptureFixture[str], stderr: bool) -> None:
    """Even where a line is cut for being long: half a secret is one, too."""
    (tmp_path / "loop.json").write_text(json.dumps({"cli": "command", "secrets": KNOWN}))
    show = logs._printer(str(tmp_path), raw=False, stderr=stderr)
    for canary in CANARIES:
        if "\n" not in canary:
            line = canary if stderr else json.dumps({"type": "text", "text": f"the key is {canary} !"})
            show(f"{line}\n".encode())
    for before in range(logs.SENTENCE_CHARS - 60, logs.SENTENCE_CHARS + 4, 7):
        text = "." * before + KNOWN[0]
        show((json.dumps({"type": "text", "text": text}) + "\n").encode())
    show(b"")
    said = capsys.readouterr().out
    assert leaked(said) == []
    assert "correct horse" not in said
    assert said.count(MARK) >= 39


def test_nor_in_what_a_model_reads_of_a_session(tmp_path: Path) -> None:
    """A sentence is cut only after its secrets are gone."""
    (tmp_path / "logs").mkdir()
    said = ["." * before + canary for before in range(360, 404, 8) for canary in CANARIES]
    lines = [json.dumps({"type": "text", "text": text}) for text in said]
    (tmp_path / "logs" / "001-00001.log").write_text("\n".join(lines) + "\n")
    text = excerpt(str(tmp_path), "command", Redactor(KNOWN).text)
    assert text.count(MARK) > 100
    assert leaked(text) == []
    assert not [part for part in ("correct", "sk-an", "ghp_a", "p@ss") if part in text]


def test_a_canary_is_found_where_nothing_hides_it() -> None:
    """What looks for them finds every one, in every form."""
    for canary in CANARIES:
        for form in forms(canary):
            assert canary in leaked(f"x {form} y")
    assert leaked(base64.b64encode(b"nothing of it").decode()) == []
