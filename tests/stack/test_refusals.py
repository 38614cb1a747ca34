"""Tests that a start which cannot work is refused with one line of advice."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from core.exceptions import CannotStart
from core.postgres import Embedded, require_usable
from orchestrator.launcher.checks import listen
from tests.stack.running import Running

pytestmark = pytest.mark.stack

Make = Callable[..., Running]


def refusal(running: Running) -> str:
    """Return the line that a failing start prints."""
    running.launch()
    assert running.process is not None
    code = running.process.wait(timeout=120)
    lines = running.said().splitlines()
    assert (code, len(lines)) == (1, 1), running.said()
    running.wait_until_gone()
    return lines[0]


def test_a_taken_port_is_refused_with_another_port_as_advice(make_stack: Make) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        line = refusal(make_stack(PORT=str(port)))

    assert f"Port {port} is used by another program" in line
    assert f"PORT={port + 1} make run" in line


def test_a_port_or_address_that_cannot_be_bound_is_refused() -> None:
    with pytest.raises(CannotStart, match=r"HOST=127\.0\.0\.1 make run"):
        listen("192.0.2.1", 8000)
    with pytest.raises(CannotStart, match="between 1 and 65535"):
        listen("127.0.0.1", 65536)


def test_an_unreachable_database_is_refused_without_its_password(make_stack: Make) -> None:
    line = refusal(make_stack(DATABASE_URL="postgresql://someone:secret@127.0.0.1:1/switchyard"))

    assert "Check its host and port" in line
    assert "secret" not in line


@pytest.mark.parametrize(
    ("url", "advice"),
    [
        ("mysql://someone@localhost/switchyard", "postgresql://user:password@host:5432/name"),
        ("postgresql://someone@nowhere.invalid/switchyard", "Check its host and port"),
        ("postgresql://someone@127.0.0.1:1/switchyard?colour=red", "colour"),
    ],
)
def test_an_invalid_database_url_is_refused(url: str, advice: str) -> None:
    with pytest.raises(CannotStart, match=advice) as refused:
        require_usable(url)

    assert "\n" not in refused.value.detail


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    """Run a PostgreSQL that asks every role except its owner for a password."""
    server = Embedded(tmp_path_factory.mktemp("guarded") / "data", durable=False)
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


@pytest.mark.parametrize(
    ("address", "complaint"),
    [
        ("someone:wrong@/switchyard", "Check the user and the password"),
        ("someone:right@/nowhere", '"nowhere" does not exist'),
    ],
)
def test_the_reason_of_a_server_that_refuses_is_quoted(
    guarded: Embedded, address: str, complaint: str
) -> None:
    with pytest.raises(CannotStart, match=complaint) as refused:
        require_usable(f"postgresql://{address}?host={guarded.place.socket_dir}")

    assert "wrong" not in refused.value.detail


def test_a_server_that_accepts_is_used(guarded: Embedded) -> None:
    require_usable(f"postgresql://someone:right@/switchyard?host={guarded.place.socket_dir}")


def test_a_data_directory_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a letter")

    with pytest.raises(CannotStart, match="cannot be written"):
        Embedded(tmp_path / "data").start()


def test_a_data_directory_that_cannot_be_written_is_refused(make_stack: Make) -> None:
    # A folder of the kernel, as root can write to any other.
    line = refusal(make_stack(DATA_DIR="/sys"))

    assert "/sys cannot be written" in line
    assert "DATA_DIR" in line


def test_a_data_directory_of_another_postgresql_version_is_refused(
    make_stack: Make, tmp_path: Path
) -> None:
    server = Embedded(tmp_path / "data", durable=False)
    server.start()
    server.stop("immediate")
    (server.place.pgdata / "PG_VERSION").write_text("16\n")

    assert "was created by PostgreSQL 16" in refusal(make_stack())


def test_a_folder_with_other_files_is_refused_and_left_alone(tmp_path: Path) -> None:
    server = Embedded(tmp_path / "data")
    server.place.prepare()
    server.place.pgdata.mkdir()
    (server.place.pgdata / "letters.txt").write_text("not a database")
    if owner := server.place.owner():
        os.chown(server.place.pgdata, owner.pw_uid, owner.pw_gid)

    with pytest.raises(CannotStart, match="contains no PostgreSQL data"):
        server.start()
    assert (server.place.pgdata / "letters.txt").exists()
