"""The channel layer, over a real PostgreSQL."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator

import psycopg
import pytest
import pytest_asyncio
from asgiref.sync import async_to_sync, sync_to_async
from django.db import connection, transaction

from core import channel_layer
from core.channel_layer import OVERFLOWED, RECONNECTED, PostgresChannelLayer, subscription
from core.pg_listen import connection_parameters

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
    """A ring sent after everything else is the first thing that arrives."""
    await layer.group_add("last", channel)
    await layer.group_send("last", {"type": "last"})
    assert await soon(layer, channel) == {"type": "last"}


def run_sql(statement: str) -> int:
    with psycopg.connect(**connection_parameters(), autocommit=True) as side:
        return len(side.execute(statement).fetchall())


LISTENERS = (
    "FROM pg_stat_activity WHERE application_name = 'switchyard live'"
    " AND datname = current_database() AND query LIKE 'LISTEN%'"
)


async def test_what_is_sent_to_a_channel_is_received_there(layer):
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


async def test_a_group_reaches_its_members_and_nobody_else(layer):
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


async def test_sql_rings_with_the_documented_payload(layer):
    channel = await layer.new_channel()
    await layer.group_add("session.7", channel)

    await sync_to_async(run_sql)(
        """SELECT pg_notify('switchyard_live', 'session.7 {"type": "log.grew"}')"""
    )

    assert await soon(layer, channel) == {"type": "log.grew"}


async def test_a_foreign_or_broken_payload_stops_nothing(layer):
    channel = await layer.new_channel()
    await layer.group_add("yard", channel)
    for payload in ("", "yard", "yard {broken", "yard #1/2 x", "yard #a/b/c x", "elsewhere {}"):
        await sync_to_async(run_sql)(f"SELECT pg_notify('switchyard_live', '{payload}')")

    await layer.group_send("yard", HELLO)

    assert await soon(layer, channel) == HELLO


async def test_after_a_lost_connection_everyone_is_told_and_hears_again(layer):
    channel = await layer.new_channel()
    await layer.group_add("yard", channel)

    await sync_to_async(run_sql)(f"SELECT pg_terminate_backend(pid) {LISTENERS}")

    assert await soon(layer, channel) == RECONNECTED
    await layer.group_send("yard", HELLO)
    assert await soon(layer, channel) == HELLO


async def test_a_full_mailbox_says_that_it_lost_messages_and_goes_on(layer):
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


async def test_a_receiver_that_is_cancelled_leaves_nothing_behind(layer):
    channel = await layer.new_channel()
    await layer.group_add("yard", channel)
    waiting = asyncio.create_task(layer.receive(channel))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)

    assert not layer._dispatcher.groups
    assert not layer._dispatcher.queues


async def test_flush_forgets_all_groups(layer):
    channel = await layer.new_channel()
    await layer.group_add("yard", channel)
    await layer.flush()

    await layer.group_send("yard", HELLO)

    await nothing_comes(layer, channel)


def test_several_event_loops_of_a_process_each_hear_and_send(transactional_db):
    layer = PostgresChannelLayer()

    async def hear_myself() -> dict:
        channel = await layer.new_channel()
        await layer.group_add("yard", channel)
        await layer.group_send("yard", HELLO)
        try:
            return await soon(layer, channel)
        finally:
            await layer.close()

    assert [asyncio.run(hear_myself()) for _ in range(2)] == [HELLO, HELLO]
    assert async_to_sync(hear_myself)() == HELLO


@pytest.mark.parametrize("name", ["with space", "with!mark", "x" * 100, ""])
async def test_a_group_name_that_would_break_the_payload_is_refused(layer, name):
    with pytest.raises(TypeError):
        await layer.group_add(name, "channel")
    with pytest.raises(TypeError):
        layer.publish_many([(name, HELLO)])


async def test_live_sends_over_the_configured_layer_after_commit(layer, settings, monkeypatch):
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


def test_a_ring_costs_one_statement(transactional_db, django_assert_num_queries):
    with django_assert_num_queries(1, connection=connection):
        channel_layer.send("yard", HELLO)
