"""Tests of the embedded PostgreSQL: shared, restarted and found again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from core.env import ROOT
from core.postgres import Embedded, socket_dir

pytestmark = pytest.mark.stack

START = """
import sys
from pathlib import Path
from core.postgres import Embedded
server = Embedded(Path(sys.argv[1]), durable=False)
server.start()
print(server.pid(), flush=True)
sys.stdin.read()
server.release()
"""


class User:
    """Runs another process that uses the server until `leave` is called."""

    def __init__(self, data_dir: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", START, str(data_dir)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def server(self) -> int:
        assert self.process.stdout is not None
        return int(self.process.stdout.readline())

    def leave(self) -> None:
        self.process.communicate(timeout=60)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Embedded]:
    server = Embedded(tmp_path / "data", durable=False)
    yield server
    server.stop("immediate")


def ask(server: Embedded, question: str) -> object:
    with psycopg.connect(
        host=str(server.place.socket_dir), user="postgres", dbname="switchyard", autocommit=True
    ) as connection:
        row = connection.execute(question).fetchone()
    assert row is not None
    return row[0]


def test_processes_that_start_concurrently_share_one_server_until_the_last_one_leaves(
    server: Embedded,
) -> None:
    users = [User(server.place.data_dir) for _ in range(3)]
    pids = {user.server() for user in users}
    assert pids == {server.pid()}

    users[0].leave()
    users[1].leave()
    assert ask(server, "SELECT 1") == 1

    users[2].leave()
    assert not server.is_running()


def test_a_killed_server_starts_again_with_its_data(server: Embedded) -> None:
    server.start()
    kept = ask(server, "SELECT lo_from_bytea(0, 'here')")
    killed = server.pid()
    assert killed is not None

    os.kill(killed, signal.SIGKILL)
    server.start()

    assert server.pid() != killed
    assert ask(server, f"SELECT lo_get({kept})") == b"here"


def test_the_server_can_be_reached_only_by_its_socket(server: Embedded) -> None:
    server.start()

    assert ask(server, "SHOW listen_addresses") == ""
    assert server.place.socket_dir.stat().st_mode & 0o077 == 0
    assert ask(server, "SELECT count(*) FROM pg_available_extensions WHERE name = 'vector'") == 1


def test_the_process_id_of_another_program_is_not_taken_for_the_server(server: Embedded) -> None:
    server.start()
    server.stop()
    (server.place.pgdata / "postmaster.pid").write_text(f"{os.getpid()}\n")

    assert not server.is_running()


def test_an_interrupted_first_start_is_repeated(server: Embedded) -> None:
    server.place.prepare()
    half = server.place.pgdata.with_name("postgres.new")
    half.mkdir()
    (half / "PG_VERSION").write_text("18\n")

    server.start()

    assert ask(server, "SELECT 1") == 1
    assert not half.exists()


def test_a_long_path_gets_a_short_socket(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*["a long folder name"] * 8)

    assert len(bytes(socket_dir(deep))) < 60
    assert socket_dir(deep) == socket_dir(deep)
    assert socket_dir(deep) != socket_dir(deep / "other")


def test_a_server_in_a_deep_folder_works(tmp_path: Path) -> None:
    server = Embedded(tmp_path.joinpath(*["a long folder, with 'marks'"] * 4), durable=False)
    try:
        server.start()
        assert ask(server, "SELECT 1") == 1
    finally:
        server.stop("immediate")
        server.place.socket_dir.rmdir()
