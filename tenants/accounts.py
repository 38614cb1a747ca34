"""People: sign-up, passwords and links that sign in once."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models.functions import Now
from django.utils import timezone

from config.faults import Conflict, Invalid, LinkExpired
from tenants.models import SignInLink, User, Workspace
from tenants.tokens import digest, new_token
from tenants.workspaces import create_workspace

LINK_LIFE = timedelta(hours=24)


def sign_up(*, email: str, password: str, name: str = "", workspace_name: str = "") -> User:
    """A new person with a workspace of their own."""
    with transaction.atomic():
        user = join(email=email, password=password, name=name)
        create_workspace(name=workspace_name or f"{user.display_name}'s workspace", owner=user)
    return user


def join(*, email: str, password: str, name: str = "") -> User:
    """A new person who belongs nowhere yet."""
    check_password_strength(password, User(email=email, name=name))
    try:
        with transaction.atomic():
            return User.objects.create_user(email, password, name=name.strip())
    except IntegrityError:
        raise Conflict("There is an account with this e-mail address. Sign in instead.") from None


def check_password_strength(password: str, user: User) -> None:
    try:
        validate_password(password, user)
    except ValidationError as error:
        raise Invalid(" ".join(error.messages)) from None


def set_password(*, user: User, password: str) -> None:
    """Django's session hash changes with it, so every other browser is signed out."""
    check_password_strength(password, user)
    user.set_password(password)
    user.save(update_fields=["password"])


def make_sign_in_link(user: User, *, life: timedelta = LINK_LIFE) -> str:
    """The secret word of a link that signs this person in once. Older unused links die."""
    token = new_token()
    SignInLink.objects.filter(user=user, used_at=None).update(used_at=Now())
    SignInLink.objects.create(user=user, digest=digest(token), expires_at=timezone.now() + life)
    return token


def peek_sign_in_link(token: str) -> User:
    """Whom the link would sign in. Looking does not use it up."""
    link = SignInLink.objects.filter(
        digest=digest(token), used_at=None, expires_at__gt=Now(), user__is_active=True
    )
    found = link.select_related("user").first()
    if found is None:
        raise LinkExpired
    return found.user


def use_sign_in_link(token: str) -> User:
    """Use the link up. Of two clicks at once, one wins."""
    user = peek_sign_in_link(token)
    used = SignInLink.objects.filter(digest=digest(token), used_at=None).update(used_at=Now())
    if not used:
        raise LinkExpired
    return user


def workspaces_of(user: User) -> list[Workspace]:
    return list(Workspace.objects.filter(pk__in=workspace_ids_of(user)).order_by("name"))


def workspace_ids_of(user: User) -> list[UUID]:
    return list(user.memberships.values_list("workspace_id", flat=True))
