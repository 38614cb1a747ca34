"""Sends live messages from synchronous code, over whichever layer is configured."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.db import transaction


def send(group: str, message: dict[str, Any]) -> None:
    """Tell everyone in the group, once the current transaction (if any) is committed."""
    send_many([(group, message)])


def send_many(messages: Sequence[tuple[str, dict[str, Any]]]) -> None:
    """Tell several groups at the cost of one."""
    layer = get_channel_layer()
    if publish_many := getattr(layer, "publish_many", None):
        publish_many(messages)
        return
    for group, message in messages:
        transaction.on_commit(partial(async_to_sync(layer.group_send), group, message))


def is_well() -> bool:
    """Whether this process hears what is sent. A layer that cannot tell is taken to be well."""
    return bool(getattr(get_channel_layer(), "is_well", True))
