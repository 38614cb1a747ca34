"""Tests that a conversation that grew in memory equals the one that is read and built anew."""

from __future__ import annotations

import random
from uuid import UUID

import pytest

from sessions_app.context import known_entries
from sessions_app.context.conversation import build_messages, read_newest
from sessions_app.context.known_entries import KnownEntries, RecentConversations, read_entries
from sessions_app.lanes.run_queue import accept, claim, finish
from sessions_app.log.writer import NewEvent, append_events
from sessions_app.models import SessionEvent
from tests.sessions_app.conftest import OWNER
from tests.sessions_app.long_talk import give_past
from tools_app.taint import fence_mark

pytestmark = pytest.mark.django_db(transaction=True)
E = SessionEvent.Type
LIMIT = 500


def message(text: str) -> NewEvent:
    return NewEvent(type=E.USER_MESSAGE, payload={"text": text})


def tool_use(nth: int) -> NewEvent:
    payload = {
        "tool_use_id": f"t{nth}",
        "name": "read",
        "input": {"n": nth},
        "ownership": "managed",
    }
    return NewEvent(type=E.AGENT_TOOL_USE, payload=payload)


def tool_result(nth: int, *, late: bool = False) -> NewEvent:
    payload = {
        "tool_use_id": f"t{nth}",
        "name": "read",
        "state": "completed",
        "output": f"result {nth}{' at last' if late else ''}",
        "error": "",
    }
    return NewEvent(type=E.AGENT_TOOL_RESULT, payload=payload | ({"late": True} if late else {}))


class Walk:
    """Lets a session grow in random steps."""

    def __init__(self, session, seed: int) -> None:
        self.session = session
        self.random = random.Random(seed)
        self.calls = 0
        self.said: list[int] = []

    def step(self) -> None:
        nth = self.random.randrange(100)
        do = self.random.choice([self.say, self.run, self.call, self.answer, self.edit, self.late])
        do(nth)

    def append(self, *events: NewEvent) -> None:
        append_events(self.session.pk, events)

    def say(self, nth: int) -> None:
        self.said.append(accept(self.session.pk, message(f"message {nth}")).seq)

    def run(self, nth: int) -> None:
        if held := claim(self.session.pk, OWNER):
            answer = NewEvent(type=E.AGENT_MESSAGE, payload={"text": f"answer {nth}"})
            finish(held, None, events=[answer])

    def call(self, nth: int) -> None:
        self.calls += 1
        self.append(tool_use(self.calls))

    def answer(self, nth: int) -> None:
        if self.calls:
            self.append(tool_result(self.random.randint(max(1, self.calls - 1), self.calls)))

    def late(self, nth: int) -> None:
        if self.calls:
            self.append(tool_result(self.random.randint(1, self.calls), late=True))

    def edit(self, nth: int) -> None:
        if self.said:
            payload = {"seq": self.random.choice(self.said), "text": f"edited {nth}"}
            self.append(NewEvent(type=E.USER_MESSAGE_EDITED, payload=payload))


@pytest.mark.parametrize("seed", range(8))
def test_a_conversation_that_grew_equals_one_that_is_read_anew(session, monkeypatch, seed):
    recent = RecentConversations()
    monkeypatch.setattr(known_entries, "recent", recent)
    walk = Walk(session, seed)
    for _ in range(60):
        walk.step()
        grown = read_entries(session.pk, LIMIT, snapshot_id=None, snapshot_seq=0, carried=())
        anew = read_newest(session.pk, 0, LIMIT)
        assert list(grown) == anew
        assert recent.messages(session.pk, grown) == build_messages(anew, fence_mark(session.pk))


def test_another_snapshot_begins_another_conversation(session):
    give_past(session, 6)
    assert len(read_entries(session.pk, LIMIT, snapshot_id=None, snapshot_seq=0, carried=())) == 6

    later = read_entries(session.pk, LIMIT, snapshot_id=OWNER, snapshot_seq=4, carried=(2,))

    assert [entry.seq for entry in later] == [2, 5, 6]


def test_only_as_many_entries_as_asked_for_are_returned(session):
    give_past(session, 6)
    for _ in range(2):
        found = read_entries(session.pk, 4, snapshot_id=None, snapshot_seq=0, carried=())
        assert [entry.seq for entry in found] == [3, 4, 5, 6]


def test_the_sessions_that_were_served_longest_ago_are_dropped_first(session, monkeypatch):
    monkeypatch.setattr(known_entries, "MOST_KEPT", 10)
    give_past(session, 6)
    entries = read_newest(session.pk, 0, LIMIT)
    recent = RecentConversations()
    ids = [UUID(int=nth) for nth in range(3)]
    for one in ids:
        recent.keep(one, KnownEntries(snapshot_id=None, last_seq=0).with_newer(entries))

    assert [recent.get(one) is not None for one in ids] == [False, False, True]


def test_a_conversation_is_not_kept_for_ever(session, monkeypatch):
    recent = RecentConversations()
    recent.keep(session.pk, KnownEntries(snapshot_id=None, last_seq=0, kept_at=-1e9))

    assert recent.get(session.pk) is None
