"""Tests how connections of the pool are checked when they are borrowed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from psycopg_pool import ConnectionPool

from config.settings import base
from core.postgresql.base import DatabaseWrapper, check_connection
from tests.statements import recorded_statements

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def pool() -> Iterator[ConnectionPool[Any]]:
    """Return the pool that the backend makes with the settings of an installation."""
    configured = dict(connection.settings_dict)
    configured["OPTIONS"] = {**configured["OPTIONS"], "pool": {"min_size": 1, "max_size": 2}}
    configured["CONN_HEALTH_CHECKS"] = base.DATABASES["default"]["CONN_HEALTH_CHECKS"]
    wrapper = DatabaseWrapper(configured, alias="pool of a test")
    made = wrapper.pool
    assert made
    made.open()
    yield made
    wrapper.close_pool()


def test_all_settings_use_this_backend():
    assert settings.DATABASES["default"]["ENGINE"] == "core.postgresql"


def test_borrowing_a_connection_costs_no_statement(pool):
    with pool.connection() as borrowed:
        borrowed.execute("SELECT 1")
    with recorded_statements() as statements, pool.connection():
        pass

    assert pool._check is check_connection
    assert statements == []


def test_whoever_borrows_first_opens_one_connection():
    configured = dict(connection.settings_dict)
    configured["OPTIONS"] = {**configured["OPTIONS"], "pool": pool_options()}
    wrapper = DatabaseWrapper(configured, alias="first of a test")
    pool = wrapper.pool
    assert pool
    pool.open()
    try:
        with pool.connection():
            assert pool.get_stats()["pool_size"] == 1
    finally:
        wrapper.close_pool()


def pool_options() -> Any:
    """Return the options of the pool of an installation."""
    options: Any = base._database()["OPTIONS"]
    return options["pool"]


def test_a_connection_that_the_server_closed_is_replaced(pool):
    with pool.connection() as borrowed:
        (lost,) = borrowed.execute("SELECT pg_backend_pid()").fetchone()
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s, 5000)", [lost])

    with pool.connection() as another:
        (pid,) = another.execute("SELECT pg_backend_pid()").fetchone()

    assert pid != lost


def test_the_connection_that_was_used_last_is_borrowed_first(pool):
    with pool.connection() as first, pool.connection():
        pass  # which is returned before the first

    with pool.connection() as borrowed:
        assert borrowed is first
