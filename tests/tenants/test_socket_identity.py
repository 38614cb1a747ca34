"""Tests of socket authentication: by header, by subprotocol, or by cookie from an own page."""

from __future__ import annotations

from datetime import timedelta

import pytest
from asgiref.sync import sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from channels.testing import WebsocketCommunicator
from django.conf import settings
from django.contrib.sessions.models import Session
from django.utils import timezone

from config.asgi import application
from config.routing import NOT_FOUND
from core.exceptions import Unauthenticated
from core.throttling import buckets
from tenants.access import ANONYMOUS, Principal, find_revoked, refresh_principal
from tenants.accounts import set_password
from tenants.keys import issue_key
from tenants.models import ApiKey
from tenants.sockets import SUBPROTOCOL, SocketIdentity, is_own_page, principal_from_scope


@pytest.fixture(autouse=True)
def fresh_buckets():
    buckets.empty()


@pytest.fixture
def secret(workspace, owner):
    return issue_key(workspace_id=workspace.pk, name="program", created_by=owner).secret


@pytest.fixture
def cookie(browser_client) -> bytes:
    value = browser_client.cookies[settings.SESSION_COOKIE_NAME].value
    return f"{settings.SESSION_COOKIE_NAME}={value}".encode()


def scope(subprotocols: list[str] | None = None, **headers: str | bytes) -> dict:
    pairs = {"host": "yard.example", **headers}
    return {
        "type": "websocket",
        "client": ["10.0.0.1", 1],
        "subprotocols": subprotocols or [],
        "headers": [
            (name.replace("_", "-").encode(), value if isinstance(value, bytes) else value.encode())
            for name, value in pairs.items()
        ],
    }


def test_a_key_works_by_either_header_and_by_subprotocol(workspace, secret):
    scopes = [
        scope(x_api_key=secret),
        scope(authorization=f"Bearer {secret}"),
        scope(subprotocols=[SUBPROTOCOL, f"key.{secret}"]),
    ]

    assert {principal_from_scope(one).workspace_id for one in scopes} == {workspace.pk}


def test_a_cookie_works_from_the_products_own_page(cookie, workspace, owner):
    principal = principal_from_scope(scope(cookie=cookie, origin="https://yard.example"))

    assert (principal.user, principal.workspace_id) == (owner, workspace.pk)


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "https://yard.example.evil.example",
        "null",
        "https://yard.example:99",
    ],
)
def test_a_cookie_from_another_site_is_anonymous(cookie, origin):
    assert principal_from_scope(scope(cookie=cookie, origin=origin)) == ANONYMOUS


def test_a_cookie_without_an_origin_is_anonymous(cookie):
    assert principal_from_scope(scope(cookie=cookie)) == ANONYMOUS


def test_a_bad_key_is_anonymous_even_with_a_valid_cookie(cookie, secret):
    ApiKey.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    own_page = {"cookie": cookie, "origin": "https://yard.example"}

    assert principal_from_scope(scope(x_api_key=secret, **own_page)) == ANONYMOUS
    assert principal_from_scope(scope(subprotocols=[f"key.{secret}"], **own_page)) == ANONYMOUS
    assert principal_from_scope(scope(x_api_key="", **own_page)) == ANONYMOUS


def test_a_forged_or_ended_session_is_anonymous(cookie, browser_client):
    forged = scope(cookie=b"sessionid=zzz", origin="https://yard.example")
    assert principal_from_scope(forged) == ANONYMOUS

    browser_client.session.flush()
    ended = scope(cookie=cookie, origin="https://yard.example")
    assert principal_from_scope(ended) == ANONYMOUS


def test_a_changed_password_ends_the_session(cookie, owner):
    owner.set_password("another horse 7")
    owner.save()

    own_page = scope(cookie=cookie, origin="https://yard.example")
    assert principal_from_scope(own_page) == ANONYMOUS


def test_a_socket_without_credentials_is_anonymous(db):
    assert principal_from_scope(scope()) == ANONYMOUS


def test_a_trusted_origin_may_open_sockets(settings):
    settings.CSRF_TRUSTED_ORIGINS = ["https://app.example", "https://*.pages.example"]

    assert is_own_page("https://app.example", "yard.example")
    assert is_own_page("https://a.pages.example", "yard.example")
    assert not is_own_page("http://app.example", "yard.example")


def test_an_origin_outside_the_allowed_hosts_is_refused(settings):
    settings.ALLOWED_HOSTS = ["yard.example"]

    assert is_own_page("https://yard.example:8000", "yard.example:8000")
    assert not is_own_page("https://rebound.example", "rebound.example")


class Greeting(AsyncWebsocketConsumer):
    async def connect(self) -> None:
        await self.accept(SUBPROTOCOL)
        await self.send(self.scope["principal"].name)


async def test_a_consumer_finds_the_principal_in_its_scope(async_db, secret):
    talk = WebsocketCommunicator(
        SocketIdentity(Greeting.as_asgi()), "/", subprotocols=[SUBPROTOCOL, f"key.{secret}"]
    )
    connected, chosen = await talk.connect()

    assert (connected, chosen) == (True, SUBPROTOCOL)
    assert await talk.receive_from() == f"key {secret[:10]}"
    await talk.disconnect()


async def test_a_socket_path_works_without_a_trailing_slash(async_db):
    talk = WebsocketCommunicator(application, "/ws/approvals")
    await talk.connect()

    assert (await talk.receive_output())["code"] == 4401


async def test_an_unknown_socket_path_is_closed_with_a_code_that_browsers_can_read(async_db):
    talk = WebsocketCommunicator(application, "/ws/nothing/")
    connected, _ = await talk.connect()

    assert connected
    assert (await talk.receive_output())["code"] == NOT_FOUND


def principal_by_cookie(cookie: bytes) -> Principal:
    return principal_from_scope(scope(cookie=cookie, origin="https://yard.example"))


def sign_out(client, owner) -> None:
    client.post("/sign-out/")


def change_password(client, owner) -> None:
    """Change the password from another browser."""
    set_password(user=owner, password="another long word")


def expire(client, owner) -> None:
    Session.objects.update(expire_date=timezone.now() - timedelta(seconds=1))


@pytest.mark.parametrize("end", [sign_out, change_password, expire])
def test_a_socket_ends_when_its_user_is_signed_out(browser_client, cookie, owner, secret, end):
    person, program = principal_by_cookie(cookie), principal_from_scope(scope(x_api_key=secret))
    assert refresh_principal(person).user == owner
    assert find_revoked({person, program}) == set()

    end(browser_client, owner)

    with pytest.raises(Unauthenticated):
        refresh_principal(person)
    assert find_revoked({person, program}) == {person}
    assert refresh_principal(program).user == owner


def test_the_browser_that_changed_the_password_stays_signed_in(browser_client, cookie, owner):
    set_password(user=owner, password="another long word")
    browser_client.force_login(owner)
    value = browser_client.cookies[settings.SESSION_COOKIE_NAME].value
    person = principal_by_cookie(f"{settings.SESSION_COOKIE_NAME}={value}".encode())

    assert find_revoked({person}) == set()


def test_the_repr_of_a_principal_hides_its_session_key(cookie):
    person = principal_by_cookie(cookie)

    assert person.session_key
    assert person.session_key not in repr(person)


def socket_of(secret: str) -> WebsocketCommunicator:
    headers = [(b"x-api-key", secret.encode())]
    return WebsocketCommunicator(application, "/ws/approvals/", headers=headers)


async def test_a_key_has_a_limited_number_of_open_sockets(async_db, settings, workspace, secret):
    settings.SOCKETS_PER_CALLER = 1
    other = await sync_to_async(issue_key)(workspace_id=workspace.pk, name="another")
    first, second, another = (socket_of(one) for one in (secret, secret, other.secret))
    assert (await first.connect(timeout=10))[0]
    assert (await second.connect(timeout=10))[0]  # a code can only be sent after accepting
    closed = await second.receive_output(timeout=10)
    assert (closed["type"], closed["code"]) == ("websocket.close", 4429)
    assert "Too many" in closed["reason"]

    assert (await another.connect(timeout=10))[0]
    assert (await another.receive_output(timeout=10))["type"] == "websocket.send"
    for one in (first, second, another):
        await one.disconnect(timeout=10)

    again = socket_of(secret)
    assert (await again.connect(timeout=10))[0]
    assert (await again.receive_output(timeout=10))["type"] == "websocket.send"
    await again.disconnect(timeout=10)
