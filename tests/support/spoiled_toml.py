"""A ralphd.toml that sets everything there is to set, to be spoiled."""

from __future__ import annotations

WHOLE = """\
[night]
width = 4
until = "07:00"
schedule = "0 22 * * *"

[agent]
cli = "command"
program = "/usr/bin/agent"
model = "m"
args = ["--fast"]
env = { A = "1" }
env_pass = ["KEY"]
resume = true

[limits]
tool_seconds = 10
tool_memory = "512 MiB"
compactions = 3
tool_output = "64KiB"
quiet_seconds = 1.5
stream_seconds = 2
result_grace_seconds = 3
backoff_min_seconds = 4
backoff_max_seconds = 5

[[task]]
name = "main"
repo = "a"
prompt = "ASK.md"
base = "v1"
width = 2

[task.verify]
command = "make"
score = "json:out.json#/a/0"
direction = "min"
goal = 0.5
protect = ["tests/**"]
seconds = 60
memory = "2G"
slots = 1
setup = "make deps"

[[task]]
name = "other"

[worktree]
include = [".env"]
sparse = ["src"]

[supervisor]
model = "s"
base_url = "http://localhost"
width_min = 2
width_max = 3

[journal]
url = "postgresql://x/y"

[notify]
urls = ["json://x"]

[pods]
size = 2
"""
