"""Which commits are kept when they are tried on top of one another: over every mixture of gains, conflicts and spoilers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ralphd.core.model import Verdict, Verifier
from ralphd.core.outcomes import Kind
from ralphd.core.taking import Joined, Means, Pick, Standing, ranked, refused, stack


class World:
    """Commits are sets of parts; a part is a point; parts of one group conflict; a spoiled set scores nothing."""

    def __init__(self, spoilers=(), conflicts=()):
        self.spoilers, self.conflicts, self.runs = spoilers, conflicts, 0

    def join(self, commit, picks):
        parts = set(filter(None, commit.split("+")))
        for pick in picks:
            parts |= set(pick.commit.split("+"))
            for pair in self.conflicts:
                if set(pair) <= parts:
                    return Joined(conflicts=("f",))
        name = "+".join(sorted(parts))
        return Joined(commit=name, tree=name)

    def score(self, commit):
        parts = set(filter(None, commit.split("+")))
        return 0.0 if any(set(pair) <= parts for pair in self.spoilers) else float(len(parts))

    def judge(self, joined, picks):
        self.runs += 1
        return Verdict(
            task="t", loop="", commit=joined.commit, tree=joined.tree, score=self.score(joined.commit), passed=False
        )

    def stack(self, names, batch=1):
        start = Standing(commit="", tree="", score=0.0, passed=False)
        picks = [Pick(loop=name, commit=name, score=1.0) for name in names]
        return list(stack(start, picks, Means(join=self.join, judge=self.judge), batch=batch))


def kept(tried):
    return [loop for one in tried if one.kept for loop in one.loops]


def test_each_is_verified_on_top_of_the_last_and_what_does_not_gain_is_left_out():
    tried = World(spoilers=[("b", "d")]).stack("abcd")
    assert kept(tried) == ["a", "b", "c"]
    assert tried[-1].standing.commit == "a+b+c"
    assert "doesn't gain: 0 after 3" in tried[-1].why


def test_what_conflicts_is_left_out_without_a_verification():
    world = World(conflicts=[("a", "c")])
    tried = world.stack("abc")
    assert kept(tried) == ["a", "b"]
    assert tried[2].conflicts == ("f",)
    assert world.runs == 2


def test_what_is_there_already_needs_no_verification():
    world = World()
    tried = world.stack(["a", "a"])
    assert kept(tried) == ["a"]
    assert "nothing that isn't there" in tried[1].why
    assert world.runs == 1


def test_a_batch_that_fails_is_halved_until_the_spoiler_stands_alone():
    world = World(spoilers=[("c", "g")])
    tried = world.stack("abcdefgh", batch=8)
    assert kept(tried) == list("abcdefh")
    assert world.runs < 8
    assert [one.loops for one in tried if not one.kept] == [("g",)]


def test_a_whole_batch_that_gains_costs_one_verification():
    world = World()
    assert kept(world.stack("abcdefgh", batch=8)) == list("abcdefgh")
    assert world.runs == 1


PARTS = "abcdefghij"
PAIRS = st.lists(
    st.tuples(st.sampled_from(PARTS), st.sampled_from(PARTS)).filter(lambda pair: pair[0] != pair[1]), max_size=6
)


@given(st.permutations(PARTS), PAIRS, PAIRS, st.integers(1, 12))
def test_the_result_always_gains_by_what_was_kept_and_every_loop_is_accounted_for(names, spoilers, conflicts, batch):
    world = World(spoilers, conflicts)
    tried = world.stack(names, batch)
    assert sorted(loop for one in tried for loop in one.loops) == sorted(names)
    result = tried[-1].standing
    assert result.score == world.score(result.commit) == len(kept(tried))
    assert set(result.commit.split("+")) - {""} == set(kept(tried))
    assert not any(set(pair) <= set(kept(tried)) for pair in (*spoilers, *conflicts))
    for one in (one for one in tried if not one.kept):  # nothing was left out that would have fitted at its turn
        assert one.conflicts or one.verdict is not None


def test_the_greatest_gain_comes_first_in_either_direction():
    picks = [Pick(loop=str(score), commit="c", score=score) for score in (2.0, None, 5.0, 0.0, -1.0)]
    assert [pick.score for pick in ranked(picks, Verifier())] == [5.0, 2.0, 0.0, -1.0, None]
    assert [pick.score for pick in ranked(picks, Verifier(direction="min"))] == [-1.0, 0.0, 2.0, 5.0, None]


def test_a_verdict_with_trouble_never_counts():
    standing = Standing(commit="", tree="", score=1.0, passed=False)
    for kind in (Kind.TAMPERED, Kind.FLAKY, Kind.VERIFY_TIMEOUT):
        verdict = Verdict(task="t", loop="", commit="c", tree="t", score=9.0, passed=True, kind=kind)
        assert refused(verdict, standing, Verifier())


def test_a_pass_is_a_gain_where_there_was_none():
    verdict = Verdict(task="t", loop="", commit="c", tree="t", score=None, passed=True)
    assert not refused(verdict, Standing(commit="", tree="", score=None, passed=False), Verifier())
    assert refused(verdict, Standing(commit="", tree="", score=None, passed=True), Verifier())
