"""Says in one line why the database that DATABASE_URL names cannot be used."""

from __future__ import annotations

import psycopg

from config.env import database_address
from config.faults import CannotStart

OLDEST_VERSION = 15
PATIENCE_SECONDS = 5


def require_usable(url: str) -> None:
    """Connect once, and refuse a server that is out of reach, too old or without pgvector."""
    address = database_address(url)
    try:
        with psycopg.connect(
            dbname=address.name,
            user=address.user,
            password=address.password,
            host=address.host,
            port=address.port,
            connect_timeout=PATIENCE_SECONDS,
            **address.options,  # type: ignore[arg-type]
        ) as connection:
            version = connection.info.server_version // 10_000
            vector = connection.execute(
                "SELECT 1 FROM pg_available_extensions WHERE name = 'vector'"
            ).fetchone()
    except psycopg.Error as error:
        raise CannotStart(explain(str(error))) from None
    if version < OLDEST_VERSION:
        raise CannotStart(
            f"The server of DATABASE_URL is PostgreSQL {version}. Use {OLDEST_VERSION} or newer."
        )
    if not vector:
        raise CannotStart(
            "The server of DATABASE_URL has no pgvector. Install its extension `vector` there."
        )


def explain(complaint: str) -> str:
    """Turn the client library's complaint into one line with something to do about it."""
    reason = (complaint.strip().splitlines() or ["no reason given"])[0]
    reason = reason.rsplit("FATAL:", 1)[-1].strip().removeprefix("connection failed: ")
    if "authentication failed" in reason or "no password supplied" in reason:
        advice = "Check the user and the password in it."
    elif "does not exist" in reason:
        advice = "Create it there, or correct the name."
    else:
        advice = "Check its host and port, and that the server runs."
    return f"The database of DATABASE_URL cannot be reached ({reason}). {advice}"
