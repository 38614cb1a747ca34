"""Tests of a person's terminal in either kind of sandbox."""

from __future__ import annotations

import time
from threading import Thread

import pytest

from tests.tools_app.sandbox.conftest import TIMEOUT_SECONDS, alive, sleep_command
from tools_app.sandbox.provisioning import kill_leftovers


def read_until(terminal, wanted: bytes) -> bytes:
    seen = b""
    end = time.monotonic() + TIMEOUT_SECONDS
    while wanted not in seen:
        assert time.monotonic() < end, seen
        piece = terminal.read(0.5)
        assert piece is not None, seen
        seen += piece
    return seen


def read_to_the_end(terminal) -> bytes:
    seen = b""
    end = time.monotonic() + TIMEOUT_SECONDS
    while (piece := terminal.read(0.5)) is not None:
        assert time.monotonic() < end, seen
        seen += piece
    return seen


@pytest.fixture
def terminal(sandbox):
    opened = sandbox.open_terminal(columns=91, rows=31)
    yield opened
    opened.close()


def test_input_runs_on_a_screen_of_the_given_size(terminal):
    terminal.write(b"test -t 0 && stty size; echo $((6 * 7)) $TERM; pwd\n")

    seen = read_until(terminal, b"42 xterm-256color\r\n/workspace")
    assert b"31 91" in seen


def test_the_screen_can_be_resized(terminal):
    read_until(terminal, b"$ ")
    terminal.resize(120, 40)

    terminal.write(b"stty size\n")
    read_until(terminal, b"40 120")


def test_keys_reach_the_running_program(terminal):
    read_until(terminal, b"$ ")
    # The program prints this once it owns the terminal; an earlier key would reach the shell.
    terminal.write(b"sh -c 'echo begun $((2 + 2)); exec sleep 600'\n")
    read_until(terminal, b"begun 4")
    terminal.write(b"\x03")
    read_until(terminal, b"$ ")
    terminal.write(b"echo then $((1 + 1))\n")

    read_until(terminal, b"then 2")


def test_a_terminal_ends_with_its_shell(terminal):
    terminal.write(b"exit\n")

    assert b"exit" in read_to_the_end(terminal)
    assert terminal.read(0.1) is None


def test_a_terminal_can_run_a_given_command(sandbox):
    terminal = sandbox.open_terminal("stty size; echo for you", columns=70, rows=20)

    assert b"20 70\r\nfor you\r\n" in read_to_the_end(terminal)
    terminal.close()


def test_closing_a_terminal_kills_its_processes_and_wakes_the_reader(sandbox, folder):
    marker = sleep_command()
    terminal = sandbox.open_terminal()
    terminal.write(f"setsid {marker} & {marker} & echo both $((1 + 1))\n".encode())
    read_until(terminal, b"both 2")
    end = time.monotonic() + TIMEOUT_SECONDS
    while len([line for line in alive(marker) if line.startswith(marker)]) < 2:
        assert time.monotonic() < end, alive(marker)
    read: list[bytes] = []
    reader = Thread(target=lambda: read.append(read_to_the_end(terminal)))
    reader.start()

    terminal.close()
    terminal.close()
    terminal.write(b"nobody reads this")
    reader.join(TIMEOUT_SECONDS)

    assert not reader.is_alive()
    assert alive(marker) == []


def test_commands_and_new_runs_do_not_end_a_terminal(sandbox, terminal, files):
    assert sandbox.execute("echo from a command > note", seconds=TIMEOUT_SECONDS).exit_code == 0
    kill_leftovers(sandbox.folder.session_id)

    terminal.write(b"cat note\n")
    read_until(terminal, b"from a command")


def test_destroying_the_sandbox_ends_its_terminals(sandbox, terminal):
    read_until(terminal, b"$ ")

    sandbox.destroy()

    read_to_the_end(terminal)


def test_a_terminal_has_no_more_privileges_than_a_command(sandbox):
    terminal = sandbox.open_terminal("grep -E 'CapEff|NoNewPrivs|Seccomp:' /proc/self/status")

    seen = b" ".join(read_to_the_end(terminal).split())
    assert seen == b"CapEff: 0000000000000000 NoNewPrivs: 1 Seccomp: 2"
    terminal.close()


def test_a_terminal_outlives_the_thread_that_opened_it(sandbox):
    opened: list = []
    thread = Thread(target=lambda: opened.append(sandbox.open_terminal()))
    thread.start()
    thread.join()

    (terminal,) = opened
    terminal.write(b"echo still $((1 + 1))\n")
    read_until(terminal, b"still 2")
    terminal.close()
