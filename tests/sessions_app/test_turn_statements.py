"""Counts what an accepted message and a turn cost: statements, entries read, messages built.

A statement that is added to a turn is a decision: change the lists here with its reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection, transaction

from agents.providers.base import Delta, ModelRequest, TextDelta, ToolCall, Usage
from core.channel_layer import notifier
from core.db import prepared_rows, release_connection
from sessions_app.context import conversation, known_entries
from sessions_app.harness import turn as turns
from sessions_app.sessions import get_or_create_session
from tests.sessions_app.long_talk import give_past, say, serve, tell
from tests.statements import recorded_statements
from tools_app.policy.evaluation import Decision, EffectivePolicy

pytestmark = pytest.mark.django_db(transaction=True)

ACCEPT = "SELECT seq, run, event_id, replayed FROM lane_accept("
CLAIM = "SELECT run, epoch, turn_load("
RESERVE = "SELECT purse_reserve("
FINISH = "SELECT goes_on, run, epoch FROM lane_finish("
#: Sent by another thread for everything that came up meanwhile, so their number varies.
NOTIFY = "SELECT pg_notify("


class Instant:
    """Answers at once, after as many tool calls as it is told to make."""

    def __init__(self, calls: int = 0) -> None:
        self.calls = calls

    def stream(self, request: ModelRequest) -> Iterator[Delta]:
        if self.calls:
            self.calls -= 1
            yield ToolCall(call_id=f"c{self.calls}", name="current_time", arguments={})
        else:
            yield TextDelta(text="Done.")
        yield Usage(input_tokens=3, output_tokens=1)


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Instant:
    instant = Instant()
    monkeypatch.setattr("sessions_app.harness.loop.provider_for", lambda *_: instant)
    return instant


@pytest.fixture
def session(agent: Any, model: Instant) -> Any:
    made, _ = get_or_create_session(agent=agent)
    give_past(made, 10)
    for _ in range(2):
        tell(made, "warm the caches")
    notifier().flush()
    return made


def cost_of(action: Any) -> tuple[list[str], int]:
    """Return the beginnings of the statements of an action, and the number of notifications."""
    notifier().flush()
    release_connection()
    with recorded_statements() as statements:
        action()
        release_connection()
        notifier().flush()
    own = [text.partition("(")[0] + "(" for text in statements if not text.startswith(NOTIFY)]
    return own, len(statements) - len(own)


def test_an_accepted_message_is_one_statement(session):
    statements, notifications = cost_of(lambda: say(session, "hello"))

    assert statements == [ACCEPT]
    assert notifications == 1


def test_a_turn_is_three_statements_and_a_quick_one_is_notified_once(session, monkeypatch):
    monkeypatch.setattr("core.channel_layer.COLLECT_SECONDS", 30)
    say(session, "hello")
    statements, notifications = cost_of(lambda: serve(session))

    assert statements == [CLAIM, RESERVE, FINISH]
    assert notifications == 1


def test_the_next_run_of_a_lane_is_loaded_by_one_statement(session):
    for text in ("one", "two", "three"):
        say(session, text)
    statements, _ = cost_of(lambda: serve(session))

    following = ["SELECT turn_load(", RESERVE, FINISH]
    assert statements == [CLAIM, RESERVE, FINISH, *following, *following]


def test_a_long_conversation_is_read_and_built_once(agent, model, monkeypatch):
    read: list[int] = []
    built: list[int] = []
    parse, add = conversation.parse_entries, conversation.MessageBuilder.add

    def counted_parse(packed: list[list[Any]], *args: Any) -> Any:
        read.append(len(packed))
        return parse(packed, *args)

    def counted_add(self: Any, entries: Any) -> None:
        built.append(len(entries))
        add(self, entries)

    for module in (conversation, turns):
        monkeypatch.setattr(module, "parse_entries", counted_parse)
    monkeypatch.setattr(conversation.MessageBuilder, "add", counted_add)
    session, _ = get_or_create_session(agent=agent)
    give_past(session, 180)
    tell(session, "first")
    assert (max(read), max(built)) == (181, 181)
    read.clear()
    built.clear()

    tell(session, "second")

    # The first answer and the second message.
    assert (read, built) == ([2], [2])


#: The rows of the log that were read and inserted over this connection.
LOG_USE = """
SELECT coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0), n_tup_ins
  FROM pg_stat_xact_user_tables WHERE relname = 'session_messages'
"""


@pytest.fixture
def plans_by_index():
    """Let the planner use indexes even where a table is so small that reading all of it is cheaper."""
    for setting in ("SET enable_seqscan = off", "DISCARD PLANS"):
        connection.cursor().execute(setting)
    yield
    for setting in ("RESET enable_seqscan", "DISCARD PLANS"):
        connection.cursor().execute(setting)


def test_a_turn_reads_as_many_rows_of_a_long_log_as_of_a_short_one(agent, model, plans_by_index):
    read = []
    for length in (10, 150):
        session, _ = get_or_create_session(agent=agent)
        give_past(session, length)
        tell(session, "warm the caches")
        with transaction.atomic():
            [(read_before, inserted_before)] = prepared_rows(LOG_USE, [])
            tell(session, "hello")
            [(read_after, inserted_after)] = prepared_rows(LOG_USE, [])
        read.append(read_after - read_before)
        # The message, the start, the answer and the end.
        assert inserted_after - inserted_before == 4

    assert read[0] == read[1]


#: How often a message and its turn call each function of the database, in a session without
#: sub-agents, webhooks or steered messages.
FUNCTION_CALLS = {
    "lane_accept": 1,
    "lane_check_queue": 1,
    "lane_claim": 1,
    "turn_load": 1,
    "purse_reserve": 1,
    "lane_finish": 1,
    "lane_lock": 2,
    # The message; the start; the answer with the end.
    "log_write": 3,
    "storage_add": 3,
    "webhook_exists": 4,
    "lane_next": 2,
    "lane_joined": 1,
    "purse_settle": 1,
    "context_basis_of": 1,
    "memory_exists": 1,
    "turn_root_row": 1,
    "session_binding": 1,
    "session_family": 1,
    "environment_of_version": 1,
    "session_grants": 1,
    "log_entries": 1,
    "refuse_event_change": 1,
    "announce_run_end": 1,
    "spawn_follows_run": 1,
    "ring_step_of_run": 1,
}


def test_a_turn_calls_each_function_of_the_database_as_often_as_listed(session, plans_by_index):
    # Read as a whole, an empty table of policies leaves a function of its condition uncalled.
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL track_functions = 'pl'")
        tell(session, "hello")
        cursor.execute("SELECT funcname, calls FROM pg_stat_xact_user_functions")
        calls = dict(cursor.fetchall())
    calls.pop("turn_root", None)  # only called while a statement is planned
    assert calls == FUNCTION_CALLS


def test_a_process_without_the_conversation_reads_all_of_it(session, monkeypatch):
    monkeypatch.setattr(known_entries.recent, "_sessions", type(known_entries.recent._sessions)())
    say(session, "hello")
    statements, _ = cost_of(lambda: serve(session))

    assert statements == [CLAIM, RESERVE, FINISH]


def test_a_turn_with_a_call_of_a_tool(session, model, monkeypatch):
    allow = Decision(decision="allow", decided_by="test")
    monkeypatch.setattr(
        "tools_app.policy.effective.Binding.policy",
        lambda _: EffectivePolicy({"current_time": allow}),
    )
    model.calls = 1
    say(session, "what time is it?")
    statements, _ = cost_of(lambda: serve(session))

    assert len(statements) == 13
