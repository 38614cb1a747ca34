"""Tests of the approvals page as the server renders it, without scripts."""

from __future__ import annotations

import re
from html import unescape
from uuid import uuid4

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from sessions_app.approvals.approvals import open_approval
from sessions_app.models import Approval, Session, ToolExecution
from tests.conftest import add_member
from tests.sessions_app.waiting_calls import allow, ask, parked
from tools_app.policy.storage import agent_target, stored_policy

PAGE = "/approvals/"


def press(client, approval: Approval, button: str, **typed: str):
    path = f"{PAGE}{approval.pk}/answer/"
    return client.post(path, {"answer": button, **typed}, follow=True).text


def test_an_empty_inbox_explains_itself(browser_client, session):
    page = browser_client.get(PAGE).text

    assert "No approvals waiting" in page
    assert "exactly what it will do" in page


def test_pending_approvals_come_first_and_are_counted_in_title_and_navigation(
    browser_client, session, principal
):
    first, second = parked(session, 2)
    allow(first, principal, scope="session", note="go on")

    page = browser_client.get(PAGE).text

    assert "<title>(1) Approvals" in page
    assert 'data-socket="/ws/approvals/" data-member="pending">1</span>' in page
    assert page.index("echo 1") < page.index("Answered") < page.index("echo 0")
    assert "owner@example.com allowed this for this session" in page
    assert "go on" in page
    assert "This tool always asks first" in page
    assert "exactly this command" in page
    assert str(second.pk) in page


def test_the_expiry_is_shown_in_the_time_zone_of_the_reader(browser_client, session):
    parked(session)
    page = browser_client.get(PAGE).text

    # Without scripts the time names its zone; with them the island `times` rewrites it.
    assert re.search(r"denied automatically <time data-exact [^>]+>[^<]+ UTC</time>", page)


HIDDEN = "cat notes\u202etxt.sh \u200b; rm"
SHOWN = r"cat notes\u202etxt.sh \u200b; rm"


def test_characters_that_hide_something_are_shown_to_approvers(
    browser_client, session, principal, script
):
    asked = ask(session, principal, script, text=HIDDEN)
    Session.objects.update(title="Notes\u202e")

    for page in (browser_client.get(PAGE).text, browser_client.get(f"/chat/{session.pk}/").text):
        assert SHOWN in page
        assert HIDDEN not in page
    assert r"Notes\u202e" in browser_client.get(PAGE).text
    assert SHOWN in asked.title


def test_arguments_that_were_shown_with_escapes_run_unchanged(
    browser_client, session, principal, script
):
    asked = ask(session, principal, script, text=HIDDEN)
    shown = re.search(r"<textarea[^>]*>(.*?)</textarea>", browser_client.get(PAGE).text, re.DOTALL)
    assert shown
    press(browser_client, asked, "once", input=unescape(shown[1]))

    asked.refresh_from_db()
    assert asked.status == "allowed"
    assert (asked.edited_input or asked.input) == {"command": HIDDEN}


@pytest.mark.parametrize(
    ("button", "status", "scope", "state"),
    [
        ("once", "allowed", "once", "requested"),
        ("session", "allowed", "session", "requested"),
        ("always", "allowed", "always", "requested"),
        ("deny", "denied", "once", "denied"),
    ],
)
def test_each_button_has_its_effect(browser_client, session, button, status, scope, state):
    (asked,) = parked(session)

    press(browser_client, asked, button, note="so be it")

    asked.refresh_from_db()
    assert (asked.status, asked.scope, asked.note) == (status, scope, "so be it")
    assert ToolExecution.objects.get().state == state


def test_the_question_of_a_workflow_is_markdown_and_a_command_is_shown_verbatim(
    browser_client, workspace
):
    for name, message in [("digest", "Some **bold** <i>words</i>"), ("execute-task", "rm **/*.o")]:
        open_approval(
            workspace_id=workspace.pk,
            subject=Approval.Subject.WORKFLOW,
            subject_id=uuid4(),
            title=f"Let {name} go on?",
            input={"workflow": name, "message": message},
        )

    page = browser_client.get(PAGE).text

    assert "<p>Some <strong>bold</strong> &lt;i&gt;words&lt;/i&gt;</p>" in page
    assert ">rm **/*.o</pre>" in page


def test_arguments_can_be_changed(browser_client, session):
    (asked,) = parked(session)

    press(browser_client, asked, "once", input='{"command": "pwd"}')

    assert ToolExecution.objects.get().input == {"command": "pwd"}


@pytest.mark.parametrize(
    ("button", "typed", "error"),
    [
        ("", {}, "Choose whether to allow"),
        ("perhaps", {}, "Select a valid choice"),
        ("once", {"input": "{"}, "are not valid JSON"),
        ("once", {"input": '{"x": 1}'}, "Invalid arguments for exec"),
    ],
)
def test_an_invalid_answer_is_explained_and_the_approval_stays_pending(
    browser_client, session, button, typed, error
):
    (asked,) = parked(session)

    assert error in press(browser_client, asked, button, **typed)

    asked.refresh_from_db()
    assert asked.status == "pending"


@pytest.mark.parametrize("levels", [200, 100_000])
def test_changed_arguments_that_the_log_cannot_hold_are_refused(browser_client, session, levels):
    (asked,) = parked(session)
    ToolExecution.objects.update(name="mcp:shop:find")
    page = press(browser_client, asked, "once", input='{"a":' * levels + "1" + "}" * levels)

    assert "nested too deeply" in page or "are not valid JSON" in page
    assert ToolExecution.objects.get().state == "awaiting_approval"


def test_a_second_answer_shows_the_first(browser_client, session):
    (asked,) = parked(session)
    press(browser_client, asked, "deny")

    assert "owner@example.com denied this at" in press(browser_client, asked, "once")


def member(workspace, role: str) -> Client:
    client = Client()
    client.force_login(add_member(workspace, role))
    return client


def test_a_builder_is_neither_offered_nor_granted_always(workspace, session):
    (asked,) = parked(session)
    builder = member(workspace, "builder")

    assert 'value="always"' not in builder.get(PAGE).text
    assert "right to admin" in press(builder, asked, "always")
    assert stored_policy(agent_target(session.agent_id)).revision == 0


def test_a_viewer_sees_approvals_without_buttons_and_secrets(workspace, session):
    (asked,) = parked(session)
    secret = "curl --token abcdefgh"
    Approval.objects.filter(pk=asked.pk).update(input={"command": secret}, title=secret)
    viewer = member(workspace, "viewer")

    page = viewer.get(PAGE).text

    assert "abcdefgh" not in page
    assert 'name="answer"' not in page
    assert "Answering requires the builder role." in page
    assert viewer.post(f"{PAGE}{asked.pk}/answer/", {"answer": "deny"}).status_code == 403


def test_the_number_of_queries_does_not_grow_with_the_approvals(browser_client, session):
    def queries() -> int:
        with CaptureQueriesContext(connection) as seen:
            browser_client.get(PAGE)
        return len(seen)

    parked(session, 1)
    queries()
    few = queries()
    parked(session, 20)
    assert queries() == few
