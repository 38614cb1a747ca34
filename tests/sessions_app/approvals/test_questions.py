"""Tests of questions to people: asked with a form, answered exactly once, through every door."""

from __future__ import annotations

import json
import threading
from datetime import timedelta
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.utils import timezone

from agents.providers.base import ToolCall
from core.exceptions import Invalid
from sessions_app.accept import accept_event
from sessions_app.approvals.approvals import ApprovalAnswer, answer_approval, expire_overdue
from sessions_app.exceptions import AlreadyAnswered
from sessions_app.models import Approval, Session, ToolExecution
from tests.conftest import add_member, key_client
from tests.sessions_app.commands import agent_command
from tests.sessions_app.conftest import newest, serve
from tests.sessions_app.spawning import words
from tests.sessions_app.stage import E, say
from tools_app.questions import Question

pytestmark = pytest.mark.django_db(transaction=True)

FIELDS: list[dict[str, Any]] = [
    {"name": "why", "label": "Why"},
    {"name": "track", "label": "Which track", "kind": "choice", "options": ["One", "Two"]},
    {"name": "crews", "label": "Which crews", "kind": "several", "options": ["A", "B", "C"]},
    {"name": "wagons", "label": "How many wagons", "kind": "number"},
    {"name": "day", "label": "When", "kind": "date"},
    {"name": "plan", "label": "The plan", "kind": "file", "required": False},
]
FORM: dict[str, Any] = {"question": "What shall leave the yard?", "fields": FIELDS}
VALUES = {"why": "Freight.", "track": "Two", "crews": ["C", "A"], "wagons": 7, "day": "2026-12-01"}
CHECKED = {**VALUES, "crews": ["A", "C"]}


def ask(session: Session, principal: Any, script: Any, form: dict[str, Any] | None = None) -> Any:
    """Let the agent ask, and return the model and the pending approval."""
    call = ToolCall(call_id="q", name="ask_user", arguments=form or FORM)
    model = script([call], words("Thanks."))
    say(session, principal)
    serve(session.pk)
    return model, Approval.objects.pending().first()


def test_a_question_waits_without_a_worker_and_its_answer_reaches_the_model(
    session, principal, script
):
    model, asked = ask(session, principal, script)

    session.refresh_from_db()
    assert (session.status, asked.title) == ("requires_action", FORM["question"])
    assert newest(session, "session.status_idle").payload["stop_reason"] == "requires_action"
    answer_approval(asked, ApprovalAnswer(decision="answer", values=VALUES), principal)
    serve(session.pk)

    result = model.requests[-1].messages[-1].results[0]
    assert (json.loads(result.output), result.is_error) == (CHECKED, False)
    call = ToolExecution.objects.get()
    assert (call.state, call.output, call.attempts) == ("completed", CHECKED, 0)
    assert newest(session, "agent.message").payload["text"] == "Thanks."
    told = newest(session, "user.tool_confirmation").payload
    assert (told["decision"], told["values"]) == ("answer", CHECKED)


def test_a_program_reads_the_form_and_answers_over_rest(session, principal, script, api):
    _, asked = ask(session, principal, script)
    url = f"/api/v1/approvals/{asked.pk}/"
    told = api.get(url).json()
    assert (told["kind"], told["values"], told["status"]) == ("question", None, "pending")
    assert told["form"]["question"] == FORM["question"]
    assert [field["kind"] for field in told["form"]["fields"]] == [
        *("text", "choice", "several", "number", "date", "file")
    ]

    wrong = api.post(url, {"decision": "answer", "values": {**VALUES, "track": "Nine"}}, format="json")  # fmt: skip
    assert (wrong.status_code, "one of: One, Two" in wrong.text) == (400, True)
    for body in (
        {"decision": "allow"},
        {"decision": "answer", "values": VALUES, "scope": "session"},
    ):
        assert api.post(url, body, format="json").status_code == 400
    assert api.get(url).json()["status"] == "pending"

    answered = api.post(url, {"decision": "answer", "values": VALUES}, format="json").json()
    assert (answered["status"], answered["values"]) == ("allowed", CHECKED)
    again = api.post(url, {"decision": "answer", "values": VALUES}, format="json")
    assert (again.status_code, "answered this" in again.json()["detail"]) == (409, True)


def test_only_a_question_is_answered_with_values(session, principal, script, api):
    script([ToolCall(call_id="x", name="exec", arguments={"command": "ls"})], words("Done."))
    say(session, principal)
    serve(session.pk)
    asked = Approval.objects.pending().get()

    url = f"/api/v1/approvals/{asked.pk}/"
    assert api.get(url).json()["kind"] == "approval"
    answer = {"decision": "answer", "values": {}}
    assert api.post(url, answer, format="json").status_code == 400
    with pytest.raises(Invalid):
        answer_approval(asked, ApprovalAnswer(decision="answer", values={}), principal)


def test_a_question_is_answered_on_the_socket_and_by_the_command_line(session, principal, script):
    _, asked = ask(session, principal, script)
    call_id = asked.execution.tool_use_id
    payload = {"tool_use_id": call_id, "decision": "answer", "values": VALUES}
    accept_event(principal, session.pk, type=E.USER_TOOL_CONFIRMATION, payload=payload)
    assert ToolExecution.objects.get().output == CHECKED
    serve(session.pk)

    _, asked = ask(session, principal, script)
    agent_command(
        *("session", "confirm-tool", "--session", str(session.pk)),
        *("--request", asked.execution.tool_use_id, "--decision", "answer"),
        *("--values", json.dumps(VALUES)),
    )
    asked.refresh_from_db()
    assert (asked.status, asked.edited_input) == ("allowed", CHECKED)


@pytest.mark.parametrize("place", ["chat", "inbox"])
def test_a_person_answers_by_a_form_without_scripts(
    session, principal, script, browser_client, place
):
    _, asked = ask(session, principal, script)
    address = f"/chat/{session.pk}/" if place == "chat" else "/approvals/"
    page = browser_client.get(address).content.decode()
    for part in (FORM["question"], 'type="date"', 'type="radio"', 'type="number"', 'type="file"'):
        assert part in page
    assert 'value="once"' not in page

    typed = {
        "answer": "answer",
        "tool_use_id": asked.execution.tool_use_id,
        **{f"value-{name}": value for name, value in VALUES.items()},
        "value-plan": SimpleUploadedFile("plan.txt", b"Track two."),
    }
    to = f"{address}answer/" if place == "chat" else f"/approvals/{asked.pk}/answer/"
    browser_client.post(to, typed, follow=True)
    call = ToolExecution.objects.get()
    assert call.output == {**CHECKED, "plan": "uploads/plan.txt"}
    serve(session.pk)
    page = browser_client.get(f"/chat/{session.pk}/").content.decode()
    assert "Answered" in page


def test_declining_expiring_and_stopping_end_the_question(session, principal, script):
    model, asked = ask(session, principal, script)
    answer_approval(asked, ApprovalAnswer(decision="deny", note="Ask Ann."), principal)
    serve(session.pk)
    output = model.requests[-1].messages[-1].results[0].output
    assert output == "The person declined to answer. Ask Ann."

    model, asked = ask(session, principal, script)
    Approval.objects.filter(pk=asked.pk).update(expires_at=timezone.now() - timedelta(seconds=1))
    assert expire_overdue(10) == [asked.pk]
    serve(session.pk)
    assert "not answered in time" in model.requests[-1].messages[-1].results[0].output

    _, asked = ask(session, principal, script)
    accept_event(principal, session.pk, type=E.USER_INTERRUPT, payload={})
    asked.refresh_from_db()
    assert asked.status == "cancelled"


def test_of_two_simultaneous_answers_one_counts(session, principal, script):
    _, asked = ask(session, principal, script)
    outcomes: list[str] = []
    ready = threading.Barrier(2)

    def answer(why: str) -> None:
        try:
            ready.wait()
            values = {**VALUES, "why": why}
            answer_approval(asked, ApprovalAnswer(decision="answer", values=values), principal)
            outcomes.append(why)
        except AlreadyAnswered:
            outcomes.append("refused")
        finally:
            connection.close()

    threads = [threading.Thread(target=answer, args=(why,)) for why in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert outcomes.count("refused") == 1
    assert ToolExecution.objects.get().output["why"] in outcomes
    assert session.events.filter(type=E.AGENT_TOOL_RESULT).count() == 1


def test_an_invalid_form_is_an_error_for_the_model_and_asks_nobody(session, principal, script):
    form = {"question": "Which?", "fields": [{"name": "a", "label": "A", "kind": "choice"}]}
    model, asked = ask(session, principal, script, form)

    assert asked is None
    result = model.requests[-1].messages[-1].results[0]
    assert (result.is_error, "different options" in result.output) == (True, True)


def test_a_policy_can_forbid_questions(session, principal, script, api):
    denied = {"profile": "full", "denied_tools": ["ask_user"]}
    api.put(f"/api/v1/agents/{session.agent_id}/policy/", denied, format="json")
    model, asked = ask(session, principal, script)

    assert asked is None
    assert "ask_user" not in [tool.name for tool in model.requests[0].tools]
    assert ToolExecution.objects.get().state == "denied"


def test_others_see_neither_the_question_nor_may_viewers_answer(
    session, principal, script, workspace, foreign_workspace
):
    _, asked = ask(session, principal, script)
    url = f"/api/v1/approvals/{asked.pk}/"
    answer = {"decision": "answer", "values": VALUES}
    assert key_client(foreign_workspace).post(url, answer, format="json").status_code == 404
    add_member(workspace, "viewer")
    reader = key_client(workspace, scope="read")
    assert reader.post(url, answer, format="json").status_code == 403


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("why", "", "needs an answer"),
        ("why", 7, "is a text"),
        ("track", "Three", "is one of"),
        ("crews", "A", "is a list"),
        ("crews", ["A", "Z"], "is a list"),
        ("wagons", True, "is a number"),
        ("wagons", "many", "is a number"),
        ("wagons", "nan", "is a number"),
        ("day", "tomorrow", "is a day"),
        ("plan", "../../etc/passwd", "is the path"),
        ("other", "x", "no field named"),
    ],
)
def test_an_answer_that_does_not_fit_is_refused_with_its_reason(name, value, complaint):
    with pytest.raises(Invalid, match=complaint):
        Question.model_validate(FORM).checked({**VALUES, name: value})


def test_what_a_browser_sends_as_text_becomes_what_the_field_is():
    form = Question.model_validate(FORM)
    assert form.checked({**VALUES, "wagons": "7"})["wagons"] == 7
    assert form.checked({**VALUES, "wagons": "7.5"})["wagons"] == 7.5
    assert Question(question="Why?").checked({"answer": "So."}) == {"answer": "So."}
