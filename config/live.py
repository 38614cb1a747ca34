"""Sends live messages from synchronous code, over whichever layer is configured."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from channels.layers import get_channel_layer
from django.db import transaction

from config.mailroom import Message
from config.pg_layer import PostgresChannelLayer
from config.postman import postman


def send(group: str, message: Message) -> None:
    """Tell everyone in the group, once the current transaction (if any) is committed."""
    send_many([(group, message)])


def send_many(messages: Sequence[tuple[str, Message]]) -> None:
    """Tell several groups at the cost of one."""
    layer = get_channel_layer()
    if isinstance(layer, PostgresChannelLayer):
        layer.publish_many(messages)
        return
    transaction.on_commit(partial(postman().take, layer, messages))
