"""Limits in the memory of this process: rates by token buckets, and what runs at the same time."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import ip_address, ip_network
from threading import Lock
from typing import Any, TypeVar
from uuid import UUID

from django.conf import settings
from django.http import HttpRequest

from core.exceptions import TooManyRequests
from core.fair_slots import FairSlots

#: Threads of a web process that answer requests. A view may wait for another server, so there are
#: more threads than database connections.
MOST_REQUESTS = 300


def client_address(request: HttpRequest) -> str:
    """Return the client's address; for IPv6 its /64 network, which usually is one customer.

    `X-Forwarded-For` is trusted for PROXY_COUNT proxies only: each appends the address it saw at the
    right, so entries further left may be forged.
    """
    address = str(request.META.get("REMOTE_ADDR") or "")
    proxies: int = settings.PROXY_COUNT
    if proxies:
        hops = [hop.strip() for hop in request.META.get("HTTP_X_FORWARDED_FOR", "").split(",")]
        address = ([*hops, address])[max(0, len(hops) - proxies)] or address
    return _network(address)


def is_local(request: HttpRequest) -> bool:
    """Return whether the request comes from this machine directly, not through a local proxy."""
    if any(name in request.META for name in ("HTTP_X_FORWARDED_FOR", "HTTP_FORWARDED")):
        return False
    try:
        return ip_address(str(request.META.get("REMOTE_ADDR") or "")).is_loopback
    except ValueError:
        return False


@lru_cache(4096)
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


#: The smallest burst of any caller. The API promises fifty requests a second.
MIN_BURST = 50
#: An anonymous address gets this fraction of an authenticated caller's rate.
ANONYMOUS_FRACTION = 10
#: Wrong keys from one address get this fraction, by default fifty a second.
GUESSING_FRACTION = 2
#: Callers that are remembered. The one idle for longest is forgotten first.
MAX_CALLERS = 20_000


@dataclass(frozen=True, kw_only=True)
class Allowance:
    """What is left after one request. `wait` is zero when the request is allowed."""

    limit: int
    remaining: int
    reset: float
    wait: float


class Buckets:
    """One token bucket per caller."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = Lock()

    def spend(self, caller: str, *, per_minute: int) -> Allowance:
        """Take one token if there is one, and return what is left."""
        rate = max(1, per_minute) / 60
        capacity = max(MIN_BURST, round(rate * 2))
        with self._lock:
            now = self._clock()
            level, seen = self._levels.pop(caller, (float(capacity), now))
            level = min(capacity, level + (now - seen) * rate)
            wait = 0.0 if level >= 1 else (1 - level) / rate
            level -= 0 if wait else 1
            self._levels[caller] = (level, now)
            if len(self._levels) > MAX_CALLERS:
                self._levels.popitem(last=False)
        return Allowance(
            limit=capacity, remaining=int(level), reset=(capacity - level) / rate, wait=wait
        )

    def empty(self) -> None:
        """Forget all callers."""
        with self._lock:
            self._levels.clear()


buckets = Buckets()


def spend_anonymous(client: str) -> Allowance:
    per_minute = max(1, settings.REQUESTS_PER_MINUTE // ANONYMOUS_FRACTION)
    return buckets.spend(f"address {client}", per_minute=per_minute)


def spend_guess(client: str) -> None:
    """Count a wrong key in the address's own bucket for guesses, or raise TooManyRequests."""
    per_minute = max(1, settings.REQUESTS_PER_MINUTE // GUESSING_FRACTION)
    allowance = buckets.spend(f"guesses {client}", per_minute=per_minute)
    if allowance.wait:
        raise TooManyRequests(retry_after=allowance.wait)


V = TypeVar("V", bound=Callable[..., Any])


def accepts_body(largest: int) -> Callable[[V], V]:
    """Let a view accept bodies of another size than DATA_UPLOAD_MAX_MEMORY_SIZE."""

    def mark(view: V) -> V:
        view.largest_body = largest  # type: ignore[attr-defined]
        return view

    return mark


# ── Heavy work ───────────────────────────────────────────────────────────────

#: Imports and exports, which take seconds. Half of the connections are left for everything else.
transfers = FairSlots(
    each=lambda: settings.TRANSFERS_PER_WORKSPACE, total=lambda: max(1, settings.DATABASE_POOL // 2)
)
searches = FairSlots(each=lambda: max(1, settings.DATABASE_POOL // 2))
#: Texts that are embedded at the same time. Each workspace leaves half for others.
EMBEDDINGS = 8
embeddings = FairSlots(each=lambda: EMBEDDINGS // 2, total=lambda: EMBEDDINGS)
#: How long a document waits for its vectors: until then it is found by its words.
EMBEDDING_WAIT = 60.0
#: How long a request waits for its turn, in its thread and without a connection.
TRANSFER_WAIT, SEARCH_WAIT = 10.0, 10.0


def transfer_slot(workspace_id: UUID) -> AbstractContextManager[None]:
    """Hold one of the workspace's slots for an import or export, or raise TooManyRequests."""
    refusal = "Other imports and exports are under way. Try again when one of them has ended."
    return transfers.hold(workspace_id, seconds=TRANSFER_WAIT, refusal=refusal)


def search_slot(workspace_id: UUID) -> AbstractContextManager[None]:
    """Hold one of the workspace's slots for a search, or raise TooManyRequests."""
    refusal = "Other searches of this workspace are under way. Try again in a moment."
    return searches.hold(workspace_id, seconds=SEARCH_WAIT, refusal=refusal)


def embedding_slot(
    workspace_id: UUID, *, seconds: float = EMBEDDING_WAIT
) -> AbstractContextManager[None]:
    """Hold one of the workspace's slots for an embedding model, or raise TooManyRequests."""
    refusal = "Other texts of this workspace are being embedded. Try again in a moment."
    return embeddings.hold(workspace_id, seconds=seconds, refusal=refusal)
