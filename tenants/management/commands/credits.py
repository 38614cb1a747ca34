"""The credits of a workspace from the command line: shown, granted, adjusted."""

from __future__ import annotations

from argparse import ArgumentParser
from decimal import Decimal, InvalidOperation
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from config.faults import Fault
from tenants.credits import add_credits, balance_of
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
    help = "Show the credits of a workspace, grant some, or adjust them."

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        for name, words in (
            ("show", "the balance and the newest lines of the ledger"),
            ("grant", "add credits"),
            ("adjust", "add credits, or take some with a negative amount"),
        ):
            one = verbs.add_parser(name, help=words)
            one.add_argument("--workspace", required=True, help="its name or slug")
            if name != "show":
                one.add_argument("--amount", required=True, help="US dollars, as in 25 or -1.50")
                one.add_argument("--note", default="")

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
        found = balance_of(workspace.pk)
        self.stdout.write(
            f"balance {found.balance:.2f}\tset aside {found.reserved:.2f}"
            f"\tgranted {found.granted:.2f}\tspent {found.spent:.2f}"
        )
        if options["verb"] == "show":
            for entry in CreditEntry.objects.for_workspace(workspace.pk)[:SHOWN]:
                when = f"{entry.created_at:%Y-%m-%d %H:%M}"
                self.stdout.write(
                    f"{when}\t{entry.kind}\t{entry.amount:.6f}\t{entry.note}".rstrip()
                )
