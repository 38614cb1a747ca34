"""Slows callers down: requests by token buckets, sign-ins by their failures."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import TYPE_CHECKING

from django.conf import settings
from django.db.models.functions import Now
from django.utils.crypto import salted_hmac
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from config.faults import TooManyAttempts
from tenants.access import Principal
from tenants.authentication import principal_of
from tenants.buckets import Allowance, buckets, spend_anonymous
from tenants.clients import client_address
from tenants.models import SignInAttempt

if TYPE_CHECKING:
    # The REST framework imports this module while it makes that one.
    from rest_framework.views import APIView

WINDOW = timedelta(minutes=15)
FAILURES_PER_ADDRESS = 10
FAILURES_PER_CLIENT = 50


class PrincipalThrottle(BaseThrottle):
    """A bucket per key, person or anonymous address. The answer says what is left."""

    def __init__(self) -> None:
        self._wait = 0.0

    def allow_request(self, request: Request, view: APIView) -> bool:
        principal = principal_of(request)
        if principal.is_authenticated:
            allowance = spend_as(principal)
        else:
            allowance = spend_anonymous(client_address(request._request))
        self._wait = allowance.wait
        # The view's own headers, which the REST framework copies to the answer.
        view.headers |= {
            "X-RateLimit-Limit": str(allowance.limit),
            "X-RateLimit-Remaining": str(allowance.remaining),
            "X-RateLimit-Reset": str(math.ceil(allowance.reset)),
        }
        return not allowance.wait

    def wait(self) -> float:
        return self._wait


def spend_as(principal: Principal) -> Allowance:
    """One request of a known caller."""
    known = principal.key or principal.user
    return buckets.spend(
        f"{type(known).__name__} {known and known.pk}", per_minute=settings.REQUESTS_PER_MINUTE
    )


def check_sign_in(email: str, client: str) -> None:
    """Refuse the attempt when this e-mail or this client has failed too often of late."""
    recent = SignInAttempt.objects.filter(at__gt=Now() - WINDOW)
    by_email = recent.filter(email_digest=_digest(email))
    by_client = recent.filter(client=_digest(client))
    if by_email.count() >= FAILURES_PER_ADDRESS or by_client.count() >= FAILURES_PER_CLIENT:
        raise TooManyAttempts(retry_after=WINDOW.total_seconds())


def record_failure(email: str, client: str) -> None:
    """Remember one wrong answer, and forget those that no longer count."""
    SignInAttempt.objects.filter(at__lt=Now() - WINDOW).delete()
    SignInAttempt.objects.create(email_digest=_digest(email), client=_digest(client))


def clear_failures(email: str) -> None:
    """The right answer was given."""
    SignInAttempt.objects.filter(email_digest=_digest(email)).delete()


def _digest(value: str) -> str:
    """Keyed, as an address alone could be guessed from its hash."""
    word = value.strip().lower()
    return salted_hmac("tenants.sign_in", word, algorithm="sha256").hexdigest()
