"""Tests of the message and email tools: members by inbox, only allowed addresses by e-mail."""

from __future__ import annotations

import pytest
from django.db import transaction

from agents.definitions import create_agent
from agents.models import Agent
from core.exceptions import StaleEpoch
from tenants.models import InboxItem, SentMail, User, Workspace
from tests.conftest import add_member
from tools_app.exceptions import ToolFailed
from tools_app.policy.evaluation import decide
from tools_app.policy.rules import Layer
from tools_app.registry import registry

LUNCH = {"title": "Lunch", "body": "It is **ready**."}
MAIL = {"to": "owner@example.com", "subject": "Lunch", "body": "It is ready."}


@pytest.fixture
def agent(workspace: Workspace) -> Agent:
    return create_agent(workspace_id=workspace.pk, fields={"name": "Postman"})


@pytest.fixture
def call_tool(make_context, agent: Agent):
    def call_tool(name: str, **arguments):
        known = {"workspace_id": agent.workspace_id, "agent_id": agent.pk}
        given = {**known, **arguments.pop("context", {})}
        return registry[name].call(arguments, make_context(**given))

    return call_tool


def test_a_message_reaches_all_members_or_one(call_tool, workspace, owner):
    assert "everyone" in call_tool("message", **LUNCH)
    assert owner.email in call_tool(
        "message", **LUNCH, to="OWNER@example.com", context={"call_id": "2"}
    )
    assert owner.email in call_tool("message", **LUNCH, to="Olive", context={"call_id": "3"})

    assert list(InboxItem.objects.order_by("created_at").values_list("user", flat=True)) == [
        None,
        owner.pk,
        owner.pk,
    ]
    item = InboxItem.objects.first()
    assert (item.kind, item.session_id is not None) == ("message", True)


@pytest.mark.parametrize("to", ["stranger@example.com", "Sam Stranger", "nobody"])
def test_a_message_to_a_non_member_is_refused(call_tool, stranger, to):
    with pytest.raises(ToolFailed, match="No member"):
        call_tool("message", **LUNCH, to=to)
    assert not InboxItem.objects.exists()


def test_a_repeated_call_sends_one_message(call_tool):
    call_tool("message", **LUNCH)
    call_tool("message", **LUNCH)

    assert InboxItem.objects.count() == 1


def test_a_worker_that_lost_its_lease_sends_nothing(call_tool, mailoutbox):
    def fence() -> None:
        assert transaction.get_connection().in_atomic_block
        raise StaleEpoch

    for name, arguments in (("message", LUNCH), ("email", MAIL)):
        with pytest.raises(StaleEpoch):
            call_tool(name, **arguments, context={"fence": fence})
    assert not InboxItem.objects.exists()
    assert mailoutbox == []


def test_an_email_to_a_member_is_sent_with_the_products_signature(call_tool, workspace, mailoutbox):
    assert "handed to the mail server" in call_tool("email", **MAIL)

    (mail,) = mailoutbox
    assert (mail.to, mail.subject) == (["owner@example.com"], "Lunch")
    assert "Written by the agent Postman in the workspace Yard on Switchyard." in mail.body


@pytest.mark.parametrize(
    ("allowed", "to", "sent"),
    [
        ([], "ann@example.com", False),
        (["ann@example.com"], "ANN@example.com", True),
        (["*@example.com"], "bob@example.com", True),
        (["*@example.com"], "bob@sub.example.com", False),
        (["*@example.com"], "bob@example.com.evil.test", False),
    ],
)
def test_only_allowed_addresses_receive_email(call_tool, workspace, mailoutbox, allowed, to, sent):
    Workspace.objects.update(mail_allowed=allowed)
    if sent:
        call_tool("email", **{**MAIL, "to": to})
    else:
        with pytest.raises(ToolFailed, match="not a member"):
            call_tool("email", **{**MAIL, "to": to})

    assert bool(mailoutbox) is sent


@pytest.mark.parametrize(
    "changed",
    [
        {"subject": "Hi\nBcc: all@evil.test"},
        {"subject": "Hi\r\nX: y"},
        {"to": "owner@example.com\nBcc: all@evil.test"},
        {"to": "owner@example.com, all@evil.test"},
        {"to": "Olive <owner@example.com>"},
        {"to": "nobody"},
    ],
)
def test_headers_cannot_be_injected(call_tool, mailoutbox, changed):
    with pytest.raises(ToolFailed):
        call_tool("email", **{**MAIL, **changed})
    assert mailoutbox == []


def test_emails_are_limited_per_hour(call_tool, settings, mailoutbox):
    settings.EMAILS_PER_HOUR = 2
    call_tool("email", **MAIL)
    call_tool("email", **MAIL)

    with pytest.raises(ToolFailed, match="which is the limit"):
        call_tool("email", **MAIL)
    assert len(mailoutbox) == SentMail.objects.count() == 2


def test_the_result_says_when_mail_is_not_delivered(call_tool, settings, tmp_path):
    settings.EMAIL_BACKEND = "django.core.mail.backends.filebased.EmailBackend"
    settings.EMAIL_FILE_PATH = tmp_path

    answer = call_tool("email", **MAIL)

    assert "was not delivered" in answer
    assert str(tmp_path) not in answer, "a model learns no path of the server"
    assert list(tmp_path.iterdir())


def test_a_failing_mail_server_is_reported_without_its_message(call_tool, settings):
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", 1

    with pytest.raises(ToolFailed, match="refused the e-mail: ConnectionRefusedError"):
        call_tool("email", **MAIL)


def test_both_tools_ask_unless_an_agents_rule_allows_them():
    profile = Layer(name="agent", profile="messaging")
    for name in ("message", "email"):
        assert decide(name, [profile]).decision == "ask"
        assert decide(name, [Layer(name="agent", profile="coding")]).decision == "deny"
    rule = Layer(name="agent", profile="messaging", approved=("email(*@example.com)",))
    assert decide("email", [rule], {"to": "a@example.com"}).decision == "allow"
    assert decide("email", [rule], {"to": "a@evil.test"}).decision == "ask"
    assert decide("message", [rule], {"to": ""}).decision == "ask"


def test_an_inactive_member_gets_nothing(call_tool, workspace):
    gone = add_member(workspace, "viewer", "gone@example.com")
    User.objects.filter(pk=gone.pk).update(is_active=False)

    with pytest.raises(ToolFailed):
        call_tool("message", **LUNCH, to="gone@example.com")
    with pytest.raises(ToolFailed):
        call_tool("email", **{**MAIL, "to": "gone@example.com"})
