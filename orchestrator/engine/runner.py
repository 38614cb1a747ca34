"""One workflow in the hands of a worker: replays its code, and judges how it ends."""

from __future__ import annotations

import structlog
from django.utils import timezone

from agents.models import Agent
from config.faults import NonDeterminism, StaleEpoch
from orchestrator.engine import store
from orchestrator.engine.branches import abandon
from orchestrator.engine.control import Parked, Undoing
from orchestrator.engine.definition import (
    Event,
    Workflow,
    WorkflowAgent,
    registry,
    version_gone,
)
from orchestrator.engine.pen import Pen
from orchestrator.engine.results import describe, encode_result
from orchestrator.engine.steps import Steps
from orchestrator.engine.store import Body
from orchestrator.models import Workflow as Row
from sessions_app.points import reached
from tenants.off_loop import let_go

log = structlog.get_logger(__name__)


class Runner(Pen):
    """Goes on with one workflow until it waits, ends, or belongs to somebody else."""

    steps: Steps

    # ── Running ──────────────────────────────────────────────────────────────────────────────

    def run(self) -> None:
        """Never raises what the workflow's own code raised: that is its outcome."""
        try:
            known = store.recorded(self.claimed.id) if self.claimed.has_steps else []
            self.steps = Steps(self, known)
            self._run_class()
        except (Parked, StaleEpoch):
            pass
        finally:
            let_go()

    def _run_class(self) -> None:
        made = registry.get((self.claimed.name, self.claimed.version))
        if made is None:
            self._finish(
                Row.Status.ERRORED, error=version_gone(self.claimed.name, self.claimed.version)
            )
            return
        reached("workflow_claimed")
        try:
            result = self._call(made)
        except Undoing:
            self._undo(self.claimed.undoing or {})
        except NonDeterminism as fault:
            self._finish(Row.Status.ERRORED, error=describe(fault))
            self._let_branches_go()
        except (Exception, SystemExit) as error:  # noqa: BLE001 (whatever it raises is its outcome)
            self._fail(describe(error))
        else:
            self._finish(Row.Status.COMPLETE, result=result)

    def _call(self, made: type[Workflow]) -> str:
        held = self.claimed
        event = Event(
            id=held.id,
            key=held.key,
            name=held.name,
            workspace_id=held.workspace_id,
            payload=held.params,
            created_at=held.created_at,
            created_by_id=held.created_by_id,
        )
        value = made(self).run(event, self.steps)
        self.steps.check_complete()
        if held.undoing:
            raise Undoing
        return encode_result(value, "The workflow")

    def _fail(self, error: Body) -> None:
        why = self.claimed.undoing or {"becomes": Row.Status.ERRORED, "error": error}
        if self.steps.undos:
            self._undo(why)
        else:
            self._finish(why["becomes"], error=why["error"])
            self._let_branches_go()

    def _undo(self, why: Body) -> None:
        """Roll back what was done, the last first. Each rollback is a step of its own."""
        if self.steps.undos and not self.claimed.undoing:
            self.undo(why)
            self._let_branches_go()
        failed = self.steps.roll_back()
        error = why.get("error")
        if failed:
            error = {**(error or {}), "rollback_failed": failed}
        self._finish(why.get("becomes", Row.Status.ERRORED), error=error)

    def _finish(
        self, becomes: str, *, result: str | None = None, error: Body | None = None
    ) -> None:
        reached("workflow_finishing")
        self.finish(becomes, result=result, error=error)

    def _let_branches_go(self) -> None:
        """It has failed: nobody waits any more for what its other branches wait for."""
        if self.steps.has_branches:
            abandon(self.claimed)

    # ── Telling ──────────────────────────────────────────────────────────────────────────────

    def say(self, type: str, payload: Body) -> bool:
        """Put something into the log. A replay says nothing again."""
        if self.steps.is_replaying:
            return False
        self.note(type, payload)
        return True

    def report(self, *, message: str, percent: float | None, step: str, status: str) -> Body | None:
        took = (timezone.now() - self.claimed.started_at).total_seconds()
        share = None if percent is None else min(max(float(percent), 0.0), 100.0)
        eta = round(took * (100 - share) / share, 1) if share else None
        progress: Body = {
            "step": step or self.steps.current_name,
            "status": status,
            "message": message,
        }
        progress |= {"percent": share, "eta_seconds": eta}
        return progress if self.say("progress", progress) else None

    def tell_agent(self, agent: WorkflowAgent, name: str, progress: Body) -> None:
        try:
            agent.on_workflow_progress(name, self.claimed.id, progress)
        except Exception:
            log.exception("progress_hook_failed", workflow_id=str(self.claimed.id))

    def find_agent(self) -> Agent | None:
        if self.claimed.agent_id is None:
            return None
        agents = Agent.objects.for_workspace(self.claimed.workspace_id)
        return agents.select_related("current").filter(pk=self.claimed.agent_id).first()
