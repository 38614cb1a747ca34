"""Tests that the OpenAPI document is complete and that its pages obey the security policy."""

from __future__ import annotations

import re
from io import StringIO

import pytest
import yaml
from django.core.management import call_command
from django.http import HttpResponse, JsonResponse

from core.openapi import METHODS
from tests.described import differences

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def schema() -> dict:
    out = StringIO()
    call_command("spectacular", "--validate", "--fail-on-warn", stdout=out)
    return yaml.safe_load(out.getvalue())


def operations(schema: dict):
    for path, item in schema["paths"].items():
        for method, operation in item.items():
            if method in METHODS:
                yield f"{method.upper()} {path}", operation


def test_the_document_is_valid_and_has_no_warnings(schema):
    assert schema["openapi"].startswith("3.")
    assert "/api/v1/keys/" in schema["paths"]
    assert "/api/v1/health/" in schema["paths"]


def test_every_operation_that_acts_has_a_description(schema):
    silent = [
        name
        for name, operation in operations(schema)
        if not operation.get("description") and not name.startswith(("GET", "PUT", "PATCH"))
    ]

    assert silent == []


def test_every_authenticated_operation_describes_its_refusals_as_problems(schema):
    for name, operation in operations(schema):
        # The health check is public; an incoming webhook authenticates by its signature.
        if "health" in operation["operationId"] or operation["operationId"] == "hooks_receive":
            continue
        assert {"apiKey": []} in operation["security"], name
        for status in ("401", "403", "404", "429"):
            content = operation["responses"][status]["content"]
            assert "application/problem+json" in content, name


def test_every_error_response_is_described_as_a_problem(schema):
    for name, operation in operations(schema):
        refusals = {"default": operation["responses"]["default"]} | {
            status: response
            for status, response in operation["responses"].items()
            if status.startswith("4")
        }
        for status, response in refusals.items():
            assert "application/problem+json" in response["content"], f"{name} {status}"


@pytest.mark.parametrize(
    ("method", "path", "answer", "complaint"),
    [
        ("GET", "/api/v1/me/", HttpResponse(status=202), "202 is not described"),
        ("GET", "/api/v1/me/", HttpResponse("hello"), "came as 'text/html'"),
        ("GET", "/api/v1/me/", JsonResponse({}, status=402), "came as 'application/json'"),
        ("GET", "/api/v1/keys/", JsonResponse({"next": None}), '"results" is a required property'),
        ("DELETE", "/api/v1/keys/k1/", JsonResponse({}, status=204), "described as []"),
    ],
)
def test_a_response_that_is_not_described_is_detected(method, path, answer, complaint):
    assert any(complaint in one for one in differences(method, path, answer))


def test_a_field_that_is_not_described_is_detected(api):
    answer = api.get("/api/v1/me/")
    more = JsonResponse({**answer.json(), "shoe_size": 43})

    assert differences("GET", "/api/v1/me/", answer) == []
    assert "shoe_size" in differences("GET", "/api/v1/me/", more)[0]


def test_every_post_may_carry_an_idempotency_key(schema):
    posts = [one for name, one in operations(schema) if name.startswith("POST")]

    assert posts
    for operation in posts:
        assert "Idempotency-Key" in {given["name"] for given in operation["parameters"]}
        assert {"400", "409"} <= operation["responses"].keys()


def test_every_list_has_the_common_shape(schema):
    for name, operation in operations(schema):
        said = operation["responses"].get("200", {}).get("content", {})
        shape = said.get("application/json", {}).get("schema", {})
        shape = schema["components"]["schemas"].get(shape.get("$ref", "").split("/")[-1], shape)
        assert shape.get("type") != "array", name
        if "results" in shape.get("properties", {}):
            assert {"next", "previous"} <= shape["properties"].keys(), name


def test_nullable_fields_are_described_as_nullable(schema):
    shape = schema["components"]["schemas"]["Provider"]["properties"]

    assert all(shape[one]["nullable"] for one in ("checked_at", "created_by", "created_at"))
    usage = schema["paths"]["/api/v1/usage/"]["get"]["responses"]["200"]["content"]
    assert usage.keys() == {"application/json", "text/csv"}


@pytest.mark.parametrize("accept", ["application/vnd.oai.openapi", "application/json"])
def test_the_document_is_public_and_generated_once(client, accept, django_assert_num_queries):
    first = client.get("/api/schema/", headers={"Accept": accept})

    assert first.status_code == 200
    assert b"/api/v1/keys/" in first.content
    with django_assert_num_queries(0):
        assert client.get("/api/schema/", headers={"Accept": accept}).content == first.content


def test_the_docs_contain_no_inline_script_or_style(client):
    answer = client.get("/api/docs/")
    text = answer.content.decode()

    assert answer.status_code == 200
    assert "unsafe-inline" not in answer["Content-Security-Policy"]
    for tag in re.findall(r"<script[^>]*>", text):
        assert " src=" in tag
    assert "<style" not in text
    assert " style=" not in text
    script = re.search(r'<script src="(/api/docs/[^"]*)"', text)
    assert script
    assert client.get(script[1])["Content-Type"].startswith("application/javascript")
