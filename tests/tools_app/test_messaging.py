"""Agents reach people: members by the inbox, and only whom somebody allowed by e-mail."""

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
def say(make_context, agent: Agent):
    def say(name: str, **arguments):
        known = {"workspace_id": agent.workspace_id, "agent_id": agent.pk}
        given = {**known, **arguments.pop("context", {})}
        return registry[name].call(arguments, make_context(**given))

    return say


def test_a_message_reaches_everybody_or_one_member(say, workspace, owner):
    assert "everyone" in say("message", **LUNCH)
    assert owner.email in say("message", **LUNCH, to="OWNER@example.com", context={"call_id": "2"})
    assert owner.email in say("message", **LUNCH, to="Olive", context={"call_id": "3"})

    assert list(InboxItem.objects.order_by("created_at").values_list("user", flat=True)) == [
        None,
        owner.pk,
        owner.pk,
    ]
    item = InboxItem.objects.first()
    assert (item.kind, item.session_id is not None) == ("message", True)


@pytest.mark.parametrize("to", ["stranger@example.com", "Sam Stranger", "nobody"])
def test_nobody_outside_the_workspace_is_reached(say, stranger, to):
    with pytest.raises(ToolFailed, match="No member"):
        say("message", **LUNCH, to=to)
    assert not InboxItem.objects.exists()


def test_a_call_that_is_repeated_after_a_crash_tells_once(say):
    say("message", **LUNCH)
    say("message", **LUNCH)

    assert InboxItem.objects.count() == 1


def test_a_lost_worker_tells_nobody(say, mailoutbox):
    def fence() -> None:
        assert transaction.get_connection().in_atomic_block
        raise StaleEpoch

    for name, arguments in (("message", LUNCH), ("email", MAIL)):
        with pytest.raises(StaleEpoch):
            say(name, **arguments, context={"fence": fence})
    assert not InboxItem.objects.exists()
    assert mailoutbox == []


def test_a_mail_to_a_member_is_sent_and_signed_by_the_product(say, workspace, mailoutbox):
    assert "handed to the mail server" in say("email", **MAIL)

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
def test_only_whom_an_admin_allowed_is_written_to(say, workspace, mailoutbox, allowed, to, sent):
    Workspace.objects.update(mail_allowed=allowed)
    if sent:
        say("email", **{**MAIL, "to": to})
    else:
        with pytest.raises(ToolFailed, match="not a member"):
            say("email", **{**MAIL, "to": to})

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
def test_no_header_can_be_smuggled_in(say, mailoutbox, changed):
    with pytest.raises(ToolFailed):
        say("email", **{**MAIL, **changed})
    assert mailoutbox == []


def test_mails_are_bounded_by_the_hour(say, settings, mailoutbox):
    settings.EMAILS_PER_HOUR = 2
    say("email", **MAIL)
    say("email", **MAIL)

    with pytest.raises(ToolFailed, match="which is the limit"):
        say("email", **MAIL)
    assert len(mailoutbox) == SentMail.objects.count() == 2


def test_it_is_said_when_mail_goes_nowhere(say, settings, tmp_path):
    settings.EMAIL_BACKEND = "django.core.mail.backends.filebased.EmailBackend"
    settings.EMAIL_FILE_PATH = tmp_path

    answer = say("email", **MAIL)

    assert "was not delivered" in answer
    assert str(tmp_path) in answer
    assert list(tmp_path.iterdir())


def test_a_failing_mail_server_is_told_without_its_words(say, settings):
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", 1

    with pytest.raises(ToolFailed, match="refused the e-mail: ConnectionRefusedError"):
        say("email", **MAIL)


def test_both_ask_until_a_rule_of_the_agent_says_otherwise():
    profile = Layer(name="agent", profile="messaging")
    for name in ("message", "email"):
        assert decide(name, [profile]).decision == "ask"
        assert decide(name, [Layer(name="agent", profile="coding")]).decision == "deny"
    rule = Layer(name="agent", profile="messaging", allowed=("email(*@example.com)",))
    assert decide("email", [rule], {"to": "a@example.com"}).decision == "allow"
    assert decide("email", [rule], {"to": "a@evil.test"}).decision == "ask"
    assert decide("message", [rule], {"to": ""}).decision == "ask"


def test_an_inactive_member_gets_nothing(say, workspace):
    gone = add_member(workspace, "viewer", "gone@example.com")
    User.objects.filter(pk=gone.pk).update(is_active=False)

    with pytest.raises(ToolFailed):
        say("message", **LUNCH, to="gone@example.com")
    with pytest.raises(ToolFailed):
        say("email", **{**MAIL, "to": "gone@example.com"})
