"""Measures how soon a message is accepted, its harness starts and its answer is seen by a client.

Every session is measured once, so that it has the same length in every measurement: it is filled with
history and takes a few turns before, in which statements are planned, long histories are compacted and
caches filled. The model is instant. One message is sent at a time; its times, by one machine's clock:

- accepted: the call that accepts it has returned,
- started: the first line of the harness runs, in a worker process,
- seen: a client that listens for the session's notifications has read that the run is completed.

The floor is what any durable way would need: three commits, of the message, the claim and the answer.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any
from uuid import uuid4

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import installation
from bench.rounds import PAUSE_SECONDS, Figures, Starts

#: Turns of a session before its measured one. Each adds two messages; the longest history here needs
#: three to be compacted.
FIRST_TURNS = 4
#: A client reads the run at least this often, in case a notification is lost.
POLL_SECONDS = 1.0


class Conversations:
    """Sessions that wait for their measured turn, and the client that takes it."""

    def __init__(self) -> None:
        from core.channel_layer import CHANNEL
        from core.db import connect

        self._waiting: dict[int, list[Any]] = defaultdict(list)
        self._client = connect()
        self._client.execute(f"LISTEN {CHANNEL}")
        self._starts = Starts()

    def prepare(self, messages: int, count: int) -> None:
        """Create sessions that have this many messages after their first turns."""
        from sessions_app.models import Run

        earlier = messages - 2 * FIRST_TURNS
        made = installation.make_sessions(count, events=earlier)
        done = Run.objects.count()
        for nth in range(FIRST_TURNS):
            for session in made:
                installation.send(session)
            installation.wait_until_done(done + (nth + 1) * count)
        self._waiting[messages] += made
        self._starts.forget()

    def turn(self, messages: int, count: int) -> Figures:
        """Take a turn in this many of the prepared sessions."""
        figures: Figures = defaultdict(list)
        for _ in range(count):
            time.sleep(PAUSE_SECONDS)
            self._take_turn(self._waiting[messages].pop(), figures)
        return figures

    def _take_turn(self, session: Any, figures: Figures) -> None:
        for _ in self._client.notifies(timeout=0):
            pass  # of earlier turns
        before, began = time.time(), time.perf_counter()
        run_id = installation.send(session)
        figures["accept"].append(installation.milliseconds_since(began))
        self._wait_for_end(run_id)
        figures["turn"].append(installation.milliseconds_since(began))
        started = self._starts.wait_for(str(run_id))
        figures["start"].append((started - before) * 1000)

    def _wait_for_end(self, run_id: Any) -> None:
        """Read the run after each notification, as a viewer reads the log, until it is completed."""
        while True:
            for _ in self._client.notifies(timeout=POLL_SECONDS, stop_after=1):
                pass
            status = self._client.execute(
                "SELECT status FROM agent_run_queue WHERE id = %s", [run_id], prepare=True
            ).fetchone()
            if status == ("completed",):
                return


def raw_commits(count: int) -> Figures:
    """Insert rows with one commit each, with a prepared statement."""
    from core.db import connect

    with connect() as database:
        database.execute(
            "CREATE TABLE IF NOT EXISTS raw_commits (id bigserial PRIMARY KEY, flow uuid, nth int, "
            "result text, UNIQUE (flow, nth))"
        )
        flow, millis = uuid4(), []
        for nth in range(count + 1):
            began = time.perf_counter()
            database.execute(
                "INSERT INTO raw_commits (flow, nth, result) VALUES (%s, %s, %s)",
                [flow, nth, "1"],
                prepare=True,
            )
            millis.append(installation.milliseconds_since(began))
        return {"commit": millis[1:]}  # the first one plans the statement


def raw_notifications(count: int) -> Figures:
    """Notify from one connection and receive on another."""
    from core.db import connect

    millis = []
    with connect() as sender, connect() as receiver:
        receiver.execute("LISTEN bench_floor")
        for _ in range(count):
            began = time.perf_counter()
            sender.execute("SELECT pg_notify('bench_floor', '')", prepare=True)
            for _ in receiver.notifies(timeout=POLL_SECONDS, stop_after=1):
                millis.append(installation.milliseconds_since(began))
    return {"notify": millis}


def main() -> None:
    options = installation.parse_options(
        __doc__, turns=60, rounds=5, messages=[10, 100, 1_000, 10_000]
    )
    with installation.running(), installation.workers(model_seconds=0):
        conversations = Conversations()
        for messages in options.messages:
            conversations.prepare(messages, options.turns)
        figures: Figures = defaultdict(list)
        for _ in range(options.rounds):
            figures["commit"] += raw_commits(20)["commit"]
            figures["notify"] += raw_notifications(20)["notify"]
            for messages in options.messages:
                answer = conversations.turn(messages, options.turns // options.rounds)
                for name, millis in answer.items():
                    figures[f"{name} {messages}"] += millis
        print(f"floor: three commits {3 * statistics.median(figures['commit']):.1f} ms, ", end="")
        print(f"a notification {statistics.median(figures['notify']):.1f} ms")
        for messages in options.messages:
            print(f"{messages:6,} messages   ", end="")
            for name, key in (("accepted", "accept"), ("started", "start"), ("seen", "turn")):
                print(f"{name} {installation.spread(figures[f'{key} {messages}'])}   ", end="")
            print()


if __name__ == "__main__":
    main()
