"""Finds all pages and their addresses in a workspace that has one of everything."""

from __future__ import annotations

from django.conf import settings
from django.test import Client
from playwright.sync_api import BrowserContext

from tenants.models import User, Workspace
from tests.acceptance.open_routes import IN_WORKSPACE
from tests.acceptance.owned_routes import OWNED
from tests.acceptance.routes import all_routes
from tests.browser.every_event import every_event
from tests.browser.sessions_gallery import populate
from tests.factories import make, our_models

#: Routes that answer with something other than a whole page.
NOT_A_PAGE = {
    "/memory/export/": "a file",
    "/agents/<agent_id>/build/side/": "a part",
    "/palette/": "a part",
    "/chat/list/": "a part",
    "/chat/models/": "a part",
    "/chat/<session_id>/files/<path>": "a file",
    "/chat/<session_id>/export/": "a file",
    "/chat/<session_id>/part/<digest>/": "a file",
    "/schedules/preview/": "a part",
    "/chat/<session_id>/lines/": "a part",
    "/sessions/<session_id>/preview/": "a part",
    "/sessions/<session_id>/children/": "a part",
}
ROUTES = [one for one in all_routes() if not one.is_api and one.path in {*OWNED, *IN_WORKSPACE}]


def addresses_in(workspace: Workspace, owner: User) -> dict[str, str]:
    """Fill the workspace and return an address for each route."""
    for model in our_models():
        make(model, workspace)
    session = populate(workspace, owner)
    every_event(session)
    made = {maker: maker(workspace) for maker in OWNED.values()}
    found = {}
    for route in ROUTES:
        arguments = {"name": "demo", **made.get(OWNED.get(route.path), {})}
        if "session_id" in arguments:
            arguments["session_id"] = session.pk
        found[route.path] = route.at(arguments)
    return found


def pages_of(client: Client, addresses: dict[str, str]) -> dict[str, str]:
    """Return the addresses that show a page, by route. Routes that only accept forms answer 405."""
    client.raise_request_exception = False
    answers = {route: client.get(address) for route, address in addresses.items()}
    assert [route for route, answer in answers.items() if answer.status_code >= 500] == []
    pages = [
        route
        for route, answer in answers.items()
        if answer.status_code == 200 and answer.content.lower().startswith(b"<!doctype html>")
    ]
    other = {route for route, answer in answers.items() if answer.status_code != 405} - set(pages)
    assert other == set(NOT_A_PAGE), other ^ set(NOT_A_PAGE)
    return {route: addresses[route] for route in pages}


def pages_of_a_new_workspace(client: Client) -> list[str]:
    paths = [
        route.path for route in ROUTES if "<" not in route.path and route.path not in NOT_A_PAGE
    ]
    return [path for path in paths if client.get(path).status_code == 200]


def sign_in_as(context: BrowserContext, client: Client, url: str) -> None:
    value = client.cookies[settings.SESSION_COOKIE_NAME].value
    context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": value, "url": url}])
