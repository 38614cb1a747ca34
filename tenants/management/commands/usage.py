"""What a workspace used and what it cost, from the command line."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from config.faults import Fault
from tenants.usage import GROUPS, Span, csv_text, report, totals
from tenants.workspaces import find_workspace


class Command(BaseCommand):
    help = "Calls, tokens and cost of a workspace: by day, member, agent, model, key or session."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--workspace", required=True, help="its name or slug")
        parser.add_argument("--by", choices=list(GROUPS), default="day")
        parser.add_argument("--from", dest="first", help="a day like 2026-01-31; 30 days ago")
        parser.add_argument("--to", dest="last", help="a day, included; today")
        parser.add_argument("--csv", action="store_true", help="for a spreadsheet")

    def handle(self, *args: Any, **options: Any) -> None:
        workspace = find_workspace(options["workspace"])
        if workspace is None:
            raise CommandError(f"There is no workspace {options['workspace']!r}.")
        try:
            span = Span.read(options["first"], options["last"])
            lines = report(workspace.pk, options["by"], span)
        except Fault as fault:
            raise CommandError(fault.detail) from fault
        if options["csv"]:
            self.stdout.write(csv_text(options["by"], lines), ending="")
            return
        for line in lines:
            self.stdout.write(
                f"{line.name}\t{line.calls} calls\t{line.input_tokens} in"
                f"\t{line.output_tokens} out\t{line.cost:.6f}"
            )
        whole = totals(workspace.pk, span)
        self.stdout.write(
            f"{span.first} to {span.last}\t{whole['calls']} calls\t{whole['input_tokens']} in"
            f"\t{whole['output_tokens']} out\t{whole['cost']:.6f}"
            f"\tsandboxes {whole['sandbox_cost']:.6f}"
        )
