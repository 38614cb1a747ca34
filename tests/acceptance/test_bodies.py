"""Tests that every endpoint refuses malformed JSON, and numbers in place of text."""

from __future__ import annotations

import pytest

from agents.models import Agent
from core.throttling import buckets
from sessions_app.models import Approval, Session
from tests.acceptance.owned_routes import OWNED
from tests.acceptance.routes import all_routes
from tests.factories import make

API_ROUTES = {route.path: route for route in all_routes() if route.is_api}
#: Endpoints that take a file or no body.
NOT_JSON = ("/files/", "/import/", "/pause/", "/resume/")
MALFORMED = [
    "{",
    "\xff",
    "NaN",
    "[" * 100_000,
    '{"a":' * 100_000,
    '{"name": "\\ud800"}',
    "9" * 5000,
]


@pytest.fixture(autouse=True)
def fresh_buckets():
    buckets.empty()


@pytest.mark.parametrize("path", [path for path in API_ROUTES if not path.endswith(NOT_JSON)])
def test_malformed_json_is_refused_by_every_endpoint(path, workspace, api):
    route = API_ROUTES[path]
    arguments: dict[str, object] = {"name": "gemini"}
    if path in OWNED:
        arguments = OWNED[path](workspace)
    for method in set(route.methods) & {"post", "put", "patch"}:
        for body in MALFORMED:
            answer = getattr(api, method)(
                route.at(arguments), body.encode("latin-1"), content_type="application/json"
            )
            if answer.status_code == 429:
                buckets.empty()
            if answer.status_code < 300:
                break  # The endpoint reads no body.
            assert answer.status_code < 500, (method, body[:20], answer.content)
            # The door for OpenAI's clients has OpenAI's shape of errors.
            kind = "application/json" if path.startswith("/v1/") else "application/problem+json"
            assert answer["Content-Type"] == kind


TEXTS = [
    ("keys/", {"name": 5}),
    ("vault/", {"name": "TOKEN", "value": 5}),
    ("webhooks/", {"url": "https://example.com/", "events": [5]}),
    ("sessions/", {"agent": "Concierge", "title": 5}),
    ("sessions/", {"agent": "Concierge", "session_key": 5}),
    ("runtime/", {"agent": "Concierge", "session_key": "k", "message": 5}),
    ("builder/", {"message": 5}),
    ("workflows/", {"name": "ask", "id": 5}),
    ("sessions/{session}/messages/", {"text": 5}),
    ("sessions/{session}/events/", {"type": 5}),
    ("sessions/{session}/interrupt/", {"note": 5}),
    ("agents/{agent}/policy/explain/", {"tool": 5}),
    ("approvals/{approval}/", {"decision": "allow", "note": 5}),
]


@pytest.mark.parametrize(("path", "body"), TEXTS)
def test_a_number_in_place_of_text_is_refused(path, body, workspace, api):
    models = {"approval": Approval, "session": Session, "agent": Agent}
    names = {name: make(model, workspace).pk for name, model in models.items()}
    answer = api.post(f"/api/v1/{path.format(**names)}", body, format="json")

    assert (answer.status_code, answer.json()["code"]) == (400, "invalid"), answer.content
    assert [error["field"].split(".")[0] for error in answer.json()["errors"]] == [list(body)[-1]]
