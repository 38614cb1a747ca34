"""ExecuteTask: one command in a sandbox of its own, or one prompt for an agent, start to end."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any
from uuid import UUID

from config.faults import (
    CommandStopped,
    CommandUnknown,
    StepFailed,
    TaskFailed,
    WaitTimedOut,
)
from orchestrator.engine.definition import Event, Workflow, workflow
from orchestrator.engine.steps import Steps
from orchestrator.taskagent import artifacts, commands, place
from orchestrator.taskagent.deeds import (
    SHOWN,
    check_credits,
    check_outcome,
    close_place,
    environment_of,
    keep_place,
    make_place,
    put_files,
    question_of,
)
from orchestrator.taskagent.minutes import settle
from orchestrator.taskagent.params import TaskParams
from orchestrator.taskagent.purse import cost_of_session
from orchestrator.taskagent.sessions import open_session, stop_session
from orchestrator.taskagent.voice import Voice, told_of
from tools_app.sandbox import provision

#: How often a command is followed anew whose worker died or was stopped; it is begun once.
TRIES = 1_000
#: How long a person may look at a sandbox whose command did not come to its end.
VERIFY_SECONDS = 3_600.0
CUT_SHORT = {CommandUnknown.code, CommandStopped.code}
RUN = "run command"
#: The engine waits this much longer than the sandbox.
GRACE_SECONDS = 120
#: How a turn ends that did not answer.
UNANSWERED = {"budget_reached", "retries_exhausted", "interrupted", "step_limit"}


@workflow(name="execute-task")
class ExecuteTask(Workflow):
    """Runs a command in a sandbox, or asks an agent, and keeps what came of it."""

    params = TaskParams
    about = ("command", "prompt")

    def run(self, event: Event, step: Steps) -> Any:
        asked = TaskParams.model_validate(event.payload)
        self.report_progress("Checking credits", percent=0, step="check credits")
        step.do("check credits", partial(check_credits, event), delay=1)
        if asked.approval:
            self.report_progress("Waiting for a person", percent=5, step="approve")
            step.wait_for_approval(
                "approve",
                title=question_of(asked),
                message=(asked.command or asked.prompt)[:SHOWN],
            )
        if asked.command:
            return self._run_command(event, asked, step)
        return self._run_prompt(event, asked, step)

    # ── A command ────────────────────────────────────────────────────────────────────────────

    def _run_command(self, event: Event, asked: TaskParams, step: Steps) -> Any:
        self.report_progress("Making a sandbox", percent=10, step="create sandbox")
        token = step.do("create sandbox", lambda: make_place(event, asked, step.key), delay=1)
        given = self._put_files(event, asked, step, token)
        self.report_progress("Running", percent=20, step=RUN)
        try:
            ran = step.do(
                RUN,
                lambda: self._execute(event, asked, step, token),
                retries=TRIES,
                delay=0,
                timeout=asked.timeout + GRACE_SECONDS,
            )
        except StepFailed as failed:
            if failed.reason in CUT_SHORT:
                self._let_look(event, step, token, given)
            raise
        self.report_progress("Collecting artifacts", percent=90, step=artifacts.COLLECT)
        found = self._collect(event, step, token, given)
        cost = step.do("settle", partial(settle, event, ran), delay=1)
        kept = self._leave(event, asked, step, token)
        check_outcome(ran, asked.timeout)
        self.report_progress("Done", percent=100, step="done", status="complete")
        said = {word: ran[word] for word in ("exit_code", "ended_by", "output")}
        return {**said, **found, "cost": cost, "kept_until": kept}

    def _let_look(self, event: Event, step: Steps, token: str, given: dict[str, str]) -> None:
        """What a command did whose end nobody saw: its sandbox for an hour, and what it made."""
        act = partial(keep_place, event.id, token, VERIFY_SECONDS)
        with suppress(StepFailed):  # why it is looked at is what the task ends with
            step.do("keep sandbox for a look", act, delay=1)
            self._collect(event, step, token, given)

    def _execute(self, event: Event, asked: TaskParams, step: Steps, token: str) -> dict[str, Any]:
        here = place.reopen(event.id, token)
        place.keep(here, 0)  # a look at what an earlier life left is over
        name = commands.name_of(step.key)
        voice = Voice(
            name,
            told_of(event.id, name),
            step=RUN,
            say=self.broadcast_to_clients,
            report=self.report_progress,
        )
        task = commands.Task(
            command=asked.command,
            seconds=asked.timeout,
            sandbox=lambda: provision(environment_of(here), here.folder),
            on_output=voice.take,
            sign=step.sign,
        )
        return commands.run_once(here, name, task)

    # ── A prompt ─────────────────────────────────────────────────────────────────────────────

    def _run_prompt(self, event: Event, asked: TaskParams, step: Steps) -> Any:
        self.report_progress("Opening a session", percent=10, step="open session")
        key = f"task-{self.generation}"
        opened = step.do("open session", lambda: open_session(event, asked, key), delay=1)
        session_id = UUID(opened["session_id"])
        token = step.do(
            "create sandbox", lambda: make_place(event, asked, step.key, session_id), delay=1
        )
        given = self._put_files(event, asked, step, token)
        self.report_progress(f"{opened['agent']} is at work", percent=20, step="run prompt")
        try:
            answer = step.run_session(
                "run prompt",
                agent=opened["agent_id"],
                message=asked.prompt,
                session_key=key,
                timeout=asked.timeout,
            )
        except WaitTimedOut:
            step.do("stop agent", partial(stop_session, session_id, event.created_by_id), delay=1)
            raise
        self.report_progress("Collecting artifacts", percent=90, step=artifacts.COLLECT)
        found = self._collect(event, step, token, given)
        cost = step.do("settle", partial(cost_of_session, session_id), delay=1)
        step.do("leave sandbox", partial(close_place, event.id, token), delay=1)
        if answer["stop_reason"] in UNANSWERED:
            raise TaskFailed(f"The agent stopped without an answer: {answer['stop_reason']}.")
        self.report_progress("Done", percent=100, step="done", status="complete")
        return {"output": answer["text"], "session_id": str(session_id), **found, "cost": cost}

    # ── Both ─────────────────────────────────────────────────────────────────────────────────

    def _put_files(
        self, event: Event, asked: TaskParams, step: Steps, token: str
    ) -> dict[str, str]:
        if not asked.files:
            return {}
        return step.do(
            "put files", lambda: put_files(place.reopen(event.id, token), asked), delay=1
        )

    def _collect(
        self, event: Event, step: Steps, token: str, given: dict[str, str]
    ) -> dict[str, Any]:
        return step.do(
            artifacts.COLLECT,
            lambda: artifacts.collect(place.reopen(event.id, token), given),
            delay=1,
        )

    def _leave(self, event: Event, asked: TaskParams, step: Steps, token: str) -> float | None:
        if asked.keep_seconds:
            act = partial(keep_place, event.id, token, asked.keep_seconds)
            return step.do("keep sandbox", act, delay=1)
        # Who was killed in between finds it closed already.
        step.do("destroy sandbox", partial(close_place, event.id, token), delay=1)
        return None
