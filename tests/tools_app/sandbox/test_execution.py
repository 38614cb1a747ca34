"""Tests that commands run within limits and leave nothing running, in either kind of sandbox."""

from __future__ import annotations

import re
import time
from threading import Event, Thread, Timer

import pytest

from tests.tools_app.sandbox.conftest import TIMEOUT_SECONDS, alive, limited, sleep_command
from tools_app.exceptions import ToolFailed, ToolStopped
from tools_app.files import sandbox_uid
from tools_app.registry import registry
from tools_app.sandbox.output import KEPT, Output
from tools_app.sandbox.provisioning import LazySandbox

#: Tries to start more processes than allowed, and gives up at 300.
FORKER = """
import os, time
made = 0
for _ in range(300):
    try:
        if not os.fork():
            time.sleep(30)
            os._exit(0)
        made += 1
    except OSError:
        break
print(made)
"""


def test_a_command_returns_its_output_and_exit_code(sandbox):
    result = sandbox.execute("echo out; echo err >&2; exit 3", seconds=TIMEOUT_SECONDS)

    assert (result.exit_code, result.output) == (3, "out\nerr\n")
    assert result.ended_by == "itself"


def test_the_exit_code_shows_the_signal_that_killed_a_command(sandbox):
    assert sandbox.execute("kill -SEGV $$", seconds=TIMEOUT_SECONDS).exit_code == 128 + 11


def test_files_stay_between_commands_and_are_shared_with_the_file_tools(sandbox, call, files):
    call("write", path="in.txt", content="from a tool")

    result = sandbox.execute(
        "cat in.txt; pwd; echo from a command > out.txt", seconds=TIMEOUT_SECONDS
    )

    assert result.output == "from a tool/workspace\n"
    assert call("read", path="out.txt") == "from a command\n"
    assert call("edit", path="out.txt", old="a command", new="an edit")
    assert sandbox.execute("cat out.txt", seconds=TIMEOUT_SECONDS).output == "from an edit\n"
    assert (files / "out.txt").stat().st_uid == sandbox_uid()


def test_output_is_shown_while_the_command_still_runs(sandbox, files):
    pieces: list[str] = []

    def on_output(text: str) -> None:
        pieces.append(text)
        if "first" in text:
            (files / "seen").touch()

    result = sandbox.execute(
        "echo first; while [ ! -e seen ]; do sleep 0.05; done; echo second",
        seconds=TIMEOUT_SECONDS,
        on_output=on_output,
    )

    assert result.exit_code == 0
    assert "".join(pieces) == result.output == "first\nsecond\n"


def test_a_character_split_across_two_reads_stays_whole(sandbox):
    result = sandbox.execute(
        r"printf '\xc3'; sleep 0.2; printf '\xab\0\xff'", seconds=TIMEOUT_SECONDS
    )

    assert result.output == "ë\ufffd\ufffd"


def test_the_size_of_the_stored_output_is_limited(sandbox):
    result = sandbox.execute("yes | head -c 5000000; echo the end", seconds=TIMEOUT_SECONDS)

    assert result.exit_code == 0
    assert len(result.output) < 2 * KEPT + 200
    assert "characters were not kept" in result.output
    assert result.output.endswith("the end\n")


def test_escape_sequences_are_removed_from_the_stored_output():
    output = Output()
    output.take(b"\x1b[31mred\x1b[0m \x1b]0;title\x07plain")

    assert output.text() == "red plain"


def test_the_whole_process_tree_ends_at_the_time_limit(sandbox, folder):
    marker = sleep_command()

    result = sandbox.execute(f"echo started; setsid {marker} & ({marker} & ) ; {marker}", seconds=1)

    assert (result.exit_code, result.ended_by, result.output) == (None, "time", "started\n")
    assert alive(marker) == []


def test_background_processes_end_with_their_command(sandbox, folder):
    marker = sleep_command()

    result = sandbox.execute(
        f"setsid {marker} >/dev/null 2>&1 </dev/null & disown; echo done", seconds=TIMEOUT_SECONDS
    )

    assert (result.exit_code, result.output) == (0, "done\n")
    assert alive(marker) == []


def test_a_command_that_closes_its_output_is_still_waited_for(sandbox, files):
    result = sandbox.execute("exec >&- 2>&-; sleep 0.3; touch ended", seconds=TIMEOUT_SECONDS)

    assert (result.exit_code, result.output) == (0, "")
    assert (files / "ended").exists()


def test_a_stop_ends_the_command(sandbox):
    stopped = Event()
    Timer(0.2, stopped.set).start()

    result = sandbox.execute("echo going; sleep 600", seconds=TIMEOUT_SECONDS, stopped=stopped)

    assert (result.exit_code, result.ended_by) == (None, "stop")


def test_the_environments_time_limit_overrides_the_calls(sandbox):
    result = limited(sandbox, wall_seconds=1).execute("sleep 600", seconds=TIMEOUT_SECONDS)

    assert result.ended_by == "time"


def test_the_number_of_processes_is_limited(sandbox, files):
    (files / "forker.py").write_text(FORKER)

    result = limited(sandbox, pids=20).execute("exec python3 forker.py", seconds=TIMEOUT_SECONDS)

    # The parent process counts too.
    assert 10 < int(result.output) <= 19


def test_threads_count_as_processes(sandbox):
    many = "import threading, time; [threading.Thread(target=time.sleep, args=(5,), daemon=True)"
    result = limited(sandbox, pids=20).execute(
        f"python3 -c '{many}.start() for _ in range(100)]'", seconds=TIMEOUT_SECONDS
    )

    assert "can't start new thread" in result.output


def test_the_memory_of_one_process_is_limited(sandbox):
    result = limited(sandbox, memory_mb=128).execute(
        "python3 -c 'bytearray(200_000_000)'", seconds=TIMEOUT_SECONDS
    )

    assert result.exit_code == 1
    assert "MemoryError" in result.output


@pytest.mark.parametrize(
    "bomb",
    [
        # Many processes, each within its own limit.
        "import os\nfor _ in range(8):\n  if not os.fork():\n    break\nb = bytearray(60_000_000)",
        # Shared memory, which counts for no single process.
        "import mmap\nb = mmap.mmap(-1, 2**30)\nfor i in range(0, 2**30, 4096): b[i] = 1",
    ],
)
def test_a_memory_bomb_across_the_process_tree_is_killed(sandbox, bomb):
    (sandbox.folder.make() / "bomb.py").write_text(f"{bomb}\nimport time; time.sleep(600)")

    result = limited(sandbox, memory_mb=192).execute("python3 bomb.py", seconds=TIMEOUT_SECONDS)

    assert (result.exit_code, result.ended_by) == (None, "memory")


def test_cpu_time_is_counted_over_the_whole_process_tree(sandbox):
    spin = "while :; do :; done &"

    # Each process stays far below the kernel's limit for a single process.
    result = limited(sandbox, cpu_seconds=1).execute(
        f"{spin} " * 8 + "wait", seconds=TIMEOUT_SECONDS
    )

    assert (result.exit_code, result.ended_by) == (None, "cpu")


def test_the_size_of_a_file_is_limited(sandbox, files):
    result = limited(sandbox, file_mb=2).execute(
        "head -c 50000000 /dev/zero > big; ls / > small", seconds=TIMEOUT_SECONDS
    )

    assert result.exit_code == 0
    assert (files / "big").stat().st_size == 2 * 1024 * 1024


@pytest.mark.parametrize("place", ["/tmp", "/dev/shm"])  # noqa: S108
def test_the_size_of_files_in_memory_is_limited(sandbox, place):
    result = limited(sandbox, memory_mb=64).execute(
        f"head -c 900000000 /dev/zero > {place}/big; stat -c %s {place}/big",
        seconds=TIMEOUT_SECONDS,
    )

    assert int(result.output.splitlines()[-1]) <= 16 * 1024 * 1024


def test_a_nearly_full_disk_ends_the_command(sandbox, settings):
    def fill_disk(_: str) -> None:
        settings.DISK_RESERVE_MB = 10**12

    result = sandbox.execute("echo; sleep 600", seconds=TIMEOUT_SECONDS, on_output=fill_disk)

    assert result.ended_by == "disk"


def test_the_tool_shows_output_and_exit_code(make_context):
    shown: list[str] = []

    answer = registry["exec"].call(
        {"command": "echo -n hi; exit 4"}, make_context(emit=shown.append)
    )

    assert answer == "hi\n[exit code 4]"
    assert shown == ["hi"]


def test_the_tool_reports_a_time_out_with_the_output_so_far(call):
    with pytest.raises(ToolFailed) as caught:
        call("exec", command="echo half; sleep 600", seconds=1)

    message, _, output = caught.value.detail.partition(" Its output until then:\n")
    assert re.fullmatch(r"The command was stopped after \d+ s, when its time was up\.", message)
    assert output == "half\n"


def test_the_tool_reports_the_time_limit_of_its_environment(sandbox, make_context):
    hasty = limited(sandbox, wall_seconds=1)

    with pytest.raises(ToolFailed) as caught:
        registry["exec"].call({"command": "sleep 600", "seconds": 600}, make_context(sandbox=hasty))

    assert "stopped after" in caught.value.detail
    assert "600" not in caught.value.detail


def test_the_tool_raises_when_it_is_stopped(make_context):
    context = make_context(deadline=time.monotonic() + TIMEOUT_SECONDS)
    Timer(0.2, context.stopped.set).start()

    with pytest.raises(ToolStopped):
        registry["exec"].call({"command": "sleep 600"}, context)


def test_commands_of_one_session_do_not_end_each_other(sandbox, files):
    results = []
    slow = "touch begun; sleep 0.5; echo slow"
    thread = Thread(target=lambda: results.append(sandbox.execute(slow, seconds=TIMEOUT_SECONDS)))
    thread.start()
    while not (files / "begun").exists():
        time.sleep(0.01)

    assert sandbox.execute("echo quick", seconds=TIMEOUT_SECONDS).output == "quick\n"
    thread.join()
    assert results[0].output == "slow\n"


def test_a_lazy_sandbox_is_made_once_and_only_when_used(sandbox):
    made = []

    def make():
        made.append(sandbox)
        return sandbox

    lazy = LazySandbox(make)
    lazy.destroy()
    assert made == []

    lazy.execute("true", seconds=TIMEOUT_SECONDS)
    lazy.execute("true", seconds=TIMEOUT_SECONDS)
    assert made == [sandbox]
