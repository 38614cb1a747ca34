"""Tests of the list beside a chat, a chat's options, its export and its shared link."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone
from lxml import html  # type: ignore[import-untyped]

from sessions_app.accept import title_from_message
from sessions_app.log.writer import NewEvent, append_events
from sessions_app.models import Session, SessionEvent
from sessions_app.pages.chats import chat_groups
from sessions_app.sessions import get_or_create_session
from tests.conftest import add_member
from tests.factories import make
from tests.sessions_app.stage import say
from tests.statements import recorded_statements

E = SessionEvent.Type


@pytest.fixture
def chat(agent, owner):
    """Return a function that makes a chat with a question and an answer."""

    def make_chat(title: str, *, days: int = 0, by=owner, **fields) -> Session:
        made, _ = get_or_create_session(agent=agent, title=title, created_by_id=by.pk)
        append_events(
            made.pk,
            [
                NewEvent(type=E.USER_MESSAGE, payload={"text": f"About {title}?"}),
                NewEvent(type=E.AGENT_MESSAGE, payload={"text": f"**{title}** it is."}),
            ],
        )
        made.events.filter(type=E.USER_MESSAGE).update(processed_at=timezone.now())
        at = timezone.now() - timedelta(days=days)
        Session.objects.filter(pk=made.pk).update(active_at=at, **fields)
        made.refresh_from_db()
        return made

    return make_chat


def shown(page: str) -> dict[str, list[str]]:
    """Return the titles in the list, by group."""
    sections = html.fromstring(page).xpath("//section[@data-group]")
    return {
        one.get("data-group"): [
            title.text_content() for title in one.xpath(".//*[@class='chats-title']")
        ]
        for one in sections
    }


def test_the_list_groups_chats_by_day_with_pinned_ones_first(browser_client, chat):
    here = chat("Now")
    chat("Before", days=1)
    chat("Long ago", days=9)
    chat("Kept", days=40, pinned_at=timezone.now())

    page = browser_client.get(f"/chat/{here.pk}/").text

    assert shown(page) == {
        "Pinned": ["Kept"],
        "Today": ["Now"],
        "Yesterday": ["Before"],
        "Older": ["Long ago"],
    }
    current = html.fromstring(page).xpath("//aside[@class='chats']//a[@aria-current]")
    assert [one.get("href") for one in current] == [f"/chat/{here.pk}/"]


def test_the_list_leaves_out_what_is_not_the_persons_chat(
    browser_client, chat, agent, owner, workspace
):
    mine = chat("Mine")
    chat("Archived", archived_at=timezone.now())
    chat("Of a sub-agent", parent=mine)
    chat("Of a builder", about=agent)
    get_or_create_session(agent=agent, title="Empty", created_by_id=owner.pk)
    make(Session, workspace)

    assert shown(browser_client.get("/chat/").text) == {"Today": ["Mine"]}


def test_the_list_is_one_query_however_many_chats_there_are(chat, workspace, owner):
    for number in range(3):
        chat(f"Chat {number}", pinned_at=timezone.now())

    with recorded_statements() as statements:
        groups = chat_groups(workspace.pk, owner.pk)

    assert [len(group.rows) for group in groups] == [3]
    assert len(statements) == 1


def test_a_search_finds_chats_by_title_and_by_message(browser_client, chat):
    chat("Tea")
    chat("Bread")

    assert shown(browser_client.get("/chat/list/?q=tea").text) == {"Today": ["Tea"]}
    assert shown(browser_client.get("/chat/list/?q=bread+it").text) == {"Today": ["Bread"]}
    assert "No chats match." in browser_client.get("/chat/list/?q=zebra").text
    assert len(shown(browser_client.get("/chat/list/").text)["Today"]) == 2


def test_a_chat_is_renamed_pinned_unpinned_and_archived(browser_client, chat):
    made = chat("Old")
    path = f"/chat/{made.pk}/options/"

    for change in ({"do": "rename", "title": " New name "}, {"do": "pin"}):
        assert browser_client.post(path, change).url == f"/chat/{made.pk}/"
    made.refresh_from_db()
    assert (made.title, made.pinned_at is not None) == ("New name", True)
    assert ">Unpin<" in browser_client.get(f"{path}?panel=1").text

    browser_client.post(path, {"do": "unpin"})
    assert browser_client.post(path, {"do": "archive"}).url == "/chat/"
    made.refresh_from_db()
    assert (made.pinned_at, made.archived_at is not None) == (None, True)


def test_a_title_cannot_be_empty(browser_client, chat):
    made = chat("Old")
    answer = browser_client.post(
        f"/chat/{made.pk}/options/", {"do": "rename", "title": " "}, follow=True
    )

    assert "Enter a title." in answer.text
    made.refresh_from_db()
    assert made.title == "Old"


def test_an_unknown_change_is_refused(browser_client, chat):
    assert browser_client.post(f"/chat/{chat('Old').pk}/options/", {"do": "x"}).status_code == 400


def test_a_viewer_can_export_a_chat_but_not_change_it(workspace, chat):
    made = chat("Plan")
    client = Client()
    client.force_login(add_member(workspace, "viewer"))

    assert "Rename" not in client.get(f"/chat/{made.pk}/options/").text
    assert client.post(f"/chat/{made.pk}/options/", {"do": "share"}).status_code == 403
    assert client.get(f"/chat/{made.pk}/export/").status_code == 200


def test_an_export_is_the_whole_chat_as_markdown(browser_client, chat):
    made = chat("Tea time")
    answer = browser_client.get(f"/chat/{made.pk}/export/")
    text = answer.text

    assert answer["Content-Disposition"] == 'attachment; filename="tea-time.md"'
    assert text.startswith("# Tea time\n\n## You · ")
    assert "\n\nAbout Tea time?\n\n## Tester · " in text
    assert text.endswith("\n\n**Tea time** it is.\n")


def test_a_shared_link_shows_the_messages_until_then_to_anyone(browser_client, chat):
    made = chat("Plan")
    browser_client.post(f"/chat/{made.pk}/options/", {"do": "share"})
    made.refresh_from_db()
    later = NewEvent(type=E.AGENT_MESSAGE, payload={"text": "Secret afterwards."})
    append_events(made.pk, [later])
    link = f"/shared/{made.share_token}/"

    page = Client().get(link)

    assert page.status_code == 200
    assert "About Plan?" in page.text
    assert "<strong>Plan</strong> it is." in page.text
    assert "Secret afterwards." not in page.text
    assert "Olive" not in page.text
    assert (page["X-Robots-Tag"], page["Referrer-Policy"]) == ("noindex", "no-referrer")
    options = browser_client.get(f"/chat/{made.pk}/options/").text
    assert f"http://testserver{link}" in options
    assert "Newer messages are not included." in options


def test_sharing_again_includes_what_is_new_and_keeps_the_link(browser_client, chat):
    made = chat("Plan")
    path = f"/chat/{made.pk}/options/"
    browser_client.post(path, {"do": "share"})
    made.refresh_from_db()
    append_events(made.pk, [NewEvent(type=E.AGENT_MESSAGE, payload={"text": "More."})])
    browser_client.post(path, {"do": "share"})

    assert "More." in Client().get(f"/shared/{made.share_token}/").text


def test_a_revoked_link_shows_nothing_and_another_one_is_new(browser_client, chat):
    made = chat("Plan")
    path = f"/chat/{made.pk}/options/"
    browser_client.post(path, {"do": "share"})
    made.refresh_from_db()
    first = made.share_token
    browser_client.post(path, {"do": "unshare"})

    assert Client().get(f"/shared/{first}/").status_code == 404
    browser_client.post(path, {"do": "share"})
    made.refresh_from_db()
    assert made.share_token not in {"", first}
    assert Client().get(f"/shared/{first}/").status_code == 404


def test_the_operator_can_switch_share_links_off(browser_client, chat, settings):
    made, other = chat("Plan"), chat("Other")
    path = f"/chat/{made.pk}/options/"
    browser_client.post(path, {"do": "share"})
    made.refresh_from_db()
    link = f"/shared/{made.share_token}/"
    assert Client().get(link).status_code == 200
    settings.SHARE_LINKS = False

    assert Client().get(link).status_code == 404
    assert "does not work now" in browser_client.get(path).text
    refused = browser_client.post(f"/chat/{other.pk}/options/", {"do": "share"})
    assert refused.status_code == 403
    other.refresh_from_db()
    assert other.share_token == ""
    assert "Create a share link" not in browser_client.get(f"/chat/{other.pk}/options/").text


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("list the files", "List the files"),
        ("Hi there, could you please help me to write a poem?", "Write a poem?"),
        ("please, fix the build.", "Fix the build"),
        ("\n\n# Report\nmore", "Report"),
        ("Hello!", ""),
        ("thanks", ""),
        ("can you", "Can you"),
        (
            "Compare the three databases that we looked at last week in detail, please",
            "Compare the three databases that we looked at last week in…",
        ),
    ],
)
def test_a_title_is_the_request_without_its_courtesies(text, title):
    assert title_from_message(text) == title


def test_a_greeting_leaves_the_title_to_the_next_message(session, principal):
    say(session, principal, "hello")
    session.refresh_from_db()
    assert session.title == ""
    say(session, principal, "plan my week")
    session.refresh_from_db()
    assert session.title == "Plan my week"


def test_a_status_is_said_once_in_a_list(browser_client, chat):
    made = chat("Busy", status="running")

    page = html.fromstring(browser_client.get("/sessions/").text)
    (row,) = page.xpath(f"//tr[.//a[@href='/sessions/{made.pk}/']]")
    assert row.text_content().count("Running") == 1
