"""Takes pictures of usage, credits, schedules, environments and tools. Asserts nothing."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.utils import timezone

from agents.definitions import create_agent
from agents.environments import create_environment, default_environment
from agents.model_catalog import set_price
from agents.models import Agent
from core.ids import uuid7
from orchestrator.workspaces import create_workspace
from sessions_app.log.writer import NewEvent, append_events
from sessions_app.models import Firing, Run, Schedule, Session, SessionEvent, ToolExecution
from sessions_app.schedules import schedules, timing
from sessions_app.sessions import get_or_create_session
from tenants.billing.credits import add_credits, set_budget
from tenants.keys import issue_key
from tenants.models import ModelCall, Purse, SandboxMinute, User, Workspace
from tests.browser.conftest import OpenContext, sign_in
from tests.browser.gallery import SIZES, TARGET, THEMES, as_seen, shoot
from tools_app.workspace_tools import create_custom_tool

D = Decimal
TITLES = [
    "Invoices of October",
    "Why the build is red",
    "Answer to the tax office",
    "Release notes",
]


def spend(session: Session, owner: User, chance: random.Random, days_ago: int) -> None:
    cost = D(str(round(chance.uniform(0.02, 0.4), 4)))
    call = ModelCall.objects.create(
        id=uuid7(),
        workspace_id=session.workspace_id,
        agent_id=session.agent_id,
        session_id=session.pk,
        created_by=owner,
        provider=chance.choice(["openai", "gemini"]),
        model=chance.choice(["gpt-5", "gemini-3-pro"]),
        reserved=cost,
        cost=cost,
        state="settled",
        input_tokens=chance.randint(800, 9_000),
        output_tokens=chance.randint(60, 900),
    )
    when = datetime.now(tz=UTC) - timedelta(days=days_ago)
    ModelCall.objects.filter(pk=call.pk).update(created_at=when)


def populate(acme: Workspace, olive: User) -> Schedule:
    """Create a workspace as it looks after a month of work."""
    chance, agents = random.Random(7), []
    for name in ("Bookkeeper", "Builder", "Support"):
        fields = {"name": name, "provider": "demo", "model": "demo"}
        agents.append(create_agent(workspace_id=acme.pk, fields=fields, created_by=olive))
    talks = [get_or_create_session(agent=chance.choice(agents), title=t)[0] for t in TITLES]
    for day in range(29):
        for _ in range(chance.randint(0, 6) if day % 7 not in (1, 2) else chance.randint(0, 1)):
            spend(chance.choice(talks), olive, chance, day)
    run = Run.objects.create(workspace=acme, session=talks[0])
    for number, name in enumerate(["read", "exec", "web_fetch", "mcp:github:search"] * 6):
        ToolExecution.objects.create(
            workspace=acme,
            session=talks[0],
            run=run,
            tool_use_id=f"tu_{number}",
            name=name,
            input={},
            state="error" if number % 9 == 5 else "completed",
            started_at=timezone.now() - timedelta(milliseconds=chance.randint(5, 4_000)),
            finished_at=timezone.now(),
        )
    key = issue_key(workspace_id=acme.pk, name="Nightly report", created_by=olive).key
    add_credits(acme.pk, D(40), kind="grant", note="Invoice 2026-114", author=olive)
    add_credits(acme.pk, D("-0.24"), kind="sandbox", note="A container of session 01a1")
    for kind, owner, limit, period, spent in [
        ("agent", agents[0].pk, 5, "month", "3.1"),
        ("agent", agents[1].pk, 2, "day", "1.84"),
        ("key", key.pk, 1, "ever", "1"),
        ("session", talks[0].pk, 3, "ever", "0.4"),
    ]:
        set_budget(workspace_id=acme.pk, kind=kind, owner_id=owner, ceiling=D(limit), period=period)
        today = datetime.now(tz=UTC).date()
        since = {"month": today.replace(day=1), "day": today}.get(period)
        Purse.objects.filter(owner_id=owner).update(spent=D(spent), since=since)
    set_price(
        acme.pk, provider="openai", model="llama-4-70b", input_price=D("0.2"), output_price=D("0.6")
    )
    SandboxMinute.objects.create(workspace=acme, sandbox="a", minute=timezone.now())
    return create_schedules(acme, olive, agents, talks)


def create_schedules(
    acme: Workspace, olive: User, agents: list[Agent], talks: list[Session]
) -> Schedule:
    made = []
    wanted: list[tuple[str, Agent, dict[str, Any]]] = [
        (
            "Morning report",
            agents[0],
            {"kind": "cron", "cron": "0 7 * * 1-5", "timezone": "Europe/Zurich"},
        ),
        (
            "Look at the queue",
            agents[2],
            {"kind": "interval", "interval_seconds": 900, "session": talks[1]},
        ),
        (
            "Renew the certificate",
            agents[1],
            {"kind": "once", "next_at": timezone.now() + timedelta(days=9)},
        ),
    ]
    for name, agent, fields in wanted:
        made.append(
            schedules.create_schedule(
                workspace_id=acme.pk,
                name=name,
                agent=agent,
                message="Write what happened since yesterday, and what needs a person.",
                created_by=olive,
                **fields,
            )
        )
    timing.pause(made[2])
    schedules.run_now(made[0])
    for days, outcome, note in [
        (1, "sent", ""), (2, "failed", "The workspace has $0.00 of credits left."), (3, "nothing_to_do", ""),
    ]:  # fmt: skip
        Firing.objects.create(
            workspace=acme,
            schedule=made[0],
            due_at=timezone.now() - timedelta(days=days),
            outcome=outcome,
            note=note,
            session_id=talks[0].pk if outcome == "sent" else None,
        )
    create_environment_and_tools(acme)
    return made[0]


def create_environment_and_tools(acme: Workspace) -> None:
    create_environment(
        workspace_id=acme.pk,
        fields={
            "name": "builds",
            "kind": "container",
            "image": "docker.io/library/python:3.12-slim",
            "network": "allowlist",
            "allowed_hosts": ["packages.example.com", "*.files.example.com", "git.example.com"],
            "mounts": [{"kind": "workspace_directory", "source_ref": "cache", "mount_path": "/workspace/cache", "access": "read_write"}],
        },
    )  # fmt: skip
    for name, words in [
        ("look_up_order", "Looks up an order by its number and returns its status."),
        ("open_ticket", "Opens a ticket for a person of the support team."),
    ]:
        create_custom_tool(workspace_id=acme.pk, fields={"name": name, "description": words})


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("size", SIZES)
def test_money_pages(
    open_context: OpenContext, transactional_db: None, complaints: list[str], size: str, theme: str
):
    TARGET.mkdir(parents=True, exist_ok=True)
    olive = User.objects.create_user("olive@acme.dev", "correct horse 9", name="Olive Okafor")
    acme = create_workspace(name="Acme", owner=olive)
    default_environment(acme.pk)
    window = open_context(
        **as_seen(size, theme, scale=2),
        timezone_id="Europe/Zurich",
    )
    page = sign_in(window.new_page(), olive)
    look = f"{size}-{theme}"
    for name, path in {
        "usage-empty": "/usage/",
        "schedules-empty": "/schedules/",
        "budgets-empty": "/settings/budgets/",
        "tools-empty": "/settings/tools/",
    }.items():
        page.goto(path)
        shoot(page, f"{name}-{look}")
    one = populate(acme, olive)
    talk = Session.objects.get(title=TITLES[1])
    wrong = {"code": "budget_reached", "message": "The budget of this agent of $2.00 for this day has $0.01 left. An admin can raise it; then the session goes on.", "retryable": True}  # fmt: skip
    append_events(talk.pk, [NewEvent(type=SessionEvent.Type.ERROR, payload=wrong)])
    for name, path in {
        "usage": "/usage/",
        "usage-tools": "/usage/?by=tool",
        "usage-sessions": "/usage/?by=session&show=tokens",
        "budgets": "/settings/budgets/",
        "ledger": "/settings/budgets/ledger/",
        "schedules": "/schedules/",
        "schedule": f"/schedules/{one.pk}/",
        "schedule-new": "/schedules/new/",
        "environments": "/settings/environments/",
        "environment-new": "/settings/environments/new/",
        "tools": "/settings/tools/",
        "tool-new": "/settings/tools/new/",
        "chat-no-money": f"/chat/{talk.pk}/",
        "home-credits": "/",
    }.items():
        page.goto(path)
        if name.startswith("schedule-new"):
            page.get_by_text("By the calendar").click()
            page.get_by_label("Cron expression").fill("0 7 * * 1-5")
            page.get_by_text("Monday through Friday").wait_for()
        shoot(page, f"{name}-{look}")
        page.screenshot(path=TARGET / f"{name}-{look}-whole.png", full_page=True)
    page.goto("/settings/budgets/")
    page.get_by_label("Edit the budget of Builder").click()
    shoot(page, f"budgets-change-{look}")
    # The chat opens a WebSocket, which Django's live server does not support.
    complaints.clear()
