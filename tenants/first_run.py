"""What a new installation gets: a workspace, its owner and a link to come in."""

from __future__ import annotations

from django.db import transaction
from django.urls import reverse

from config import env
from tenants.accounts import make_sign_in_link
from tenants.models import User
from tenants.workspaces import create_workspace

OWNER_EMAIL = "owner@localhost"


def installer() -> User | None:
    """Whoever this installation was made for."""
    return User.objects.filter(is_superuser=True).order_by("created_at").first()


def prepare() -> str | None:
    """The path of a one-time sign-in link, as long as the owner has not set a password."""
    with transaction.atomic():
        owner = installer()
        if owner is None and not User.objects.exists():
            owner = User.objects.create_superuser(env.text("OWNER_EMAIL", OWNER_EMAIL))
            create_workspace(name="My workspace", owner=owner)
        if owner is None or owner.has_usable_password():
            return None
        return reverse("sign_in_link", args=[make_sign_in_link(owner)])
