"""Tests of idempotency keys: a repeated POST runs once and gets the same response."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import connection
from django.http import HttpRequest, StreamingHttpResponse
from django.test import override_settings
from django.urls import include, path
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from core.throttling import MIN_BURST, buckets
from tenants.idempotency import LIFE, STALE, forget_old_answers
from tenants.models import ApiKey, IdempotentAnswer
from tests.conftest import key_client

KEYS = "/api/v1/keys/"


def post(client, key: str = "w-1", name: str = "one", path: str = KEYS):
    return client.post(path, {"name": name}, format="json", headers={"Idempotency-Key": key})


def key_count(name: str) -> int:
    return ApiKey.objects.filter(name=name).count()


class Counting(APIView):
    """Responds with how often it was called."""

    calls = 0
    status = 200
    hold = threading.Event()
    entered = threading.Event()

    def post(self, request: Request) -> Response:
        Counting.calls += 1
        if request.data == {"name": "slow"}:
            Counting.entered.set()
            Counting.hold.wait(20)
        return Response({"calls": Counting.calls}, status=Counting.status)


def streaming(request: HttpRequest) -> StreamingHttpResponse:
    Counting.calls += 1
    return StreamingHttpResponse([b"a", b"b"])


urlpatterns = [
    path("api/count/", Counting.as_view()),
    path("api/stream/", streaming),
    path("", include("config.urls")),
]


@pytest.fixture
def counting():
    Counting.calls, Counting.status = 0, 200
    Counting.hold.clear()
    Counting.entered.clear()
    with override_settings(ROOT_URLCONF=__name__):
        yield Counting


def test_the_same_key_and_body_return_the_first_response_again(api):
    first, second = post(api), post(api)

    assert (first.status_code, second.status_code) == (201, 201)
    assert second.content == first.content
    assert second["Content-Type"] == first["Content-Type"]
    assert second["Idempotent-Replayed"] == "true"
    assert "Idempotent-Replayed" not in first
    assert key_count("one") == 1


def test_another_body_under_the_same_key_is_refused(api):
    post(api)
    refused = post(api, name="two")

    assert (refused.status_code, refused.json()["code"]) == (422, "idempotency_mismatch")
    assert key_count("two") == 0


def test_another_path_under_the_same_key_is_refused(api, counting):
    post(api)

    assert post(api, path="/api/count/").status_code == 422
    assert counting.calls == 0


def test_every_request_runs_without_the_header(api):
    for _ in range(2):
        api.post(KEYS, {"name": "one"}, format="json")

    assert key_count("one") == 2


def test_keys_of_different_principals_are_separate(api, workspace, foreign_api):
    secrets = {post(client).json()["key"] for client in (api, key_client(workspace), foreign_api)}

    assert len(secrets) == 3


def test_idempotency_keys_work_from_a_browser_session(browser_client):
    for _ in range(2):
        browser_client.post(
            KEYS,
            {"name": "one"},
            content_type="application/json",
            headers={"Idempotency-Key": "b"},
        )

    assert key_count("one") == 1


def test_a_stored_response_is_encrypted(api):
    secret = post(api).json()["key"]
    kept = IdempotentAnswer.objects.get()

    assert secret.encode() not in bytes(kept.body)
    assert b"one" not in bytes(kept.body)


def test_a_validation_error_is_replayed(api):
    first, second = post(api, name=""), post(api, name="")

    assert (first.status_code, second.status_code) == (400, 400)
    assert second["Idempotent-Replayed"] == "true"
    assert second["Content-Type"] == "application/problem+json"


@pytest.mark.parametrize("status", [500, 503, 403, 429])
def test_a_response_that_may_change_is_not_stored(api, counting, status):
    counting.status = status
    post(api, path="/api/count/")
    counting.status = 200
    again = post(api, path="/api/count/")

    assert (again.status_code, again.json()["calls"]) == (200, 2)


def test_a_stream_is_not_stored(api, counting):
    for _ in range(2):
        b"".join(post(api, path="/api/stream/").streaming_content)

    assert counting.calls == 2
    assert not IdempotentAnswer.objects.exists()


def test_an_unauthenticated_request_gets_401_every_time(client, db):
    for _ in range(2):
        answer = client.post(KEYS, {}, headers={"Idempotency-Key": "x"})
        assert answer.status_code == 401
        assert "Idempotent-Replayed" not in answer
    assert not IdempotentAnswer.objects.exists()


def test_a_revoked_key_gets_no_stored_response(api):
    post(api)
    ApiKey.objects.update(revoked_at=timezone.now())

    assert post(api).status_code == 401


def test_repeated_requests_are_throttled(api, settings):
    settings.REQUESTS_PER_MINUTE = 1
    buckets.empty()
    statuses = [post(api).status_code for _ in range(MIN_BURST + 2)]
    buckets.empty()

    assert (statuses[0], statuses[-1]) == (201, 429)


@pytest.mark.parametrize("key", ["", "x" * 256])
def test_an_empty_or_overlong_key_is_refused(api, key):
    assert post(api, key).status_code == 400


def test_a_first_request_that_never_finished_is_taken_over_after_a_while(api, monkeypatch):
    monkeypatch.setattr("tenants.idempotency.PATIENCE_SECONDS", 0)
    post(api)
    IdempotentAnswer.objects.update(status=None)

    waiting = post(api)
    assert (waiting.status_code, waiting.json()["code"]) == (409, "idempotency_in_flight")
    assert waiting["Retry-After"]

    IdempotentAnswer.objects.update(created_at=timezone.now() - STALE - timedelta(seconds=1))
    assert post(api, name="two").status_code == 422
    assert post(api).status_code == 201
    assert key_count("one") == 2


def test_stored_responses_are_erased_after_a_day(api):
    post(api)
    post(api, "w-2", name="two")
    old = IdempotentAnswer.objects.earliest("pk")
    IdempotentAnswer.objects.filter(pk=old.pk).update(created_at=timezone.now() - LIFE * 1.01)

    assert forget_old_answers() == 1
    assert post(api).status_code == 201
    assert key_count("one") == 2
    assert post(api, "w-2", name="two")["Idempotent-Replayed"]


def test_an_expired_response_is_not_replayed_before_it_is_swept(api):
    post(api)
    IdempotentAnswer.objects.update(created_at=timezone.now() - LIFE * 1.01)

    assert post(api, name="two").status_code == 201


@pytest.mark.django_db(transaction=True)
def test_the_second_of_two_concurrent_requests_waits_for_the_first_response(
    workspace, counting, monkeypatch
):
    monkeypatch.setattr("tenants.idempotency.PATIENCE_SECONDS", 60)
    client, looked = key_client(workspace), threading.Event()
    monkeypatch.setattr("tenants.idempotency.release_connection", looked.set)

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(send_slow, client)
        assert counting.entered.wait(20)
        second = pool.submit(send_slow, client)
        assert looked.wait(20)
        counting.hold.set()
        assert first.result() == second.result() == (200, {"calls": 1})
    assert counting.calls == 1


@pytest.mark.django_db(transaction=True)
def test_a_waiting_request_runs_when_the_first_response_is_not_stored(
    workspace, counting, monkeypatch
):
    client, looked = key_client(workspace), threading.Event()
    monkeypatch.setattr("tenants.idempotency.PATIENCE_SECONDS", 60)
    monkeypatch.setattr("tenants.idempotency.release_connection", looked.set)
    counting.status = 503

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(send_slow, client)
        assert counting.entered.wait(20)
        second = pool.submit(send_slow, client)
        assert looked.wait(20)
        counting.hold.set()
        assert [first.result(), second.result()] == [(503, {"calls": 1}), (503, {"calls": 2})]


@pytest.mark.django_db(transaction=True)
def test_a_request_that_waited_too_long_gets_409(workspace, counting, monkeypatch):
    monkeypatch.setattr("tenants.idempotency.PATIENCE_SECONDS", 0)
    client = key_client(workspace)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(send_slow, client)
        assert counting.entered.wait(20)
        status, problem = pool.submit(send_slow, client).result()
        counting.hold.set()
        assert (status, problem["code"], first.result()[0]) == (409, "idempotency_in_flight", 200)


def send_slow(client) -> tuple[int, dict]:
    try:
        answer = post(client, name="slow", path="/api/count/")
        return answer.status_code, answer.json()
    finally:
        connection.close()


@pytest.mark.django_db(transaction=True)
def test_many_concurrent_requests_with_one_key_create_one_row(workspace):
    client = key_client(workspace)

    def send(_: int) -> tuple[int, bytes]:
        try:
            answer = post(client, name="crowd")
            return answer.status_code, answer.content
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        answers = set(pool.map(send, range(24)))

    assert [status for status, _ in answers] == [201]
    assert key_count("crowd") == 1
