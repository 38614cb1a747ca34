"""A repeated POST is done once and answered twice."""

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


def post(client, word: str = "w-1", name: str = "one", path: str = KEYS):
    return client.post(path, {"name": name}, format="json", headers={"Idempotency-Key": word})


def made(name: str) -> int:
    return ApiKey.objects.filter(name=name).count()


class Counting(APIView):
    """Answers with how often it was called."""

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


def test_the_same_key_and_body_gives_the_first_answer_again(api):
    first, second = post(api), post(api)

    assert (first.status_code, second.status_code) == (201, 201)
    assert second.content == first.content
    assert second["Content-Type"] == first["Content-Type"]
    assert second["Idempotent-Replayed"] == "true"
    assert "Idempotent-Replayed" not in first
    assert made("one") == 1


def test_another_body_under_the_same_key_is_refused(api):
    post(api)
    refused = post(api, name="two")

    assert (refused.status_code, refused.json()["code"]) == (422, "idempotency_mismatch")
    assert made("two") == 0


def test_another_path_under_the_same_key_is_refused(api, counting):
    post(api)

    assert post(api, path="/api/count/").status_code == 422
    assert counting.calls == 0


def test_without_the_header_every_request_counts(api):
    for _ in range(2):
        api.post(KEYS, {"name": "one"}, format="json")

    assert made("one") == 2


def test_keys_of_different_identities_do_not_meet(api, workspace, foreign_api):
    secrets = {post(client).json()["key"] for client in (api, key_client(workspace), foreign_api)}

    assert len(secrets) == 3


def test_a_browser_has_it_too(browser_client):
    for _ in range(2):
        browser_client.post(
            KEYS,
            {"name": "one"},
            content_type="application/json",
            headers={"Idempotency-Key": "b"},
        )

    assert made("one") == 1


def test_an_answer_is_kept_without_showing_its_secret(api):
    secret = post(api).json()["key"]
    kept = IdempotentAnswer.objects.get()

    assert secret.encode() not in bytes(kept.body)
    assert b"one" not in bytes(kept.body)


def test_an_invalid_request_is_remembered_as_invalid(api):
    first, second = post(api, name=""), post(api, name="")

    assert (first.status_code, second.status_code) == (400, 400)
    assert second["Idempotent-Replayed"] == "true"
    assert second["Content-Type"] == "application/problem+json"


@pytest.mark.parametrize("status", [500, 503, 403, 429])
def test_an_answer_that_may_change_is_not_kept(api, counting, status):
    counting.status = status
    post(api, path="/api/count/")
    counting.status = 200
    again = post(api, path="/api/count/")

    assert (again.status_code, again.json()["calls"]) == (200, 2)


def test_a_stream_is_not_kept(api, counting):
    for _ in range(2):
        b"".join(post(api, path="/api/stream/").streaming_content)

    assert counting.calls == 2
    assert not IdempotentAnswer.objects.exists()


def test_without_identity_the_answer_is_401_every_time(client, db):
    for _ in range(2):
        answer = client.post(KEYS, {}, headers={"Idempotency-Key": "x"})
        assert answer.status_code == 401
        assert "Idempotent-Replayed" not in answer
    assert not IdempotentAnswer.objects.exists()


def test_a_key_that_was_revoked_gets_no_old_answer(api):
    post(api)
    ApiKey.objects.update(revoked_at=timezone.now())

    assert post(api).status_code == 401


def test_repetitions_are_throttled_like_any_request(api, settings):
    settings.REQUESTS_PER_MINUTE = 1
    buckets.empty()
    statuses = [post(api).status_code for _ in range(MIN_BURST + 2)]
    buckets.empty()

    assert (statuses[0], statuses[-1]) == (201, 429)


@pytest.mark.parametrize("word", ["", "x" * 256])
def test_an_odd_key_is_refused(api, word):
    assert post(api, word).status_code == 400


def test_a_first_request_that_died_is_taken_over_after_a_while(api, monkeypatch):
    monkeypatch.setattr("tenants.idempotency.PATIENCE_SECONDS", 0)
    post(api)
    IdempotentAnswer.objects.update(status=None)

    waiting = post(api)
    assert (waiting.status_code, waiting.json()["code"]) == (409, "idempotency_in_flight")
    assert waiting["Retry-After"]

    IdempotentAnswer.objects.update(created_at=timezone.now() - STALE - timedelta(seconds=1))
    assert post(api, name="two").status_code == 422
    assert post(api).status_code == 201
    assert made("one") == 2


def test_answers_are_forgotten_after_a_day(api):
    post(api)
    post(api, "w-2", name="two")
    old = IdempotentAnswer.objects.earliest("pk")
    IdempotentAnswer.objects.filter(pk=old.pk).update(created_at=timezone.now() - LIFE * 1.01)

    assert forget_old_answers() == 1
    assert post(api).status_code == 201
    assert made("one") == 2
    assert post(api, "w-2", name="two")["Idempotent-Replayed"]


def test_an_old_answer_counts_as_forgotten_before_it_is_swept(api):
    post(api)
    IdempotentAnswer.objects.update(created_at=timezone.now() - LIFE * 1.01)

    assert post(api, name="two").status_code == 201


@pytest.mark.django_db(transaction=True)
def test_of_two_requests_at_once_one_runs_and_the_other_waits_for_its_answer(
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
def test_whoever_waited_for_an_answer_that_is_not_kept_asks_anew(workspace, counting, monkeypatch):
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
def test_whoever_waited_too_long_is_told_to_come_again(workspace, counting, monkeypatch):
    monkeypatch.setattr("tenants.idempotency.PATIENCE_SECONDS", 0)
    client = key_client(workspace)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(send_slow, client)
        assert counting.entered.wait(20)
        status, said = pool.submit(send_slow, client).result()
        counting.hold.set()
        assert (status, said["code"], first.result()[0]) == (409, "idempotency_in_flight", 200)


def send_slow(client) -> tuple[int, dict]:
    try:
        answer = post(client, name="slow", path="/api/count/")
        return answer.status_code, answer.json()
    finally:
        connection.close()


@pytest.mark.django_db(transaction=True)
def test_a_crowd_with_one_key_makes_one_thing(workspace):
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
    assert made("crowd") == 1
