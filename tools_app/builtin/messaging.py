"""Tools that reach people: the inbox and e-mail. Both ask first unless a rule says otherwise."""

from __future__ import annotations

import smtplib
from uuid import UUID

from django.db import transaction
from pydantic import Field, field_validator

from agents.models import Agent
from core.db import release_connection
from core.exceptions import Fault
from tenants.models import InboxItem, Membership, User, Workspace
from tenants.notifications import inbox
from tenants.notifications.mail import book_mail, mail_note, send_booked
from tools_app.exceptions import ToolFailed
from tools_app.registry import Arguments, Category, Effect, ToolContext, tool

EVERYBODY = frozenset({"", "*", "all", "everybody", "everyone", "people", "team", "the team"})


def _one_line(text: str) -> str:
    """Refuse line breaks and control characters in what becomes a header or a title."""
    if any(not sign.isprintable() for sign in text):
        raise ValueError("must be one line of plain text")
    return text.strip()


class Message(Arguments):
    to: str = Field(
        default="",
        max_length=320,
        description="A member's e-mail address or name. Leave it out to tell all members.",
    )
    title: str = Field(min_length=1, max_length=200, description="One line that says it all.")
    body: str = Field(default="", max_length=20_000, description="The rest, in Markdown.")

    _line = field_validator("title", "to")(_one_line)


@tool(
    category=Category.MESSAGING,
    permission="always_ask",
    effects=[Effect.PEOPLE],
    idempotent=True,
    seconds=30,
    title="Send a message",
)
def message(arguments: Message, context: ToolContext) -> str:
    """Send a message to people of this workspace: it appears in their inbox and goes to webhooks.

    Use it for what people must know who do not watch this conversation.
    """
    person = _person(context.workspace_id, arguments.to)
    with transaction.atomic():
        context.fence()
        inbox.put(
            context.workspace_id,
            title=arguments.title,
            body=arguments.body,
            kind=InboxItem.Kind.MESSAGE,
            session_id=context.session_id,
            agent_id=context.agent_id,
            user_id=person.pk if person else None,
            # A call that is repeated after a crash finds its own message.
            dedupe_key=f"call:{context.session_id}:{context.call_id}"[:120],
        )
    return f"Sent to the inbox of {person.email if person else 'everyone in the workspace'}."


def _person(workspace_id: UUID, to: str) -> User | None:
    """Return the member that is meant; None for everyone."""
    wanted = to.strip().lower()
    if wanted in EVERYBODY:
        return None
    rows = Membership.objects.for_workspace(workspace_id).filter(user__is_active=True)
    members = [row.user for row in rows.select_related("user")]
    meant = [one for one in members if one.email.lower() == wanted] or [
        one
        for one in members
        if wanted in {one.name.lower(), one.name.lower().partition(" ")[0]} and one.name
    ]
    if len(meant) == 1:
        return meant[0]
    why = "Several members are" if meant else "No member of this workspace is"
    raise ToolFailed(f"{why} called {to!r}. Give the e-mail address, or leave `to` out for all.")


class Email(Arguments):
    to: str = Field(min_length=3, max_length=320, description="One e-mail address.")
    subject: str = Field(min_length=1, max_length=200, description="One line.")
    body: str = Field(min_length=1, max_length=50_000, description="Plain text.")

    _line = field_validator("to", "subject")(_one_line)


@tool(
    category=Category.MESSAGING,
    permission="always_ask",
    effects=[Effect.PEOPLE, Effect.NETWORK],
    seconds=60,
    title="Send an e-mail",
)
def email(arguments: Email, context: ToolContext) -> str:
    """Send an e-mail to a member of this workspace, or to an address that an admin allowed."""
    agents = Agent.objects.for_workspace(context.workspace_id).select_related("current")
    agent = agents.get(pk=context.agent_id)
    workspace = Workspace.objects.get(pk=context.workspace_id)
    footer = f"Written by the agent {agent} in the workspace {workspace.name} on Switchyard."
    try:
        with transaction.atomic():
            context.fence()
            mail = book_mail(
                context.workspace_id,
                to=arguments.to,
                subject=arguments.subject,
                session_id=context.session_id,
                agent_id=context.agent_id,
            )
    except Fault as fault:
        if fault.status in {400, 403, 429}:
            raise ToolFailed(fault.detail) from fault
        raise
    release_connection()  # A mail server may be slow.
    context.check_stopped()
    try:
        send_booked(mail, body=arguments.body, footer=footer)
    except (OSError, smtplib.SMTPException) as error:
        # The server's message may quote credentials, so only the kind of error is reported.
        raise ToolFailed(f"The mail server refused the e-mail: {type(error).__name__}.") from error
    if note := mail_note():
        return f"The e-mail to {mail.recipient} was not delivered: {note}"
    return f"The e-mail to {mail.recipient} was handed to the mail server."
