"""A kept command: begun once, followed by anybody, within its limits whoever lives."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from core.env import ROOT
from tests.tools_app.sandbox.conftest import alive, limited, nap, remade
from tests.tools_app.sandbox.test_containers import container_id
from tools_app.exceptions import KeeperLost, SandboxUnavailable
from tools_app.sandbox.container.sandbox import ContainerSandbox
from tools_app.sandbox.network import Network
from tools_app.sandbox.output import SHOWN
from tools_app.sandbox.provisioning import kill_leftovers
from tools_app.sandbox.tasks import control
from tools_app.sandbox.tasks.control import follow, is_alive, start, stop_all
from tools_app.sandbox.tasks.record import Record, make_order

PATIENCE = 60
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
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        if found := look():
            return found
        time.sleep(0.02)
    raise AssertionError(f"Waited in vain for {what}.")


class Kept:
    """One command in a sandbox, and ways to look at it."""

    def __init__(self, sandbox, command, seconds=PATIENCE):
        self.sandbox = sandbox
        self.files = sandbox.folder.make()
        self.record = Record(folder=sandbox.folder.root / "commands" / "one")
        self.record.write_order(make_order(sandbox, command, seconds=seconds))
        self.never = os.eventfd(0)

    def start(self):
        os.close(start(self.record))

    def follow(self):
        said: list[str] = []
        ending = follow(self.record, on_output=said.append, stop=self.never)
        return "".join(said), ending

    def wait_for_words(self, words):
        def look():
            output = self.record.output
            return output.exists() and words in output.read_text()

        wait_for(look, words)

    def kill_keeper(self):
        os.kill(int(self.record.keeper().partition(".")[0]), signal.SIGKILL)


@pytest.fixture
def keep(sandbox):
    made = []

    def use(command, *, using=None, seconds=PATIENCE):
        made.append(Kept(using or sandbox, command, seconds))
        return made[-1]

    yield use
    for one in made:
        stop_all([one.record], "The test is over.")
        kill_leftovers(one.sandbox.folder.session_id)
        os.close(one.never)


def go(kept):
    (kept.files / "go").touch()


WAIT = "echo begun >> count; echo one; while [ ! -e go ]; do sleep 0.05; done; echo two; exit 3"


def test_a_command_is_begun_once_by_however_many_keepers(keep):
    kept = keep(WAIT)
    for _ in range(3):
        kept.start()
    kept.wait_for_words("one")
    kept.start()
    go(kept)
    said, ending = kept.follow()

    assert said == ending.output == "one\ntwo\n"
    assert (ending.exit_code, ending.ended_by, ending.reason) == (3, "itself", "")
    assert (kept.files / "count").read_text() == "begun\n"


def test_who_stops_following_leaves_the_command_to_the_next(keep):
    kept = keep(WAIT)
    kept.start()
    kept.wait_for_words("one")
    stop = os.eventfd(1)
    said: list[str] = []
    assert follow(kept.record, on_output=said.append, stop=stop) is None
    os.close(stop)
    go(kept)

    assert "".join(said) == "one\n"
    assert kept.follow()[0] == "one\ntwo\n"
    assert kept.follow()[1].exit_code == 3, "an end is told as often as it is asked for"


def test_a_command_outlives_who_started_it(keep, settings):
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
        kept.wait_for_words("one")
        os.killpg(starter.pid, signal.SIGKILL)
        starter.wait()
    go(kept)

    assert kept.follow()[0] == "one\ntwo\n"


def test_its_time_is_up_also_when_nobody_follows_it(keep):
    marker = nap()
    kept = keep(f"echo one; setsid {marker} & {marker}", seconds=2)
    kept.start()
    ending = wait_for(kept.record.ending, "the end")

    assert (ending.exit_code, ending.ended_by) == (None, "time")
    assert not alive(marker)


def test_its_memory_is_bounded_by_the_keeper(keep, sandbox):
    hungry = 'python3 -c "x = bytearray(400_000_000); import time; time.sleep(60)"'
    kept = keep(hungry, using=limited(sandbox, memory_mb=128))
    kept.start()
    ending = wait_for(kept.record.ending, "the end")

    assert ending.exit_code != 0


def test_who_is_asked_to_end_ends_with_all_processes_and_says_why(keep, sandbox):
    marker = nap()
    kept = keep(f"setsid {marker} & echo one; {marker}")
    kept.start()
    kept.wait_for_words("one")

    assert stop_all([kept.record], "Enough.") == 1
    ending = kept.record.ending()
    assert (ending.ended_by, ending.reason, ending.output) == ("stop", "Enough.", "one\n")
    assert not alive(marker)
    assert stop_all([kept.record], "Again.") == 0
    if isinstance(sandbox, ContainerSandbox):
        assert ending.container
        assert container_id(sandbox) is None


def test_a_keeper_that_does_not_obey_is_killed(keep):
    marker = nap()
    kept = keep(f"echo one; {marker}")
    kept.start()
    kept.wait_for_words("one")
    os.kill(int(kept.record.keeper().partition(".")[0]), signal.SIGSTOP)

    assert stop_all([kept.record], "Enough.", seconds=0.2) == 1
    assert not is_alive(kept.record)
    kill_leftovers(kept.sandbox.folder.session_id)
    wait_for(lambda: not alive(marker), "the end of the command")


def test_what_was_asked_to_end_before_it_began_never_begins(keep):
    kept = keep("echo begun >> count")
    stop_all([kept.record], "Not at all.")
    said, ending = kept.follow()

    assert (said, ending.ended_by, ending.reason) == ("", "stop", "Not at all.")
    assert not (kept.files / "count").exists()


def test_a_command_whose_keeper_is_lost_is_told_apart_from_one_that_ended(keep):
    marker = nap()
    kept = keep(f"echo one; {marker}")
    kept.start()
    kept.wait_for_words("one")
    kept.kill_keeper()

    with pytest.raises(KeeperLost):
        kept.follow()
    with pytest.raises(KeeperLost):
        kept.follow()
    kill_leftovers(kept.sandbox.folder.session_id)
    wait_for(lambda: not alive(marker), "the end of the command")


def test_a_flood_does_not_fill_the_journal(keep):
    kept = keep("yes a-line-of-words | head -c 5000000")
    said, ending = kept.follow()

    assert ending.exit_code == 0
    assert len(said) <= SHOWN
    assert kept.record.output.stat().st_size <= SHOWN


def test_characters_that_come_in_pieces_are_whole(keep):
    kept = keep(r"printf '\303'; sleep 0.3; printf '\244\n'")

    assert kept.follow()[0] == "ä\n"


def test_without_notices_of_the_kernel_the_follower_looks_by_itself(keep, monkeypatch):
    class Full:
        def inotify_init1(self, flags):
            return -1

    monkeypatch.setattr(control, "_libc", Full())
    kept = keep("echo one; sleep 0.5; echo two")

    assert kept.follow()[0] == "one\ntwo\n"


def test_the_keeper_serves_the_network_of_its_sandbox(keep, sandbox):
    call = "exec 3<>/dev/tcp/127.0.0.1/3128 && echo answered"
    kept = keep(call, using=remade(sandbox, network=Network(posture="full")))

    assert kept.follow()[0] == "answered\n"


def test_a_keeper_that_does_not_start_says_so_and_nothing_was_begun(keep, monkeypatch):
    kept = keep("echo begun >> count")
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "no.such.settings")

    with pytest.raises(SandboxUnavailable, match=r"no\.such|No module"):
        kept.follow()
    monkeypatch.undo()
    assert kept.follow()[1].exit_code == 0
    assert Path(kept.files / "count").read_text() == "begun\n"
