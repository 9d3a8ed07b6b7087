from __future__ import annotations

import pytest

from ralphd.core.exchange import Limits
from ralphd.core.facts import EndedBy
from ralphd.core.patience import Patience
from ralphd.core.reading import Reading
from ralphd.core.signals import Called, Compacted, Requesting, Resulted, Retrying, Returned, Said, Streamed, Unread

LIMITS = Limits(quiet_s=900, stream_s=300, result_grace_s=20)


class Agent:
    def __init__(self):
        self.patience, self.reading, self.now = Patience(limits=LIMITS, last_byte=0.0, last_work=0.0), Reading(), 0.0

    def tells(self, *signals):
        self.patience.heard(self.now)
        for signal in signals:
            self.reading.add(signal)
            self.patience.note(signal, self.now)
        return self

    def after(self, seconds):
        self.now += seconds
        return self

    def over(self, open_calls=0):
        return self.patience.over(self.now, self.reading, open_calls=open_calls)


def test_silence_counts_only_while_the_tree_is_idle():
    agent = Agent().tells(Said(text="hm")).after(899)
    assert agent.over() is EndedBy.ITSELF
    agent.patience.worked(agent.now)
    assert agent.after(899).over() is EndedBy.ITSELF
    assert agent.after(1).over() is EndedBy.QUIET


def test_a_request_that_streams_nothing_is_stalled_and_each_piece_is_a_sign_of_life():
    agent = Agent().tells(Requesting()).after(299).tells(Streamed()).after(299)
    assert agent.over() is EndedBy.ITSELF
    assert agent.after(1).over() is EndedBy.SILENT_STREAM


def test_a_cli_that_waits_by_itself_is_not_stalled():
    agent = Agent().tells(Requesting(), Retrying(delay_s=1000)).after(1299)
    assert agent.over() is EndedBy.ITSELF
    assert agent.after(1).over() is EndedBy.SILENT_STREAM


def test_a_cli_that_shows_no_pieces_of_an_answer_may_think_long_after_a_wait_of_its_own():
    agent = Agent().tells(Retrying(delay_s=5)).after(800)
    assert agent.over() is EndedBy.ITSELF
    assert agent.after(105).over() is EndedBy.QUIET


def test_a_tool_call_is_not_a_silent_stream():
    agent = Agent().tells(Requesting(), Called(id="1", tool="Bash", command="make")).after(400)
    assert agent.over() is EndedBy.ITSELF
    assert agent.after(9000).over(open_calls=1) is EndedBy.ITSELF
    assert agent.over() is EndedBy.QUIET


def test_a_final_result_has_its_grace_and_noise_does_not_prolong_it():
    agent = Agent().tells(Requesting(), Resulted(ok=True)).after(19)
    assert agent.over() is EndedBy.ITSELF
    assert agent.tells(Unread(text="noise")).after(1).over() is EndedBy.RESULT_GRACE


def test_a_result_that_is_followed_by_another_turn_is_not_the_end():
    agent = Agent().tells(Resulted(ok=True)).after(10).tells(Requesting()).after(30)
    assert agent.over() is EndedBy.ITSELF


def test_the_tenth_compaction_is_the_end_over_all_attempts_of_a_trajectory():
    agent = Agent()
    agent.patience.compactions = 4
    agent.tells(*[Compacted()] * 5)
    assert agent.over() is EndedBy.ITSELF
    assert agent.tells(Compacted()).over() is EndedBy.COMPACTIONS


@pytest.mark.parametrize(
    "signals", [(Requesting(),), (Returned(id="1"),), (Resulted(ok=True),), (Retrying(delay_s=5),)]
)
def test_time_that_nobody_had_is_excused(signals):
    agent = Agent().tells(*signals).after(36_000)
    assert agent.over() is not EndedBy.ITSELF
    agent.patience.excuse(36_000)
    assert agent.over() is EndedBy.ITSELF


def test_the_next_look_is_never_late():
    for signals in ((), (Requesting(),), (Resulted(ok=True),)):
        agent = Agent().tells(*signals)
        agent.after(agent.patience.next_look_s(agent.now, agent.reading))
        assert agent.over() is not EndedBy.ITSELF
