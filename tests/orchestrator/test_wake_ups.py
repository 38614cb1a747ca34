"""Counts the threads and the work between the notification of a wake-up and the worker that serves it."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django_q.conf import Conf

from core.db import connect
from core.pg_listen import listener
from orchestrator import worker
from orchestrator.worker import SafeQueue, push_wake_ups
from sessions_app.lanes.signals import WAKE_CHANNEL


class Pipe:
    """Records what is written to the workers, and by which thread."""

    def __init__(self) -> None:
        self.written: list[list[str]] = []
        self.threads: set[str] = set()
        self.full = threading.Event()

    def put(self, payloads: list[str]) -> None:
        self.threads.add(threading.current_thread().name)
        self.written.append(payloads)
        if sum(map(len, self.written)) >= Conf.BULK + 1:
            self.full.set()


@pytest.fixture
def pushed(transactional_db):
    pipe, stopping = Pipe(), threading.Event()
    pusher = threading.Thread(target=push_wake_ups, args=(pipe, stopping, None))
    pusher.start()
    while not any(s.channel == WAKE_CHANNEL for s in listener._subscriptions):
        pass
    with listener.subscribe(
        WAKE_CHANNEL, lambda _: None
    ):  # returns once the channel is listened to
        yield pipe
    stopping.set()
    pusher.join()


def test_the_thread_that_listens_writes_each_wake_up_once_and_in_batches(pushed):
    with connect() as side:
        many = [str(number) for number in (*range(Conf.BULK + 1), 0)]
        notify = "SELECT pg_notify(%s, i) FROM unnest(%s::text[]) i"
        side.execute(notify, [WAKE_CHANNEL, many])
    assert pushed.full.wait(30)

    assert pushed.threads == {"pg-listen"}
    assert [len(payloads) for payloads in pushed.written] == [Conf.BULK, 1]


def test_wake_ups_are_served_by_the_thread_that_reads_them_and_not_by_the_cluster(monkeypatch):
    served: list[Any] = []

    def serve(payloads: list[str]) -> None:
        served.append((payloads, threading.current_thread().name))
        if payloads == ["fails"]:
            raise ValueError

    monkeypatch.setattr(worker, "wake_many", serve)
    queue = SafeQueue()
    for item in (["one", "two"], ["fails"], ["three"]):
        queue.put(item)
    queue.put("STOP")

    assert queue.get() == "STOP"
    name = threading.current_thread().name
    assert served == [(["one", "two"], name), (["fails"], name), (["three"], name)]
