"""Replays the first response to a POST that is repeated with the same Idempotency-Key.

The unique row is the lock: of two simultaneous requests one runs and the other waits for its
response. Responses may contain secrets that are shown once, so they are encrypted with a key
derived from the Idempotency-Key, which is not stored.
"""

from __future__ import annotations

import time
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from uuid import UUID

from cryptography.fernet import Fernet
from django.db.models.functions import Now
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.utils.crypto import salted_hmac

from core.db import prepared_rows, release_connection
from core.exceptions import Invalid, TooManyRequests, Unauthenticated
from core.middleware import SyncMiddleware
from core.problems import is_program, problem_response
from tenants.access import Principal
from tenants.authentication import principal_from_key, principal_of, spend_as
from tenants.exceptions import IdempotencyInFlight, IdempotencyMismatch
from tenants.models import IdempotentAnswer

LIFE = timedelta(days=1)
#: A first request without a response for this long is considered dead.
STALE = timedelta(minutes=1)
LONGEST_KEY = 255
#: How long a repeated request waits for the first one, and how often it checks.
PATIENCE_SECONDS, LOOK_SECONDS = 10.0, 0.05
#: Statuses that depend on the caller or the time, not on the request: it is run again.
NOT_KEPT = frozenset({401, 403, 408, 413, 425, 429})

#: The commit need not wait for the disk: the one of the request's effect makes this row durable too.
CLAIM = """
INSERT INTO tenants_idempotentanswer AS kept
    (workspace_id, key_digest, body_digest, content_type, body, created_at)
SELECT %s, %s, %s, '', '', clock_timestamp()
  FROM set_config('synchronous_commit', 'off', true)
ON CONFLICT (workspace_id, key_digest) DO UPDATE
    SET body_digest = excluded.body_digest, status = NULL, created_at = excluded.created_at
    WHERE kept.created_at < clock_timestamp() - make_interval(secs => %s)
       OR (kept.status IS NULL AND kept.body_digest = excluded.body_digest
           AND kept.created_at < clock_timestamp() - make_interval(secs => %s))
RETURNING created_at
"""
KEEP = """
UPDATE tenants_idempotentanswer SET status = %s, content_type = %s, body = %s
 WHERE workspace_id = %s AND key_digest = %s AND created_at = %s RETURNING status
"""


@dataclass(frozen=True, kw_only=True)
class Ticket:
    """The identity of a request, with the cipher of its stored response."""

    workspace_id: UUID
    key_digest: str
    body_digest: str
    cipher: Fernet


class IdempotencyMiddleware(SyncMiddleware):
    """Handles POSTs to the API that carry the header and valid credentials."""

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        client_key = request.META.get("HTTP_IDEMPOTENCY_KEY")
        if client_key is None or request.method != "POST" or not is_program(request):
            return self.get_response(request)
        try:
            principal = principal_from_key(request) or principal_of(request)
            ticket = ticket_for(request, principal, client_key)
            if ticket is None:
                return self.get_response(request)
            began = claim(ticket)
            if began is None:
                charge(principal)
                replayed = replay_or_claim(ticket)
                if isinstance(replayed, HttpResponse):
                    return replayed
                began = replayed
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


def ticket_for(request: HttpRequest, principal: Principal, client_key: str) -> Ticket | None:
    """Return the request's ticket, or None if the caller acts in no workspace."""
    if principal.workspace_id is None:
        return None
    if not 0 < len(client_key) <= LONGEST_KEY:
        raise Invalid(f"An Idempotency-Key has 1 to {LONGEST_KEY} characters.")
    caller = principal.key or principal.user
    # Keys are separate for each caller: other members must not see this response.
    scoped_key = f"{type(caller).__name__} {caller and caller.pk} {client_key}"
    content = f"{request.method} {request.get_full_path()}\n".encode() + request.body
    secret = salted_hmac("tenants.idempotency", scoped_key, algorithm="sha256").digest()
    return Ticket(
        workspace_id=principal.workspace_id,
        key_digest=sha256(scoped_key.encode()).hexdigest(),
        body_digest=sha256(content).hexdigest(),
        cipher=Fernet(urlsafe_b64encode(secret)),
    )


def claim(ticket: Ticket) -> datetime | None:
    """Become the first request of this key, or take over from a dead one. Return None otherwise."""
    identity = [ticket.workspace_id, ticket.key_digest, ticket.body_digest]
    rows = prepared_rows(CLAIM, [*identity, LIFE.total_seconds(), STALE.total_seconds()])
    return rows[0][0] if rows else None


def charge(principal: Principal) -> None:
    """Count a repeated request against the rate limit, as no view does. Raise TooManyRequests."""
    allowance = spend_as(principal)
    if allowance.wait:
        raise TooManyRequests(retry_after=allowance.wait)


def replay_or_claim(ticket: Ticket) -> HttpResponse | datetime:
    """Wait for the first response and return it, or claim the key if the first request gave it up."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return replay(ticket)
        except IdempotencyInFlight:
            if time.monotonic() >= deadline:
                raise
        release_connection()
        time.sleep(LOOK_SECONDS)
        if began := claim(ticket):
            return began


def replay(ticket: Ticket) -> HttpResponse:
    """Return the stored response. Raise IdempotencyInFlight if there is none yet."""
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
    content_type = response.headers.get("Content-Type", "")[:80]
    answer = [response.status_code, content_type, ticket.cipher.encrypt(response.content)]
    prepared_rows(KEEP, [*answer, ticket.workspace_id, ticket.key_digest, began])


def give_up(ticket: Ticket, began: datetime) -> None:
    """Release the key, so that the next request with it runs."""
    IdempotentAnswer.objects.filter(
        workspace_id=ticket.workspace_id,
        key_digest=ticket.key_digest,
        created_at=began,
        status=None,
    ).delete()


def forget_old_answers() -> int:
    """Delete expired responses and return how many. The supervisor calls this."""
    return IdempotentAnswer.objects.filter(created_at__lt=Now() - LIFE).delete()[0]
