"""Tests of the session list and a session's page in a browser: mouse, keys, no JavaScript."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, Route, expect

from sessions_app.log.writer import NewEvent, append_events
from sessions_app.models import Session, SessionEvent
from tenants.models import User, Workspace
from tests.browser.axe import faults_of
from tests.browser.conftest import OpenContext, sign_in
from tests.browser.islands import mounted, press
from tests.browser.sessions_gallery import TITLES, populate

E = SessionEvent.Type


@pytest.fixture
def session(transactional_db: None, workspace: Workspace, owner: User) -> Session:
    """Create a list of sessions; one has runs, calls, files and sub-agents."""
    return populate(workspace, owner)


def export(route: Route) -> None:
    """Answer an export request, because the live server cannot stream."""
    name = f"session-{route.request.url.split('/')[-3]}.jsonl"
    route.fulfill(body="{}", headers={"Content-Disposition": f'attachment; filename="{name}"'})


def test_a_row_opens_in_the_pane_and_its_sub_agents_below_it(owner_page: Page, session: Session):
    page = owner_page
    page.goto("/sessions/")
    assert faults_of(page) == []
    page.get_by_role("button", name="2 sub-agents").click()
    expect(page.get_by_role("link", name="Write the reminders")).to_be_visible()
    page.get_by_role("link", name=TITLES[1]).click()
    expect(page.locator("[data-pane] h2")).to_have_text(TITLES[1])
    expect(page).to_have_url("/sessions/")
    assert faults_of(page) == []
    page.locator("[data-pane]").get_by_role("link", name="Open").click()

    expect(page).to_have_url(re.compile(r"/sessions/[0-9a-f-]{36}/$"))
    expect(page.get_by_role("heading", level=1)).to_contain_text(TITLES[1])


def test_the_list_can_be_used_with_the_keyboard(owner_page: Page, session: Session):
    page = owner_page
    page.route("**/export/", export)
    press(page, "g", "s")
    expect(page).to_have_url("/sessions/")
    mounted(page, "browse")
    page.keyboard.press("/")
    page.keyboard.type("vendor")
    page.keyboard.press("Enter")
    expect(page.locator("mark").first).to_have_text("vendor")
    mounted(page, "browse")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.locator("[data-pane] h2")).to_have_text(TITLES[1])
    page.keyboard.press("k")
    expect(page.locator("[data-pane] h2")).to_have_text(TITLES[0])
    with page.expect_download() as download:
        page.keyboard.press("e")
    assert download.value.suggested_filename == f"session-{session.pk}.jsonl"
    page.keyboard.press("Escape")
    expect(page.locator("[data-pane]")).to_be_hidden()
    page.keyboard.press("Enter")
    expect(page.locator("[data-pane] h2")).to_have_text(TITLES[0])
    page.keyboard.press("Enter")

    expect(page).to_have_url(f"/sessions/{session.pk}/")
    with page.expect_download() as again:
        press(page, "e")
    assert again.value.suggested_filename.endswith(".jsonl")


def test_a_view_can_be_saved_and_opened(owner_page: Page, session: Session):
    page = owner_page
    page.goto("/sessions/")
    page.get_by_role("link", name="Has errors").click()
    page.get_by_role("link", name="Cost").click()
    page.locator("summary", has_text="Views").click()
    page.get_by_label("View name").fill("Dear and broken")
    page.get_by_role("button", name="Save view").click()
    page.goto("/sessions/")
    page.locator("summary", has_text="Views").click()
    assert faults_of(page) == []
    page.get_by_role("link", name="Dear and broken").click()

    expect(page).to_have_url("/sessions/?errors=1&sort=cost")
    expect(page.locator("[data-row]")).to_have_count(3)


def test_a_replay_can_be_stepped_played_and_forked(owner_page: Page, session: Session):
    page = owner_page
    page.goto(f"/sessions/{session.pk}/replay/")
    mounted(page, "replay")
    expect(page.locator(".moment")).to_have_attribute("data-seq", "1")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".moment")).to_have_attribute("data-seq", "2")
    page.get_by_role("button", name="Play").click()
    expect(page.locator(".moment")).to_have_attribute("data-seq", "4")
    page.get_by_role("button", name="Pause").click()
    page.locator("[data-slider]").fill("2")
    expect(page.locator(".moment")).to_have_attribute("data-seq", "2")
    expect(page.locator(".moment-event code")).to_have_text("agent.message")
    # The chat opens a WebSocket, which Django's live server does not support.
    page.route("**/chat/*/", lambda route: route.fulfill(body="The chat"))
    page.get_by_role("button", name="Fork from this event").click()

    expect(page).to_have_url(re.compile(r"/chat/[0-9a-f-]{36}/"))
    forked = Session.objects.exclude(metadata={}).get()
    assert forked.metadata["forked_at_seq"] == 2


def test_a_session_with_ten_thousand_events_renders_a_bounded_page(
    owner_page: Page, session: Session
):
    for start in range(0, 10_000, 1_000):
        lines = [
            NewEvent(type=E.AGENT_MESSAGE, payload={"text": f"Line number {n}."})
            for n in range(start + 1, start + 1_001)
        ]
        append_events(session.pk, lines)
    page = owner_page
    page.goto(f"/sessions/{session.pk}/")
    expect(page.get_by_text("Line number 10000.", exact=True)).to_be_visible()
    assert page.locator(".line").count() <= 200
    page.goto(f"/sessions/{session.pk}/events/")
    assert page.locator(".log-row").count() == 50
    page.get_by_role("link", name="Earlier").click()
    expect(page.locator(".log-row").first).to_contain_text("Line number 9950.")
    page.goto(f"/sessions/{session.pk}/replay/?at=5006")
    expect(page.locator(".moment-lines")).to_contain_text("Line number 5000.")
    mounted(page, "replay")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".moment-lines")).to_contain_text("Line number 5001.")
    for tab in ("timeline/", "context/"):
        page.goto(f"/sessions/{session.pk}/{tab}")
        assert page.locator("main li").count() < 600


def test_the_session_pages_work_without_javascript(
    open_context: OpenContext, owner: User, session: Session
):
    page = open_context(java_script_enabled=False).new_page()
    sign_in(page, owner)
    page.goto("/sessions/")
    page.get_by_role("link", name="2 sub-agents").click()
    expect(page).to_have_url(f"/sessions/{session.pk}/tree/")
    expect(page.get_by_role("link", name="Write the reminders")).to_be_visible()
    page.goto("/sessions/")
    page.get_by_role("link", name=TITLES[0], exact=True).click()
    expect(page.get_by_text("make import", exact=True)).to_be_visible()
    page.get_by_role("link", name="Timeline", exact=True).click()
    page.locator(".span-run summary").first.click()
    page.get_by_role("link", name="Zoom to this run").first.click()
    expect(page.locator(".span-run")).to_have_count(2)  # its bar, and its colour in the legend
    page.get_by_role("link", name="Replay", exact=True).click()
    page.get_by_role("link", name="Next event").click()
    expect(page.locator(".moment")).to_have_attribute("data-seq", "2")
    page.get_by_role("link", name="Events", exact=True).click()
    page.get_by_label("Type").select_option("agent.tool_use")
    page.get_by_role("button", name="Show").click()
    expect(page.locator(".log-row")).to_have_count(1)
