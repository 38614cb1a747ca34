"""Tests of how the address of a client is determined behind proxies."""

from __future__ import annotations

import pytest
from django.test import RequestFactory

from core.throttling import client_address


def address(remote: str, forwarded: str | None = None) -> str:
    headers = {"X-Forwarded-For": forwarded} if forwarded is not None else {}
    return client_address(RequestFactory().get("/", headers=headers, REMOTE_ADDR=remote))


def test_without_proxies_the_forwarded_header_is_ignored(settings):
    settings.PROXY_COUNT = 0

    assert address("203.0.113.7", "198.51.100.1") == "203.0.113.7"


@pytest.mark.parametrize(
    ("proxies", "forwarded", "expected"),
    [
        (1, "198.51.100.1", "198.51.100.1"),
        (1, "6.6.6.6, 198.51.100.1", "198.51.100.1"),
        (2, "6.6.6.6, 198.51.100.1, 10.0.0.2", "198.51.100.1"),
        (2, "198.51.100.1", "198.51.100.1"),
        (1, "", "10.0.0.1"),
        (1, None, "10.0.0.1"),
        (1, "not an address", "unknown"),
    ],
)
def test_each_trusted_proxy_adds_one_address_at_the_right(settings, proxies, forwarded, expected):
    settings.PROXY_COUNT = proxies

    assert address("10.0.0.1", forwarded) == expected


@pytest.mark.parametrize(
    ("remote", "expected"),
    [
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("::ffff:203.0.113.7", "203.0.113.7"),
        ("", "unknown"),
    ],
)
def test_an_ipv6_network_counts_as_one_client(remote, expected):
    assert address(remote) == expected
