"""Tests of saved views of the session list."""

from __future__ import annotations

from django.test import Client

from sessions_app.models import SavedView
from sessions_app.pages import sessions
from tests.conftest import add_member


def save(client: Client, name: str, query: str = "status=idle", **more: str) -> None:
    fields = {"name": name, "query": query, **more}
    answer = client.post("/sessions/views/", fields)
    assert answer.status_code == 302
    assert answer["Location"].startswith("/sessions/?")


def member_of(workspace, role: str) -> tuple[Client, object]:
    user = add_member(workspace, role)
    client = Client()
    client.force_login(user)
    return client, user


def test_a_view_keeps_only_known_filters(browser_client, workspace):
    save(browser_client, "Resting", "status=idle&sort=cost&page=//evil.example&after=1~x&q=boats")
    view = SavedView.objects.get()

    assert view.query == "q=boats&status=idle&sort=cost"
    page = browser_client.get("/sessions/").text
    assert 'href="?q=boats&amp;status=idle&amp;sort=cost"' in page


def test_saving_under_the_same_name_replaces_the_view(browser_client, workspace):
    save(browser_client, "Mine", "status=idle")
    save(browser_client, "Mine", "status=running")

    assert [view.query for view in SavedView.objects.all()] == ["status=running"]


def test_a_view_is_private_unless_it_is_shared(browser_client, workspace):
    save(browser_client, "Private list")
    save(browser_client, "Shared list", is_shared="on")
    other, _ = member_of(workspace, "builder")
    page = other.get("/sessions/").text

    assert "Shared list" in page
    assert "Private list" not in page
    private, shared = (SavedView.objects.get(name=f"{one} list") for one in ("Private", "Shared"))
    assert other.post(f"/sessions/views/{private.pk}/delete/").status_code == 404
    assert other.post(f"/sessions/views/{shared.pk}/delete/").status_code == 403
    assert SavedView.objects.count() == 2


def test_a_viewer_can_save_but_not_share_views(workspace):
    viewer, _ = member_of(workspace, "viewer")
    save(viewer, "Own", is_shared="on")

    assert not SavedView.objects.get().is_shared


def test_a_person_can_delete_their_own_view(browser_client, workspace):
    save(browser_client, "Gone soon")
    browser_client.post(f"/sessions/views/{SavedView.objects.get().pk}/delete/")

    assert not SavedView.objects.exists()


def test_the_number_of_views_is_limited_and_a_name_is_required(
    browser_client, workspace, monkeypatch
):
    monkeypatch.setattr(sessions, "MAX_VIEWS", 1)
    save(browser_client, "First")
    save(browser_client, "Second")
    save(browser_client, " ")

    assert [view.name for view in SavedView.objects.all()] == ["First"]
