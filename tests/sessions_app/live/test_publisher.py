"""Tests of what is sent to the channel layer, and when."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest_asyncio
from channels.layers import get_channel_layer
from django.db import transaction

from core.ids import uuid7
from sessions_app.live.publisher import Delta, notify_log_grew, publish_deltas, session_group
from tests.sessions_app.live.stream_client import in_thread
from tests.statements import recorded_statements

SESSION = uuid7()


class GroupReceiver:
    """Receives what is sent to the viewers of a session."""

    def __init__(self, channel: str) -> None:
        self.channel = channel

    async def next(self) -> dict:
        async with asyncio.timeout(10):
            return await get_channel_layer().receive(self.channel)


@pytest_asyncio.fixture
async def group(async_db: None) -> AsyncIterator[GroupReceiver]:
    layer = get_channel_layer()
    channel = await layer.new_channel()
    await layer.group_add(session_group(SESSION), channel)
    yield GroupReceiver(channel)
    await layer.group_discard(session_group(SESSION), channel)


async def test_a_notification_only_says_that_the_log_grew(group):
    await in_thread(notify_log_grew)(SESSION)

    assert await group.next() == {"type": "log.grew"}


async def test_nothing_is_announced_before_commit(group):
    def write() -> None:
        with transaction.atomic():
            notify_log_grew(SESSION)
            transaction.set_rollback(True)
        publish_deltas(
            [Delta(session_id=SESSION, event_id=uuid7(), run_id=None, offset=0, text="after")]
        )

    await in_thread(write)()

    assert (await group.next())["text"] == "after"


async def test_offsets_and_text_arrive_as_they_were_given(group):
    event_id, run_id = uuid7(), uuid7()
    text = "👩\u200d🔧 e\u0301 \x00 \u2028 " * 2_000

    await in_thread(publish_deltas)(
        [Delta(session_id=SESSION, event_id=event_id, run_id=run_id, offset=41, text=text)]
    )

    assert await group.next() == {
        "type": "delta",
        "event_id": str(event_id),
        "run_id": str(run_id),
        "offset": 41,
        "text": text,
    }


async def test_deltas_of_many_answers_go_in_one_statement(group):
    def deltas(session_id):
        return Delta(session_id=session_id, event_id=uuid7(), run_id=None, offset=0, text="x")

    def send() -> None:
        with recorded_statements() as statements:
            publish_deltas([deltas(uuid7()), deltas(SESSION), deltas(uuid7())])
        assert len(statements) == 1

    await in_thread(send)()

    assert (await group.next())["text"] == "x"
