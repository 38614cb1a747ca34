"""The inbox of approvals, as the server writes it and without a script."""

from __future__ import annotations

import re
from uuid import uuid4

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from sessions_app.approvals.approvals import open_approval
from sessions_app.models import Approval, ToolExecution
from tests.conftest import add_member
from tests.sessions_app.waiting_calls import allow, parked
from tools_app.policy.storage import agent_target, stored_policy

PAGE = "/approvals/"


def press(client, approval: Approval, button: str, **typed: str):
    path = f"{PAGE}{approval.pk}/answer/"
    return client.post(path, {"answer": button, **typed}, follow=True).text


def test_an_empty_inbox_teaches_what_comes_here(browser_client, session):
    page = browser_client.get(PAGE).text

    assert "No approvals waiting" in page
    assert "exactly what it will do" in page


def test_what_waits_stands_first_with_its_count_in_title_and_rail(
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


def test_when_a_question_expires_is_said_in_the_time_zone_of_whoever_reads_it(
    browser_client, session
):
    parked(session)
    page = browser_client.get(PAGE).text

    # Without a script it names its zone; with one, the island `times` writes it anew.
    assert re.search(r"denied automatically <time data-exact [^>]+>[^<]+ UTC</time>", page)


@pytest.mark.parametrize(
    ("button", "status", "scope", "state"),
    [
        ("once", "allowed", "once", "requested"),
        ("session", "allowed", "session", "requested"),
        ("always", "allowed", "always", "requested"),
        ("deny", "denied", "once", "denied"),
    ],
)
def test_each_button_means_what_it_says(browser_client, session, button, status, scope, state):
    (asked,) = parked(session)

    press(browser_client, asked, button, note="so be it")

    asked.refresh_from_db()
    assert (asked.status, asked.scope, asked.note) == (status, scope, "so be it")
    assert ToolExecution.objects.get().state == state


def test_a_workflow_asks_in_markdown_and_a_command_is_shown_to_the_letter(
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
    ("button", "typed", "complaint"),
    [
        ("", {}, "Choose whether to allow"),
        ("perhaps", {}, "Select a valid choice"),
        ("once", {"input": "{"}, "are not valid JSON"),
        ("once", {"input": '{"x": 1}'}, "Invalid arguments for exec"),
    ],
)
def test_what_is_wrong_is_said_and_it_waits_on(browser_client, session, button, typed, complaint):
    (asked,) = parked(session)

    assert complaint in press(browser_client, asked, button, **typed)

    asked.refresh_from_db()
    assert asked.status == "pending"


def test_a_second_click_is_told_of_the_first(browser_client, session):
    (asked,) = parked(session)
    press(browser_client, asked, "deny")

    assert "owner@example.com denied this at" in press(browser_client, asked, "once")


def member(workspace, role: str) -> Client:
    client = Client()
    client.force_login(add_member(workspace, role))
    return client


def test_a_builder_is_not_offered_always_and_cannot_take_it(workspace, session):
    (asked,) = parked(session)
    builder = member(workspace, "builder")

    assert 'value="always"' not in builder.get(PAGE).text
    assert "right to admin" in press(builder, asked, "always")
    assert stored_policy(agent_target(session.agent_id)).revision == 0


def test_a_viewer_reads_along_without_buttons_and_secrets(workspace, session):
    (asked,) = parked(session)
    secret = "curl --token abcdefgh"
    Approval.objects.filter(pk=asked.pk).update(input={"command": secret}, title=secret)
    viewer = member(workspace, "viewer")

    page = viewer.get(PAGE).text

    assert "abcdefgh" not in page
    assert 'name="answer"' not in page
    assert "Answering requires the builder role." in page
    assert viewer.post(f"{PAGE}{asked.pk}/answer/", {"answer": "deny"}).status_code == 403


def test_the_page_costs_the_same_however_much_waits(browser_client, session):
    def queries() -> int:
        with CaptureQueriesContext(connection) as seen:
            browser_client.get(PAGE)
        return len(seen)

    parked(session, 1)
    queries()
    few = queries()
    parked(session, 20)
    assert queries() == few
