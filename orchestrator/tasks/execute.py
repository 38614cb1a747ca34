"""The workflows of tasks: ExecuteTask, one command or one prompt from start to end, and CreateSession."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from functools import partial
from typing import Any
from uuid import UUID

from agents.environments import authorise_choice, find_environment
from core.exceptions import Conflict, Fault
from core.validation import wrong_field
from orchestrator import exceptions
from orchestrator.engine.definition import Event, Workflow, workflow
from orchestrator.engine.steps import Steps
from orchestrator.tasks import artifacts, billing, commands, sandbox
from orchestrator.tasks.start import SessionParams, TaskParams, chosen_agent, starter_of
from sessions_app.lanes.signals import FINISHED
from sessions_app.models import Run
from sessions_app.sessions import cancel_run, get_or_create_session
from tenants.billing.spending import check_purses
from tenants.exceptions import BudgetReached, OutOfCredits
from tools_app.sandbox.provisioning import provision

#: How often following a command is retried after its worker died; the command begins once.
TRIES = 1_000
#: The pause before a command that found no free sandbox tries again. No thread waits meanwhile.
PAUSE_SECONDS = 5
#: How long the sandbox of a command that did not reach its end stays for inspection.
VERIFY_SECONDS = 3_600.0
CUT_SHORT = {exceptions.CommandUnknown.code, exceptions.CommandStopped.code}
RUN = "run command"
#: How much longer the engine waits than the sandbox.
GRACE_SECONDS = 120
#: The stop reasons of a turn without an answer.
UNANSWERED = {
    "budget_reached",
    "retries_exhausted",
    "interrupted",
    "step_limit",
    "tool_limit",
    "time_limit",
    "token_limit",
}
#: Characters shown of a command or prompt, and in the title of an approval or session.
SHOWN, IN_TITLE = 2_000, 80


@workflow(name="execute-task")
class ExecuteTask(Workflow):
    """Run a command in a sandbox, or ask an agent, and keep the result."""

    params = TaskParams
    about = ("command", "prompt")

    @classmethod
    def admit(
        cls, workspace_id: UUID, params: dict[str, Any], given: Collection[str] = ()
    ) -> dict[str, Any]:
        """Refuse a timeout that the environment would cut short; lower the default to its limit."""
        limit = sandbox.longest_command(workspace_id, TaskParams.model_validate(params))
        if limit is None or params["timeout"] <= limit:
            return params
        if "timeout" in given:
            raise wrong_field("timeout", f"The environment stops a command after {limit} seconds.")
        return {**params, "timeout": limit}

    def run(self, event: Event, step: Steps) -> Any:
        params = TaskParams.model_validate(event.payload)
        self.report_progress("Checking credits", percent=0, step="check credits")
        step.do("check credits", partial(check_credits, event), delay=1)
        if params.approval:
            self.report_progress("Waiting for approval", percent=5, step="approve")
            step.wait_for_approval(
                "approve",
                title=question_of(params),
                message=(params.command or params.prompt)[:SHOWN],
            )
        if params.command:
            return self._run_command(event, params, step)
        return self._run_prompt(event, params, step)

    # ── A command ────────────────────────────────────────────────────────────────────────────

    def _run_command(self, event: Event, params: TaskParams, step: Steps) -> Any:
        self.report_progress("Creating a sandbox", percent=10, step="create sandbox")
        token = step.do(
            "create sandbox", lambda: sandbox.create_sandbox(event, params, step.key), delay=1
        )
        given = self._put_files(event, params, step, token)
        self.report_progress("Running", percent=20, step=RUN)
        try:
            ran = step.do(
                RUN,
                lambda: self._execute(event, params, step, token),
                retries=TRIES,
                delay=PAUSE_SECONDS,
                backoff="constant",
                timeout=params.timeout + GRACE_SECONDS,
            )
        except exceptions.StepFailed as failed:
            if failed.reason in CUT_SHORT:
                self._keep_for_inspection(event, step, token, given)
            raise
        self.report_progress("Collecting artifacts", percent=90, step=artifacts.COLLECT)
        found = self._collect(event, step, token, given)
        cost = step.do("settle", partial(billing.settle, event, ran), delay=1)
        kept = self._leave(event, params, step, token)
        check_outcome(ran, params.timeout)
        self.report_progress("Done", percent=100, step="done", status="complete")
        outcome = {name: ran[name] for name in ("exit_code", "ended_by", "output")}
        return {**outcome, **found, "cost": cost, "kept_until": kept}

    def _keep_for_inspection(
        self, event: Event, step: Steps, token: str, given: dict[str, str]
    ) -> None:
        """Keep the sandbox of a command whose end is unknown for an hour, and collect its files."""
        act = partial(sandbox.keep, event.id, token, VERIFY_SECONDS)
        with suppress(exceptions.StepFailed):  # the task fails with the reason for the inspection
            step.do("keep sandbox for a look", act, delay=1)
            self._collect(event, step, token, given)

    def _execute(self, event: Event, params: TaskParams, step: Steps, token: str) -> dict[str, Any]:
        task_sandbox = sandbox.reopen(event.id, token)
        sandbox.keep(event.id, token, 0)  # it is in use again
        name = commands.name_of(step.key)
        reporter = commands.ProgressReporter(
            name=name,
            step=RUN,
            reported=commands.already_reported(event.id, name),
            broadcast=self.broadcast_to_clients,
            report=self.report_progress,
        )
        task = commands.Task(
            command=params.command,
            seconds=params.timeout,
            sandbox=lambda: provision(sandbox.environment_of(task_sandbox), task_sandbox.folder),
            on_output=reporter.take,
            sign=step.sign,
        )
        return commands.run_once(task_sandbox, name, task)

    # ── A prompt ─────────────────────────────────────────────────────────────────────────────

    def _run_prompt(self, event: Event, params: TaskParams, step: Steps) -> Any:
        self.report_progress("Opening a session", percent=10, step="open session")
        key = f"task-{self.generation}"
        opened = step.do("open session", lambda: open_session(event, params, key), delay=1)
        session_id = UUID(opened["session_id"])
        token = step.do(
            "create sandbox",
            lambda: sandbox.create_sandbox(event, params, step.key, session_id),
            delay=1,
        )
        given = self._put_files(event, params, step, token)
        self.report_progress(f"{opened['agent']} is working", percent=20, step="run prompt")
        try:
            answer = step.run_session(
                "run prompt",
                agent=opened["agent_id"],
                message=params.prompt,
                session_key=key,
                timeout=params.timeout,
            )
        except exceptions.WaitTimedOut:
            step.do("stop agent", partial(stop_session, session_id, event.created_by_id), delay=1)
            raise
        self.report_progress("Collecting artifacts", percent=90, step=artifacts.COLLECT)
        found = self._collect(event, step, token, given)
        cost = step.do("settle", partial(billing.cost_of_session, session_id), delay=1)
        step.do("leave sandbox", partial(sandbox.close_sandbox, event.id, token), delay=1)
        if answer["stop_reason"] in UNANSWERED:
            raise exceptions.TaskFailed(
                f"The agent stopped without an answer: {answer['stop_reason']}."
            )
        self.report_progress("Done", percent=100, step="done", status="complete")
        return {"output": answer["text"], "session_id": str(session_id), **found, "cost": cost}

    # ── Both ─────────────────────────────────────────────────────────────────────────────────

    def _put_files(
        self, event: Event, params: TaskParams, step: Steps, token: str
    ) -> dict[str, str]:
        if not params.files:
            return {}
        return step.do(
            "put files", lambda: sandbox.put_files(sandbox.reopen(event.id, token), params), delay=1
        )

    def _collect(
        self, event: Event, step: Steps, token: str, given: dict[str, str]
    ) -> dict[str, Any]:
        return step.do(
            artifacts.COLLECT,
            lambda: artifacts.collect(sandbox.reopen(event.id, token), given),
            delay=1,
        )

    def _leave(self, event: Event, params: TaskParams, step: Steps, token: str) -> float | None:
        if params.keep_seconds:
            act = partial(sandbox.keep, event.id, token, params.keep_seconds)
            return step.do("keep sandbox", act, delay=1)
        # A retry after a crash finds it closed already.
        step.do("destroy sandbox", partial(sandbox.close_sandbox, event.id, token), delay=1)
        return None


def question_of(params: TaskParams) -> str:
    """Return the title of the approval, on one line; the whole text is its message."""
    text = " ".join((params.command or params.prompt).split())
    text = text if len(text) <= IN_TITLE else f"{text[: IN_TITLE - 1]}…"
    return f"Run “{text}”?" if params.command else f"Let an agent answer “{text}”?"


def check_credits(event: Event) -> None:
    """Raise TaskUnpaid unless there are credits to begin with."""
    try:
        check_purses(event.workspace_id, billing.owners_of(event))
    except (OutOfCredits, BudgetReached) as fault:
        raise exceptions.TaskUnpaid(fault.detail) from fault


def check_outcome(ran: dict[str, Any], seconds: int) -> None:
    """Raise how the command failed, with the end of its output."""
    if ran["exit_code"] == 0:
        return
    last = ran["output"].rstrip()[-SHOWN:]
    tail = f"\n{last}" if last else ""
    if ran["ended_by"] == "time":
        raise exceptions.CommandTimedOut(f"{too_long(ran, seconds)}{tail}")
    if ran["ended_by"] != "itself":
        raise exceptions.CommandFailed(
            f"The command was stopped by its limit on {ran['ended_by']}.{tail}"
        )
    raise exceptions.CommandFailed(f"The command ended with exit code {ran['exit_code']}.{tail}")


def too_long(ran: dict[str, Any], seconds: int) -> str:
    """Describe which limit was exceeded: the task's own, or a shorter one of its environment."""
    took = round(ran["ended_at"] - ran["began_at"])
    if took >= seconds:
        return f"The command took longer than {seconds} s and was stopped."
    return (
        f"The command was stopped after {took} s, the time limit of its environment; the task asked "
        f"for {seconds} s. Raise the environment's time limit."
    )


# ── Sessions ─────────────────────────────────────────────────────────────────────────────────────


@workflow(name="create-session")
class CreateSession(Workflow):
    """Create a session of an agent, once."""

    params = SessionParams

    def run(self, event: Event, step: Steps) -> Any:
        params = SessionParams.model_validate(event.payload)
        made = step.do("create session", lambda: create_session(event, params), delay=1)
        self.report_progress("The session is ready", percent=100, status="complete")
        return made


def create_session(event: Event, params: SessionParams) -> dict[str, Any]:
    """Create the session, the same in every attempt: its key is the client's or the workflow's."""
    key = params.session_key or f"workflow:{event.id}"
    return _open(event, params, key, params.title)


def open_session(event: Event, params: TaskParams, key: str) -> dict[str, Any]:
    """Create the session that `step.run_session` will use under this key."""
    title = " ".join(params.prompt.split())[:IN_TITLE]
    return _open(event, params, f"workflow:{event.id}:{key}", title)


def _open(event: Event, params: SessionParams | TaskParams, key: str, title: str) -> dict[str, Any]:
    workspace_id, ref = event.workspace_id, params.environment
    try:
        agent = chosen_agent(workspace_id, params.agent)
        environment = find_environment(workspace_id, ref) if ref else None
        starter = starter_of(event) if environment else None
        if environment and starter:
            usual_id = agent.current.environment_id if agent.current else None
            authorise_choice(starter, environment, usual_id)
        session, _ = get_or_create_session(
            agent=agent,
            session_key=key,
            environment=environment,
            title=title,
            created_by_id=event.created_by_id,
            metadata={"workflow_id": str(event.id)},
        )
    except Fault as fault:
        raise exceptions.NonRetryableError(fault.detail) from fault
    return {"session_id": str(session.pk), "agent_id": str(agent.pk), "agent": str(agent)}


def stop_session(session_id: UUID, author_id: UUID | None) -> None:
    """Cancel the session's runs, because the task no longer waits for the agent."""
    for run in Run.objects.filter(session_id=session_id).exclude(status__in=FINISHED):
        with suppress(Conflict):  # it ended by itself meanwhile
            cancel_run(run, author_id)
