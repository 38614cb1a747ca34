"""Tests of the channel layer on a real PostgreSQL."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from asgiref.sync import async_to_sync, sync_to_async
from django.db import connection, transaction

from core import channel_layer
from core.channel_layer import OVERFLOWED, RECONNECTED, PostgresChannelLayer, subscription
from core.db import connect
from core.pg_listen import APPLICATION_NAME
from tests.statements import recorded_statements

HELLO = {"type": "hello", "text": "Grüße 🚂"}


@pytest_asyncio.fixture
async def layer(async_db: None) -> AsyncIterator[PostgresChannelLayer]:
    layer = PostgresChannelLayer(capacity=10)
    yield layer
    await layer.close()


async def soon(layer: PostgresChannelLayer, channel: str) -> dict:
    async with asyncio.timeout(10):
        return await layer.receive(channel)


async def nothing_comes(layer: PostgresChannelLayer, channel: str) -> None:
    """Check that nothing precedes a message which is sent last."""
    await layer.group_add("last", channel)
    await layer.group_send("last", {"type": "last"})
    assert await soon(layer, channel) == {"type": "last"}


def run_sql(statement: str) -> int:
    with connect() as side:
        return len(side.execute(statement).fetchall())


LISTENERS = (
    f"FROM pg_stat_activity WHERE application_name = '{APPLICATION_NAME}'"
    " AND datname = current_database()"
)


async def test_a_message_sent_to_a_channel_is_received_there(layer):
    await layer.send("general", HELLO)
    assert await soon(layer, "general") == HELLO

    channel = await layer.new_channel()
    await layer.send(channel, HELLO)
    assert await soon(layer, channel) == HELLO


async def test_a_channel_of_another_process_is_reached(layer):
    here, there = layer, PostgresChannelLayer()
    channel = await there.new_channel()
    await there.group_add("any", channel)

    await here.send(channel, HELLO)

    assert await soon(there, channel) == HELLO
    await there.close()


@pytest.mark.parametrize("messages", [0, 1, 3])
async def test_a_subscription_leaves_no_queue_behind(layer, monkeypatch, messages):
    """Whether it ends before it waits for a message, or while messages wait for it."""
    monkeypatch.setattr(channel_layer, "get_channel_layer", lambda: layer)
    async with subscription("yard"):
        (channel,) = layer._dispatcher.queues
        for _ in range(messages):
            layer._dispatcher.put(channel, HELLO)

    assert (layer._dispatcher.queues, layer._dispatcher.groups) == ({}, {})


async def test_a_group_message_reaches_its_members_only(layer):
    inside, outside, left = [await layer.new_channel() for _ in range(3)]
    await layer.group_add("yard", inside)
    await layer.group_add("yard", left)
    await layer.group_discard("yard", left)

    await layer.group_send("yard", HELLO)

    assert await soon(layer, inside) == HELLO
    await nothing_comes(layer, outside)
    await nothing_comes(layer, left)


async def test_a_message_longer_than_a_payload_arrives_whole(layer):
    channel = await layer.new_channel()
    await layer.group_add("yard", channel)
    long = {"type": "delta", "text": "🚂 and text, " * 5_000}

    await layer.group_send("yard", long)

    assert await soon(layer, channel) == long


async def test_many_channels_share_one_listening_connection(layer):
    before = await sync_to_async(run_sql)(f"SELECT 1 {LISTENERS}")
    for number in range(50):
        await layer.group_add(f"yard-{number}", await layer.new_channel())

    assert await sync_to_async(run_sql)(f"SELECT 1 {LISTENERS}") == before + 1


async def test_a_message_of_a_transaction_arrives_with_its_commit(layer):
    channel = await layer.new_channel()
    await layer.group_add("yard", channel)

    def roll_back_then_commit() -> None:
        with transaction.atomic():
            layer.publish_many([("yard", {"type": "undone"})])
            transaction.set_rollback(True)
        with transaction.atomic():
            layer.publish_many([("yard", {"type": "done"})])

    await sync_to_async(roll_back_then_commit)()

    assert await soon(layer, channel) == {"type": "done"}


async def test_a_notification_from_sql_is_received(layer):
    channel = await layer.new_channel()
    await layer.group_add("session.7", channel)

    await sync_to_async(run_sql)(
        """SELECT pg_notify('switchyard_live', 'session.7 {"type": "log.grew"}')"""
    )

    assert await soon(layer, channel) == {"type": "log.grew"}


async def test_a_foreign_or_broken_payload_is_ignored(layer):
    channel = await layer.new_channel()
    await layer.group_add("yard", channel)
    for payload in ("", "yard", "yard {broken", "yard #1/2 x", "yard #a/b/c x", "elsewhere {}"):
        await sync_to_async(run_sql)(f"SELECT pg_notify('switchyard_live', '{payload}')")

    await layer.group_send("yard", HELLO)

    assert await soon(layer, channel) == HELLO


async def test_receivers_are_told_about_a_lost_connection_and_receive_again(layer):
    channel = await layer.new_channel()
    await layer.group_add("yard", channel)

    await sync_to_async(run_sql)(f"SELECT pg_terminate_backend(pid) {LISTENERS}")

    assert await soon(layer, channel) == RECONNECTED
    await layer.group_send("yard", HELLO)
    assert await soon(layer, channel) == HELLO


async def test_a_full_queue_announces_lost_messages_and_continues(layer):
    channel, other = await layer.new_channel(), await layer.new_channel()
    await layer.group_add("yard", channel)
    await layer.group_add("yard", other)
    await soon_after_sending(layer, other, count=25)

    received = [await soon(layer, channel)]
    while received[-1].get("number") != 24:
        received.append(await soon(layer, channel))

    assert OVERFLOWED in received
    assert len(received) <= layer.capacity


async def soon_after_sending(layer: PostgresChannelLayer, reader: str, *, count: int) -> None:
    """Send numbered messages, reading them on a channel that keeps up."""
    for number in range(count):
        await layer.group_send("yard", {"type": "n", "number": number})
        assert (await soon(layer, reader))["number"] == number


async def test_a_cancelled_receiver_leaves_nothing_behind(layer):
    channel = await layer.new_channel()
    await layer.group_add("yard", channel)
    waiting = asyncio.create_task(layer.receive(channel))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)

    assert not layer._dispatcher.groups
    assert not layer._dispatcher.queues


async def test_flush_removes_all_groups(layer):
    channel = await layer.new_channel()
    await layer.group_add("yard", channel)
    await layer.flush()

    await layer.group_send("yard", HELLO)

    await nothing_comes(layer, channel)


def test_several_event_loops_of_a_process_can_receive_and_send(transactional_db):
    layer = PostgresChannelLayer()

    async def send_and_receive() -> dict:
        channel = await layer.new_channel()
        await layer.group_add("yard", channel)
        await layer.group_send("yard", HELLO)
        try:
            return await soon(layer, channel)
        finally:
            await layer.close()

    assert [asyncio.run(send_and_receive()) for _ in range(2)] == [HELLO, HELLO]
    assert async_to_sync(send_and_receive)() == HELLO


def test_an_event_loop_that_ended_leaves_nothing_behind(transactional_db):
    layer = PostgresChannelLayer()

    async def join() -> None:
        await layer.group_add("yard", await layer.new_channel())

    for _ in range(3):
        asyncio.run(join())

    assert not layer._dispatchers


@pytest.mark.parametrize("name", ["with space", "with!mark", "x" * 100, ""])
async def test_a_group_name_that_would_break_the_payload_is_refused(layer, name):
    with pytest.raises(TypeError):
        await layer.group_add(name, "channel")
    with pytest.raises(TypeError):
        layer.publish_many([(name, HELLO)])


async def test_a_message_is_sent_over_the_configured_layer_after_commit(
    layer, settings, monkeypatch
):
    heard: list[tuple[str, dict]] = []
    arrived = threading.Event()

    class ForeignLayer:
        async def group_send(self, group: str, message: dict) -> None:
            heard.append((group, message))
            arrived.set()

    def send_in_a_transaction() -> None:
        with transaction.atomic():
            channel_layer.send("yard", HELLO)
            assert heard == []

    monkeypatch.setattr("core.channel_layer.get_channel_layer", lambda: layer)
    channel = await layer.new_channel()
    await layer.group_add("yard", channel)
    await sync_to_async(channel_layer.send)("yard", HELLO)
    assert await soon(layer, channel) == HELLO

    monkeypatch.setattr("core.channel_layer.get_channel_layer", ForeignLayer)
    await sync_to_async(send_in_a_transaction)()
    await sync_to_async(arrived.wait)(10)
    assert heard == [("yard", HELLO)]


def test_sending_a_message_takes_one_statement(transactional_db):
    with recorded_statements() as statements:
        channel_layer.send("yard", HELLO)
    assert len(statements) == 1


def test_the_server_plans_a_notification_once_per_connection(transactional_db):
    for text in ("one", "two", "three"):
        channel_layer.send("group", {"type": "hello", "text": text})

    with connection.cursor() as cursor:
        cursor.execute("SELECT statement FROM pg_prepared_statements")
        planned = [text for (text,) in cursor.fetchall() if "pg_notify" in text]
    assert planned == ["SELECT pg_notify($1, payload) FROM unnest($2::text[]) AS payload"]
