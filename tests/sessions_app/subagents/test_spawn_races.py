"""Tests of concurrent spawns in one tree."""

from __future__ import annotations

import threading

import pytest
from django.db import connection, transaction

from agents.definitions import change_agent
from sessions_app.models import Session
from sessions_app.sessions import get_or_create_session
from sessions_app.subagents.spawns import _check_tree
from tests.sessions_app.spawning import agent
from tools_app.exceptions import ToolFailed

pytestmark = pytest.mark.django_db(transaction=True)
__all__ = ["agent"]


def test_of_two_concurrent_spawns_the_second_counts_the_child_of_the_first(agent, session):
    change_agent(agent, {"limits": {"max_children_total": 1}})
    agent.refresh_from_db()
    Session.objects.filter(pk=session.pk).update(agent_version_id=agent.current_id)
    made, seen = threading.Event(), threading.Event()
    said: list[str] = []

    def first() -> None:
        with transaction.atomic():
            _check_tree(session.pk)
            get_or_create_session(agent=agent, parent=session)
            made.set()
            seen.wait(2)  # Gives a second thread that does not wait the time to fail the test.
        connection.close()

    def second() -> None:
        made.wait(30)
        try:
            with transaction.atomic():
                _check_tree(session.pk)
            said.append("let through")
        except ToolFailed:
            said.append("refused")
        seen.set()
        connection.close()

    both = [threading.Thread(target=one) for one in (first, second)]
    for one in both:
        one.start()
    for one in both:
        one.join()

    assert said == ["refused"]
