"""Reports the usage of a workspace."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from core.exceptions import Fault
from tenants.api.billing import owner_names
from tenants.billing.usage import GROUPS, Span, csv_text, daily, report, totals
from tenants.workspaces import find_workspace


class Command(BaseCommand):
    help = (
        "Show calls, tokens and cost of a workspace by day, member, agent, model, key or session."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--workspace", required=True, help="name or slug of the workspace")
        parser.add_argument("--by", choices=list(GROUPS), default="day")
        parser.add_argument(
            "--from", dest="first", help="first day, such as 2026-01-31 (default: 30 days ago)"
        )
        parser.add_argument("--to", dest="last", help="last day (default: today)")
        parser.add_argument("--csv", action="store_true", help="write CSV for a spreadsheet")

    def handle(self, *args: Any, **options: Any) -> None:
        workspace = find_workspace(options["workspace"])
        if workspace is None:
            raise CommandError(f"There is no workspace {options['workspace']!r}.")
        try:
            span = Span.parse(options["first"], options["last"])
            rows = report(workspace.pk, options["by"], span, names=owner_names)
        except Fault as fault:
            raise CommandError(fault.detail) from fault
        if options["csv"]:
            self.stdout.write(csv_text(options["by"], rows), ending="")
            return
        for row in rows:
            self.stdout.write(
                f"{row.name}\t{row.calls} calls\t{row.input_tokens} in"
                f"\t{row.output_tokens} out\t{row.cost:.6f}"
            )
        total = totals(daily(workspace.pk, span))
        self.stdout.write(
            f"{span.first} to {span.last}\t{total['calls']} calls\t{total['input_tokens']} in"
            f"\t{total['output_tokens']} out\t{total['cost']:.6f}"
            f"\tsandboxes {total['sandbox_cost']:.6f}"
        )
