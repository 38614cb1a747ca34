"""Tests that an object of another workspace looks like a missing one on every route and socket."""

from __future__ import annotations

import re
from typing import Any
from uuid import UUID

import pytest
from asgiref.sync import sync_to_async
from channels.layers import get_channel_layer
from channels.testing import WebsocketCommunicator
from django.conf import settings
from django.http import FileResponse
from django.test import Client

from config.asgi import application
from core.ids import uuid7
from core.throttling import buckets
from tenants.keys import issue_key
from tenants.models import User, Workspace
from tests.acceptance.open_routes import IN_WORKSPACE, PUBLIC, SOCKETS_IN_WORKSPACE
from tests.acceptance.owned_routes import OWNED, SOCKETS
from tests.acceptance.routes import Route, all_routes, all_sockets, fill
from tests.conftest import key_client
from tests.factories import make, our_models

ROUTES = {route.path: route for route in all_routes()}
EVERY_OWNED_PATH = pytest.mark.parametrize("path", sorted(set(OWNED) & set(ROUTES)))


@pytest.fixture(autouse=True)
def fresh_buckets():
    buckets.empty()


@pytest.fixture
def stranger_browser(stranger: User, foreign_workspace: Workspace) -> Client:
    client = Client()
    client.force_login(stranger)
    return client


def call(client: Any, method: str, path: str) -> Any:
    if method == "get":
        answer = client.get(path)
    else:
        answer = getattr(client, method)(path, "{}", content_type="application/json")
    if isinstance(answer, FileResponse):
        answer.close()  # No test reads the file.
    return answer


def comparable(answer: Any) -> tuple[int, str]:
    """Return the response without the parts that differ between any two requests."""
    text = answer.content.decode()
    text = text.replace(answer["X-Request-ID"], "")
    text = re.sub(r'(nonce|value)="[^"]*"', "", text)
    uuid = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
    return answer.status_code, re.sub(uuid, "", text)


def with_missing_ids(arguments: dict[str, object]) -> dict[str, object]:
    """Return the same arguments with ids that do not exist."""
    return {
        name: uuid7() if isinstance(value, UUID) else value for name, value in arguments.items()
    }


def test_every_route_is_known():
    listed = [*OWNED, *IN_WORKSPACE, *PUBLIC]

    assert len(listed) == len(set(listed)), "a route is listed twice"
    assert set(ROUTES) - set(listed) == set(), (
        "add these routes to owned_routes.py or open_routes.py"
    )
    assert set(listed) - set(ROUTES) == set(), "these routes are gone: remove them"


def test_every_socket_is_known():
    assert set(all_sockets()) == {*SOCKETS, *SOCKETS_IN_WORKSPACE}


def test_every_path_with_an_id_is_listed_as_owned():
    for path, reason in {**IN_WORKSPACE, **PUBLIC}.items():
        assert reason
        if re.search(r"<(pk|\w*id)>", path):
            raise AssertionError(f"{path} names an object and must be in OWNED")


@EVERY_OWNED_PATH
def test_a_stranger_gets_not_found(path, workspace, foreign_api, stranger_browser):
    route = ROUTES[path]
    arguments = OWNED[path](workspace)
    strangers = [foreign_api, stranger_browser] if route.is_api else [stranger_browser]
    checked = 0
    for stranger in strangers:
        for method in route.methods:
            answer = call(stranger, method, route.at(arguments))
            absent = call(stranger, method, route.at(with_missing_ids(arguments)))
            if answer.status_code == 405:
                assert method.upper() not in answer["Allow"]
                continue
            checked += 1
            assert answer.status_code == 404, (method, answer.content)
            assert comparable(answer) == comparable(absent), (
                "a foreign object differs from a missing one"
            )
    assert checked


@pytest.mark.parametrize("path", sorted(p for p in set(OWNED) & set(ROUTES) if p.count("<") > 1))
def test_a_foreign_child_is_not_found_under_an_own_parent(
    path, workspace, foreign_workspace, foreign_api
):
    route = ROUTES[path]
    theirs, own = OWNED[path](workspace), OWNED[path](foreign_workspace)
    first, *rest = theirs
    crossed = {first: own[first], **{name: theirs[name] for name in rest}}
    if crossed == own:
        pytest.skip("the child is named by a number within its parent")
    for method in route.methods:
        answer = call(foreign_api, method, route.at(crossed))
        assert answer.status_code in (404, 405), (method, answer.content)


@EVERY_OWNED_PATH
def test_an_anonymous_request_is_refused_before_anything_is_looked_up(path, workspace, client):
    route = ROUTES[path]
    where = route.at(OWNED[path](workspace))
    for method in route.methods:
        answer = call(client, method, where)
        if answer.status_code != 405:
            assert_refused(route, answer)


def assert_refused(route: Route, answer: Any) -> None:
    if route.is_api:
        assert answer.status_code == 401
        assert "WWW-Authenticate" in answer
    else:
        assert answer.status_code == 302
        assert answer["Location"].startswith("/sign-in/")


@EVERY_OWNED_PATH
def test_the_owner_reaches_the_object(path, workspace, browser_client):
    """Prove that the tests above use paths that exist."""
    route = ROUTES[path]
    where = route.at(OWNED[path](workspace))
    client = key_client(workspace) if route.is_api else browser_client
    answers = (call(client, method, where) for method in route.methods)

    assert next(one.status_code for one in answers if one.status_code != 405) != 404


def test_no_list_contains_objects_of_another_workspace(workspace, foreign_api, stranger_browser):
    theirs = [str(make(model, workspace).pk) for model in our_models()]
    uuids = [pk for pk in theirs if len(pk) == 36]
    leaks: dict[str, list[str]] = {}
    for path in set(IN_WORKSPACE) & set(ROUTES):
        route = ROUTES[path]
        for stranger in [foreign_api, stranger_browser] if route.is_api else [stranger_browser]:
            answer = call(stranger, "get", route.at({"name": "demo"}))
            assert answer.status_code < 500, path
            text = answer.content.decode()
            leaks[path] = [pk for pk in uuids if pk in text]

    assert len(uuids) > 5
    assert {path: pks for path, pks in leaks.items() if pks} == {}


def test_an_anonymous_request_reaches_no_workspace(client, db):
    for path in set(IN_WORKSPACE) & set(ROUTES):
        route = ROUTES[path]
        for method in route.methods:
            answer = call(client, method, route.at({"name": "demo"}))
            if answer.status_code != 405:
                assert_refused(route, answer)


async def close_code(path: str, **headers: str) -> int:
    """Return the code with which the server closes a socket that it refuses."""
    pairs = [(name.replace("_", "-").encode(), text.encode()) for name, text in headers.items()]
    talk = WebsocketCommunicator(application, path, headers=[(b"host", b"testserver"), *pairs])
    connected, _ = await talk.connect()
    assert connected, "a code sent before accepting would not reach a browser"
    ended = await talk.receive_output(timeout=10)
    await talk.disconnect()
    assert ended["type"] == "websocket.close"
    return int(ended["code"])


@pytest.mark.parametrize("path", sorted(SOCKETS))
async def test_a_stranger_cannot_open_a_socket(
    path, async_db, workspace, foreign_workspace, stranger_browser
):
    arguments = await sync_to_async(SOCKETS[path])(workspace)
    where, nowhere = fill(path, arguments), fill(path, with_missing_ids(arguments))
    issued = await sync_to_async(issue_key)(workspace_id=foreign_workspace.pk, name="theirs")
    session = stranger_browser.cookies[settings.SESSION_COOKIE_NAME].value
    cookie = f"{settings.SESSION_COOKIE_NAME}={session}"

    assert await close_code(where, x_api_key=issued.secret) == 4404
    assert await close_code(nowhere, x_api_key=issued.secret) == 4404
    assert await close_code(where, cookie=cookie, origin="http://testserver") == 4404
    assert await close_code(where) == 4401
    await get_channel_layer().close()
