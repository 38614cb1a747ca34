"""`manage.py credits` shows, grants and adjusts the credits of a workspace."""

from __future__ import annotations

from argparse import ArgumentParser
from decimal import Decimal, InvalidOperation
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from core.exceptions import Fault
from tenants.billing.credits import add_credits, get_balance
from tenants.models import CreditEntry
from tenants.workspaces import find_workspace

SHOWN = 20


def amount_of(text: str) -> Decimal:
    try:
        amount = Decimal(text)
    except InvalidOperation:
        raise CommandError(f"{text!r} is not an amount in US dollars.") from None
    if not amount.is_finite():
        raise CommandError(f"{text!r} is not an amount in US dollars.")
    return amount


class Command(BaseCommand):
    help = "Show, grant or adjust the credits of a workspace."

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        for name, description in (
            ("show", "show the balance and the newest entries of the ledger"),
            ("grant", "add credits"),
            ("adjust", "add credits, or remove some with a negative amount"),
        ):
            command = verbs.add_parser(name, help=description)
            command.add_argument("--workspace", required=True, help="name or slug")
            if name != "show":
                command.add_argument(
                    "--amount", required=True, help="US dollars, such as 25 or -1.50"
                )
                command.add_argument("--note", default="", help="a note for the ledger")

    def handle(self, *args: Any, **options: Any) -> None:
        workspace = find_workspace(options["workspace"])
        if workspace is None:
            raise CommandError(f"There is no workspace {options['workspace']!r}.")
        if options["verb"] != "show":
            kinds = {"grant": CreditEntry.Kind.GRANT, "adjust": CreditEntry.Kind.ADJUSTMENT}
            try:
                add_credits(
                    workspace.pk,
                    amount_of(options["amount"]),
                    kind=kinds[options["verb"]],
                    note=options["note"],
                )
            except Fault as fault:
                raise CommandError(fault.detail) from fault
        credits = get_balance(workspace.pk)
        self.stdout.write(
            f"balance {credits.balance:.2f}\treserved {credits.reserved:.2f}"
            f"\tgranted {credits.ceiling:.2f}\tspent {credits.spent:.2f}"
        )
        if options["verb"] == "show":
            for entry in CreditEntry.objects.for_workspace(workspace.pk)[:SHOWN]:
                when = f"{entry.created_at:%Y-%m-%d %H:%M}"
                self.stdout.write(
                    f"{when}\t{entry.kind}\t{entry.amount:.6f}\t{entry.note}".rstrip()
                )
