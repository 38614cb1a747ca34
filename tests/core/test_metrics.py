"""Tests that requests are counted as django-prometheus counts them, in fewer steps."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.test import RequestFactory
from django_prometheus.middleware import PrometheusAfterMiddleware
from prometheus_client import REGISTRY

from core.middleware import MetricsMiddleware


def totals() -> Counter[Any]:
    """Return all samples except times."""
    return Counter(
        {
            (sample.name, *sorted(sample.labels.items())): sample.value
            for metric in REGISTRY.collect()
            if metric.name.startswith("django_http")
            for sample in metric.samples
            if not sample.name.endswith(("_created", "_sum")) and "le" not in sample.labels
        }
    )


def request_of(**more: Any) -> HttpRequest:
    request = RequestFactory().post("/x/", b"body", content_type="text/plain", **more)
    request.resolver_match = type("Match", (), {"view_name": "a view"})()
    return request


def counted(kind: type[Any], request: HttpRequest, response: Any) -> Counter[Any]:
    middleware, before = kind(lambda _: response), totals()
    middleware.process_request(request)
    middleware.process_view(request, None)
    middleware.process_response(request, response)
    return totals() - before


@pytest.mark.parametrize(
    "response",
    [
        HttpResponse(b"{}", content_type="application/json", status=202),
        HttpResponse("<p>", content_type="text/html; charset=latin-1", status=404),
        StreamingHttpResponse(iter([b"a"])),
    ],
    ids=["json", "page", "stream"],
)
@pytest.mark.parametrize("more", [{}, {"HTTP_X_REQUESTED_WITH": "XMLHttpRequest"}])
def test_a_request_is_counted_under_the_same_names(response, more):
    expected = counted(PrometheusAfterMiddleware, request_of(**more), response)

    assert counted(MetricsMiddleware, request_of(**more), response) == expected
    assert len(expected) >= 8
