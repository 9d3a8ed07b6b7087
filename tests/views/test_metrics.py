"""What Prometheus reads: the text format, documented names, and nothing where nothing is known."""

from __future__ import annotations

import re

from support.dashboard import loop_row, status_of

from ralphd.views.metrics import METRICS, render_metrics

LINE = re.compile(
    r'[a-z_]+(?:\{[a-z_]+="(?:[^"\\\n]|\\["\\n])*"(?:,[a-z_]+="(?:[^"\\\n]|\\["\\n])*")*\})? -?[0-9.e+-]+'
)


def test_a_night_is_told_in_the_text_format():
    text = render_metrics(status_of(loop_row("loop-1"), loop_row("loop-2", state="paused"), trouble=("x",)))
    for line in text.splitlines():
        assert line.startswith(("# HELP ", "# TYPE ")) or LINE.fullmatch(line), line
    for sample in (
        "ralphd_up 1",
        'ralphd_loops{state="running"} 1',
        'ralphd_loops{state="paused"} 1',
        'ralphd_loops{state="dead"} 0',
        "ralphd_needs_person 1",
        "ralphd_throughput_per_hour 0.25",
        'ralphd_loop_best_score{loop="loop-1",task="main"} 2.0',
        'gen_ai_client_token_usage_total{loop="loop-1",task="main",gen_ai_token_type="input"} 10',
    ):
        assert sample in text.splitlines(), sample
    for metric in METRICS:
        assert text.count(f"# TYPE {metric.name} {metric.kind}\n") == 1


def test_what_is_unknown_is_left_out():
    status = status_of(loop_row(best_score=None, tokens_in=None, quiet_for_s=None))
    status["fleet"]["throughput_per_h"] = None
    text = render_metrics(status)
    for name in ("ralphd_loop_best_score", "gen_ai_client_token_usage_total", "quiet_seconds", "throughput"):
        assert name not in text


def test_no_label_breaks_out():
    hostile = 'a"} 1\nralphd_up 0\\'
    lines = render_metrics(status_of(loop_row(hostile, task=hostile))).splitlines()
    assert "ralphd_up 0" not in lines
    assert all(line.startswith("# ") or LINE.fullmatch(line) for line in lines)


def test_nobody_answers():
    assert render_metrics(None).splitlines()[-1] == "ralphd_up 0"
    assert len(render_metrics(None).splitlines()) == 3
