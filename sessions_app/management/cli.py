"""The command line of `manage.py agent`: its commands and their options.

The docstring of a command is its help text.
"""

from __future__ import annotations

import asyncio
import threading
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any, NoReturn, TypeAlias
from uuid import UUID

import orjson
from django.conf import settings
from django.core.management.base import CommandError, CommandParser
from django.db.models import Q
from django.db.models.functions import Now

from agents.definitions import create_agent, find_agent
from agents.models import Agent
from agents.providers.registry import PROVIDERS
from core.db import read, release_connection
from core.exceptions import NotFound
from core.pg_listen import subscribe
from sessions_app import runtime
from sessions_app.accept import accept_event
from sessions_app.lanes import local, run_queue
from sessions_app.lanes.queued_messages import list_queue
from sessions_app.lanes.signals import FINISHED, WAKE_CHANNEL, wait_for_run
from sessions_app.live.frames import event_body
from sessions_app.live.hub import follow_log
from sessions_app.live.reader import SessionLog
from sessions_app.log.transfer import export
from sessions_app.models import Approval, ResourceAttachment, Run, Session, SessionEvent
from sessions_app.resources.attachments import attach, detach, resource_payload
from sessions_app.runtime import system_principal
from sessions_app.sessions import find_session
from tenants.access import Principal
from tenants.models import Workspace
from tenants.pulse import pulse_age
from tenants.workspaces import find_workspace

EventType, Status = SessionEvent.Type, Session.Status
#: One wait for a run; more follow until it is over or the time is up.
WAIT_SECONDS = 60.0
EXIT_WAITING = 2  #: The exit code when a person has to answer first.
NO_WORKERS = (
    "No worker is running, so nothing happens until Switchyard is started. "
    "`manage.py agent orchestrator` runs what is due now."
)
#: Characters of a payload that one line shows.
MAX_LINE_LENGTH = 120
MAX_APPROVALS = 500
#: How long a watching loop sleeps without a notification, so that runs that come due are found.
IDLE_SECONDS = 1.0


@dataclass(frozen=True, kw_only=True)
class CommandContext:
    """The identity, workspace, options and output of one command."""

    principal: Principal
    workspace_id: UUID
    options: dict[str, Any]
    write: Callable[[str], object]
    #: Writes what people should know and programs need not read.
    warn: Callable[[str], object]

    @property
    def session(self) -> Session:
        """Return the session that was named, if it is in this workspace."""
        try:
            return find_session(self.principal, self.options["session"])
        except NotFound:
            raise CommandError(f"There is no session {self.options['session']} here.") from None

    def print(self, text: str, /, **facts: Any) -> None:
        """Write the text for a person, or with --json the facts for a program."""
        self.write(orjson.dumps(facts, default=str).decode() if self.options["json"] else text)


Act: TypeAlias = Callable[[CommandContext], None]


def command_context(
    options: dict[str, Any], write: Callable[[str], object], warn: Callable[[str], object]
) -> CommandContext:
    workspace = _workspace(options["workspace"], options.get("session"))
    return CommandContext(
        principal=system_principal(workspace.pk),
        workspace_id=workspace.pk,
        options=options,
        write=write,
        warn=warn,
    )


def _workspace(name: str | None, session_id: UUID | None) -> Workspace:
    """Return the workspace of this name, else that of the session, else the first."""
    if name:
        named = find_workspace(name)
        if named is None:
            raise CommandError(f"There is no workspace {name!r}.")
        return named
    if session_id:
        of_session = Session.objects.filter(pk=session_id).values("workspace_id")
        if found := Workspace.objects.filter(pk__in=of_session).first():
            return found
    first = Workspace.objects.order_by("created_at", "pk").first()
    if first is None:
        raise CommandError("There is no workspace yet. Start Switchyard once, or issue a key.")
    return first


def list_agents(context: CommandContext) -> None:
    """List active agents, newest first."""
    agents = Agent.objects.for_workspace(context.workspace_id).offered().select_related("current")
    for agent in agents:
        facts = _describe(agent)
        context.print("{id}  {name}  {provider}/{model}  v{version}".format(**facts), **facts)


def spawn(context: CommandContext) -> None:
    """Create an agent and print its id."""
    fields = {
        name: context.options[name]
        for name in ("name", "provider", "model", "system_prompt")
        if context.options[name] is not None
    }
    agent = create_agent(
        workspace_id=context.workspace_id, fields=fields, created_by=context.principal.user
    )
    context.print(str(agent.pk), **_describe(agent))


def _describe(agent: Agent) -> dict[str, Any]:
    version = agent.current
    if version is None:
        return {"id": agent.pk, "name": "", "provider": "", "model": "", "version": 0}
    return {
        "id": agent.pk,
        "name": version.name,
        "provider": version.provider,
        "model": version.model,
        "version": version.number,
    }


def create(context: CommandContext) -> None:
    """Create a session, or find the one with this key, and print its id."""
    session, is_new = runtime.get_or_create_session(
        context.options["agent"],
        context.options["key"],
        principal=context.principal,
        environment=context.options["environment"],
        title=context.options["title"],
        outcome=context.options["outcome"],
    )
    context.print(str(session.pk), id=session.pk, created=is_new)


def send(context: CommandContext) -> None:
    """Send a message; with --wait, print the answer."""
    admitted = runtime.append_message(
        context.session.pk,
        context.options["message"],
        principal=context.principal,
        on_busy=context.options["on_busy"],
        overrides=_overrides(context.options),
    )
    if not context.options["wait"] or admitted.run_id is None:
        context.print(str(admitted.run_id), seq=admitted.seq, run_id=admitted.run_id)
        return
    run = _wait(admitted.run_id, context.options["timeout"])
    text = _answer(run)
    context.print(
        text, seq=admitted.seq, run_id=run.pk, status=run.status, text=text, usage=run.usage
    )


def _overrides(options: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what this run does differently, or None."""
    names = ("provider", "model", "system_prompt", "tools", "max_tokens", "temperature")
    given = {name: options[name] for name in names if options[name] is not None}
    if options["replace_system_prompt"]:
        given["system_prompt_mode"] = "replace"
    return given or None


def _wait(run_id: UUID, seconds: float | None) -> Run:
    left = seconds if seconds is not None else float("inf")
    run = wait_for_run(run_id, min(left, WAIT_SECONDS))
    while run.status not in FINISHED and (left := left - WAIT_SECONDS) > 0:
        run = wait_for_run(run_id, min(left, WAIT_SECONDS))
    if run.status not in FINISHED:
        raise CommandError(f"The run {run.pk} is still {run.status}.")
    return run


def _answer(run: Run) -> str:
    """Return the agent's answer, or raise an error that says why there is none."""
    if run.stop_reason == "requires_action":
        calls = run.session.executions.open().order_by("id")
        named = ", ".join(f"{call.tool_use_id} ({call.name})" for call in calls if call.waits)
        raise CommandError(f"The run waits for an answer to {named}.", returncode=EXIT_WAITING)
    if run.status != Run.Status.COMPLETED or run.result is None:
        message = (run.error or {}).get("message") or run.stop_reason
        raise CommandError(f"The run is {run.status}: {message}")
    return str(run.result["text"])


def interrupt(context: CommandContext) -> None:
    """Stop what runs or waits for an answer."""
    run_id = _send_event(context, EventType.USER_INTERRUPT, {"note": context.options["note"]})
    context.print(str(run_id or "Nothing was running."), run_id=run_id)


def compact(context: CommandContext) -> None:
    """Compact the context; with --wait, print the result."""
    run = runtime.compact(
        context.session.pk,
        keep_recent_messages=context.options["keep"],
        target_token_count=context.options["target"],
        principal=context.principal,
    )
    if not context.options["wait"]:
        context.print(str(run.pk), run_id=run.pk)
        return
    run = _wait(run.pk, context.options["timeout"])
    context.print(_answer(run), run_id=run.pk, status=run.status, result=run.result)


def status(context: CommandContext) -> None:
    """Print the state of a session."""
    session: Session = context.session
    waiting = [e for e in session.executions.open().order_by("id") if e.waits]
    facts: dict[str, Any] = {
        "id": session.pk,
        "title": session.title,
        "agent": session.agent_id,
        "status": session.status,
        "last_seq": session.last_seq,
        "queued": len(list_queue(session)),
        "waits_for": [{"request": e.tool_use_id, "tool": e.name} for e in waiting],
        "active_at": session.active_at.isoformat(),
    }
    lines = [f"{name}: {value}" for name, value in facts.items() if value != []]
    context.print("\n".join(lines), **facts)


def confirm_tool(context: CommandContext) -> None:
    """Allow or deny a waiting tool call, or answer a question."""
    answer = {
        "tool_use_id": context.options["request"],
        "decision": context.options["decision"],
        "scope": context.options["scope"],
        "note": context.options["note"],
    }
    if context.options["values"] is not None:
        answer["values"] = context.options["values"]
    _print_run(context, _send_event(context, EventType.USER_TOOL_CONFIRMATION, answer))


def custom_tool_result(context: CommandContext) -> None:
    """Send the result of a tool call that your program runs."""
    answer = {
        "tool_use_id": context.options["request"],
        "output": context.options["output"],
        "is_error": context.options["error"],
    }
    _print_run(context, _send_event(context, EventType.USER_CUSTOM_TOOL_RESULT, answer))


def wake(context: CommandContext) -> None:
    """Ask the workers to look at a session now."""
    run_id = runtime.wake(context.session, principal=context.principal)
    has_workers = (pulse_age("worker") or inf) < settings.PULSE_SECONDS
    context.print(str(run_id or "Nothing is due."), run_id=run_id, workers=has_workers)
    if not has_workers:
        context.warn(NO_WORKERS)


def _send_event(context: CommandContext, type: str, payload: dict[str, Any]) -> UUID | None:
    return accept_event(context.principal, context.session.pk, type=type, payload=payload).run_id


def _print_run(context: CommandContext, run_id: UUID | None) -> None:
    context.print(str(run_id or "Taken. Something else still has to be answered."), run_id=run_id)


def events(context: CommandContext) -> None:
    """Print the log after a seq; with --follow, continue until Ctrl-C."""
    session_id, after = context.session.pk, context.options["after"]
    for event in SessionEvent.objects.filter(session_id=session_id).after(after).iterator():
        _print_event(context, event)
        after = event.seq
    if context.options["follow"]:
        with suppress(KeyboardInterrupt):
            asyncio.run(_follow(context, session_id, after))


async def _follow(context: CommandContext, session_id: UUID, after: int) -> None:
    async with aclosing(follow_log(SessionLog(session_id=session_id), after=after)) as coming:
        async for found in coming:
            if any(frame.seq for frame in found):
                for event in await read(_after, session_id, after):
                    _print_event(context, event)
                    after = event.seq


def _after(session_id: UUID, seq: int) -> list[SessionEvent]:
    return list(SessionEvent.objects.filter(session_id=session_id).after(seq))


def _print_event(context: CommandContext, event: SessionEvent) -> None:
    value = event.payload.get("text")
    text = value if isinstance(value, str) else orjson.dumps(event.payload).decode()
    line = " ".join(text.split())
    line = line if len(line) <= MAX_LINE_LENGTH else f"{line[:MAX_LINE_LENGTH]}…"
    context.print(f"{event.seq:>5}  {event.type:<24}  {line}", **event_body(event))


def write_export(context: CommandContext) -> None:
    """Print the log, one event per line, as the import accepts it."""
    for line in export(context.session, thinking=context.options["thinking"]):
        context.write(line.decode().rstrip("\n"))


def attach_resource(context: CommandContext) -> None:
    """Attach a resource to a session and print its id."""
    fields = {
        name: context.options[name] for name in ("kind", "mount_path", "source_ref", "access")
    }
    resource = attach(context.session, fields, context.principal)
    line = f"{resource.pk}  {resource.notice}".rstrip()
    context.print(line, **resource_payload(resource))


def list_resources(context: CommandContext) -> None:
    """List the resources of a session and their status."""
    for resource in context.session.resources.all():
        reason = f": {resource.reason}" if resource.reason else ""
        line = (
            f"{resource.mount_path}  {resource.kind}  {resource.access}  {resource.status}{reason}"
        )
        context.print(line, **resource_payload(resource))


def detach_resource(context: CommandContext) -> None:
    """Detach the resource at a path."""
    session, path = context.session, context.options["mount_path"]
    found: ResourceAttachment | None = session.resources.filter(mount_path=path).first()
    if found is None:
        raise CommandError(f"Nothing is attached at {path}.")
    detach(session, found.pk, context.principal.user_id)
    context.print(f"Took away {path}.", mount_path=path)


def list_approvals(context: CommandContext) -> None:
    """List approvals, oldest first."""
    found = Approval.objects.for_workspace(context.workspace_id).filter(
        status=context.options["status"]
    )
    if context.options["session"]:
        found = found.filter(session_id=context.options["session"])
    for one in found.select_related("execution").order_by("created_at", "pk")[:MAX_APPROVALS]:
        call = one.execution.tool_use_id if one.execution else str(one.subject_id)
        context.print(
            f"{call}  {one.session_id or '-'}  {one.status}  {one.title}",
            id=one.pk,
            session_id=one.session_id,
            request=call,
            title=one.title,
            input=one.input,
            reason=one.reason,
            status=one.status,
            scope=one.scope,
            resolved_by=one.resolved_name,
            expires_at=one.expires_at,
        )


def orchestrate(context: CommandContext) -> None:
    """Run due work in cycles, until idle, a number of cycles of one run each, or Ctrl-C."""
    options = context.options
    agent_id = find_agent(context.workspace_id, options["agent"]).pk if options["agent"] else None
    most = options["max_cycles"]
    repeats = options["watch"] or options["stop_when_idle"] or most
    cycles, served = 0, 0
    woken = threading.Event()
    with (
        suppress(KeyboardInterrupt),
        subscribe(WAKE_CHANNEL, lambda _: woken.set(), missed=woken.set),
    ):
        while True:
            woken.clear()
            found = cycle(context, agent_id, is_single=bool(most))
            cycles, served = cycles + 1, served + found
            if not repeats or (most and served >= most):
                break
            if found:
                continue
            if options["stop_when_idle"] or not options["watch"]:
                break
            release_connection()
            woken.wait(IDLE_SECONDS)
    context.print(f"{served} runs in {cycles} cycles.", runs=served, cycles=cycles)


def cycle(context: CommandContext, agent_id: UUID | None, *, is_single: bool = False) -> int:
    """Run everything that is due, or the most urgent run alone, and return the number of runs."""
    run_queue.reap()
    runs: list[UUID] = []
    for session_id in due_sessions(context.workspace_id, agent_id):
        claim = run_queue.claim(session_id, local.owner())
        runs += local.serve(claim, until=claim.run_id if claim and is_single else None)
        if runs and is_single:
            break
    for run in Run.objects.filter(pk__in=runs).order_by("started_at"):
        context.print(
            f"{run.session_id}  run {run.pk}  {run.status} {run.stop_reason}".rstrip(),
            session_id=run.session_id,
            run_id=run.pk,
            status=run.status,
            stop_reason=run.stop_reason,
        )
    return len(runs)


def due_sessions(workspace_id: UUID, agent_id: UUID | None) -> list[UUID]:
    """Return sessions with a run that could start now, the most urgent first."""
    rests = Q(session__status__in=[Status.IDLE, Status.RESCHEDULING])
    answered = Q(session__status=Status.REQUIRES_ACTION, resumes=True)
    due = Run.objects.for_workspace(workspace_id).filter(
        rests | answered, Q(not_before=None) | Q(not_before__lte=Now()), status=Run.Status.QUEUED
    )
    if agent_id:
        due = due.filter(session__agent=agent_id)
    ids = due.order_by("-priority", "created_at").values_list("session_id", flat=True)
    return list(dict.fromkeys(ids))


# ── Options ──────────────────────────────────────────────────────────────────────────────────────


def fail(parser: CommandParser, message: str) -> NoReturn:
    """Exit with a one-line error."""
    if not parser.called_from_command_line:
        raise CommandError(f"Error: {message}")
    parser.exit(2, f"{parser.prog}: {message}. Add --help to see what can be typed.\n")


class OneLineParser(CommandParser):
    def error(self, message: str) -> NoReturn:
        fail(self, message)


def session_id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is not the id of a session") from None


def json_object(text: str) -> dict[str, Any]:
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ArgumentTypeError(f"this is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise ArgumentTypeError("this is no JSON object")
    return value


def at_least_one(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise ArgumentTypeError(f"{text!r} is not a number from 1 on")
    return int(text)


class Commands:
    """Adds commands that all take --workspace and --json."""

    def __init__(self, parser: ArgumentParser, name: str) -> None:
        self._parsers = parser.add_subparsers(
            dest=name, required=True, metavar="COMMAND", parser_class=OneLineParser
        )

    def group(self, name: str, about: str) -> Commands:
        return Commands(
            self._parsers.add_parser(name, help=about, description=about), f"{name}_command"
        )

    def add(self, name: str, act: Act) -> ArgumentParser:
        about = act.__doc__ or ""
        parser = self._parsers.add_parser(name, help=about, description=about)
        parser.set_defaults(act=act)
        parser.add_argument(
            "--workspace", help="name or slug; default: that of the session, else the first"
        )
        parser.add_argument("--json", action="store_true", help="print JSON, one object per line")
        return parser


def add_commands(parser: CommandParser) -> None:
    # Django creates this parser; it reports options that no command below knows.
    parser.error = partial(fail, parser)  # type: ignore[method-assign]
    commands = Commands(parser, "command")
    commands.add("list", list_agents)
    command = commands.add("spawn", spawn)
    command.add_argument("--name", required=True)
    command.add_argument("--provider")
    command.add_argument("--model")
    command.add_argument("--system-prompt")
    _add_session_commands(commands.group("session", "Work with one session."))
    _about_session(commands.add("wake", wake))
    command = commands.group("approvals", "Approvals that people have to answer.").add(
        "list", list_approvals
    )
    command.add_argument("--status", choices=Approval.Status.values, default="pending")
    command.add_argument("--session", type=session_id)
    command = commands.add("orchestrator", orchestrate)
    command.add_argument("--agent", help="id or name: only sessions of this agent")
    command.add_argument("--watch", action="store_true", help="keep running and wait for work")
    command.add_argument("--stop-when-idle", action="store_true", help="stop when nothing is due")
    command.add_argument("--max-cycles", type=at_least_one, help="stop after this many runs")


def _add_overrides(command: ArgumentParser) -> None:
    """Add the options that change this run and no other."""
    run = command.add_argument_group("for this run only")
    run.add_argument("--provider", choices=list(PROVIDERS))
    run.add_argument("--model")
    run.add_argument("--system-prompt", help="added to the agent's own instructions")
    run.add_argument(
        "--replace-system-prompt", action="store_true", help="use --system-prompt alone"
    )
    run.add_argument("--tools", nargs="*", help="only these, of those that the policy allows")
    run.add_argument("--max-tokens", type=int, help="the longest answer")
    run.add_argument("--temperature", type=float)


def _add_session_commands(commands: Commands) -> None:
    command = commands.add("create", create)
    command.add_argument("--agent", required=True, help="its id or exact name")
    command.add_argument("--key", help="the same agent and key give the same session")
    command.add_argument("--environment", help="its id or name")
    command.add_argument("--title", default="")
    command.add_argument(
        "--outcome", type=json_object, help="JSON: statement, criteria, max_returns, grader"
    )
    command = _about_session(commands.add("send", send))
    command.add_argument("--message", required=True)
    command.add_argument("--on-busy", choices=Run.OnBusy.values, default=Run.OnBusy.FOLLOWUP.value)
    _add_overrides(command)
    command.add_argument("--wait", action="store_true", help="wait and print the answer")
    command.add_argument("--timeout", type=float, help="wait at most so many seconds")
    command = _about_session(commands.add("interrupt", interrupt))
    command.add_argument("--note", default="")
    _about_session(commands.add("status", status))
    command = _about_session(commands.add("compact", compact))
    command.add_argument("--keep", type=int, help="number of newest messages to keep")
    command.add_argument(
        "--target", type=int, help="tokens that the conversation may have afterwards"
    )
    command.add_argument("--wait", action="store_true", help="wait and print the result")
    command.add_argument("--timeout", type=float, help="wait at most so many seconds")
    command = _about_session(commands.add("events", events))
    command.add_argument("--after", type=int, default=0, help="start after this seq")
    command.add_argument("--follow", action="store_true", help="continue until Ctrl-C")
    command = _about_session(commands.add("export", write_export))
    command.add_argument("--thinking", action="store_true", help="also what models thought")
    _add_resource_commands(commands)
    command = _about_session(commands.add("confirm-tool", confirm_tool))
    command.add_argument("--request", required=True, help="the id of the call")
    command.add_argument("--decision", required=True, choices=["allow", "deny", "answer"])
    example = 'the answers to a question, as in {"day": "2026-01-31"}'
    command.add_argument("--values", type=json_object, help=example)
    command.add_argument("--scope", choices=Approval.Scope.values, default="once")
    command.add_argument("--note", default="")
    command = _about_session(commands.add("custom-tool-result", custom_tool_result))
    command.add_argument("--request", required=True, help="the id of the call")
    command.add_argument("--output", required=True)
    command.add_argument("--error", action="store_true", help="the output is an error message")


def _add_resource_commands(commands: Commands) -> None:
    command = _about_session(commands.add("attach", attach_resource))
    command.add_argument("--kind", required=True, choices=ResourceAttachment.Kind.values)
    command.add_argument("--mount-path", required=True, help="as in /workspace/data")
    command.add_argument("--source-ref", default="", help="a name, path or address, by its kind")
    command.add_argument("--access", choices=ResourceAttachment.Access.values, default="read_only")
    _about_session(commands.add("resources", list_resources))
    command = _about_session(commands.add("detach", detach_resource))
    command.add_argument("--mount-path", required=True)


def _about_session(parser: ArgumentParser) -> ArgumentParser:
    parser.add_argument("--session", required=True, type=session_id)
    return parser
