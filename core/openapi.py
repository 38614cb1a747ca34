"""Adds authentication, problems and idempotency to the OpenAPI document, and serves it."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from django.http import HttpResponse
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.renderers import OpenApiJsonRenderer2, OpenApiYamlRenderer
from drf_spectacular.utils import extend_schema
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView
from rest_framework.request import Request

Schema = dict[str, Any]

PROBLEM: Schema = {
    "type": "object",
    "description": "A problem detail (RFC 9457).",
    "required": ["type", "title", "status", "detail", "code", "errors", "request_id"],
    "properties": {
        "type": {"type": "string", "example": "urn:switchyard:problem:not_found"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "code": {"type": "string", "description": "A stable identifier for programs."},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["field", "pointer", "message", "code"],
                "properties": {
                    "field": {"type": "string", "example": "limits.pids"},
                    "pointer": {"type": "string", "example": "#/limits/pids"},
                    "message": {"type": "string"},
                    "code": {"type": "string"},
                },
            },
        },
        "request_id": {"type": "string"},
    },
    "additionalProperties": {
        "description": "Members of specific problems, such as `current`, the state that conflicted with a stale write."
    },
}
IDEMPOTENCY_KEY: Schema = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "Repeating a request with the same key and body within a day returns the first response.",
    "schema": {"type": "string", "maxLength": 255},
}
#: The problems that any authenticated operation may return.
REFUSALS = {
    "401": "The credentials are missing or not valid.",
    "403": "The caller lacks the permission.",
    "404": "The object does not exist, or belongs to another workspace.",
    "429": "Too many requests; `Retry-After` says when to retry.",
}
#: The problems that any POST may return in addition.
POST_REFUSALS = {
    "409": "The current state does not allow it, or the first request with this Idempotency-Key is still running.",
    "422": "The Idempotency-Key was already used with another path or body.",
}
METHODS = frozenset({"get", "post", "put", "patch", "delete"})


def describe_problems(result: Schema, **kwargs: Any) -> Schema:
    """Add the shared problems and the Idempotency-Key header to every operation."""
    result.setdefault("components", {}).setdefault("schemas", {})["Problem"] = PROBLEM
    for path in result["paths"].values():
        for method, operation in path.items():
            if method in METHODS:
                _describe(method, operation)
    return result


def _describe(method: str, operation: Schema) -> None:
    known = dict(REFUSALS) if operation.get("security", [{}]) != [{}] else {}
    if "requestBody" in operation or operation.get("parameters") or (known and method == "post"):
        known["400"] = "The input is not valid; `errors` says where."
    for status, description in known.items():
        operation["responses"].setdefault(status, _problem(description))
    if method == "post" and known:
        operation.setdefault("parameters", []).append(IDEMPOTENCY_KEY)
        for status, description in POST_REFUSALS.items():
            operation["responses"].setdefault(status, _problem(description))
    for status, response in operation["responses"].items():
        if status >= "400" and "content" not in response:
            response |= _problem(response["description"])
    operation["responses"].setdefault("default", _problem("Any other problem."))


def _problem(description: str) -> Schema:
    schema = {"$ref": "#/components/schemas/Problem"}
    return {
        "description": description,
        "content": {"application/problem+json": {"schema": schema}},
    }


class KeyScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = "tenants.authentication.KeyAuthentication"
    name = ["apiKey", "bearerKey"]
    priority = 1

    def get_security_definition(self, auto_schema: AutoSchema) -> list[Schema]:
        return [
            {"type": "apiKey", "in": "header", "name": "x-api-key"},
            {"type": "http", "scheme": "bearer", "description": "The API key as a bearer token."},
        ]

    def get_security_requirement(self, auto_schema: AutoSchema) -> list[dict[str, list[Any]]]:
        """Return the two headers as alternatives."""
        return [{"apiKey": []}, {"bearerKey": []}]


class BrowserScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = "tenants.authentication.BrowserAuthentication"
    name = "browserSession"

    def get_security_definition(self, auto_schema: AutoSchema) -> Schema:
        return {"type": "apiKey", "in": "cookie", "name": "sessionid"}


@lru_cache(maxsize=2)
def rendered_schema(kind: str) -> bytes:
    """Return the document, which is the same for everyone and slow to generate, so it is cached."""
    document = SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    renderer = OpenApiJsonRenderer2() if kind == "json" else OpenApiYamlRenderer()
    text = renderer.render(document, renderer_context={})
    return text.encode() if isinstance(text, str) else text


class SchemaView(SpectacularAPIView):
    """Serves YAML, or JSON if requested by `Accept` or `?format=json`."""

    renderer_classes = [OpenApiYamlRenderer, OpenApiJsonRenderer2]

    @extend_schema(exclude=True)
    def get(self, request: Request, *args: Any, **kwargs: Any) -> HttpResponse:
        renderer = request.accepted_renderer
        return HttpResponse(rendered_schema(renderer.format), content_type=renderer.media_type)


class DocsView(SpectacularSwaggerSplitView):
    """Serves Swagger UI without inline scripts or styles, as the content security policy demands."""

    template_name = "tenants/api_docs.html"
