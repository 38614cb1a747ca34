"""Creates a database for a peer, on the server that Switchyard is measured on."""

from __future__ import annotations

import os

import psycopg


def create_database(name: str, *, driver: str = "") -> str:
    """Create an empty database and return its address, for SQLAlchemy with the driver's name."""
    host = os.environ["BENCH_HOST"]
    with psycopg.connect(f"host={host} user=postgres dbname=postgres", autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name}")
    return f"postgresql{driver}://postgres@/{name}?host={host}"
