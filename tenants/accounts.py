"""Accounts: new users, passwords, one-time sign-in links, and limits on failed sign-ins."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib.auth.password_validation import validate_password
from django.core import signing
from django.core.exceptions import ValidationError
from django.db import IntegrityError, connection, transaction
from django.db.models import Count, Max, Q
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.crypto import salted_hmac

from core.exceptions import Conflict, Invalid
from core.ids import digest, new_token
from tenants.exceptions import LinkExpired, SignUpClosed, TooManyAttempts
from tenants.models import SignInAttempt, SignInLink, User, Workspace

LINK_LIFE = timedelta(hours=24)
ATTEMPT_WINDOW = timedelta(minutes=15)
#: Failures that one client may have with one account, and with all accounts.
FAILURES_PER_ADDRESS = 10
FAILURES_PER_CLIENT = 50
#: After so many failures from everywhere, an account is tried once in a while only. It is not
#: closed, so that strangers cannot lock its owner out.
FAILURES_PER_ACCOUNT = 100
ACCOUNT_PAUSE = timedelta(seconds=10)
DEVICE_LIFE = timedelta(days=365)
DEVICE_SALT = "tenants.device"
FIRST_ACCOUNT_LOCK = "tenants.first_account"


def is_sign_up_open(*, invited: bool = False) -> bool:
    """Return whether a visitor, or one with an invitation, may create an account now."""
    allowed = {"open", "invitation"} if invited else {"open"}
    return settings.SIGN_UP in allowed or not User.objects.exists()


@transaction.atomic
def register(*, email: str, password: str, name: str = "", invited: bool = False) -> User:
    """Create the account of a visitor, if this installation accepts it.

    The first account is the operator's.
    """
    is_first = _is_first_account()
    if not is_first and not is_sign_up_open(invited=invited):
        raise SignUpClosed
    user = create_user(email=email, password=password, name=name)
    if is_first:
        user.is_staff = user.is_superuser = True
        user.save(update_fields=["is_staff", "is_superuser"])
    return user


def _is_first_account() -> bool:
    """Return whether there is no account. Of two visitors at once, the second waits and is not first."""
    if User.objects.exists():
        return False
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", [FIRST_ACCOUNT_LOCK])
    return not User.objects.exists()


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


def check_sign_in(email: str, client: str, device: str = "") -> None:
    """Raise TooManyAttempts when this client failed too often recently, with this account or all.

    An account that fails from many clients is tried more slowly. A known device of the account is
    counted by itself, so it is not slowed down by what others do.
    """
    email_digest, client_digest = _keyed_digest(email), _keyed_digest(device or client)
    failures = _count_failures(email_digest, client_digest)
    if failures["pair"] >= FAILURES_PER_ADDRESS or failures["client"] >= FAILURES_PER_CLIENT:
        raise TooManyAttempts(retry_after=ATTEMPT_WINDOW.total_seconds())
    if device or failures["account"] < FAILURES_PER_ACCOUNT:
        return
    if timezone.now() - failures["latest"] < ACCOUNT_PAUSE:
        raise TooManyAttempts(retry_after=ACCOUNT_PAUSE.total_seconds())


def check_tries(subject: str, client: str) -> None:
    """Raise TooManyAttempts when something was tried too often recently, by all or by this client."""
    failures = _count_failures(_keyed_digest(subject), _keyed_digest(client))
    if failures["account"] >= FAILURES_PER_ADDRESS or failures["client"] >= FAILURES_PER_CLIENT:
        raise TooManyAttempts(retry_after=ATTEMPT_WINDOW.total_seconds())


def _count_failures(email_digest: str, client_digest: str) -> dict[str, Any]:
    """Count the recent failures of an account, a client and both, in one statement."""
    account, client = Q(email_digest=email_digest), Q(client=client_digest)
    recent = SignInAttempt.objects.filter(account | client, at__gt=Now() - ATTEMPT_WINDOW)
    return recent.aggregate(
        pair=Count("pk", filter=account & client),
        client=Count("pk", filter=client),
        account=Count("pk", filter=account),
        latest=Max("at", filter=account),
    )


def record_failure(email: str, client: str) -> None:
    """Record one failed sign-in, and delete those that no longer count."""
    SignInAttempt.objects.filter(at__lt=Now() - ATTEMPT_WINDOW).delete()
    SignInAttempt.objects.create(email_digest=_keyed_digest(email), client=_keyed_digest(client))


def clear_failures(email: str, client: str) -> None:
    """Forget what a client failed with an account before it signed in. Failures of others count."""
    failures = SignInAttempt.objects.filter(email_digest=_keyed_digest(email))
    failures.filter(client=_keyed_digest(client)).delete()


def device_token(email: str) -> str:
    """Return what a browser keeps to be known as a device of this account."""
    return signing.dumps([new_token(), _keyed_digest(email)], salt=DEVICE_SALT)


def known_device(token: str, email: str) -> str:
    """Return the name of the device that a token belongs to; empty if the account does not know it."""
    try:
        device, email_digest = signing.loads(token, salt=DEVICE_SALT, max_age=DEVICE_LIFE)
    except (signing.BadSignature, ValueError, TypeError):
        return ""
    return f"device {device}" if email_digest == _keyed_digest(email) else ""


def _keyed_digest(value: str) -> str:
    """Hash with the secret key, because an address could be guessed from a plain hash."""
    normalised = value.strip().lower()
    return salted_hmac("tenants.sign_in", normalised, algorithm="sha256").hexdigest()
