"""Takes pictures of the session pages. Run by `pictures.py`; asserts nothing."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from agents.definitions import create_agent
from orchestrator.workspaces import create_workspace
from sessions_app.lanes import run_queue
from sessions_app.log.writer import NewEvent, append_events
from sessions_app.models import (
    ResourceAttachment,
    Run,
    SavedView,
    Session,
    SessionEvent,
    SubagentSpawn,
    ToolExecution,
)
from sessions_app.resources.files import store_file
from sessions_app.sessions import get_or_create_session
from tenants.models import ModelCall, User, Workspace
from tests.browser.conftest import OpenContext, sign_in
from tests.browser.gallery import SIZES, TARGET, THEMES, as_seen, shoot

E = SessionEvent.Type
TITLES = [
    "Why did the nightly import fail twice?",
    "Draft the release notes of 4.2",
    "Refund for order 10482",
    "Compare three vendors of label printers",
    "Find late invoices and write reminders",
    "Clean up the staging buckets",
    "Translate the onboarding mail into Polish",
    "What changed in the pricing page since May?",
    "Plan the move of the billing database",
    "Summarise yesterday's support tickets",
    "Check the certificates of all our hosts",
    "Answer the auditor's questions on access",
]
ANSWER = (
    "The import failed because the vendor's API answered 503 from 02:10 to 02:40. "
    "I ran it again at 06:00 and it went through: 1,204 rows, none twice.\n\n"
    "The retry waits only 30 seconds; 15 minutes would have been enough to get over it."
)


def populate(acme: Workspace, olive: User) -> Session:
    """Create a list as it looks after some weeks, and one session with a bit of everything."""
    names = ("Release helper", "Support", "Analyst")
    fields = {"provider": "demo", "model": "demo", "system_prompt": "Help the team to ship."}
    agents = [create_agent(workspace_id=acme.pk, fields={**fields, "name": n}) for n in names]
    now = timezone.now()
    made = []
    for number, title in enumerate(TITLES):
        one, _ = get_or_create_session(
            agent=agents[number % 3], title=title, created_by_id=olive.pk if number % 2 else None
        )
        for _ in range(1 + number % 4):
            words = [
                NewEvent(type=E.USER_MESSAGE, payload={"text": title}),
                NewEvent(type=E.AGENT_MESSAGE, payload={"text": ANSWER, "model": "demo"}),
            ]
            append_events(one.pk, words)
        Session.objects.filter(pk=one.pk).update(
            created_at=now - timedelta(hours=number * number + 1),
            active_at=now - timedelta(minutes=number * number * 55),
            input_tokens=4_100 * (number + 1),
            output_tokens=310 * (number + 2),
            cost=f"{0.0137 * (number % 5 + 1):.4f}",
            status=["idle", "idle", "requires_action", "running"][number % 4 if number < 4 else 0],
        )
        made.append(one)
    for one in (made[4], made[7]):
        Run.objects.create(workspace=acme, session=one, status="failed")
    for number, task in enumerate(("Look for late invoices", "Write the reminders")):
        child, _ = get_or_create_session(agent=agents[1], title=task, parent=made[0])
        Session.objects.filter(pk=child.pk).update(cost="0.0042", input_tokens=3_100)
        SubagentSpawn.objects.create(
            workspace=acme,
            parent_session=made[0],
            child_session=child,
            tool_use_id=f"spawn-{number}",
            task=f"{task}, but only those of this quarter.",
            status="completed" if number else "running",
            finished_at=now if number else None,
            delivered_at=now if number else None,
        )
    SavedView.objects.create(
        workspace=acme, person=olive, name="Failed this week", query="errors=1", is_shared=True
    )
    SavedView.objects.create(workspace=acme, person=olive, name="My own", query="mine=1")
    work(acme, made[0])
    return made[0]


def work(acme: Workspace, session: Session) -> None:
    """Create three runs with model calls, tools, a wait and a failure."""
    begin = timezone.now() - timedelta(hours=3)
    for number, (offset, long) in enumerate(((0, 14), (95, 9), (5_400, 6))):
        start = begin + timedelta(seconds=offset)
        run = Run.objects.create(
            workspace=acme,
            session=session,
            status="failed" if number == 2 else "completed",
            stop_reason=("requires_action", "end_turn", "")[number],
            attempts=1,
        )
        end = start + timedelta(seconds=long)
        Run.objects.filter(pk=run.pk).update(
            created_at=start - timedelta(seconds=1), started_at=start, finished_at=end
        )
        for at, took in ((0, 3.2), (long - 3, 2.6)):
            model_call(acme, session, run, start + timedelta(seconds=at), took)
        tool(acme, session, run, f"tu_{number}_r", start + timedelta(seconds=3.4), 1.4, name="read")
    ask = {"decision": "ask", "decided_by": "the agent: exec asks"}
    first = Run.objects.filter(session=session).order_by("started_at")[0]
    tool(acme, session, first, "tu_x", begin + timedelta(seconds=14), 4, 80, name="exec", **ask)
    use = {"tool_use_id": "tu_x", "name": "exec", "input": {"command": "make import"}}
    events = [
        NewEvent(type=E.AGENT_TOOL_USE, payload={**use, "decision": "ask", "ownership": "managed"}),
        NewEvent(
            type=E.AGENT_TOOL_RESULT,
            payload={**use, "state": "completed", "output": "1204 rows", "duration_ms": 4_012},
        ),
        NewEvent(type=E.AGENT_MESSAGE, payload={"text": ANSWER, "model": "demo"}),
    ]
    append_events(session.pk, events)
    run_queue.accept(
        session.pk, NewEvent(type=E.USER_MESSAGE, payload={"text": "And the printers?"})
    )
    for name in ("report.md", "data/invoices.csv", "data/late.csv"):
        store_file(session, name, [b"x" * 4_321])
    ResourceAttachment.objects.create(
        workspace=acme,
        session=session,
        kind="repo_mount",
        source_ref="https://git.acme.dev/billing.git",
        mount_path="/workspace/billing",
        status="ready",
    )


def model_call(acme: Workspace, session: Session, run: Run, at: Any, took: float) -> None:
    call = ModelCall.objects.create(
        workspace=acme,
        session_id=session.pk,
        run_id=run.pk,
        provider="demo",
        model="demo",
        state="settled",
        reserved=0,
        cost="0.0031",
        input_tokens=4_210,
        output_tokens=322,
    )
    ModelCall.objects.filter(pk=call.pk).update(
        created_at=at, finished_at=at + timedelta(seconds=took)
    )


def tool(
    acme: Workspace,
    session: Session,
    run: Run,
    id: str,
    at: Any,
    took: float,
    waited: float = 0,
    **fields: Any,
) -> None:
    failed = id == "tu_2_r"
    made = ToolExecution.objects.create(
        workspace=acme,
        session=session,
        run=run,
        tool_use_id=id,
        input={"path": "reports/import.log", "command": "make import"},
        state="error" if failed else "completed",
        error="There is no such file." if failed else "",
        attempts=1,
        **fields,
    )
    started = at + timedelta(seconds=waited)
    ToolExecution.objects.filter(pk=made.pk).update(
        created_at=at, started_at=started, finished_at=started + timedelta(seconds=took)
    )


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("size", SIZES)
def test_pictures_of_sessions(
    open_context: OpenContext, transactional_db: None, size: str, theme: str
) -> None:
    TARGET.mkdir(parents=True, exist_ok=True)
    olive = User.objects.create_user("olive@acme.dev", "correct horse 9", name="Olive Okafor")
    acme = create_workspace(name="Acme", owner=olive)
    look = f"{size}-{theme}"
    page = open_context(**as_seen(size, theme)).new_page()
    sign_in(page, olive)
    session = populate(acme, olive)
    page.goto("/sessions/")
    shoot(page, f"sessions-{look}")
    if size == "wide":
        page.get_by_role("button", name="2 sub-agents").click()
        page.get_by_role("link", name="Write the reminders").wait_for()
        page.get_by_role("link", name=TITLES[0]).first.click()
        page.locator("[data-pane] h2").wait_for()
        shoot(page, f"sessions-pane-{look}")
    page.goto("/sessions/?q=vendor")
    page.locator("summary", has_text="Views").click()
    shoot(page, f"sessions-search-{look}")
    for tab in (
        "",
        "timeline/",
        "context/",
        "tree/",
        "files/",
        "outcome/",
        "events/",
        "replay/?at=6",
    ):
        page.goto(f"/sessions/{session.pk}/{tab}")
        if tab == "timeline/":
            page.locator(".span-model summary").first.click()
        if tab in ("context/", "events/"):
            page.locator("main details > summary").first.click()
        shoot(page, f"session-{tab.split('/')[0] or 'transcript'}-{look}")
