"""Tests of commands under a keeper: started once, followed by any process, limited."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from core.env import ROOT
from tests.tools_app.sandbox.conftest import alive, limited, reconfigured, sleep_command
from tests.tools_app.sandbox.test_containers import container_id
from tools_app.exceptions import KeeperLost, SandboxUnavailable, TooManySandboxes
from tools_app.sandbox.container.sandbox import ContainerSandbox
from tools_app.sandbox.network import Network
from tools_app.sandbox.output import SHOWN
from tools_app.sandbox.provisioning import kill_leftovers
from tools_app.sandbox.slots import command_slot
from tools_app.sandbox.tasks import control
from tools_app.sandbox.tasks.control import follow, is_alive, start, stop_all
from tools_app.sandbox.tasks.record import Record, make_order

TIMEOUT_SECONDS = 60
STARTER = """
import sys
from pathlib import Path
from tools_app.sandbox.tasks.control import start
from tools_app.sandbox.tasks.record import Record
start(Record(folder=Path(sys.argv[1])))
print("started", flush=True)
sys.stdin.read()
"""


def wait_for(look, what):
    until = time.monotonic() + TIMEOUT_SECONDS
    while time.monotonic() < until:
        if found := look():
            return found
        time.sleep(0.02)
    raise AssertionError(f"Timed out waiting for {what}.")


class KeptCommand:
    """Runs one command in a sandbox under a keeper and observes it."""

    def __init__(self, sandbox, command, seconds=TIMEOUT_SECONDS):
        self.sandbox = sandbox
        self.files = sandbox.folder.make()
        self.record = Record(folder=sandbox.folder.root / "commands" / "one")
        self.record.write_order(make_order(sandbox, command, seconds=seconds))
        self.never = os.eventfd(0)

    def start(self):
        os.close(start(self.record))

    def follow(self):
        shown: list[str] = []
        ending = follow(self.record, on_output=shown.append, stop=self.never)
        return "".join(shown), ending

    def wait_for_output(self, words):
        def look():
            output = self.record.output
            return output.exists() and words in output.read_text()

        wait_for(look, words)

    def kill_keeper(self):
        os.kill(int(self.record.keeper().partition(".")[0]), signal.SIGKILL)


@pytest.fixture
def keep(sandbox):
    made = []

    def use(command, *, using=None, seconds=TIMEOUT_SECONDS):
        made.append(KeptCommand(using or sandbox, command, seconds))
        return made[-1]

    yield use
    for one in made:
        stop_all([one.record], "The test is over.")
        kill_leftovers(one.sandbox.folder.session_id)
        os.close(one.never)


def let_finish(kept):
    (kept.files / "go").touch()


WAIT = "echo begun >> count; echo one; while [ ! -e go ]; do sleep 0.05; done; echo two; exit 3"


def test_a_command_holds_the_slot_of_its_workspace_until_its_keeper_ends(keep, settings):
    settings.SANDBOXES_PER_WORKSPACE = 1
    kept = keep(WAIT)
    workspace_id = kept.sandbox.folder.workspace_id
    with command_slot(workspace_id, seconds=0) as slot:
        os.close(start(kept.record, slot=slot))
        kept.wait_for_output("one")

    # The process that started it has let go of the slot, as one that is killed does.
    with pytest.raises(TooManySandboxes), command_slot(workspace_id, seconds=0):
        pass
    let_finish(kept)
    kept.follow()
    with command_slot(workspace_id, seconds=10):
        pass


def test_several_keepers_start_a_command_once(keep):
    kept = keep(WAIT)
    for _ in range(3):
        kept.start()
    kept.wait_for_output("one")
    kept.start()
    let_finish(kept)
    shown, ending = kept.follow()

    assert shown == ending.output == "one\ntwo\n"
    assert (ending.exit_code, ending.ended_by, ending.reason) == (3, "itself", "")
    assert (kept.files / "count").read_text() == "begun\n"


def test_a_command_runs_on_when_a_follower_stops(keep):
    kept = keep(WAIT)
    kept.start()
    kept.wait_for_output("one")
    stop = os.eventfd(1)
    shown: list[str] = []
    assert follow(kept.record, on_output=shown.append, stop=stop) is None
    os.close(stop)
    let_finish(kept)

    assert "".join(shown) == "one\n"
    assert kept.follow()[0] == "one\ntwo\n"
    assert kept.follow()[1].exit_code == 3, "the ending can be read more than once"


def test_a_command_outlives_the_process_that_started_it(keep, settings):
    kept = keep(WAIT)
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTER, str(kept.record.folder)],
        cwd=ROOT,
        env={**os.environ, "DATA_DIR": str(settings.DATA_DIR)}
        | {"CONTAINER_SOCKET": settings.CONTAINER_SOCKET},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    with starter:
        assert starter.stdout.readline() == b"started\n"
        kept.wait_for_output("one")
        os.killpg(starter.pid, signal.SIGKILL)
        starter.wait()
    let_finish(kept)

    assert kept.follow()[0] == "one\ntwo\n"


def test_the_time_limit_applies_without_a_follower(keep):
    marker = sleep_command()
    kept = keep(f"echo one; setsid {marker} & {marker}", seconds=2)
    kept.start()
    ending = wait_for(kept.record.ending, "the end")

    assert (ending.exit_code, ending.ended_by) == (None, "time")
    assert not alive(marker)


def test_the_keeper_limits_the_memory(keep, sandbox):
    hungry = 'python3 -c "x = bytearray(400_000_000); import time; time.sleep(60)"'
    kept = keep(hungry, using=limited(sandbox, memory_mb=128))
    kept.start()
    ending = wait_for(kept.record.ending, "the end")

    assert ending.exit_code != 0


def test_a_stopped_command_ends_with_all_processes_and_records_the_reason(keep, sandbox):
    marker = sleep_command()
    kept = keep(f"setsid {marker} & echo one; {marker}")
    kept.start()
    kept.wait_for_output("one")

    assert stop_all([kept.record], "Enough.") == 1
    ending = kept.record.ending()
    assert (ending.ended_by, ending.reason, ending.output) == ("stop", "Enough.", "one\n")
    assert not alive(marker)
    assert stop_all([kept.record], "Again.") == 0
    if isinstance(sandbox, ContainerSandbox):
        assert ending.container
        assert container_id(sandbox) is None


def test_a_keeper_that_does_not_stop_is_killed(keep):
    marker = sleep_command()
    kept = keep(f"echo one; {marker}")
    kept.start()
    kept.wait_for_output("one")
    os.kill(int(kept.record.keeper().partition(".")[0]), signal.SIGSTOP)

    assert stop_all([kept.record], "Enough.", seconds=0.2) == 1
    assert not is_alive(kept.record)
    kill_leftovers(kept.sandbox.folder.session_id)
    wait_for(lambda: not alive(marker), "the end of the command")


def test_a_command_that_was_stopped_before_its_start_never_runs(keep):
    kept = keep("echo begun >> count")
    stop_all([kept.record], "Not at all.")
    shown, ending = kept.follow()

    assert (shown, ending.ended_by, ending.reason) == ("", "stop", "Not at all.")
    assert not (kept.files / "count").exists()


def test_a_lost_keeper_is_distinguished_from_a_command_that_ended(keep):
    marker = sleep_command()
    kept = keep(f"echo one; {marker}")
    kept.start()
    kept.wait_for_output("one")
    kept.kill_keeper()

    with pytest.raises(KeeperLost):
        kept.follow()
    with pytest.raises(KeeperLost):
        kept.follow()
    kill_leftovers(kept.sandbox.folder.session_id)
    wait_for(lambda: not alive(marker), "the end of the command")


def test_the_size_of_the_recorded_output_is_limited(keep):
    kept = keep("yes a-line-of-words | head -c 5000000")
    shown, ending = kept.follow()

    assert ending.exit_code == 0
    assert len(shown) <= SHOWN
    assert kept.record.output.stat().st_size <= SHOWN


def test_a_character_split_across_two_writes_stays_whole(keep):
    kept = keep(r"printf '\303'; sleep 0.3; printf '\244\n'")

    assert kept.follow()[0] == "ä\n"


def test_the_follower_polls_when_inotify_is_unavailable(keep, monkeypatch):
    class InotifyUnavailable:
        def inotify_init1(self, flags):
            return -1

    monkeypatch.setattr(control, "_libc", InotifyUnavailable())
    kept = keep("echo one; sleep 0.5; echo two")

    assert kept.follow()[0] == "one\ntwo\n"


def test_the_keeper_serves_the_network_of_its_sandbox(keep, sandbox):
    call = "exec 3<>/dev/tcp/127.0.0.1/3128 && echo answered"
    kept = keep(call, using=reconfigured(sandbox, network=Network(posture="full")))

    assert kept.follow()[0] == "answered\n"


def test_a_keeper_that_cannot_start_is_reported_and_nothing_runs(keep, monkeypatch):
    kept = keep("echo begun >> count")
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "no.such.settings")

    with pytest.raises(SandboxUnavailable, match=r"no\.such|No module"):
        kept.follow()
    monkeypatch.undo()
    assert kept.follow()[1].exit_code == 0
    assert Path(kept.files / "count").read_text() == "begun\n"
