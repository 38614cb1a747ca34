"""Tests that the taint of one agent reaches the next agent of a workflow."""

from __future__ import annotations

import pytest

from agents.definitions import create_agent
from orchestrator.engine.recovery import settle_lost
from sessions_app.context.taint import is_tainted
from sessions_app.models import Session
from tests.orchestrator.conftest import now, serve
from tests.orchestrator.engine.test_turns import answer
from tests.sessions_app.conftest import script
from tests.sessions_app.conftest import serve as serve_lane
from tests.sessions_app.context.test_untrusted_text import saw_a_page

pytestmark = pytest.mark.django_db
__all__ = ["script"]


def test_text_passed_from_a_tainted_session_taints_the_next_one(
    workspace, owner, define, begin, script
):
    agents = [
        create_agent(
            workspace_id=workspace.pk,
            fields={"name": name, "provider": "demo", "model": "demo"},
            created_by=owner,
        )
        for name in ("Reader", "Writer")
    ]

    def run(self, event, step):
        read = step.run_session("read", agent="Reader", message="Read the page.")
        return step.run_session("write", agent="Writer", message=read["text"])["text"]

    script(answer("The page says so."), answer("Noted."))
    define(run)
    made = begin()
    for agent in agents:
        serve()
        serve_lane(Session.objects.get(agent=agent).pk)
        settle_lost()
    serve()

    assert now(made).output == "Noted."
    reader, writer = (Session.objects.get(agent=agent) for agent in agents)
    assert not is_tainted(writer.pk)
    saw_a_page(reader)
    assert is_tainted(writer.pk)
