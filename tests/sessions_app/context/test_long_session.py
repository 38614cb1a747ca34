"""Tests that a long session in a small window survives dozens of compactions without losses."""

from __future__ import annotations

import itertools

import orjson
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from agents.providers.base import estimate_request
from memory.ownership import Reader
from memory.recall import recall
from sessions_app.harness import model_call
from sessions_app.log.sql import row
from sessions_app.log.transfer import export
from sessions_app.models import ContextSnapshot, Run, SessionEvent
from tests.sessions_app.long_talk import (
    Watched,
    give_past,
    tell,
    window_of,
    write_exchanges,
)

pytestmark = pytest.mark.django_db(transaction=True)

WINDOW = 8_000
TURNS, EVERY = 1_000, 4
FACTS = {
    3: "remember that the vault code of the lighthouse is KX-2291",
    40: "remember that Marta prefers the ferry at 07:40 from Dock_7",
    90: "remember that the archive lives in /srv/heron/archive.tar",
}


@pytest.fixture
def model(monkeypatch) -> Watched:
    watched = Watched()
    monkeypatch.setattr("sessions_app.harness.loop.provider_for", lambda *_: watched)
    monkeypatch.setattr("sessions_app.harness.model_call.provider_for", lambda *_: watched)
    monkeypatch.setattr(model_call, "PAUSES", ())
    return watched


def utterance(nth: int) -> str:
    if nth in FACTS:
        # Said, not stored: only saving before a compaction can keep it.
        return f"say {FACTS[nth].removeprefix('remember that ')}"
    if nth % 10 == 5:
        return "list the files"
    return f"say turn {nth} of ticket YARD-{nth} " + "and so on " * 20


def check_pairs(request) -> None:
    for before, after in itertools.pairwise([*request.messages, None]):
        if before.calls:
            assert after is not None
            assert [r.call_id for r in after.results] == [c.call_id for c in before.calls]
        if before.role == "tool":
            assert before.results
    assert request.messages[0].role == "user"


def test_two_thousand_messages_fit_a_small_window(session, model, owner):
    with window_of(WINDOW):
        # Every fourth turn is a real run; the others are only written to the log.
        for nth in range(0, TURNS, EVERY):
            tell(session, utterance(nth), owner.pk)
            write_exchanges(session, [utterance(nth + more) for more in range(1, EVERY)])

    assert Run.objects.exclude(status="completed").count() == 0
    assert SessionEvent.objects.filter(type="session.error").count() == 0
    snapshots = ContextSnapshot.objects.count()
    assert snapshots >= 24
    for request in model.requests:
        assert estimate_request(request) <= WINDOW
        check_pairs(request)
    # Every compaction covers more than the one before.
    covered = list(ContextSnapshot.objects.order_by("id").values_list("last_seq", flat=True))
    assert all(one < other for one, other in itertools.pairwise(covered))
    reader = Reader(workspace_id=session.workspace_id, agent_id=session.agent_id)
    for fact, question in {
        "KX-2291": "What is the vault code of the lighthouse?",
        "Dock_7": "Which ferry does Marta prefer?",
        "/srv/heron/archive.tar": "Where does the archive live?",
    }.items():
        assert fact in "\n".join(hit.text for hit in recall(reader, question)), question
        with window_of(WINDOW):
            tell(session, f"say {question}", owner.pk)
        assert fact in str(model.answered[-1].messages), question
    lines = [orjson.loads(line) for line in export(session)]
    assert [line["seq"] for line in lines] == [*range(1, len(lines) + 1)]
    said = [line["payload"]["text"] for line in lines if line["type"] == "user.message"]
    assert len(said) == TURNS + 3
    assert said[0] == utterance(0)


READS = """
SELECT coalesce(sum(seq_tup_read), 0) + coalesce(sum(idx_tup_fetch), 0) FROM pg_stat_xact_user_tables
 WHERE relname = ANY(%s)
"""
TABLES = ["session_messages", "agent_run_queue", "agent_context_snapshots", "tool_executions"]


def cost_of_a_turn(session) -> tuple[int, int]:
    """Return the statements and rows read in one turn, in one transaction as the counts require."""
    from django.db import transaction

    with transaction.atomic():
        (before,) = row(READS, [TABLES])
        with CaptureQueriesContext(connection) as queries:
            tell(session, "say hello")
        (after,) = row(READS, [TABLES])
    return len(queries), after - before


def test_the_cost_of_a_turn_does_not_grow_with_the_log(agent, model, owner):
    from sessions_app.sessions import get_or_create_session

    costs = {}
    with window_of(WINDOW):
        for count in (1_000, 10_000):
            session, _ = get_or_create_session(agent=agent, created_by_id=owner.pk)
            give_past(session, count)
            ContextSnapshot.objects.create(
                workspace_id=session.workspace_id,
                session=session,
                trigger="auto",
                first_seq=1,
                last_seq=count - 10,
                first_kept_seq=count - 9,
                summary="Much was said about the yard.",
                model="demo",
                tokens_before=5_000,
                tokens_after=500,
            )
            type(session).objects.filter(pk=session.pk).update(snapshot_seq=count - 10)
            tell(session, "say warm up")
            with connection.cursor() as cursor:
                cursor.execute("ANALYZE session_messages")
            costs[count] = cost_of_a_turn(session)

    (statements, rows), (later_statements, later_rows) = costs[1_000], costs[10_000]
    assert statements == later_statements
    # Not compared: how many rows the plan of a small table reads depends on when it was analysed.
    assert max(rows, later_rows) < 200
