"""`manage.py webhooks` lists and pings webhooks, and replays deliveries."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError

from core.exceptions import Fault
from tenants.models import Webhook, WebhookDelivery
from tenants.notifications.webhooks import ping, replay
from tenants.workspaces import find_workspace


class Command(BaseCommand):
    help = "List webhooks, send a test event to one, or send a delivery again."

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        listing = actions.add_parser("list", help="list all webhooks, or those of one workspace")
        listing.add_argument("--workspace", default="", help="name or slug")
        actions.add_parser("ping", help="send a test event").add_argument("webhook", type=UUID)
        again = actions.add_parser("replay", help="send a delivery again, with the same id")
        again.add_argument("delivery", type=UUID)

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            {"list": self._list, "ping": self._ping, "replay": self._replay}[options["action"]](
                options
            )
        except Fault as fault:
            raise CommandError(fault.detail) from fault

    def _list(self, options: dict[str, Any]) -> None:
        rows = Webhook.objects.select_related("workspace").order_by("workspace__slug", "created_at")
        if name := options["workspace"]:
            workspace = find_workspace(name)
            if workspace is None:
                raise CommandError(f"There is no workspace {name!r}.")
            rows = rows.filter(workspace=workspace)
        for hook in rows:
            state = "on" if hook.active else f"off: {hook.disabled_reason}"
            events = ",".join(hook.events)
            self.stdout.write(f"{hook.pk}  {hook.workspace.slug}  {hook.url}  {events}  {state}")

    def _ping(self, options: dict[str, Any]) -> None:
        webhook = Webhook.objects.filter(pk=options["webhook"]).first()
        if webhook is None:
            raise CommandError("There is no such webhook.")
        self.stdout.write(f"{ping(webhook).pk}  queued")

    def _replay(self, options: dict[str, Any]) -> None:
        delivery = WebhookDelivery.objects.filter(pk=options["delivery"]).first()
        if delivery is None:
            raise CommandError("There is no such delivery.")
        self.stdout.write(f"{replay(delivery).pk}  queued")
