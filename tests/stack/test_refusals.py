"""A start that cannot work says in one line what to do."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from config.embedded import Embedded
from tests.stack.running import Running

pytestmark = pytest.mark.stack

Make = Callable[..., Running]


def refusal(running: Running) -> str:
    """The one line that a failing start prints."""
    running.launch()
    assert running.process is not None
    code = running.process.wait(timeout=120)
    lines = running.said().splitlines()
    assert (code, len(lines)) == (1, 1), running.said()
    running.wait_until_gone()
    return lines[0]


def test_a_taken_port(make_stack: Make) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        line = refusal(make_stack(PORT=str(port)))

    assert f"Port {port} is taken" in line
    assert f"PORT={port + 1} make run" in line


def test_an_address_of_another_machine(make_stack: Make) -> None:
    assert "HOST=127.0.0.1 make run" in refusal(make_stack(HOST="192.0.2.1"))


@pytest.mark.parametrize(
    ("url", "advice"),
    [
        ("mysql://someone@localhost/switchyard", "postgresql://user:password@host:5432/name"),
        ("postgresql://someone@127.0.0.1:1/switchyard", "Check its host and port"),
        ("postgresql://someone@nowhere.invalid/switchyard", "Check its host and port"),
    ],
)
def test_a_database_that_cannot_be_reached(make_stack: Make, url: str, advice: str) -> None:
    assert advice in refusal(make_stack(DATABASE_URL=url))


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Embedded]:
    """A PostgreSQL that asks everyone but its owner for a password."""
    server = Embedded(tmp_path / "guarded", durable=False)
    server.start()
    try:
        with psycopg.connect(
            host=str(server.place.socket_dir), user="postgres", autocommit=True
        ) as connection:
            connection.execute("CREATE ROLE someone LOGIN PASSWORD 'right'")
            rules = "local all postgres trust\nlocal all all scram-sha-256\n"
            (server.place.pgdata / "pg_hba.conf").write_text(rules)
            connection.execute("SELECT pg_reload_conf()")
        yield server
    finally:
        server.stop("immediate")


def test_a_wrong_password_or_name_is_told_without_the_password(
    make_stack: Make, guarded: Embedded
) -> None:
    host = guarded.place.socket_dir

    wrong = refusal(make_stack(DATABASE_URL=f"postgresql://someone:wrong@/switchyard?host={host}"))
    unknown = refusal(make_stack(DATABASE_URL=f"postgresql://someone:right@/nowhere?host={host}"))

    assert "Check the user and the password" in wrong
    assert "wrong" not in wrong
    assert '"nowhere" does not exist' in unknown


def test_a_data_directory_that_is_a_file(make_stack: Make, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a letter")

    assert "DATA_DIR" in refusal(make_stack())


def test_a_data_directory_that_cannot_be_written(make_stack: Make) -> None:
    # A folder of the kernel, as root may write to any other.
    line = refusal(make_stack(DATA_DIR="/sys"))

    assert "/sys cannot be written" in line
    assert "DATA_DIR" in line


def test_a_data_directory_of_another_postgres(make_stack: Make, tmp_path: Path) -> None:
    server = Embedded(tmp_path / "data", durable=False)
    server.start()
    server.stop("immediate")
    (server.place.pgdata / "PG_VERSION").write_text("16\n")

    assert "was made by PostgreSQL 16" in refusal(make_stack())


def test_a_folder_that_holds_something_else(make_stack: Make, tmp_path: Path) -> None:
    server = Embedded(tmp_path / "data")
    server.place.prepare()
    server.place.pgdata.mkdir()
    (server.place.pgdata / "letters.txt").write_text("not a database")
    if owner := server.place.owner():
        os.chown(server.place.pgdata, owner.pw_uid, owner.pw_gid)

    assert "holds no PostgreSQL data" in refusal(make_stack())
    assert (server.place.pgdata / "letters.txt").exists()
