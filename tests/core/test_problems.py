"""Tests that errors are problem+json for programs and pages for people."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from django.core.exceptions import PermissionDenied, SuspiciousOperation, ValidationError
from django.db import OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from django.test import Client, override_settings
from django.urls import include, path
from pydantic import BaseModel
from rest_framework import exceptions as rest_errors
from rest_framework import serializers
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from core.exceptions import (
    Conflict,
    Forbidden,
    InvalidFields,
    NotFound,
    StaleWrite,
    Unauthenticated,
)
from core.problems import CONTENT_TYPE, problem_of
from tenants.exceptions import LastOwner
from tests.factories.sessions_app import session as make_session

MEMBERS = {"type", "title", "status", "detail", "code", "errors", "request_id"}


class Limits(serializers.Serializer):
    pids = serializers.IntegerField(max_value=10)


class Input(serializers.Serializer):
    name = serializers.CharField()
    limits = Limits()
    hosts = serializers.ListField(child=serializers.URLField(), default=list)


class Shape(BaseModel):
    count: int


RAISED = {
    "fault": LastOwner(),
    "boom": RuntimeError("the password is hunter2"),
    "denied": PermissionDenied("inside"),
    "suspicious": SuspiciousOperation("inside"),
    "database": OperationalError("inside"),
    "model": ValidationError({"name": ["Too short."]}),
}


class Raising(APIView):
    authentication_classes = []
    permission_classes = [AllowAny]

    def get(self, request: Request, kind: str) -> Response:
        if kind == "pydantic":
            Shape.model_validate({"count": "many"})
        raise RAISED[kind]

    def post(self, request: Request, kind: str) -> Response:
        asked = Input(data=request.data)
        asked.is_valid(raise_exception=True)
        return Response(asked.data)


def plain(request: HttpRequest) -> HttpResponse:
    raise RuntimeError("secret of the plain view")


def page(request: HttpRequest, kind: str) -> HttpResponse:
    raise {"unknown": NotFound, "closed": Unauthenticated, "taken": Conflict, "no": Forbidden}[kind]


urlpatterns = [
    path("api/raise/<kind>/", Raising.as_view()),
    path("api/plain/", plain),
    path("page/<kind>/", page),
    path("", include("config.urls")),
]
handler400 = "core.problems.bad_request"
handler403 = "core.problems.permission_denied"
handler404 = "core.problems.page_not_found"
handler500 = "core.problems.server_error"

pytestmark = pytest.mark.django_db


@pytest.fixture
def browser() -> Iterator[Client]:
    with override_settings(ROOT_URLCONF=__name__):
        yield Client(raise_request_exception=False)


@pytest.mark.parametrize(
    ("kind", "status", "code"),
    [
        ("fault", 409, "last_owner"),
        ("boom", 500, "unexpected"),
        ("denied", 403, "forbidden"),
        ("suspicious", 400, "refused"),
        ("database", 503, "unavailable"),
        ("model", 400, "invalid"),
        ("pydantic", 400, "invalid"),
    ],
)
def test_every_exception_of_a_rest_view_is_a_problem(browser, kind, status, code):
    answer = browser.get(f"/api/raise/{kind}/")

    assert answer.status_code == status
    assert answer["Content-Type"] == CONTENT_TYPE
    body = answer.json()
    assert set(body) == MEMBERS
    assert (body["status"], body["code"]) == (status, code)
    assert body["request_id"] == answer["X-Request-ID"]


@pytest.mark.parametrize("path", ["/api/raise/boom/", "/api/plain/"])
def test_an_unexpected_error_reveals_only_its_request_id(browser, path, caplog):
    with caplog.at_level(logging.ERROR):
        answer = browser.get(path)

    assert answer.status_code == 500
    assert answer.json()["code"] == "unexpected"
    assert "hunter2" not in answer.content.decode()
    assert "plain view" not in answer.content.decode()
    recorded = [record.msg for record in caplog.records if isinstance(record.msg, dict)]
    failed = [line for line in recorded if line["event"] == "request_failed"]
    assert [line["request_id"] for line in failed] == [answer["X-Request-ID"]]
    assert "RuntimeError" in failed[0]["exception"]


def test_invalid_input_names_the_invalid_fields(browser):
    answer = browser.post(
        "/api/raise/x/",
        {"limits": {"pids": 99}, "hosts": ["https://a.example", "no"]},
        content_type="application/json",
    )

    assert answer.status_code == 400
    errors = {error["field"]: error for error in answer.json()["errors"]}
    assert set(errors) == {"name", "limits.pids", "hosts.1"}
    assert errors["name"]["code"] == "required"
    assert errors["limits.pids"]["pointer"] == "#/limits/pids"
    assert errors["limits.pids"]["message"]
    detail = answer.json()["detail"]
    assert all(f"{field}: {error['message']}" in detail for field, error in errors.items())


@pytest.mark.parametrize("body", ["{not json", "[" * 100_000], ids=["broken", "deep"])
def test_broken_json_is_a_problem(browser, body):
    answer = browser.post("/api/raise/x/", body, content_type="application/json")

    assert (answer.status_code, answer.json()["code"]) == (400, "malformed")


def test_an_unknown_media_type_is_a_problem(browser):
    answer = browser.post("/api/raise/x/", "<a/>", content_type="text/xml")

    assert (answer.status_code, answer.json()["code"]) == (415, "unsupported_media_type")
    assert "application/json" in answer.json()["detail"]


def test_a_path_that_accepts_files_names_the_media_type(api, workspace):
    answer = api.post(f"/api/v1/sessions/{make_session(workspace).pk}/files/", {}, format="json")

    assert answer.status_code == 415
    assert answer.json()["detail"].endswith("This path accepts multipart/form-data.")


def test_the_error_for_an_unknown_format_names_the_known_one(api):
    answer = api.get("/api/v1/me/", headers={"Accept": "application/xml"})

    assert (answer.status_code, answer.json()["code"]) == (406, "not_acceptable")
    assert "application/json" in answer.json()["detail"]


def test_a_post_without_the_trailing_slash_is_redirected_unchanged(api):
    answer = api.post("/api/v1/keys", {"name": "CI"}, format="json")

    assert (answer.status_code, answer["Location"]) == (308, "/api/v1/keys/")


@pytest.mark.parametrize("path", ["/hooks/%00/", "/api/v1/sessions/%00/"])
def test_a_path_with_a_nul_character_is_not_found(client, path):
    answer = client.post(path)

    assert (answer.status_code, answer["Content-Type"]) == (404, CONTENT_TYPE)


def test_a_socket_path_without_an_upgrade_is_a_problem(client):
    answer = client.get("/ws/sessions/x/")

    assert (answer.status_code, answer["Content-Type"]) == (404, CONTENT_TYPE)


def test_an_unknown_path_of_the_api_is_a_problem(browser):
    answer = browser.get("/api/v1/nothing/")

    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert answer["Content-Type"] == CONTENT_TYPE


def test_a_wrong_method_is_a_problem_that_lists_the_right_ones(api):
    answer = api.put("/api/v1/me/", {}, format="json")

    assert (answer.status_code, answer.json()["code"]) == (405, "method_not_allowed")
    assert "GET" in answer["Allow"]
    assert "Allow" in answer.json()["detail"]


def test_a_request_that_is_too_large_is_a_problem(api):
    with override_settings(DATA_UPLOAD_MAX_MEMORY_SIZE=100):
        answer = api.post(
            "/api/v1/keys/", {"name": "x" * 200}, format="json", headers={"Idempotency-Key": "big"}
        )

    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")


def test_a_request_without_an_identity_is_a_problem_with_a_challenge(client):
    answer = client.get("/api/v1/me/")

    assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
    assert answer["WWW-Authenticate"].startswith("Bearer")


def test_a_fault_in_a_page_is_a_page_with_its_status(browser):
    answer = browser.get("/page/taken/")

    assert answer.status_code == 409
    assert answer["Content-Type"].startswith("text/html")
    assert Conflict().detail in answer.content.decode()


def test_a_page_without_an_identity_redirects_to_sign_in_and_back(browser):
    answer = browser.get("/page/closed/?a=1")

    assert answer.status_code == 302
    assert answer["Location"].endswith("?next=/page/closed/%3Fa%3D1")


def test_an_unexpected_exception_has_no_problem():
    assert problem_of(KeyError("x")) is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Http404(), NotFound("This session has no call 'x'.")),
        (rest_errors.ValidationError({"name": ["Too short."]}), InvalidFields()),
        (rest_errors.NotAuthenticated(), Unauthenticated()),
        (PermissionDenied(), Forbidden()),
        (StaleWrite(), Conflict()),
    ],
)
def test_problems_of_one_type_have_one_title(one, other):
    ours, theirs = problem_of(one), problem_of(other)

    assert ours
    assert theirs
    assert (ours.code, ours.title) == (theirs.code, theirs.title)
