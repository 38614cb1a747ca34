"""The log told as a conversation."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from sessions_app.accept import accept_event
from sessions_app.lanes import run_queue
from sessions_app.log.writer import NewEvent, append_events
from sessions_app.models import Session, SessionEvent
from sessions_app.pages.transcript import (
    build_transcript,
    fold,
    newest_window,
    waiting_runs,
)
from sessions_app.pages.transcript_lines import (
    AgentLine,
    CallLine,
    Child,
    CompactionLine,
    CutLine,
    ErrorLine,
    NoteLine,
    PersonLine,
    StepsLine,
    TranscriptLine,
)
from tests.sessions_app.conftest import OWNER, serve

E = SessionEvent.Type


def told(session: Session) -> list[str]:
    session.refresh_from_db()
    lines = build_transcript(newest_window(session), queue=waiting_runs(session))
    return [words_of(line) for line in lines]


def words_of(line: TranscriptLine) -> str:
    match line:
        case PersonLine():
            return f"> {line.text}{' (steered)' if line.receipt == 'steered' else ''}"
        case AgentLine():
            return line.text
        case CallLine(child=Child() as child):
            return f"({child.title} {child.status}: {child.result})"
        case CallLine():
            return f"[{line.label.title} {line.state}]"
        case ErrorLine():
            return f"! {line.message}{' (retry)' if line.can_retry else ''}"
        case NoteLine():
            return f"- {line.text}"
        case _:
            raise AssertionError(line)


def say(principal, session: Session, text: str, on_busy: str = "followup") -> int:
    return accept_event(
        principal, session.pk, type=E.USER_MESSAGE, payload={"text": text}, on_busy=on_busy
    ).seq


def test_a_queued_message_stands_where_it_is_answered(session, principal):
    say(principal, session, "say one")
    claim = run_queue.claim(session.pk, OWNER)
    assert claim
    say(principal, session, "say two")
    run_queue.release(claim, reason="test")
    serve(session.pk)

    assert told(session) == ["> say one", "one", "> say two", "two"]


def test_a_steered_message_stands_where_it_came(session, principal):
    say(principal, session, "say one")
    claim = run_queue.claim(session.pk, OWNER)
    assert claim
    say(principal, session, "say two", on_busy="steer")
    run_queue.step(claim)
    append_events(session.pk, [NewEvent(type=E.AGENT_MESSAGE, payload={"text": "both"})])

    assert told(session) == ["> say one", "> say two (steered)", "both"]


def test_an_edited_message_is_told_in_its_newest_wording_and_a_withdrawn_one_not(
    session, principal
):
    say(principal, session, "say one")
    claim = run_queue.claim(session.pk, OWNER)
    assert claim
    second = say(principal, session, "say two")
    third = say(principal, session, "say three")
    edit = {"seq": second, "text": "say deux"}
    accept_event(principal, session.pk, type=E.USER_MESSAGE_EDITED, payload=edit)
    accept_event(principal, session.pk, type=E.USER_MESSAGE_WITHDRAWN, payload={"seq": third})
    assert told(session) == ["> say one"]
    run_queue.release(claim, reason="test")
    serve(session.pk)

    assert told(session) == ["> say one", "one", "> say deux", "deux"]


def test_an_approval_waits_and_then_tells_who_answered(session, principal, owner):
    say(principal, session, "run echo hello")
    serve(session.pk)
    assert told(session)[-1] == "[Run a command awaiting_approval]"
    call = build_transcript(newest_window(session))[-1]
    assert isinstance(call, CallLine)
    answer = {"tool_use_id": call.tool_use_id, "decision": "deny", "note": "no"}
    accept_event(principal, session.pk, type=E.USER_TOOL_CONFIRMATION, payload=answer)

    session.refresh_from_db()
    answered = next(
        line for line in build_transcript(newest_window(session)) if isinstance(line, CallLine)
    )
    assert (answered.state, answered.rule) == ("denied", f"Denied by {owner.display_name}")
    assert (answered.note, answered.ending) == ("no", "")


def test_a_stop_is_a_note_with_its_author(session, principal, owner):
    say(principal, session, "say one")
    assert run_queue.claim(session.pk, OWNER)
    accept_event(principal, session.pk, type=E.USER_INTERRUPT, payload={"note": "enough"})

    assert told(session) == ["> say one", f"- Stopped by {owner.display_name}: enough"]


def test_an_error_can_be_tried_again_until_something_newer_runs(session, principal, monkeypatch):
    monkeypatch.setattr("sessions_app.harness.loop.PAUSES", ())
    say(principal, session, "fail with overload")
    serve(session.pk)
    assert told(session)[-1] == "! The demo provider was asked to be overloaded. (retry)"
    say(principal, session, "hello")
    assert run_queue.claim(session.pk, OWNER)

    assert "! The demo provider was asked to be overloaded." in told(session)


def test_a_refusal_can_be_tried_again_with_another_model(session, principal):
    say(principal, session, "fail with rejection")
    serve(session.pk)

    assert told(session)[-1] == "! The demo provider was asked to refuse. (retry)"
    errors = [x for x in build_transcript(newest_window(session)) if isinstance(x, ErrorLine)]
    assert errors[-1].is_of_the_model


def test_a_call_without_a_result_in_a_session_at_rest_is_unknown(session):
    payload = {"tool_use_id": "tu_1", "name": "exec", "input": {}, "decision": "allow"}
    append_events(session.pk, [NewEvent(type=E.AGENT_TOOL_USE, payload=payload)])

    assert told(session) == ["[Run a command unknown]"]


def test_a_result_whose_call_lies_before_the_window_is_a_line_of_its_own(session):
    result = {"tool_use_id": "tu_1", "name": "no_such_tool", "state": "error", "error": "Broken"}
    append_events(session.pk, [NewEvent(type=E.AGENT_TOOL_RESULT, payload=result)])

    assert told(session) == ["[No such tool error]"]


def test_a_call_that_started_a_session_is_told_as_its_card(session, principal):
    say(principal, session, "ask a sub-agent to say hello")
    assert run_queue.claim(session.pk, OWNER)
    call = {"tool_use_id": "t1", "name": "sessions_spawn", "input": {}, "decision": "allow"}
    child = {"tool_use_id": "t1", "child_session_id": str(session.pk), "title": "Greet"}
    ended = {**child, "status": "completed", "result": "hello"}
    events: dict[E, dict[str, Any]] = {E.AGENT_TOOL_USE: call, E.CHILD_CREATED: child}
    append_events(session.pk, [NewEvent(type=type, payload=said) for type, said in events.items()])

    assert told(session)[1:] == ["(Greet running: )"]
    append_events(session.pk, [NewEvent(type=E.CHILD_IDLE, payload=ended)])
    assert told(session)[1:] == ["(Greet completed: hello)"]


def test_what_happens_in_passing_is_a_note_in_the_words_of_the_chat(session):
    happened: list[tuple[E, dict[str, Any]]] = [
        (E.RESOURCE_ATTACHED, {"mount_path": "/docs"}),
        (E.OUTCOME_JUDGED, {"status": "met"}),
        (
            E.OUTCOME_JUDGED,
            {
                "status": "not_met",
                "returned": True,
                "returns": 1,
                "max_returns": 2,
                "feedback": "Say\nmore.",
            },
        ),
        (E.OUTCOME_JUDGED, {"status": "not_met", "returned": False, "feedback": ""}),
        (E.OUTCOME_JUDGED, {"status": "unclear", "why": "No grader."}),
        (E.TERMINAL_OPENED, {"opened_by": "Olive"}),
        (E.TERMINAL_OPENED, {"opened_by": ""}),
    ]
    append_events(session.pk, [NewEvent(type=type, payload=said) for type, said in happened])

    assert told(session) == [
        "- Attached /docs",
        "- Outcome met",
        "- Outcome not met, sent back 1 of 2: Say more.",
        "- Outcome not met",
        "- Outcome unclear: No grader.",
        "- Olive opened a terminal",
        "- A terminal was opened",
    ]


def add(session: Session, type: E, payload: dict[str, Any]) -> None:
    append_events(session.pk, [NewEvent(type=type, payload=payload)])


def finish_call(session: Session, tool_use_id: str, state: str = "completed", ms: int = 0) -> None:
    call = {"tool_use_id": tool_use_id, "name": "read", "input": {"path": tool_use_id}}
    add(session, E.AGENT_TOOL_USE, {**call, "decision": "allow"})
    add(session, E.AGENT_TOOL_RESULT, {**call, "state": state, "duration_ms": ms})


def folded(session: Session, *, is_idle: bool) -> list[str]:
    session.refresh_from_db()
    lines = fold(build_transcript(newest_window(session)), is_idle=is_idle)
    return [
        f"{line.summary}, {line.failed} failed" if isinstance(line, StepsLine) else words_of(line)
        for line in lines
    ]


def test_finished_calls_in_a_row_are_folded_unless_the_row_may_grow(session):
    for nth, state in enumerate(["completed", "error", "completed"]):
        finish_call(session, f"t{nth}", state, 400)
    open_row = ["[Read a file completed]", "[Read a file error]", "[Read a file completed]"]
    assert folded(session, is_idle=False) == open_row
    assert folded(session, is_idle=True) == ["3 steps · 1.2 s, 1 failed"]
    add(session, E.AGENT_MESSAGE, {"text": "Done."})
    finish_call(session, "t4")

    assert folded(session, is_idle=False) == [
        "3 steps · 1.2 s, 1 failed",
        "Done.",
        "[Read a file completed]",
    ]


def test_a_call_that_needs_a_person_is_not_folded(session):
    for nth, state in enumerate(["completed", "unknown", "completed", "completed"]):
        finish_call(session, f"t{nth}", state)

    assert "[Read a file unknown]" in folded(session, is_idle=True)


@pytest.mark.parametrize(
    ("type", "mark"), [(E.COMPACTION_UNDONE, {}), (E.CONTEXT_COMPACTED, {"undone": True})]
)
def test_only_the_newest_compaction_in_effect_can_be_undone(session, type, mark):
    """Logs of earlier releases have the undo as a marked compaction."""
    tokens = {"tokens_before": 20_000, "tokens_after": 900}
    add(session, E.CONTEXT_COMPACTED, {"snapshot_id": "a", **tokens})
    add(session, E.CONTEXT_COMPACTED, {"snapshot_id": "b", **tokens})

    def compactions() -> list[tuple[str, bool, bool]]:
        lines = build_transcript(newest_window(session))
        return [
            (line.text, line.is_active, line.is_undone)
            for line in lines
            if isinstance(line, CompactionLine)
        ]

    text = "Context compacted 20k → 900 tokens"
    assert compactions() == [(text, False, False), (text, True, False)]
    add(session, type, {"snapshot_id": "b", **mark})

    assert compactions() == [(text, True, False), (text, False, True)]
    assert told_notes(session) == ["Compaction undone"]


def told_notes(session: Session) -> list[str]:
    lines = build_transcript(newest_window(session))
    return [line.text for line in lines if isinstance(line, NoteLine)]


def test_an_error_that_a_person_can_resolve_can_be_retried(session, principal):
    say(principal, session, "hello")
    claim = run_queue.claim(session.pk, OWNER)
    assert claim
    for code in ("budget_reached", "provider_rejected", "policy_denied"):
        error = NewEvent(type=E.ERROR, payload={"message": code, "code": code})
        append_events(session.pk, [error], run_id=claim.run_id)
    lines = build_transcript(newest_window(session))
    errors = [line for line in lines if isinstance(line, ErrorLine)]

    assert [line.can_retry for line in errors] == [True, True, False]
    assert [line.is_of_the_model for line in errors] == [False, True, False]
    assert errors[0].help == ("Raise the budget", "/settings/budgets/")


def test_an_answer_that_is_not_whole_says_so_and_can_be_continued_until_the_next_run(
    session, principal
):
    say(principal, session, "hello")
    claim = run_queue.claim(session.pk, OWNER)
    assert claim
    for mark in ("truncated", "partial"):
        answer = NewEvent(type=E.AGENT_MESSAGE, payload={"text": mark, mark: True})
        append_events(session.pk, [answer], run_id=claim.run_id)
    run_queue.finish(claim, None, stop_reason="max_tokens")

    def cuts() -> list[tuple[str, bool]]:
        lines = build_transcript(newest_window(session))
        return [(line.text, line.can_continue) for line in lines if isinstance(line, CutLine)]

    assert cuts() == [
        ("This answer reached its token limit and is not finished.", True),
        ("The model stopped sending before this answer was finished.", False),
    ]
    say(principal, session, "Continue.")
    assert run_queue.claim(session.pk, OWNER)
    assert [can_continue for _, can_continue in cuts()] == [False, False]


def receipts(session: Session) -> list[str]:
    session.refresh_from_db()
    lines = build_transcript(newest_window(session))
    return [line.receipt_text for line in lines if isinstance(line, PersonLine)]


def test_a_message_whose_run_failed_is_not_answered(session, principal):
    say(principal, session, "say hello")
    serve(session.pk)
    say(principal, session, "fail with rejection")
    serve(session.pk)

    assert receipts(session) == ["Answered", "Not answered"]


def test_a_message_whose_run_was_stopped_is_not_answered(session, principal):
    say(principal, session, "say one")
    assert run_queue.claim(session.pk, OWNER)
    accept_event(principal, session.pk, type=E.USER_INTERRUPT, payload={})

    assert receipts(session) == ["Stopped"]


@pytest.mark.parametrize(
    ("fields", "ending"),
    [
        (
            {"decision": "deny", "decided_by": "workspace: group:exec"},
            "Denied by workspace: group:exec",
        ),
        ({"decision": "ask", "decided_by": "default: asks"}, "Denied: not answered in time"),
        ({"decision": "ask", "answered": "deny", "note": "not now"}, ""),
    ],
)
def test_a_denied_call_says_why_in_its_line(fields, ending):
    line = CallLine(key="c", seq=1, at=timezone.now(), tool_use_id="c", name="exec", **fields)
    line.result = "denied"
    line.resolve("idle")

    assert line.ending == ending


def test_messages_that_one_run_reads_say_so(session, principal):
    say(principal, session, "say one")
    claim = run_queue.claim(session.pk, OWNER)
    assert claim
    say(principal, session, "say two", on_busy="steer")
    run_queue.step(claim)
    session.refresh_from_db()
    lines = build_transcript(newest_window(session))

    assert [line.receipt_text for line in lines if isinstance(line, PersonLine)] == [
        "Read",
        "Added to the running answer",
    ]
