"""Accounts: new users, passwords, one-time sign-in links, and limits on failed sign-ins."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.crypto import salted_hmac

from core.exceptions import Conflict, Invalid
from core.ids import digest, new_token
from tenants.exceptions import LinkExpired, TooManyAttempts
from tenants.models import SignInAttempt, SignInLink, User, Workspace

LINK_LIFE = timedelta(hours=24)
ATTEMPT_WINDOW = timedelta(minutes=15)
FAILURES_PER_ADDRESS = 10
FAILURES_PER_CLIENT = 50


def create_user(*, email: str, password: str, name: str = "") -> User:
    """Create a user who is not a member of any workspace yet."""
    check_password_strength(password, User(email=email, name=name))
    try:
        with transaction.atomic():
            return User.objects.create_user(email, password, name=name.strip())
    except IntegrityError:
        raise Conflict(
            "An account with this e-mail address already exists. Sign in instead."
        ) from None


def first_superuser() -> User | None:
    """Return the user for whom this installation was set up."""
    return User.objects.filter(is_superuser=True).order_by("created_at").first()


def list_workspaces(user: User) -> list[Workspace]:
    """Return the workspaces that the user is a member of, by name."""
    return list(Workspace.objects.filter(pk__in=list_workspace_ids(user)).order_by("name"))


def list_workspace_ids(user: User) -> list[UUID]:
    return list(user.memberships.values_list("workspace_id", flat=True))


# ── Passwords ────────────────────────────────────────────────────────────────


def check_password_strength(password: str, user: User) -> None:
    """Raise Invalid with every reason why the password is too weak."""
    try:
        validate_password(password, user)
    except ValidationError as error:
        raise Invalid(" ".join(error.messages)) from None


def set_password(*, user: User, password: str) -> None:
    """Set the password, which signs the user out of every other browser."""
    check_password_strength(password, user)
    user.set_password(password)
    user.save(update_fields=["password"])


# ── Sign-in links ────────────────────────────────────────────────────────────


def make_sign_in_link(user: User, *, life: timedelta = LINK_LIFE) -> str:
    """Return the token of a link that signs the user in once. Older unused links stop working."""
    token = new_token()
    SignInLink.objects.filter(user=user, used_at=None).update(used_at=Now())
    SignInLink.objects.create(user=user, digest=digest(token), expires_at=timezone.now() + life)
    return token


def peek_sign_in_link(token: str) -> User:
    """Return the user whom the link would sign in, without using it up."""
    link = SignInLink.objects.filter(
        digest=digest(token), used_at=None, expires_at__gt=Now(), user__is_active=True
    )
    valid = link.select_related("user").first()
    if valid is None:
        raise LinkExpired
    return valid.user


def use_sign_in_link(token: str) -> User:
    """Use the link up and return its user. Only one of two simultaneous clicks succeeds."""
    user = peek_sign_in_link(token)
    used = SignInLink.objects.filter(digest=digest(token), used_at=None).update(used_at=Now())
    if not used:
        raise LinkExpired
    return user


# ── Failed sign-ins ──────────────────────────────────────────────────────────


def check_sign_in(email: str, client: str) -> None:
    """Raise TooManyAttempts when this e-mail address or client failed too often recently."""
    recent = SignInAttempt.objects.filter(at__gt=Now() - ATTEMPT_WINDOW)
    by_email = recent.filter(email_digest=_keyed_digest(email))
    by_client = recent.filter(client=_keyed_digest(client))
    if by_email.count() >= FAILURES_PER_ADDRESS or by_client.count() >= FAILURES_PER_CLIENT:
        raise TooManyAttempts(retry_after=ATTEMPT_WINDOW.total_seconds())


def record_failure(email: str, client: str) -> None:
    """Record one failed sign-in, and delete those that no longer count."""
    SignInAttempt.objects.filter(at__lt=Now() - ATTEMPT_WINDOW).delete()
    SignInAttempt.objects.create(email_digest=_keyed_digest(email), client=_keyed_digest(client))


def clear_failures(email: str) -> None:
    """Forget the failures of an address after a successful sign-in."""
    SignInAttempt.objects.filter(email_digest=_keyed_digest(email)).delete()


def _keyed_digest(value: str) -> str:
    """Hash with the secret key, because an address could be guessed from a plain hash."""
    normalised = value.strip().lower()
    return salted_hmac("tenants.sign_in", normalised, algorithm="sha256").hexdigest()
