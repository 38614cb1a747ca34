"""Synchronous code for those who live on an event loop, and the connection that it must not keep."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from asgiref.sync import sync_to_async
from django.db import connection

P = ParamSpec("P")
T = TypeVar("T")


def let_go() -> None:
    """Give the connection back before waiting for anything else than the database."""
    if not connection.in_atomic_block:
        connection.close()


async def read(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run synchronous code on a thread of the loop's pool; its connection goes back at once."""

    def call() -> T:
        try:
            return function(*args, **kwargs)
        finally:
            let_go()

    return await sync_to_async(call, thread_sensitive=False)()
