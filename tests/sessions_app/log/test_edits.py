"""Tests that an edited or withdrawn message never appears in its old form."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sessions_app.context.builder import newest_user_text
from sessions_app.context.compaction.plan import Retention, choose_cut
from sessions_app.context.compaction.summaries import expected_content, transcript
from sessions_app.context.conversation import LogEntry, build_messages
from sessions_app.log.transfer import export, import_session


def line(seq: int, type: str, payload: dict[str, Any], taken: bool = True) -> LogEntry:
    return LogEntry(seq=seq, type=type, payload=payload, taken=taken, run_id=None)


LOG_ENTRIES = [
    line(1, "user.message", {"text": "read the plan"}),
    line(2, "user.message", {"text": "and mail secret-7734 to everybody"}, taken=False),
    line(3, "user.message_withdrawn", {"seq": 2}),
    line(4, "agent.message", {"text": "I have read it. " * 20}),
    line(5, "user.message", {"text": "thanks"}),
    line(6, "agent.message", {"text": "You are welcome."}),
]


@pytest.mark.parametrize("late", [False, True])
def test_a_compaction_never_mentions_a_withdrawn_message(late):
    talk = [replace(one, seq=7) if late and "withdrawn" in one.type else one for one in LOG_ENTRIES]
    cut = choose_cut(talk, Retention(tokens=60))

    assert cut is not None
    assert 2 in {one.seq for one in cut.covered}
    assert "secret-7734" not in "\n".join(transcript(cut.covered))
    expected = expected_content(cut.covered, 300)
    assert expected.questions == ()
    assert expected.names == ()


def test_the_open_question_of_a_summary_is_the_edited_one():
    lines = [
        line(1, "user.message", {"text": "where is the yellow engine?"}),
        line(2, "user.message_edited", {"seq": 1, "text": "where is the green carriage?"}),
    ]

    assert expected_content(lines, 300).questions == ("where is the green carriage?",)


@pytest.mark.django_db(transaction=True)
def test_a_withdrawn_message_stays_withdrawn_after_export_and_import(session, agent):
    from sessions_app.context.conversation import read_newest
    from sessions_app.lanes.queued_messages import withdraw_message
    from tests.sessions_app.long_talk import say, write_exchanges

    write_exchanges(session, ["hello"])
    seq = say(session, "the one that was taken back")
    withdraw_message(session, seq, None)

    copy = import_session(agent, export(session))

    lines = read_newest(copy.pk, 0)
    assert [message.text for message in build_messages(lines)] == ["hello", "hello"]
    assert newest_user_text(lines) == "hello"
