"""Consolidates the memory of an agent: `manage.py consolidate AGENT`, or decides what waits."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError

from agents.models import Agent
from core.exceptions import Fault
from memory import proposals
from memory.models import Consolidation
from sessions_app.consolidation import request_consolidation


class Command(BaseCommand):
    help = "Queue a consolidation of an agent's memory, list what there is, or decide one."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("agent", help="The agent's id or name.")
        act = parser.add_mutually_exclusive_group()
        act.add_argument("--list", action="store_true", help="List the agent's consolidations.")
        for name in ("apply", "discard", "undo"):
            act.add_argument(f"--{name}", type=UUID, metavar="ID", help=f"{name} this one.")

    def handle(self, *args: Any, **options: Any) -> None:
        agent = _agent(options["agent"])
        try:
            for act in (proposals.apply, proposals.discard, proposals.undo):
                if pk := options[act.__name__]:
                    row = proposals.find_consolidation(agent.workspace_id, pk)
                    self._show(act(row, by=None))
                    return
            if not options["list"]:
                run = request_consolidation(agent, None)
                self.stdout.write(f"Queued as run {run.pk}. `--list` shows the result.")
                return
        except Fault as fault:
            raise CommandError(fault.detail) from None
        for row in Consolidation.objects.for_workspace(agent.workspace_id).filter(agent=agent)[:20]:
            self._show(row)

    def _show(self, row: Consolidation) -> None:
        self.stdout.write(f"{row.pk} {row.created_at:%Y-%m-%d %H:%M} {row.status} {row.remark}")
        for change in row.changes.all():
            self.stdout.write(f"  {change.action} {change.path} {change.remark}".rstrip())
            for reason in change.reasons:
                self.stdout.write(f"    {reason['kind']}: {reason['why']}")


def _agent(ref: str) -> Agent:
    try:
        found = list(Agent.objects.active().filter(pk=UUID(ref)))
    except ValueError:
        found = list(Agent.objects.active().filter(current__name__iexact=ref)[:2])
    if len(found) != 1:
        raise CommandError(f"{'No' if not found else 'More than one'} agent matches {ref!r}.")
    return found[0]
