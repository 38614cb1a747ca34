"""Tests that each search service is called as documented and its results have one format."""

from __future__ import annotations

import json
from threading import Event, Timer

import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from tools_app.exceptions import ToolFailed, ToolStopped
from tools_app.registry import registry

PANDAS = [
    ("Red pandas", "https://zoo.example/red", "They are red."),
    ("More", "https://b.example/", ""),
]


@pytest.fixture
def configure(settings, httpserver: HTTPServer):
    def configure(provider: str, path: str, *, key: str = "secret-key") -> None:
        settings.WEB_SEARCH_PROVIDER = provider
        settings.WEB_SEARCH_KEY = key
        settings.OPERATOR_KEYS = "all"
        settings.WEB_SEARCH_URL = httpserver.url_for(path)

    return configure


def check(answer: str) -> None:
    assert "untrusted content from the web" in answer
    assert "1. Red pandas\n   https://zoo.example/red\n   They are red." in answer
    assert "2. More" in answer
    assert "javascript:" not in answer


def test_brave_is_called_with_its_token(call, configure, httpserver):
    configure("brave", "/res/v1/web/search")
    rows = [{"title": t, "url": u, "description": d} for t, u, d in PANDAS]
    rows.append({"title": "bad", "url": "javascript:x", "description": ""})

    def brave(request: Request) -> Response:
        assert request.headers["X-Subscription-Token"] == "secret-key"
        assert request.headers["Accept"] == "application/json"
        assert request.args.to_dict() == {"q": "red pandas", "count": "8"}
        return Response(json.dumps({"type": "search", "web": {"results": rows}}))

    httpserver.expect_request("/res/v1/web/search", method="GET").respond_with_handler(brave)

    check(call("web_search", query="red pandas"))
    httpserver.check_assertions()


def test_serper_is_called_with_post(call, configure, httpserver):
    configure("serper", "/search")
    rows = [{"title": t, "link": u, "snippet": d, "position": 1} for t, u, d in PANDAS]

    def serper(request: Request) -> Response:
        assert request.headers["X-API-KEY"] == "secret-key"
        assert request.headers["Content-Type"] == "application/json"
        assert request.json == {"q": "red pandas", "num": 3}
        return Response(json.dumps({"organic": rows, "credits": 1}))

    httpserver.expect_request("/search", method="POST").respond_with_handler(serper)

    check(call("web_search", query="red pandas", count=3))
    httpserver.check_assertions()


def test_searxng_is_called_for_json_without_a_key(call, configure, httpserver):
    configure("searxng", "/", key="")
    rows = [{"title": t, "url": u, "content": d, "engine": "x"} for t, u, d in PANDAS]

    def searxng(request: Request) -> Response:
        assert request.args.to_dict() == {"q": "red pandas", "format": "json"}
        return Response(json.dumps({"query": "red pandas", "results": rows}))

    httpserver.expect_request("/search", method="GET").respond_with_handler(searxng)

    check(call("web_search", query="red pandas"))
    httpserver.check_assertions()


@pytest.mark.parametrize(
    ("provider", "key", "url"),
    [("", "", ""), ("bing", "k", ""), ("brave", "", ""), ("serper", "", ""), ("searxng", "", "")],
)
def test_a_missing_configuration_is_reported_with_instructions(call, settings, provider, key, url):
    settings.WEB_SEARCH_PROVIDER = provider
    settings.WEB_SEARCH_KEY = key
    settings.WEB_SEARCH_URL = url

    with pytest.raises(ToolFailed) as failed:
        call("web_search", query="x")
    for name in ("WEB_SEARCH_PROVIDER", "WEB_SEARCH_KEY", "WEB_SEARCH_URL", "brave", "searxng"):
        assert name in failed.value.detail


@pytest.mark.parametrize(
    ("provider", "answer", "words"),
    [
        ("brave", Response("no", status=401), "check WEB_SEARCH_KEY"),
        ("searxng", Response("no", status=403), "search.formats"),
        ("serper", Response("no", status=429), "Try again later"),
        ("brave", Response("no", status=500), "answered 500"),
        ("brave", Response("<html>"), "JSON"),
        ("brave", Response("[1]"), "unexpected response"),
        ("searxng", Response("{}"), "unexpected response"),
        ("brave", Response(b"x" * 2_100_000), "too large a response"),
        ("brave", Response("", status=302, headers={"Location": "/x"}), "answered 302"),
    ],
)
def test_a_failing_service_is_reported_without_the_key(
    call, configure, httpserver, provider, answer, words
):
    configure(provider, "/search")
    httpserver.expect_request("/search").respond_with_response(answer)

    with pytest.raises(ToolFailed) as failed:
        call("web_search", query="x")
    assert words in failed.value.detail
    assert "secret-key" not in failed.value.detail


def test_an_empty_result_is_reported(call, configure, httpserver):
    configure("brave", "/search")
    httpserver.expect_request("/search").respond_with_json({"type": "search"})

    assert "found nothing" in call("web_search", query="x")


def test_a_search_can_be_stopped_while_the_service_is_silent(configure, httpserver, make_context):
    configure("brave", "/search")
    release = Event()
    httpserver.expect_request("/search").respond_with_handler(
        lambda _: (release.wait(10), Response("{}"))[1]
    )
    stopped = Event()
    Timer(0.2, stopped.set).start()

    with pytest.raises(ToolStopped):
        registry["web_search"].call({"query": "x"}, make_context(stopped=stopped))
    release.set()


@pytest.mark.django_db
@pytest.mark.parametrize("setting", ["staff", "none"])
def test_the_operators_key_searches_for_no_tenant(
    configure, httpserver, settings, make_context, foreign_workspace, setting
):
    configure("brave", "/search")
    settings.OPERATOR_KEYS = setting
    tool, context = registry["web_search"], make_context(workspace_id=foreign_workspace.pk)

    with pytest.raises(ToolFailed, match="does not serve this workspace"):
        tool.call({"query": "x"}, context)
    assert httpserver.log == []


@pytest.mark.django_db
def test_the_operators_key_searches_for_the_operators_workspaces(
    configure, httpserver, settings, make_context, workspace, operator
):
    configure("brave", "/search")
    settings.OPERATOR_KEYS = "staff"
    httpserver.expect_request("/search").respond_with_json({"type": "search"})

    found = registry["web_search"].call({"query": "x"}, make_context(workspace_id=workspace.pk))
    assert "found nothing" in found


def test_a_server_without_a_key_searches_for_everyone(configure, httpserver, settings, call):
    configure("searxng", "/search", key="")
    settings.OPERATOR_KEYS = "none"
    httpserver.expect_request("/search").respond_with_json({"results": []})

    assert "found nothing" in call("web_search", query="x")
