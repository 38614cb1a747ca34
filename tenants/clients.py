"""Where a request comes from, as far as this server can know."""

from __future__ import annotations

from ipaddress import ip_address, ip_network

from django.conf import settings
from django.http import HttpRequest


def client_address(request: HttpRequest) -> str:
    """The caller's network address; the whole /64 for IPv6, which one person owns.

    `X-Forwarded-For` is believed only for as many proxies as the settings say there are: each of
    them adds the address it saw at the right end, so what stands further left may be invented.
    """
    address = str(request.META.get("REMOTE_ADDR") or "")
    proxies: int = settings.PROXY_COUNT
    if proxies:
        hops = [hop.strip() for hop in request.META.get("HTTP_X_FORWARDED_FOR", "").split(",")]
        address = ([*hops, address])[max(0, len(hops) - proxies)] or address
    return _network(address)


def is_local(request: HttpRequest) -> bool:
    """Straight from this machine, not passed on by a proxy that runs here."""
    if any(name in request.META for name in ("HTTP_X_FORWARDED_FOR", "HTTP_FORWARDED")):
        return False
    try:
        return ip_address(str(request.META.get("REMOTE_ADDR") or "")).is_loopback
    except ValueError:
        return False


def _network(address: str) -> str:
    try:
        known = ip_address(address)
    except ValueError:
        return "unknown"
    if known.version == 6:
        if known.ipv4_mapped:
            return str(known.ipv4_mapped)
        return str(ip_network((known, 64), strict=False))
    return str(known)
