"""The listener of a process, over a real PostgreSQL."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from queue import Empty, SimpleQueue

import psycopg
import pytest

from core import pg_listen
from core.db import connect
from core.pg_listen import Listener

LISTENERS = (
    f"FROM pg_stat_activity WHERE application_name = '{pg_listen.APPLICATION_NAME}'"
    " AND datname = current_database()"
)
CHANNEL, OTHER = "test_pg_listen", "test_pg_listen_other"


@pytest.fixture
def listener(transactional_db) -> Iterator[Listener]:
    made = Listener()
    yield made
    made.close()
    assert made._thread is None


def queue() -> SimpleQueue[str]:
    return SimpleQueue()


def notify(payload: str, channel: str = CHANNEL) -> None:
    with connect() as side:
        side.execute("SELECT pg_notify(%s, %s)", [channel, payload])


def count_listeners() -> int:
    with connect() as side:
        (count,) = side.execute(f"SELECT count(*) {LISTENERS}").fetchone() or (0,)
        return count


def end_listeners() -> None:
    with connect() as side:
        side.execute(f"SELECT pg_terminate_backend(pid) {LISTENERS}")


def wait_until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_every_notification_after_subscribing_is_delivered_in_order(listener):
    heard = queue()
    with listener.subscribe(CHANNEL, heard.put):
        for number in range(200):
            notify(str(number))

        assert [heard.get(timeout=30) for _ in range(200)] == [str(n) for n in range(200)]


def test_a_notification_is_not_lost_between_subscribing_and_the_first_look(listener):
    for _ in range(20):
        heard = queue()
        with listener.subscribe(CHANNEL, heard.put):
            notify("at once")
            assert heard.get(timeout=30) == "at once"


def test_subscribers_of_one_channel_and_of_others_share_one_connection(listener):
    before = count_listeners()
    first, second, other = queue(), queue(), queue()
    with (
        listener.subscribe(CHANNEL, first.put),
        listener.subscribe(CHANNEL, second.put),
        listener.subscribe(OTHER, other.put),
    ):
        assert count_listeners() == before + 1
        notify("one")
        notify("two", OTHER)

        assert first.get(timeout=30) == second.get(timeout=30) == "one"
        assert other.get(timeout=30) == "two"
    assert first.empty()
    assert second.empty()
    assert other.empty()


def test_a_subscription_that_is_closed_hears_nothing_more(listener):
    closed, open_ = queue(), queue()
    subscription = listener.subscribe(CHANNEL, closed.put)
    with listener.subscribe(CHANNEL, open_.put):
        subscription.close()
        subscription.close()
        notify("later")

        assert open_.get(timeout=30) == "later"
    assert closed.empty()


def test_a_channel_can_be_left_and_subscribed_to_again_at_once(listener):
    with listener.subscribe(OTHER, print):
        for number in range(50):
            heard = queue()
            with listener.subscribe(CHANNEL, heard.put):
                notify(str(number))
                assert heard.get(timeout=30) == str(number)


def test_the_connection_ends_with_the_last_subscription(listener):
    before = count_listeners()
    first, second = [listener.subscribe(CHANNEL, print) for _ in range(2)]
    first.close()
    assert count_listeners() == before + 1

    second.close()

    wait_until(lambda: count_listeners() == before)


def test_a_change_of_subscriptions_does_not_wait_for_a_notification(listener, monkeypatch):
    monkeypatch.setattr(pg_listen, "PROBE_SECONDS", 3600.0)
    monkeypatch.setattr(pg_listen, "PATIENCE_SECONDS", 3600.0)
    with listener.subscribe(CHANNEL, print):
        heard = queue()
        with listener.subscribe(OTHER, heard.put):
            notify("x", OTHER)
            assert heard.get(timeout=30) == "x"
    listener.close()


def test_after_a_lost_connection_subscribers_are_told_and_hear_again(listener):
    heard = queue()
    missed: SimpleQueue[bool] = SimpleQueue()
    with listener.subscribe(CHANNEL, heard.put, missed=lambda: missed.put(True)):
        end_listeners()

        assert missed.get(timeout=30)
        notify("again")
        assert heard.get(timeout=30) == "again"
        assert missed.empty()


def test_a_subscriber_that_could_not_wait_for_the_connection_is_told_later(listener, monkeypatch):
    reachable = threading.Event()

    def refuse() -> dict[str, object]:
        if not reachable.is_set():
            raise psycopg.OperationalError("no database yet")
        return {}

    monkeypatch.setattr(pg_listen, "connect", lambda **more: connect(**more, **refuse()))
    monkeypatch.setattr(pg_listen, "PATIENCE_SECONDS", 0.05)
    missed = threading.Event()
    with listener.subscribe(CHANNEL, print, missed=missed.set):
        assert not missed.is_set()
        reachable.set()
        assert missed.wait(30)


def test_a_subscriber_that_fails_disturbs_no_other(listener):
    heard = queue()

    def fail(payload: str) -> None:
        raise ValueError(payload)

    with listener.subscribe(CHANNEL, fail), listener.subscribe(CHANNEL, heard.put):
        notify("one")
        notify("two")
        assert [heard.get(timeout=30), heard.get(timeout=30)] == ["one", "two"]


def test_a_silent_connection_is_probed(listener, monkeypatch):
    monkeypatch.setattr(pg_listen, "PROBE_SECONDS", 0.05)
    with listener.subscribe(CHANNEL, print), connect() as side:
        probed = f"SELECT count(*) {LISTENERS} AND query = 'SELECT 1'"
        wait_until(lambda: side.execute(probed).fetchone() != (0,))


def test_a_fork_listens_anew_and_leaves_the_listener_of_its_parent_alone(transactional_db):
    heard = queue()
    missed = threading.Event()
    with pg_listen.subscribe(CHANNEL, heard.put, missed=missed.set) as subscription:
        child = os.fork()
        if child == 0:
            in_child = 1
            try:
                subscription.close()
                told = queue()
                with pg_listen.subscribe(OTHER, told.put):
                    notify("from the child")
                    notify("to the child", OTHER)
                    in_child = 0 if told.get(timeout=30) == "to the child" else 2
            finally:
                os._exit(in_child)

        assert os.waitpid(child, 0)[1] == 0
        assert heard.get(timeout=30) == "from the child"
        notify("after the child")
        assert heard.get(timeout=30) == "after the child"
        assert not missed.is_set()


def test_a_closed_listener_forgets_its_subscriptions_and_can_be_used_again(listener):
    forgotten, heard = queue(), queue()
    listener.subscribe(CHANNEL, forgotten.put)
    listener.close()

    with listener.subscribe(CHANNEL, heard.put):
        notify("x")
        assert heard.get(timeout=30) == "x"
    with pytest.raises(Empty):
        forgotten.get_nowait()
