"""Lists, pauses, resumes and runs schedules from the command line."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError

from core.exceptions import Fault
from sessions_app.models import Schedule
from sessions_app.schedules import schedules, timing
from tenants.models import Workspace
from tenants.workspaces import find_workspace


class Command(BaseCommand):
    help = "List the schedules of a workspace, or pause, resume or run one."

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        for name, words in (
            ("list", "list schedules with their next time"),
            ("pause", "pause a schedule"),
            ("resume", "resume a schedule from now on"),
            ("run", "send the message of a schedule now"),
        ):
            one = verbs.add_parser(name, help=words)
            one.add_argument("--workspace", required=True, help="name or slug")
            if name != "list":
                one.add_argument("--schedule", required=True, help="id or name")

    def handle(self, *args: Any, **options: Any) -> None:
        workspace = find_workspace(options["workspace"])
        if workspace is None:
            raise CommandError(f"There is no workspace {options['workspace']!r}.")
        try:
            if options["verb"] == "list":
                rows = Schedule.objects.for_workspace(workspace.pk)
                for one in rows.select_related("agent__current"):
                    self.stdout.write(line_of(one))
            else:
                one = named(workspace, options["schedule"])
                self.stdout.write(getattr(self, options["verb"])(one))
        except Fault as fault:
            raise CommandError(fault.detail) from fault

    def pause(self, one: Schedule) -> str:
        timing.pause(one)
        return line_of(one)

    def resume(self, one: Schedule) -> str:
        timing.resume(one)
        return line_of(one)

    def run(self, one: Schedule) -> str:
        firing = schedules.run_now(one)
        told = firing.note or firing.session_id or ""
        return f"{firing.outcome}\t{told}".rstrip()


def named(workspace: Workspace, ref: str) -> Schedule:
    """Return a schedule by id, or by its exact name if only one has it."""
    rows = Schedule.objects.for_workspace(workspace.pk).select_related("agent__current")
    try:
        found = list(rows.filter(pk=UUID(ref)))
    except ValueError:
        found = list(rows.filter(name=ref)[:2])
    if len(found) != 1:
        raise CommandError(
            f"{'Several schedules are' if found else 'No schedule is'} named {ref!r}. Give its id."
        )
    return found[0]


def line_of(one: Schedule) -> str:
    state = "paused" if one.paused_at else "active" if one.next_at else "done"
    due = f"{one.next_at:%Y-%m-%d %H:%M} UTC" if one.next_at else "never"
    return f"{one.pk}\t{one.name}\t{one.agent}\t{timing.describe(one)}\tnext {due}\t{state}"
