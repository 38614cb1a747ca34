"""Runs workflows in a worker: a Runner continues one of them, a WorkflowHost all of this process."""

from __future__ import annotations

import time
from collections.abc import Sequence
from uuid import UUID

import structlog
from django.conf import settings
from django.utils import timezone

from agents.models import Agent
from core.db import release_connection
from core.exceptions import StaleEpoch
from core.lease_host import Lease, LeaseHost
from orchestrator.engine import definition, store
from orchestrator.engine.approvals import announce_closed
from orchestrator.engine.definition import RollingBack, Suspended, Workflow
from orchestrator.engine.lifecycle import stop_started_work
from orchestrator.engine.publisher import Publisher
from orchestrator.engine.step_writer import FLUSH_SECONDS, StepWriter, encode_error, encode_result
from orchestrator.engine.steps import Steps
from orchestrator.engine.store import Body
from orchestrator.exceptions import NonDeterminism
from orchestrator.models import Workflow as WorkflowRow
from sessions_app.harness.crash_points import crash_point
from sessions_app.lanes.signals import StopSignal

log = structlog.get_logger(__name__)

Status = WorkflowRow.Status


class Runner(StepWriter):
    """Continues one workflow until it waits, ends, or has another holder."""

    steps: Steps

    def run(self) -> None:
        """Replay the workflow and continue it. What its own code raises is its outcome."""
        try:
            recorded = store.load_steps(self.claim.id) if self.claim.has_steps else []
            self.steps = Steps(self, recorded)
            self._run_class()
        except (Suspended, StaleEpoch):
            pass
        finally:
            release_connection()

    def _run_class(self) -> None:
        name, version = self.claim.name, self.claim.version
        made = definition.registry.get((name, version))
        if made is None:
            self._finish(Status.ERRORED, error=definition.unknown_version_error(name, version))
            return
        crash_point("workflow_claimed")
        try:
            result = self._call(made)
        except RollingBack:
            self._roll_back(self.claim.undoing or {})
        except NonDeterminism as fault:
            self._finish(Status.ERRORED, error=encode_error(fault))
            self._abandon_branches()
        except (Exception, SystemExit) as error:  # noqa: BLE001 (whatever it raises is its outcome)
            self._fail(encode_error(error))
        else:
            self._finish(Status.COMPLETE, result=result)

    def _call(self, made: type[Workflow]) -> str:
        claim = self.claim
        event = definition.Event(
            id=claim.id,
            key=claim.key,
            name=claim.name,
            workspace_id=claim.workspace_id,
            payload=claim.params,
            created_at=claim.created_at,
            created_by_id=claim.created_by_id,
        )
        value = made(self).run(event, self.steps)
        self.steps.check_complete()
        if claim.undoing:
            raise RollingBack
        return encode_result(value, "The workflow")

    def _fail(self, error: Body) -> None:
        why = self.claim.undoing or {"becomes": Status.ERRORED, "error": error}
        if self.steps.rollbacks:
            self._roll_back(why)
        else:
            self._finish(why["becomes"], error=why["error"])
            self._abandon_branches()

    def _roll_back(self, why: Body) -> None:
        """Roll back the completed steps, the last one first. Each rollback is a separate step."""
        if self.steps.rollbacks and not self.claim.undoing:
            self.begin_rollback(why)
            self._abandon_branches()
        failed = self.steps.roll_back()
        error = why.get("error")
        if failed:
            error = {**(error or {}), "rollback_failed": failed}
        self._finish(why.get("becomes", Status.ERRORED), error=error)

    def _finish(
        self, becomes: str, *, result: str | None = None, error: Body | None = None
    ) -> None:
        crash_point("workflow_finishing")
        self.finish(becomes, result=result, error=error)

    def _abandon_branches(self) -> None:
        """Stop what the other branches of a workflow that failed wait for."""
        if self.steps.has_branches:
            announce_closed(self.claim.id)
            ended = WorkflowRow.objects.get(pk=self.claim.id)
            stop_started_work(ended, self.claim.created_by_id, only_awaited=True)

    # ── For the workflow's code ──────────────────────────────────────────────────────────────

    def log_event(self, type: str, payload: Body) -> bool:
        """Append an event to the log. Return False during a replay, which logs nothing again."""
        if self.steps.is_replaying:
            return False
        self.append_event(type, payload)
        return True

    def report_progress(
        self, *, message: str, percent: float | None, step: str, status: str
    ) -> Body | None:
        elapsed = (timezone.now() - self.claim.started_at).total_seconds()
        percent = None if percent is None else min(max(float(percent), 0.0), 100.0)
        progress: Body = {
            "step": step or self.steps.current_name,
            "status": status,
            "message": message,
            "percent": percent,
            "eta_seconds": round(elapsed * (100 - percent) / percent, 1) if percent else None,
        }
        return progress if self.log_event("progress", progress) else None

    def notify_agent(self, agent: definition.WorkflowAgent, name: str, progress: Body) -> None:
        try:
            agent.on_workflow_progress(name, self.claim.id, progress)
        except Exception:
            log.exception("progress_hook_failed", workflow_id=str(self.claim.id))

    def find_agent(self) -> Agent | None:
        if self.claim.agent_id is None:
            return None
        agents = Agent.objects.for_workspace(self.claim.workspace_id)
        return agents.select_related("current").filter(pk=self.claim.agent_id).first()


STOP_CHANNEL = "switchyard_workflow_stop"


class WorkflowHost(LeaseHost[None, Runner]):
    """The workflows that this process holds. A job is to look for one that is due."""

    name = "workflow"
    stop_channel = STOP_CHANNEL
    stop_reason = "stopped"

    def __init__(self) -> None:
        self._publisher = Publisher()
        store.use_pool()
        super().__init__(settings.WORKFLOWS_PER_WORKER)
        self.start_thread(self._flush)

    def wake(self) -> None:
        """Look for work on one more thread. A full process looks by itself when it has room."""
        self.submit(None)

    def serve(self, job: None) -> None:
        while not self.ending.is_set() and self._run_next():
            pass

    def _run_next(self) -> bool:
        """Continue one workflow that is due. Return False when there is none."""
        claim = store.claim_next(self.owner, definition.known_versions())
        if claim is None:
            return False
        self._publisher.publish(claim)
        runner = Runner(claim, StopSignal(), self._publisher.publish)
        with self.holding(lease_of(runner)):
            runner.run()
        return True

    def heartbeat(self, ids: Sequence[UUID]) -> dict[UUID, int]:
        return store.heartbeat(self.owner, ids)

    def release(self, holder: Runner) -> None:
        try:
            holder.flush()
            store.release(holder.claim, "shutdown")
        except Suspended:
            log.warning("lease_not_released", host=self.name, id=str(holder.claim.id))

    def _flush(self) -> None:
        """Write the ends of steps whose workflow takes its time before the next."""
        while not self.ending.is_set():
            self.busy.wait()
            time.sleep(FLUSH_SECONDS)
            for lease in self.leases:
                try:
                    lease.holder.flush(older_than=FLUSH_SECONDS)
                except Suspended:
                    continue  # the workflow's own thread finds out too
        release_connection()

    def drain(self) -> None:
        super().drain()
        store.use_pool().close()


def lease_of(runner: Runner) -> Lease[Runner]:
    claim = runner.claim
    return Lease(id=claim.id, epoch=claim.epoch, holder=runner, stop=runner.sign.send)
