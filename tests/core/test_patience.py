from __future__ import annotations

import pytest

from ralphd.core.exchange import Limits
from ralphd.core.facts import EndedBy
from ralphd.core.patience import Patience
from ralphd.core.reading import Reading
from ralphd.core.signals import (
    Began,
    Called,
    Compacted,
    Failed,
    Requesting,
    Resulted,
    Retrying,
    Returned,
    Said,
    Streamed,
    Unread,
    Used,
)

LIMITS = Limits(quiet_s=900, stream_s=300, result_grace_s=20)


class Agent:
    def __init__(self, *, turns=False):
        self.patience = Patience(limits=LIMITS, last_byte=0.0, last_work=0.0, turns=turns)
        self.reading, self.now = Reading(), 0.0

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


def test_a_long_think_with_deltas_is_alive_however_long_and_slow():
    """A stream that trickles is an answer all the same: there is no time limit on a trajectory."""
    agent = Agent().tells(Requesting())
    for _ in range(24 * 60):
        assert agent.after(60).tells(Streamed()).over() is EndedBy.ITSELF


@pytest.mark.parametrize("noise", [(), (Unread(text="{"),), (Used(tokens_in=1),)])
def test_bytes_that_are_no_piece_of_an_answer_keep_no_request_alive(noise):
    """Headers and then nothing, or pings only: a request that streams nothing."""
    agent = Agent().tells(Requesting())
    for _ in range(29):
        assert agent.after(10).tells(*noise).over() is EndedBy.ITSELF
    assert agent.after(10).tells(*noise).over() is EndedBy.SILENT_STREAM


def test_a_busy_tree_keeps_no_silent_request_alive():
    agent = Agent().tells(Requesting()).after(300)
    agent.patience.worked(agent.now)
    assert agent.over() is EndedBy.SILENT_STREAM


def test_a_client_that_announces_its_own_long_wait_again_and_again_is_alive_until_it_stops_doing_so():
    agent = Agent().tells(Requesting())
    for left in range(3600, 0, -30):
        assert agent.tells(Retrying(attempt=1, delay_s=float(left))).after(30).over() is EndedBy.ITSELF
    assert agent.after(299).over() is EndedBy.ITSELF
    assert agent.after(1).over() is EndedBy.SILENT_STREAM


def test_an_open_tool_call_may_be_as_quiet_as_it_likes():
    """The guard has limits of its own for it."""
    for turns in (False, True):
        agent = Agent(turns=turns).tells(Began(), Requesting(), Called(id="1", tool="Bash", command="make"))
        assert agent.after(36_000).over(open_calls=1) is EndedBy.ITSELF


def test_a_cli_that_tells_no_requests_waits_for_the_model_when_nothing_else_is_under_way():
    agent = Agent(turns=True).tells(Began(session="s")).after(299)
    assert agent.over() is EndedBy.ITSELF
    agent.patience.worked(agent.now)  # what it reads from the network counts
    assert agent.after(299).over() is EndedBy.ITSELF
    assert agent.after(1).over() is EndedBy.SILENT_STREAM
    assert agent.tells(Called(id="1", tool="shell", command="make")).after(899).over() is EndedBy.ITSELF
    assert agent.tells(Returned(id="1")).after(299).over() is EndedBy.ITSELF
    assert agent.after(1).over() is EndedBy.SILENT_STREAM


def test_a_program_that_tells_nothing_is_hung_and_never_stalled():
    agent = Agent(turns=True).tells(Unread(text="working")).after(899)
    assert agent.over() is EndedBy.ITSELF
    assert agent.after(1).over() is EndedBy.QUIET


def test_a_client_without_requests_that_waits_by_itself_is_alive():
    agent = Agent(turns=True).tells(Began(), Retrying(attempt=1, delay_s=1000)).after(1299)
    assert agent.over() is EndedBy.ITSELF
    assert agent.after(1).over() is EndedBy.SILENT_STREAM


@pytest.mark.parametrize("turns", [False, True])
def test_the_next_look_is_never_late(turns):
    for signals in ((), (Began(),), (Requesting(),), (Resulted(ok=True),)):
        agent = Agent(turns=turns).tells(*signals)
        agent.after(agent.patience.next_look_s(agent.now, agent.reading))
        assert agent.over() is not EndedBy.ITSELF


def test_a_cli_that_asks_in_vain_without_end_is_ended_at_once_and_one_failure_ends_nothing():
    agent = Agent().tells(Failed(error="truncated"))
    assert agent.over() is EndedBy.ITSELF
    agent.tells(Failed(error="truncated", endless=True), Said(text="half an ans"))
    assert agent.over(open_calls=1) is EndedBy.ENDLESS


def test_a_wait_that_a_final_result_ended_no_longer_excuses():
    agent = Agent().tells(Requesting(), Retrying(delay_s=600)).after(10).tells(Said(text="well"), Resulted(ok=True))
    assert agent.after(20).over() is EndedBy.RESULT_GRACE


def test_a_wait_that_is_told_after_a_final_result_excuses():
    agent = Agent().tells(Resulted(ok=True), Retrying(delay_s=600)).after(619)
    assert agent.over() is EndedBy.ITSELF
    assert agent.after(1).over() is EndedBy.RESULT_GRACE


def test_an_agent_that_has_just_started_has_the_whole_limit_to_show_a_first_sign():
    assert Agent().after(899).over() is EndedBy.ITSELF
    assert Agent().after(900).over() is EndedBy.QUIET


@pytest.mark.parametrize("sign", ["bytes", "work"])
def test_either_of_two_signs_is_life_by_itself(sign):
    agent = Agent()
    for _ in range(20):
        agent.after(600)
        if sign == "bytes":
            agent.patience.heard(agent.now)
        else:
            agent.patience.worked(agent.now)
        assert agent.over() is EndedBy.ITSELF
    assert agent.after(900).over() is EndedBy.QUIET


def test_a_sign_found_late_counts_from_when_it_was():
    agent = Agent().after(900)
    agent.patience.worked(500.0)
    assert agent.over() is EndedBy.ITSELF
    agent.patience.worked(300.0)
    assert agent.after(499).over() is EndedBy.ITSELF
    assert agent.after(1).over() is EndedBy.QUIET


def test_a_call_in_flight_is_life_for_as_long_as_its_own_limit_lets_it_run():
    agent = Agent().tells(Called(id="1", tool="Bash", command="make")).after(50_000)
    assert agent.over(open_calls=1) is EndedBy.ITSELF
    agent.patience.heard(agent.now)  # it has returned
    assert agent.after(899).over() is EndedBy.ITSELF
    assert agent.after(1).over() is EndedBy.QUIET
