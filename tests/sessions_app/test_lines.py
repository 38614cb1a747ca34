"""Which lines of a session a context is read from."""

from __future__ import annotations

import pytest

from sessions_app.log.writer import NewEvent, append_events
from sessions_app.models import ContextSnapshot, SessionEvent
from tests.sessions_app.long_talk import Watched, give_past, tell, window_of

pytestmark = pytest.mark.django_db(transaction=True)


def test_more_lines_than_are_read_are_compacted_whatever_stands_between_them(session, monkeypatch):
    """Events that the agent never hears of do not hide that older messages were not read."""
    model = Watched()
    monkeypatch.setattr("sessions_app.harness.loop.provider_for", lambda *_: model)
    monkeypatch.setattr("sessions_app.harness.model_call.provider_for", lambda *_: model)
    give_past(session, 240, "x")
    unheard = {"status": "met", "criteria": []}
    append_events(session.pk, [NewEvent(type=SessionEvent.Type.OUTCOME_JUDGED, payload=unheard)])

    with window_of(8_000):
        tell(session, "say hello")

    assert ContextSnapshot.objects.filter(session=session).exists()
