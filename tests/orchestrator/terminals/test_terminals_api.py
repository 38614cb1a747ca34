"""Tests of opening, listing, sharing and closing terminals over REST and by a form."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connections
from django.test import Client

from core.exceptions import NotFound
from orchestrator.exceptions import TooManyTerminals
from orchestrator.models import Step, Terminal
from orchestrator.terminals import terminals
from sessions_app.sessions import archive
from tenants.access import SCOPE_VERBS, Principal, principal_of_user
from tenants.models import ApiKey, Membership
from tests.conftest import add_member, key_client
from tests.factories import make
from tests.orchestrator.terminals.conftest import is_closed, now, until

URL = "/api/v1/terminals/"


def test_a_terminal_is_opened_in_a_session_and_closed(hosted, api, session):
    answer = api.post(URL, {"session": str(session.pk), "columns": 100}, format="json")

    assert answer.status_code == 201, answer.json()
    made = answer.json()
    assert made["ws_url"] == f"ws://testserver/ws/terminals/{made['id']}/"
    assert (made["status"], made["columns"], made["rows"]) == ("open", 100, 24)
    assert [one["id"] for one in api.get(URL).json()["results"]] == [made["id"]]
    assert api.delete(f"{URL}{made['id']}/").status_code == 204
    until(lambda: api.get(f"{URL}{made['id']}/").json()["status"] == "closed")
    assert hosted.sessions == {}
    assert api.delete(f"{URL}{made['id']}/").status_code == 204


def test_opening_a_terminal_is_recorded_in_the_log_of_the_session(terminal, session, owner):
    told = session.events.get(type="session.terminal_opened")

    assert told.payload == {"terminal_id": str(terminal.pk), "opened_by": "Olive Owner"}
    assert told.created_by_id == owner.pk


def test_a_terminal_of_a_workflow_is_in_the_sandbox_of_its_newest_session(
    hosted, api, workspace, session
):
    step = Step.objects.get(pk=make(Step, workspace).pk)
    refused = api.post(URL, {"workflow": str(step.workflow_id)}, format="json")
    assert (refused.status_code, refused.json()["code"]) == (409, "no_sandbox")
    Step.objects.filter(pk=step.pk).update(detail={"session_id": str(session.pk)})

    made = api.post(URL, {"workflow": str(step.workflow_id)}, format="json").json()

    assert made["session"] == str(session.pk)
    assert made["workflow"] == str(step.workflow_id)


def test_a_terminal_needs_exactly_one_existing_active_target(hosted, api, foreign_api, session):
    for body in ({}, {"session": str(session.pk), "workflow": "x"}):
        assert api.post(URL, body, format="json").status_code == 400
    body = {"session": str(session.pk)}
    assert foreign_api.post(URL, body, format="json").status_code == 404
    archive(session, None)
    assert api.post(URL, body, format="json").status_code == 409


def test_the_form_follows_the_same_rules(hosted, browser_client, session):
    for wrong in ({}, {"session": "x"}, {"session": str(session.pk), "workflow": str(session.pk)}):
        assert browser_client.post("/terminals/open/", wrong).status_code == 400

    opened = browser_client.post("/terminals/open/", {"session": str(session.pk)})

    assert opened.headers["location"] == f"/terminals/{Terminal.objects.get().pk}/"


def test_without_a_host_the_request_fails_and_leaves_no_open_row(transactional_db, api, session):
    answer = api.post(URL, {"session": str(session.pk)}, format="json")

    assert (answer.status_code, answer.json()["code"]) == (503, "terminals_away")
    assert Terminal.objects.get().status == Terminal.Status.CLOSED
    assert not session.events.exists()


def test_a_reader_cannot_open_terminals_and_a_builder_sees_only_their_own(
    hosted, terminal, workspace, session
):
    reader = key_client(workspace, "read")
    assert reader.post(URL, {"session": str(session.pk)}, format="json").status_code == 403
    builder = principal_of_user(add_member(workspace, Membership.Role.BUILDER), workspace.pk)
    own = terminals.open_terminal(builder, session)

    assert list(terminals.visible_to(builder)) == [own]
    with pytest.raises(NotFound):
        terminals.find_terminal(builder, terminal.pk)
    admin = principal_of_user(add_member(workspace, Membership.Role.ADMIN), workspace.pk)
    assert set(terminals.visible_to(admin)) == {own, terminal}
    terminals.close_terminal(terminals.find_terminal(admin, terminal.pk), admin)
    until(lambda: is_closed(terminal))
    assert now(own).status == Terminal.Status.OPEN


def test_the_number_of_terminals_is_limited_per_workspace(hosted, api, session, settings):
    settings.TERMINALS_PER_WORKSPACE = 1
    body = {"session": str(session.pk)}
    assert api.post(URL, body, format="json").status_code == 201

    refused = api.post(URL, body, format="json")
    assert (refused.status_code, refused.json()["code"]) == (409, "too_many_terminals")


def test_the_limit_holds_for_concurrent_requests(hosted, principal, session, settings, monkeypatch):
    settings.TERMINALS_PER_WORKSPACE = 1
    together = threading.Barrier(4)
    monkeypatch.setattr(terminals, "check_affordable", lambda _: together.wait(10))

    def is_opened(_: int) -> bool:
        try:
            terminals.open_terminal(principal, session)
        except TooManyTerminals:
            return False
        finally:
            connections.close_all()
        return True

    with ThreadPoolExecutor(max_workers=4) as pool:
        assert sum(pool.map(is_opened, range(4))) == 1


def test_a_link_is_shown_once_and_only_its_digest_is_kept(hosted, api, terminal):
    shared = api.post(f"{URL}{terminal.pk}/share/", {"minutes": 5}, format="json")

    assert shared.status_code == 201
    token = shared.json()["token"]
    assert shared.json()["url"] == f"http://testserver/terminals/{terminal.pk}/?token={token}"
    assert token not in str(api.get(f"{URL}{terminal.pk}/").json())
    assert now(terminal).share_hash not in ("", token)
    assert api.delete(f"{URL}{terminal.pk}/share/").status_code == 204
    assert now(terminal).share_hash == ""


# ── The page of a terminal ───────────────────────────────────────────────────────────────────────


def page_of(user, path: str):
    client = Client()
    client.force_login(user)
    return client.get(path)


def test_a_shared_page_only_shows_and_is_missing_without_its_token(
    hosted, terminal, workspace, owner
):
    builder = add_member(workspace, Membership.Role.BUILDER)
    token, _ = terminals.share_terminal(now(terminal))
    path = f"/terminals/{terminal.pk}/"

    shown = page_of(builder, f"{path}?token={token}")
    assert shown.status_code == 200
    assert "data-send" not in shown.text
    assert "Open to type" not in shown.text
    assert page_of(builder, path).status_code == 404
    assert page_of(builder, f"{path}?token=guess").status_code == 403

    assert "Open to type" in page_of(owner, f"{path}?token={token}").text
    assert "data-send" not in page_of(owner, f"{path}?token={token}").text
    assert "data-send" in page_of(owner, path).text


def test_a_key_that_no_user_made_uses_the_terminals_that_such_keys_opened(
    hosted, workspace, session, terminal
):
    robot = Principal(workspace_id=workspace.pk, key=ApiKey(), verbs=SCOPE_VERBS["run"])
    own = terminals.open_terminal(robot, session)

    assert list(terminals.visible_to(robot)) == [own]
    assert terminals.grant_access(robot, own.pk).may_write
    with pytest.raises(NotFound):
        terminals.grant_access(robot, terminal.pk)
