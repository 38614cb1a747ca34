"""Tests of the inbox: items for one member or all, read marks per person, the live count."""

from __future__ import annotations

from datetime import timedelta

import pytest
from asgiref.sync import sync_to_async
from channels.layers import get_channel_layer
from channels.testing import WebsocketCommunicator
from django.utils import timezone
from rest_framework.test import APIClient

from config.asgi import application
from core import markdown
from core.exceptions import NotFound
from tenants import consumers
from tenants.access import principal_of_user
from tenants.keys import issue_key, revoke_key
from tenants.models import InboxItem, Membership, WebhookDelivery
from tenants.notifications import inbox
from tenants.notifications.webhooks import add_webhook
from tests.conftest import add_member

INBOX = "/api/v1/inbox/"


def client_of(user) -> APIClient:
    client = APIClient()
    client.force_login(user)
    return client


@pytest.fixture
def vera(workspace):
    return add_member(workspace, "viewer")


def test_an_item_for_one_person_is_hidden_from_others(workspace, owner, vera):
    mine = inbox.put(workspace.pk, title="For Vera", user_id=vera.pk)
    inbox.put(workspace.pk, title="For all")

    assert [one["title"] for one in client_of(vera).get(INBOX).json()["results"]] == [
        "For all",
        "For Vera",
    ]
    assert [one["title"] for one in client_of(owner).get(INBOX).json()["results"]] == ["For all"]
    assert client_of(owner).get(f"{INBOX}{mine.pk}/").status_code == 404
    assert client_of(owner).patch(f"{INBOX}{mine.pk}/", {"read": True}).status_code == 404


def test_each_person_has_their_own_read_mark_and_marking_twice_is_harmless(workspace, owner, vera):
    item = inbox.put(workspace.pk, title="For all")
    path = f"{INBOX}{item.pk}/"
    for _ in range(2):
        answer = client_of(vera).patch(path, {"read": True}, format="json")
        assert answer.json()["read"] is True

    assert {"created_by", "created_at"} <= set(answer.json())
    assert item.reads.count() == 1
    assert inbox.unread_count(workspace.pk, vera.pk) == 0
    assert inbox.unread_count(workspace.pk, owner.pk) == 1
    assert client_of(vera).get(INBOX, {"unread": "true"}).json()["results"] == []
    assert client_of(vera).patch(path, {"read": False}, format="json").json()["read"] is False
    assert inbox.unread_count(workspace.pk, vera.pk) == 1
    assert client_of(vera).post(f"{INBOX}read-all/").json() == {"read": 1}
    assert client_of(vera).post(f"{INBOX}read-all/").json() == {"read": 0}


def test_a_title_and_a_mail_hide_nothing(
    workspace, owner, mailoutbox, django_capture_on_commit_callbacks
):
    with django_capture_on_commit_callbacks(execute=True):
        inbox.tell_admins(workspace.pk, title="Pay\u200bpal", text="see \u202etxt.exe", link="/")

    assert InboxItem.objects.get().title == r"Pay\u200bpal"
    (mail,) = mailoutbox
    assert mail.subject == r"Pay\u200bpal"
    assert r"see \u202etxt.exe" in mail.body


def test_items_can_only_be_sent_to_members(workspace, stranger):
    with pytest.raises(NotFound):
        inbox.put(workspace.pk, title="x", user_id=stranger.pk)


def test_the_same_dedupe_key_creates_one_item(workspace):
    first = inbox.put(workspace.pk, title="once", dedupe_key="k")

    assert inbox.put(workspace.pk, title="twice", dedupe_key="k").pk == first.pk
    assert InboxItem.objects.count() == 1


def test_an_item_reaches_webhooks(workspace):
    add_webhook(workspace_id=workspace.pk, url="https://example.com/", events=["inbox.*"])
    item = inbox.put(workspace.pk, title="Hello", body="**you**")

    sent = WebhookDelivery.objects.get().body
    assert sent["type"] == "inbox.message"
    assert (sent["data"]["id"], sent["data"]["body"]) == (str(item.pk), "**you**")


def test_an_unsafe_stored_link_is_not_rendered(browser_client, workspace):
    item = inbox.put(workspace.pk, title="x", link="/chat/")
    assert 'href="/chat/">Open<' in browser_client.get(f"/inbox/{item.pk}/").text
    InboxItem.objects.filter(pk=item.pk).update(link="javascript:hit()")

    assert "javascript:" not in browser_client.get(f"/inbox/{item.pk}/").text


def test_all_items_can_be_marked_as_read_at_once(workspace, owner):
    inbox.put(workspace.pk, title="One")
    inbox.put(workspace.pk, title="Two")
    client = client_of(owner)

    assert client.patch(INBOX, {"read": True}, format="json").json() == {"read": 2}
    assert {one["read"] for one in client.get(INBOX).json()["results"]} == {True}
    assert client.patch(INBOX, {"read": False}, format="json").status_code == 400


def test_only_the_listed_items_are_marked_as_read(workspace, owner):
    one = inbox.put(workspace.pk, title="One")
    inbox.put(workspace.pk, title="Two")
    client = client_of(owner)

    assert client.patch(INBOX, {"ids": [str(one.pk)]}, format="json").json() == {"read": 1}
    shown = client.get(INBOX).json()["results"]
    assert {item["title"]: item["read"] for item in shown} == {"One": True, "Two": False}
    assert client.patch(INBOX, {"ids": [str(owner.pk)]}, format="json").status_code == 404
    assert client.patch(INBOX, {"ids": []}, format="json").status_code == 400
    assert client.patch(INBOX, {}, format="json").json() == {"read": 1}


def test_a_key_without_a_user_can_list_items_but_not_mark_them(workspace):
    item = inbox.put(workspace.pk, title="For all")
    key = issue_key(workspace_id=workspace.pk, name="cli", scope="admin")
    client = APIClient(headers={"x-api-key": key.secret})

    assert len(client.get(INBOX).json()["results"]) == 1
    assert client.patch(f"{INBOX}{item.pk}/", {"read": True}, format="json").status_code == 403


def test_old_items_are_erased(workspace):
    inbox.put(workspace.pk, title="old")
    InboxItem.objects.update(created_at=timezone.now() - timedelta(days=200))
    inbox.put(workspace.pk, title="new")

    assert inbox.forget_old_items() == 1
    assert InboxItem.objects.get().title == "new"


def test_the_pages_show_items_mark_them_and_count_them(browser_client, workspace, owner):
    item = inbox.put(workspace.pk, title="Lunch", body="is **ready** <script>x</script>")
    listed = browser_client.get("/inbox/").content.decode()
    assert "Lunch" in listed
    assert f'data-socket="/ws/inbox/{workspace.pk}/" data-member="unread"' in listed

    opened = browser_client.get(f"/inbox/{item.pk}/").content.decode()
    assert "<strong>ready</strong>" in opened
    assert "<script>x" not in opened
    assert inbox.unread_count(workspace.pk, owner.pk) == 0
    browser_client.post(f"/inbox/{item.pk}/unread/")
    assert inbox.unread_count(workspace.pk, owner.pk) == 1
    browser_client.post("/inbox/read-all/")
    assert inbox.unread_count(workspace.pk, owner.pk) == 0


@pytest.mark.parametrize(
    "text",
    [
        "<img src=x onerror=alert(1)>",
        "[x](javascript:alert(1))",
        "[x](data:text/html;base64,AAAA)",
        "![x](https://evil.example/pixel)",
        "<javascript:alert(1)>",
        '[x](https://a.example/"onmouseover="alert(1))',
    ],
)
def test_rendered_markdown_contains_nothing_dangerous(text):
    html = markdown.render(text)

    assert "<img" not in html
    assert "<script" not in html
    assert 'href="javascript' not in html
    assert 'href="data' not in html
    assert '"onmouseover' not in html


async def test_the_inbox_socket_closes_when_the_key_is_revoked(
    async_db, workspace, owner, monkeypatch
):
    monkeypatch.setattr(consumers, "POLL_SECONDS", 0.05)
    key = await sync_to_async(issue_key)(workspace_id=workspace.pk, name="x", created_by=owner)
    headers = [(b"host", b"testserver"), (b"x-api-key", key.secret.encode())]
    tab = WebsocketCommunicator(application, f"/ws/inbox/{workspace.pk}/", headers=headers)
    assert (await tab.connect())[0]
    assert await tab.receive_json_from(10) == {"type": "inbox", "unread": 0}
    await sync_to_async(revoke_key)(workspace_id=workspace.pk, key_id=key.key.pk)

    ended = await tab.receive_output(10)
    assert (ended["type"], ended["code"]) == ("websocket.close", 4401)
    await tab.wait()
    await get_channel_layer().close()


async def test_the_socket_sends_the_count_at_once_and_when_it_changes(async_db, workspace, owner):
    key = await sync_to_async(issue_key)(workspace_id=workspace.pk, name="x", created_by=owner)
    path = f"/ws/inbox/{workspace.pk}/"
    headers = [(b"host", b"testserver"), (b"x-api-key", key.secret.encode())]
    tabs = [WebsocketCommunicator(application, path, headers=headers) for _ in range(2)]
    for tab in tabs:
        assert (await tab.connect())[0]
        assert await tab.receive_json_from(10) == {"type": "inbox", "unread": 0}
    item = await sync_to_async(inbox.put)(workspace.pk, title="Hello")
    for tab in tabs:
        assert await tab.receive_json_from(10) == {"type": "inbox", "unread": 1}
    principal = await sync_to_async(principal_of_user)(owner, workspace.pk)
    await sync_to_async(inbox.mark)(principal, item, read=True)
    for tab in tabs:
        assert await tab.receive_json_from(10) == {"type": "inbox", "unread": 0}
    await Membership.objects.filter(user=owner).adelete()
    await sync_to_async(inbox.put)(workspace.pk, title="No more for you")
    for tab in tabs:
        ended = await tab.receive_output(10)
        assert (ended["type"], ended["code"]) == ("websocket.close", 4401)
        await tab.wait()
    await get_channel_layer().close()


@pytest.mark.parametrize(
    ("link", "kept"),
    [
        ("/chat/1/?after=2#end", "/chat/1/?after=2#end"),
        ("//evil.example/", ""),
        ("/\\evil.example/", ""),
        ("/\t/evil.example/", ""),
        ("https://evil.example/", ""),
        ("javascript:hit()", ""),
        ("chat/", ""),
    ],
)
def test_a_link_stays_within_the_product(workspace, link, kept):
    assert inbox.put(workspace.pk, title="Look", link=link).link == kept
