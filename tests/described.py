"""Checks the responses of the API against the OpenAPI document."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

import jsonschema_rs
from django.http import HttpResponse
from rest_framework.test import APIClient

from core.openapi import rendered_schema

JSON = dict[str, Any]


class DescribedClient(APIClient):
    """Fails the test when a response does not match the document."""

    def request(self, **request: Any) -> Any:
        answer: Any = super().request(**request)
        complaints = differences(request["REQUEST_METHOD"], request["PATH_INFO"], answer)
        assert not complaints, "\n".join(complaints)
        return answer


def differences(method: str, path: str, answer: HttpResponse) -> list[str]:
    """Return how a response differs from the document; unknown paths are ignored."""
    named = next((one for one in _paths() if re.fullmatch(one[0], path)), None)
    if named is None or answer.status_code in {301, 405, 308}:
        return []
    operation = named[2].get(method.lower())
    if operation is None or answer.streaming:
        return []
    place = f"{method} {named[1]} {answer.status_code}"
    said = operation["responses"].get(str(answer.status_code))
    if said is None and answer.status_code < 400:
        return [f"{place} is not described"]
    content = (said or operation["responses"]["default"]).get("content", {})
    kind = answer.get("Content-Type", "").split(";")[0]
    if not content and not answer.content:
        return []
    if kind not in content:
        return [f"{place} is described as {list(content)} and came as {kind!r}"]
    if not kind.endswith("json"):
        return []
    shape = _validator(json.dumps(content[kind]["schema"]))
    return [
        f"{place} at {list(error.instance_path)}: {error.message[-300:]}"
        for error in shape.iter_errors(json.loads(answer.content))
    ]


@cache
def _document() -> JSON:
    return _as_json_schema(json.loads(rendered_schema("json")))


@cache
def _paths() -> list[tuple[str, str, JSON]]:
    """Return paths without variables first: `memory/search/` is no document named `search`."""
    paths = sorted(_document()["paths"].items(), key=lambda item: item[0].count("{"))
    return [(re.sub(r"\\{[^}]+\\}", "[^/]+", re.escape(path)), path, item) for path, item in paths]


@cache
def _validator(schema: str) -> Any:
    whole = {**json.loads(schema), "components": _document()["components"]}
    return jsonschema_rs.Draft202012Validator(whole, validate_formats=True)


def _as_json_schema(node: Any) -> Any:
    """Convert to JSON Schema: `nullable` becomes a type, and unnamed properties are forbidden."""
    if isinstance(node, list):
        return [_as_json_schema(one) for one in node]
    if not isinstance(node, dict):
        return node
    node = {key: _as_json_schema(one) for key, one in node.items()}
    if node.get("type") == "object" and isinstance(node.get("properties"), dict):
        node.setdefault("additionalProperties", False)
    if node.pop("nullable", None) is True:
        return {"anyOf": [node, {"type": "null"}]}
    return node
