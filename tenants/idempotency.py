"""Gives the first answer again to a POST that is repeated with the same Idempotency-Key.

The unique row is the lock: of two requests at once one runs and the other waits for its answer.
Answers may hold secrets that are shown once, so they are stored under a key made from the client's word.
"""

from __future__ import annotations

import time
from base64 import urlsafe_b64encode
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from uuid import UUID

from cryptography.fernet import Fernet
from django.db import connection
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.utils.crypto import salted_hmac

from config.faults import (
    IdempotencyInFlight,
    IdempotencyMismatch,
    Invalid,
    TooManyRequests,
    Unauthenticated,
)
from config.problems import is_program, problem_response
from tenants.access import Principal
from tenants.authentication import principal_by_key, principal_of
from tenants.models import IdempotentAnswer
from tenants.off_loop import let_go
from tenants.throttle import spend_as

LIFE = timedelta(days=1)
#: A first request that has not answered for so long has died.
STALE = timedelta(minutes=1)
LONGEST_WORD = 255
#: How long a twin waits for the first request, and how often it looks.
PATIENCE_SECONDS, LOOK_SECONDS = 10.0, 0.05
#: Answers about who asks or when, not about what was asked: a repetition deserves a new look.
NOT_KEPT = frozenset({401, 403, 408, 413, 425, 429})

CLAIM = """
INSERT INTO tenants_idempotentanswer AS kept
    (workspace_id, key_digest, body_digest, content_type, body, created_at)
VALUES (%(workspace)s, %(key)s, %(body)s, '', '', clock_timestamp())
ON CONFLICT (workspace_id, key_digest) DO UPDATE
    SET body_digest = excluded.body_digest, status = NULL, created_at = excluded.created_at
    WHERE kept.created_at < clock_timestamp() - make_interval(secs => %(life)s)
       OR (kept.status IS NULL AND kept.body_digest = excluded.body_digest
           AND kept.created_at < clock_timestamp() - make_interval(secs => %(stale)s))
RETURNING created_at
"""


@dataclass(frozen=True, kw_only=True)
class Ticket:
    """What identifies a repeated request."""

    workspace_id: UUID
    key_digest: str
    body_digest: str
    cipher: Fernet


class IdempotencyMiddleware:
    """Watches POSTs of programs that carry the header and an identity."""

    sync_capable = True
    async_capable = False

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        word = request.headers.get("Idempotency-Key")
        if word is None or request.method != "POST" or not is_program(request):
            return self.get_response(request)
        try:
            principal = principal_by_key(request) or principal_of(request)
            ticket = ticket_for(request, principal, word)
            if ticket is None:
                return self.get_response(request)
            began = claim(ticket)
            if began is None:
                charge(principal)
                found = replay_or_claim(ticket)
                if isinstance(found, HttpResponse):
                    return found
                began = found
        except Unauthenticated:
            return self.get_response(request)
        except (Invalid, IdempotencyMismatch, IdempotencyInFlight, TooManyRequests) as fault:
            return problem_response(fault, request)
        return self._answer_first(request, ticket, began)

    def _answer_first(
        self, request: HttpRequest, ticket: Ticket, began: datetime
    ) -> HttpResponseBase:
        kept = False
        try:
            response = self.get_response(request)
            if isinstance(response, HttpResponse) and is_worth_keeping(response):
                keep(ticket, began, response)
                kept = True
            return response
        finally:
            if not kept:
                give_up(ticket, began)


def ticket_for(request: HttpRequest, principal: Principal, word: str) -> Ticket | None:
    """None when nobody known asks: then there is nothing to repeat."""
    if principal.workspace_id is None:
        return None
    if not 0 < len(word) <= LONGEST_WORD:
        raise Invalid(f"An Idempotency-Key has 1 to {LONGEST_WORD} characters.")
    who = principal.key or principal.user
    # Within one identity only: an answer may hold what another of the workspace must not see.
    own_word = f"{type(who).__name__} {who and who.pk} {word}"
    asked = f"{request.method} {request.get_full_path()}\n".encode() + request.body
    secret = salted_hmac("tenants.idempotency", own_word, algorithm="sha256").digest()
    return Ticket(
        workspace_id=principal.workspace_id,
        key_digest=sha256(own_word.encode()).hexdigest(),
        body_digest=sha256(asked).hexdigest(),
        cipher=Fernet(urlsafe_b64encode(secret)),
    )


def claim(ticket: Ticket) -> datetime | None:
    """Become the first request of this key, or take over from one that died. None: neither."""
    with connection.cursor() as cursor:
        cursor.execute(
            CLAIM,
            {
                "workspace": ticket.workspace_id,
                "key": ticket.key_digest,
                "body": ticket.body_digest,
                "life": LIFE.total_seconds(),
                "stale": STALE.total_seconds(),
            },
        )
        row = cursor.fetchone()
    return row[0] if row else None


def charge(principal: Principal) -> None:
    """A repetition counts like any request, though no view sees it."""
    allowance = spend_as(principal)
    if allowance.wait:
        raise TooManyRequests(retry_after=allowance.wait)


def replay_or_claim(ticket: Ticket) -> HttpResponse | datetime:
    """The first answer, which may still be in the making; or the first place, if it was given up."""
    patient_until = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return replay(ticket)
        except IdempotencyInFlight:
            if time.monotonic() >= patient_until:
                raise
        let_go()
        time.sleep(LOOK_SECONDS)
        if began := claim(ticket):
            return began


def replay(ticket: Ticket) -> HttpResponse:
    """The first answer again."""
    first = IdempotentAnswer.objects.filter(
        workspace_id=ticket.workspace_id, key_digest=ticket.key_digest
    ).first()
    if first is None:
        raise IdempotencyInFlight
    if first.body_digest != ticket.body_digest:
        raise IdempotencyMismatch
    if first.status is None:
        raise IdempotencyInFlight
    return HttpResponse(
        ticket.cipher.decrypt(bytes(first.body)),
        status=first.status,
        content_type=first.content_type,
        headers={"Idempotent-Replayed": "true"},
    )


def is_worth_keeping(response: HttpResponse) -> bool:
    return response.status_code < 500 and response.status_code not in NOT_KEPT


def keep(ticket: Ticket, began: datetime, response: HttpResponse) -> None:
    _mine(ticket, began).update(
        status=response.status_code,
        content_type=response.headers.get("Content-Type", "")[:80],
        body=ticket.cipher.encrypt(response.content),
    )


def give_up(ticket: Ticket, began: datetime) -> None:
    """Let the next request with this key be the first."""
    _mine(ticket, began).filter(status=None).delete()


def _mine(ticket: Ticket, began: datetime) -> QuerySet[IdempotentAnswer]:
    return IdempotentAnswer.objects.filter(
        workspace_id=ticket.workspace_id, key_digest=ticket.key_digest, created_at=began
    )


def forget_old_answers() -> int:
    """Drop answers that nobody may ask for again. For the supervisor."""
    return IdempotentAnswer.objects.filter(created_at__lt=Now() - LIFE).delete()[0]
