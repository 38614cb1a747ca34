"""The whole of Switchyard on one machine: start it, keep it running, stop it."""

from __future__ import annotations

import os
import subprocess
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import IO

from django.db import connections

from config.external import require_usable
from config.guardian import DATABASE_PROGRAMS, MARK, kill_marked
from orchestrator.taskagent.running import end_running, running
from orchestrator.up.doorway import claim_data_dir, require_free_port, sign_claim
from orchestrator.up.health import Health, ask_health
from orchestrator.up.keeper import Keeper
from orchestrator.up.logs import keep_small
from orchestrator.up.parts import Guardian, Part, Postgres
from orchestrator.up.plan import Plan, programs
from orchestrator.up.prepare import collect_static_files, migrate
from orchestrator.up.processes import adopt_orphans, bury_strangers
from orchestrator.up.signals import Signals, StopAsked
from orchestrator.up.watch import SILENT_AFTER, Watch, answers_of, pulse_of
from tenants.first_run import prepare

TICK = 0.5
HEALTHY_WITHIN = 60.0
STOP_PROGRAMS_WITHIN = 8.0
#: After that the database is stopped at once, and recovers at its next start.
STOP_ALL_WITHIN = 9.0
LOGS_EVERY = 60.0
STOPPED = "Switchyard was stopped."


class Stack:
    """Everything that one `up` runs. What it promises: none of its programs outlives it.

    Commands of tasks are not among them: they end when a person stops it by hand, and are followed
    again at the next start when a service manager did, or nobody.
    """

    def __init__(self, plan: Plan, *, say: Callable[[str], None]) -> None:
        self.plan = plan
        self.say = say
        self.mark = uuid.uuid4().hex
        self.signals = Signals()
        self.guardian = Guardian(plan.data_dir, mark=self.mark, embedded=not plan.database_url)
        self.postgres = None if plan.database_url else Postgres(plan.data_dir)
        self.programs = programs(plan, mark=self.mark)
        self.keepers: dict[str, Keeper] = {}
        self.watch = Watch(
            {
                "web": answers_of(self._ask_health),
                "workers": pulse_of("worker", rung_by="supervisor"),
                "supervisor": pulse_of("supervisor"),
                "terminals": pulse_of("terminals"),
            }
        )
        self._logs_seen = 0.0

    def run(self) -> None:
        """Run until somebody asks to stop."""
        with claim_data_dir(self.plan.data_dir) as claim, self.signals:
            try:
                self._open(claim)
                self._keep()
            except StopAsked:
                pass
            finally:
                self.signals.abrupt = False
                self._close()

    def _open(self, claim: IO[str]) -> None:
        require_free_port(self.plan.host, self.plan.port)
        sign_claim(claim, address=self.plan.address)
        keep_small(self.plan.logs)
        adopt_orphans()
        self._start(self.guardian)
        os.environ[MARK] = self.mark  # for the programs of PostgreSQL
        if self.postgres is None:
            require_usable(self.plan.database_url)
        else:
            self._start(self.postgres)
        migrate(say=self.say)
        collect_static_files()
        sign_in_path = prepare()
        connections.close_all()
        for program in self.programs:
            self._start(program)
        self.signals.abrupt = False
        self._welcome(self._wait_until_healthy(), sign_in_path)
        self.watch.start()

    def _start(self, part: Part) -> None:
        self.keepers[part.name] = keeper = Keeper(part, say=self.say)
        keeper.start(time.monotonic())

    def _wait_until_healthy(self) -> Health:
        health = Health()
        deadline = time.monotonic() + HEALTHY_WITHIN
        while not health.ok and not self.signals.stop and time.monotonic() < deadline:
            self.signals.wait(TICK / 2)
            self._look()
            health = self._ask_health(seconds=2)
        return health

    def _ask_health(self, *, seconds: float = 10) -> Health:
        plan = self.plan
        return ask_health(plan.host, plan.port, name=plan.host_name, seconds=seconds)

    def _welcome(self, health: Health, sign_in_path: str | None) -> None:
        if self.signals.stop:
            return
        if not health.answered:
            self.say(f"The web server does not answer yet. See {self.plan.logs / 'web.log'}")
        elif not health.ok:
            self.say(f"Not everything is well yet: {', '.join(health.unwell) or 'no details'}.")
        self.say(f"\nSwitchyard runs at {self.plan.address}/")
        if sign_in_path:
            self.say(f"Sign in with this link, once: {self.plan.address}{sign_in_path}")
        self.say(f"Logs are in {self.plan.logs}. Ctrl-C stops everything.\n")

    def _keep(self) -> None:
        while not self.signals.stop:
            self.signals.wait(TICK)
            self._look()

    def _look(self) -> None:
        now = time.monotonic()
        bury_strangers(self._known())
        for keeper in self.keepers.values():
            keeper.look(now)
        for program in self.programs:
            if self.watch.hangs(program.name):
                self.watch.forgive(program.name)
                if self.keepers[program.name].age(now) > SILENT_AFTER:
                    self.say(f"{program.name}: no sign of life for {SILENT_AFTER:g} s.")
                    program.kill()
        if now - self._logs_seen > LOGS_EVERY:
            self._logs_seen = now
            keep_small(self.plan.logs)

    def _known(self) -> set[int]:
        processes = [self.guardian.process, *(program.process for program in self.programs)]
        return {process.pid for process in processes if process is not None}

    def _close(self) -> None:
        """Stop the programs, then the database, then the guardian; nothing may raise before it."""
        self.watch.stop()
        if self.signals.stop:
            self.say("Stopping …")
        asked = time.monotonic()
        for program in self.programs:
            program.ask_to_stop()
        while any(program.is_alive() for program in self.programs):
            self.signals.wait(TICK / 5)
            if time.monotonic() - asked > STOP_PROGRAMS_WITHIN or self.signals.hurry:
                break  # a second Ctrl-C means: now
        for program in self.programs:
            program.kill()
        kill_marked(self.mark, spare=DATABASE_PROGRAMS)
        with suppress(OSError):
            self._leave_commands()
        if self.postgres is not None:
            self.postgres.stop(seconds=asked + STOP_ALL_WITHIN - time.monotonic())
        kill_marked(self.mark)
        with suppress(subprocess.TimeoutExpired):
            self.guardian.dismiss()

    def _leave_commands(self) -> None:
        if self.signals.is_by_hand:
            end_running(STOPPED)
        elif going_on := running():
            self.say(f"Commands of tasks that go on: {len(going_on)}. The next start follows them.")
