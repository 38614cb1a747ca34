"""Tests which responses are compressed."""

from __future__ import annotations

import gzip
import re

import pytest
from django.conf import settings
from django.http import HttpResponse, StreamingHttpResponse
from django.test import RequestFactory

from core.middleware import CompressionMiddleware

LONG = "word " * 1_000


def answered(response, accepts: str = "gzip, br"):
    request = RequestFactory().get("/", HTTP_ACCEPT_ENCODING=accepts)
    return CompressionMiddleware(lambda _: response)(request)


@pytest.mark.parametrize("kind", ["text/html; charset=utf-8", "application/json"])
def test_a_long_text_is_compressed(kind):
    response = answered(HttpResponse(LONG, content_type=kind))

    assert response["Content-Encoding"] == "gzip"
    assert "Accept-Encoding" in response["Vary"]
    assert len(response.content) < len(LONG) / 5
    assert gzip.decompress(response.content).decode() == LONG


@pytest.mark.parametrize(
    ("response", "accepts"),
    [
        (HttpResponse("short"), "gzip"),
        (HttpResponse(LONG), "identity"),
        (HttpResponse(LONG, content_type="image/png"), "gzip"),
        (StreamingHttpResponse([LONG], content_type="text/html"), "gzip"),
        (StreamingHttpResponse([LONG], content_type="text/event-stream"), "gzip"),
    ],
)
def test_other_responses_are_sent_as_they_are(response, accepts):
    assert "Content-Encoding" not in answered(response, accepts)


def test_the_same_page_has_another_length_each_time():
    lengths = {len(answered(HttpResponse(LONG)).content) for _ in range(20)}

    assert len(lengths) > 1


def test_pages_are_compressed_through_the_whole_chain(browser_client):
    page = browser_client.get("/chat/", headers={"accept-encoding": "gzip"})

    assert page["Content-Encoding"] == "gzip"
    assert b"Choose an agent" in gzip.decompress(page.content)


def test_only_names_with_a_hash_are_immutable():
    names = re.compile(settings.WHITENOISE_IMMUTABLE_FILE_TEST)

    assert names.search("/static/dist/assets/chat-V3Kj9jtc.js")
    assert names.search("/static/dist/assets/chat-list-CWV1G9_-.css")
    assert not names.search("/static/dist/manifest.json")
    assert not names.search("/static/theme.js")
