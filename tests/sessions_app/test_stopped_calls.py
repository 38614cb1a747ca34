"""What a stop leaves of the calls that were open."""

from __future__ import annotations

import pytest
from django.utils import timezone

from sessions_app import lanes
from sessions_app.models import ToolExecution
from tests.sessions_app.conftest import OWNER
from tests.sessions_app.test_lanes import send

pytestmark = pytest.mark.django_db


def test_a_stop_gives_every_open_call_a_whole_result(session):
    run = send(session).run_id
    lanes.claim(session.pk, OWNER)
    begun = {"workspace_id": session.workspace_id, "session": session, "run_id": run}
    for name, started in (("exec", timezone.now()), ("write", None)):
        ToolExecution.objects.create(
            **begun, tool_use_id=f"tu_{name}", name=name, input={}, started_at=started
        )

    lanes.stop(session.pk)

    results = session.events.filter(type="agent.tool_result").order_by("seq")
    told = {event.payload["name"]: event.payload for event in results}
    assert {name: payload["state"] for name, payload in told.items()} == {
        "exec": "cancelled",
        "write": "cancelled",
    }
    assert told["exec"]["duration_ms"] >= 0
    assert told["write"]["duration_ms"] is None
