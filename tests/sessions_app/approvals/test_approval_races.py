"""Tests that of many concurrent answers to one approval, from any door, exactly one counts."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from django.db import connection

from sessions_app.exceptions import AlreadyAnswered
from sessions_app.lanes import run_queue
from sessions_app.models import Approval, ToolExecution
from sessions_app.sessions import get_or_create_session
from tests.conftest import key_client
from tests.sessions_app.conftest import serve
from tests.sessions_app.stage import WORDS
from tests.sessions_app.waiting_calls import allow, deny, parked

pytestmark = pytest.mark.usefixtures("stage_tools")
SESSIONS, EACH = 40, 5


def at_once(acts: Sequence[Callable[[], object]], pool: ThreadPoolExecutor) -> list[object]:
    """Call all functions at the same moment, each on its own thread and connection."""
    ready = threading.Barrier(len(acts))

    def one(act: Callable[[], object]) -> object:
        try:
            ready.wait()
            return act()
        finally:
            connection.close()

    return [done.result() for done in [pool.submit(one, act) for act in acts]]


def over_rest(client, approval: Approval, decision: str) -> Callable[[], object]:
    path = f"/api/v1/approvals/{approval.pk}/"
    return lambda: client.post(path, {"decision": decision}, format="json").status_code


def over_the_log(client, approval: Approval, decision: str) -> Callable[[], object]:
    call = approval.execution
    payload = {"tool_use_id": call.tool_use_id, "decision": decision}
    body = {"type": "user.tool_confirmation", "payload": payload}
    path = f"/api/v1/sessions/{call.session_id}/events/"
    return lambda: client.post(path, body, format="json").status_code


def test_of_concurrent_answers_over_rest_exactly_one_wins_hundreds_of_times(
    transactional_db, agent, workspace, script, effects
):
    script(*[WORDS] * SESSIONS)
    sessions = [get_or_create_session(agent=agent)[0] for _ in range(SESSIONS)]
    asked = [one for session in sessions for one in parked(session, EACH, "ask_first")]
    clients = [key_client(workspace, "run") for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        for one in asked:
            doors = zip(
                (over_rest, over_rest, over_the_log, over_the_log),
                clients,
                ("allow", "deny") * 2,
                strict=True,
            )
            codes = at_once([door(client, one, said) for door, client, said in doors], pool)
            assert sorted(int(str(code)) // 100 for code in codes) == [2, 4, 4, 4]
            assert set(codes) <= {200, 202, 409}
    for session in sessions:
        serve(session.pk)

    statuses = Counter(Approval.objects.values_list("status", flat=True))
    states = Counter(ToolExecution.objects.values_list("state", flat=True))
    assert sum(statuses.values()) == SESSIONS * EACH
    assert set(statuses) <= {"allowed", "denied"}
    assert (states["completed"], states["denied"]) == (statuses["allowed"], statuses["denied"])
    assert len(effects) == len(set(effects)) == statuses["allowed"]


def test_an_interrupt_concurrent_with_an_allow_leaves_a_consistent_state(
    transactional_db, agent, principal, script, effects
):
    script(*[WORDS] * 30)
    with ThreadPoolExecutor(2) as pool:
        for _ in range(30):
            session, _ = get_or_create_session(agent=agent)
            (asked,) = parked(session, 1, "ask_first")
            before = len(effects)

            def say_yes(asked=asked) -> str:
                try:
                    return allow(asked, principal).approval.status
                except AlreadyAnswered:
                    return "late"

            said, _ = at_once([say_yes, partial(run_queue.stop, session.pk)], pool)
            serve(session.pk)

            asked.refresh_from_db()
            call, ran = ToolExecution.objects.get(pk=asked.execution_id), len(effects) - before
            session.refresh_from_db()
            assert (said, asked.status) in {("allowed", "allowed"), ("late", "cancelled")}
            # An allow that came first may still be stopped before its run begins.
            assert (call.state, ran) in {("completed", 1), ("cancelled", 0)}
            assert session.status == "idle"


def test_the_second_answer_is_told_who_was_first(session, principal, workspace):
    (asked,) = parked(session)
    deny(asked, principal)

    with pytest.raises(AlreadyAnswered, match=r"owner@example.com denied this at 20\d\d-") as late:
        allow(asked, principal)

    assert late.value.extra["answer"]["status"] == "denied"
