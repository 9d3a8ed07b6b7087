"""The incidents: what happened in a night, what is right to do about it, and what must never be done."""

from __future__ import annotations

from support.incidents import Incident

_ = Incident
HARMLESS = (
    "clean *, restart *, pause *, park *, stop *, end"  # what takes something away from a loop that needs nothing
)

INCIDENTS: tuple[Incident, ...] = (
    # ------------------------------------------------------------------ all is well
    _(name="gains in every session", story="all next score=8\nall next score=9\nall next score=10", never=HARMLESS),
    _(name="a gain now and then", story="l1 next score=9\nl1 next score=7\nl1 next score=10\nl1 next score=8\nl1 next score=11", never=HARMLESS),
    _(name="the same commit message every time", story="l1 next score=8\nl1 next score=8.5\nl1 next score=8.6", never=HARMLESS),
    _(name="silent for fifteen minutes while it works", story="l1 quiet 300\nl1 quiet 600\nl1 quiet 900\nl1 next score=9", never=HARMLESS),
    _(name="one session of five hours", story="l1 quiet 3600\nl1 quiet 7200\nl1 quiet 7200\nl1 next score=8", never=HARMLESS),
    _(name="an essay about errors, time-outs and rate limits", story="l1 next score=8 error=rate_limit_exceeded\nl1 next score=9", never=HARMLESS),
    _(name="a verifier slower than the sessions", story="all next slow x6 every=5", never=HARMLESS),
    _(name="a step back before the next gain", story="l1 next score=9\nl1 next score=8\nl1 next score=10", never=HARMLESS),
    _(name="one session that changed nothing", story="l1 noop\nl1 next score=9", never=HARMLESS),
    _(name="one crash between gains", story="l1 next score=8\nl1 exited\nl1 next score=9", never=HARMLESS),
    _(name="tool calls that are killed again and again, and gains", story="l1 tool tool.timeout x5\nl1 tool tool.memory x5\nl1 next score=9", never=HARMLESS),
    _(name="a session that ends by compaction, and goes on", story="l1 compaction_limit x3 score=8\nl1 next score=9", never=HARMLESS),
    _(name="mechanical repairs, and gains", story="l1 repaired git.stale_lock x4\nl1 next score=9", never=HARMLESS),
    _(name="different failures one after the other", story="l1 exited error=one\nl1 hung\nl1 next score=7\nl1 exited error=two", never=HARMLESS),
    # ------------------------------------------------------------------ inference
    _(name="overloaded for half an hour", story="all attempt overloaded x30", never=HARMLESS),
    _(name="rate limited, all loops at once", story="all attempt rate_limited x10", never=HARMLESS),
    _(name="a quota that resets in two hours", story="all waits quota", never=HARMLESS),
    _(name="connection refused for an hour", story="l1 attempt connection x100", never=HARMLESS),
    _(name="streams that stall", story="l1 attempt stalled x10", never=HARMLESS),
    _(name="answers cut short", story="l1 attempt truncated x10", never=HARMLESS),
    _(name="sessions lost to inference after work", story="l1 overloaded x20", never=HARMLESS),
    _(name="a refused key holds every loop of it", story="l1 held auth", right="pause l2, pause l3", loops=3),
    _(name="a missing model holds one loop, and asks", story="l1 held model_missing", healthy="l2"),
    _(name="a context that overflows once", story="l1 context_overflow\nl1 next score=8", never=HARMLESS),
    _(name="malformed answers, then work", story="l1 malformed x2\nl1 next score=8", never=HARMLESS),
    # ------------------------------------------------------------------ the agent
    _(name="a limit seen as success: exit 0 in no time", story="l1 attempt rate_limited x20\nl1 next score=8", never=HARMLESS),
    _(name="two crash loops in a row", story="l1 crash_loop x2", right="clean l1", healthy="l2"),
    _(name="one crash loop", story="l1 crash_loop", healthy="l2", never=HARMLESS),
    _(name="the same error three times", story="l1 exited error=ImportError x3", right="note l1", healthy="l2", never="clean l1, pause l1, park l1", consulted=True),
    _(name="the same error, three notes later", story="l1 exited error=ImportError x12", right="note l1, clean l1", healthy="l2", never="park l1, pause l1", consulted=True),
    _(name="the same error with another number each time", story="l1 exited error=line_17\nl1 exited error=line_99\nl1 exited error=line_3", right="note l1", healthy="l2", consulted=True),
    _(name="hangs three times in a row", story="l1 hung x3", right="note l1", healthy="l2", never="park l1", consulted=True),
    _(name="hangs after its result, with gains", story="l1 hung_after_result score=8\nl1 hung_after_result score=9\nl1 hung_after_result score=10", never=HARMLESS),
    _(name="killed by the kernel for memory, again and again", story="l1 signalled x10", never=HARMLESS),
    _(name="asks a person a question", story="l1 held waiting_for_input", healthy="l2", never=HARMLESS),
    _(name="leaves processes behind, and gains", story="l1 leftover_processes score=8\nl1 leftover_processes score=9", never=HARMLESS),
    # ------------------------------------------------------------------ stuck without silence
    _(name="three sessions that changed nothing", story="l1 noop x3", right="note l1", healthy="l2", never="park l1, pause l1", consulted=True),
    _(name="six sessions that changed nothing", story="l1 noop x6", right="note l1, clean l1", healthy="l2", consulted=True),
    _(name="five sessions of work without a gain", story="l1 next score=7 x5", right="note l1", healthy="l2", never="clean l1, park l1, pause l1", consulted=True),
    _(name="thirty sessions of work without a gain", story="l1 next score=7 x30", right="note l1", healthy="l2", never="clean l1, park l1, pause l1", consulted=True),
    _(name="the same call and result in three sessions", story="l1 next score=7 repeated=d1 x3", right="note l1", healthy="l2", consulted=True),
    _(name="a session goes round in circles", story="l1 next score=9\nl1 circles", right="note l1", healthy="l2", never="clean l1", consulted=True),
    _(name="sessions undo one another", story="l1 next head=a score=7\nl1 next head=b score=7\nl1 next head=a\nl1 next head=b", right="note l1", healthy="l2", consulted=True),
    _(name="no verifier to say what is a gain", story="l1 next score=1 x10", verifier="", never=HARMLESS),
    # ------------------------------------------------------------------ contamination
    _(name="worse than the best, four times", story="l1 next score=12\nl1 next score=11 x4", right="note l1", healthy="l2", never="park l1", consulted=True),
    _(name="worse than the best after three notes, too", story="l1 next score=12\nl1 next score=11 x16", right="note l1, clean l1", healthy="l2", consulted=True),
    _(name="worse than the start, twice", story="l1 next score=9\nl1 next score=2 x2", right="clean l1", healthy="l2"),
    _(name="all gains lost at once", story="l1 next score=8\nl1 next score=9\nl1 next score=10\nl1 next score=7", right="clean l1", healthy="l2"),
    _(name="poisoned notes: false claims, three times", story="l1 next claims score=6.9\nl1 next claims score=6.8\nl1 next claims score=6.7", right="note l1, clean l1", healthy="l2"),
    _(name="a false claim gets a note", story="l1 next claims score=7", right="note l1", healthy="l2", never="clean l1, park l1"),
    _(name="a true claim is nobody's trouble", story="l1 next claims score=9 passed", never=HARMLESS),
    _(name="the verifier's files were changed", story="l1 next tampered score=99", right="note l1, restore l1", healthy="l2", never="clean l1, park l1"),
    _(name="the verifier's files are changed every time", story="l1 next tampered score=99 x3", right="note l1, restore l1, clean l1", healthy="l2", never="park l1"),
    _(name="a flaky verifier says nothing against a loop", story="l1 next score=9\nl1 next score=5 kind=verify.flaky x4", never=HARMLESS),
    _(name="a verifier that breaks for all loops", story="all next unscored x4", never=HARMLESS, loops=3),
    _(name="a branch that somebody else moved", story="l1 next score=8\nl1 moved", right="return l1", healthy="l2", never="clean *, pause *"),
    _(name="history rewritten by its own agent, and parked", story="l1 next score=8\nl1 repaired git.history_rewritten ref=refs/x", right="note l1", healthy="l2", never="clean l1"),
    _(name="a worktree that was deleted, and is back", story="l1 next score=8\nl1 repaired git.worktree_gone ref=refs/x\nl1 next score=9", right="note l1", healthy="l2", never="clean l1"),
    _(name="a half-finished merge, parked", story="l1 next score=8\nl1 repaired git.mid_operation ref=refs/x", right="note l1", healthy="l2", never="clean l1"),
    # ------------------------------------------------------------------ people
    _(name="a person commits in the worktree", story="l1 next score=9\nl1 commits score=9\nl1 next score=10", never=HARMLESS),
    _(name="nothing is reset over a person's commit", story="l1 next score=9\nl1 commits score=9\nl1 next score=2 x2", right="pause l1", healthy="l2", never="clean l1"),
    _(name="a person paused a loop: nobody lets it go on", story="l1 next score=9\nl1 person pause\n- time 7200", never="unpark l1, resume l1, spawn l1, end"),
    _(name="a person stopped a loop: it stays so", story="l1 person stop\n- time 7200", never="unpark l1, resume l1, spawn l1, end"),
    _(name="a person closed a window", story="l1 closed\n- time 600", right="pause l1", healthy="l2", never="spawn l1, end, stop *"),
    # ------------------------------------------------------------------ the machine
    _(name="a runner that died is started again", story="l1 dies\n- time 30", right="spawn l1", healthy="l2", never="clean l1, pause l1"),
    _(name="the tmux server died: every loop once, no more", story="- server-dies\n- time 5", right="spawn l1, spawn l2", never="clean *, pause *, end"),
    _(name="memory is short: fewer loops, at a session's end", story="- strain host.memory_pressure", right="scale 2, park l1, park l2", loops=4, never="end, stop *, clean *"),
    _(name="memory is enough again", story="- strain host.memory_pressure\n- relief", right="scale 2, park l1, park l2, scale 3, unpark l2 or scale 2, park l1, park l2, scale 3, unpark l1", loops=4, never="end, stop *, clean *"),
    _(name="the disk fills: room is made, and no work lost", story="- strain host.disk_low", right="free disk, scale 2, park l1, park l2", loops=4, never="end, stop *, clean *"),
    _(name="asleep for an hour", story="all next score=8\n- suspend 3600\nall next score=9", never=HARMLESS),
    _(name="the clock is set two hours on", story="all next score=8\n- jump 7200\nall next score=9", never=HARMLESS),
    _(name="the clock is set back", story="all next score=8\n- jump -7200\nall next score=9", never=HARMLESS),
    _(name="a new daemon over a healthy night", story="all next score=8\n- restarts\nall next score=9", never=HARMLESS),
    _(name="a new daemon over a loop in trouble", story="l1 noop x3\n- restarts\n- restarts", right="note l1", healthy="l2", never="clean l1, park l1", consulted=True),
    _(name="a late word of an old generation", story="l1 crash_loop x2\nl1 late", right="clean l1", healthy="l2"),
    # ------------------------------------------------------------------ many at once
    _(name="most loops fail alike: one tries for all", story="l1,l2,l3 exited error=no_space x2 every=20", right="park l2, park l3", loops=4, healthy="l4", never="clean *, end, stop *"),
    _(name="two of eight fail alike: their own affair", story="l1,l2 exited error=no_space x2 every=20", loops=8, never=HARMLESS),
    _(name="all fail differently", story="l1 exited error=one x2 every=5\nl2 exited error=two x2 every=5\nl3 exited error=three x2 every=5", loops=3, never=HARMLESS),
    _(name="one stays behind while the others gain", story="l2,l3,l4 next score=8\nl1 next score=7\nl2,l3,l4 next score=9\nl1 next score=7\nl2,l3,l4 next score=10\nl1 next score=7\nl2,l3,l4 next score=11\nl1 next score=7\nl2,l3,l4 next score=12\nl1 next score=7", right="note l1 or clean l1", loops=4, healthy="l2, l3, l4", never="park *", consulted=True),
    _(name="the night's time is up", story="all next score=8\n- time 36000 ends", right="end, stop l1, stop l2", never="clean *"),
)  # fmt: skip
