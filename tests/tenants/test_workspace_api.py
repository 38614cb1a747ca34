"""Tests of the caller's own workspace over REST."""

from __future__ import annotations

from tenants.models import Workspace


def test_the_workspace_is_the_callers_own(api, foreign_api, workspace, foreign_workspace):
    assert api.get("/api/v1/workspace/").json()["name"] == workspace.name
    assert foreign_api.get("/api/v1/workspace/").json()["name"] == foreign_workspace.name


def test_an_admin_can_rename_the_workspace(api, workspace, foreign_workspace):
    answer = api.patch("/api/v1/workspace/", {"name": "Depot", "slug": "stolen"}, format="json")

    assert answer.json()["name"] == "Depot"
    workspace.refresh_from_db()
    assert (workspace.name, workspace.slug) == ("Depot", "yard")
    assert Workspace.objects.get(pk=foreign_workspace.pk).name == "Elsewhere"


def test_an_empty_name_is_refused(api, workspace):
    assert api.patch("/api/v1/workspace/", {"name": " "}, format="json").status_code == 400


def test_me_shows_the_caller_and_their_permissions(api, owner, workspace):
    me = api.get("/api/v1/me/").json()

    assert me["user"]["email"] == owner.email
    assert me["workspace"]["id"] == str(workspace.pk)
    assert me["verbs"] == ["admin", "build", "read", "run"]
    assert me["role"] == "key:admin"
