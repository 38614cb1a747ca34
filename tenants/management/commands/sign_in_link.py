"""`manage.py sign_in_link` prints a link that signs a user in once."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.urls import reverse

from orchestrator.launcher.checks import running_address
from tenants.accounts import make_sign_in_link
from tenants.models import User


class Command(BaseCommand):
    help = "Print a one-time sign-in link, for a user who cannot sign in otherwise."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("email", nargs="?", help="default: the first owner")

    def handle(self, *args: Any, **options: Any) -> None:
        users = User.objects.filter(is_active=True)
        if options["email"]:
            user = users.filter(email__iexact=options["email"]).first()
        else:
            user = users.filter(is_superuser=True).order_by("created_at").first()
        if user is None:
            raise CommandError("There is no such active user.")
        path = reverse("sign_in_link", args=[make_sign_in_link(user)])
        # The stack that runs may have been started with another port than this command knows.
        address = running_address(settings.DATA_DIR) or settings.PUBLIC_URL
        self.stdout.write(f"{address}{path}")
