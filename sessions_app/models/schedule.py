"""The schedule: a message that is sent to a session at a later time, once or repeatedly."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from agents.models import Agent
from sessions_app.models.session import Session
from tenants.models import OwnedModel


class Schedule(OwnedModel):
    """What is sent, to which session of which agent, and when next."""

    class Kind(models.TextChoices):
        ONCE = "once"
        INTERVAL = "interval"
        CRON = "cron"

    class Task(models.TextChoices):
        MESSAGE = "message"
        CONSOLIDATION = "consolidation"

    name = models.CharField(max_length=80)
    #: What a firing does: send the message, or consolidate the agent's memory.
    task = models.CharField(
        max_length=13, choices=Task, default=Task.MESSAGE, db_default=Task.MESSAGE
    )
    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="schedules")
    #: Without a session, each firing creates one.
    session = models.ForeignKey(
        Session, null=True, blank=True, on_delete=models.CASCADE, related_name="schedules"
    )
    message = models.TextField(blank=True)
    kind = models.CharField(max_length=8, choices=Kind)
    interval_seconds = models.PositiveIntegerField(null=True, blank=True)
    cron = models.CharField(max_length=120, blank=True)
    timezone = models.CharField(max_length=64, default="UTC")
    #: Check first whether there is anything to do. If not, nothing is sent and nothing is spent.
    heartbeat = models.BooleanField(default=False)
    #: The session whose agent created this schedule, if one did.
    asked_by = models.ForeignKey(
        Session, null=True, blank=True, on_delete=models.SET_NULL, related_name="asked_schedules"
    )
    next_at = models.DateTimeField(null=True)
    last_at = models.DateTimeField(null=True, editable=False)
    paused_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        db_table = "schedules"
        ordering = ["-created_at"]
        indexes = [
            models.Index(fields=["next_at"], condition=Q(paused_at=None), name="schedule_due")
        ]
        constraints = [
            models.CheckConstraint(
                condition=~Q(kind="interval") | Q(interval_seconds__isnull=False),
                name="schedule_of_an_interval_has_one",
            ),
            models.UniqueConstraint(
                fields=["agent"],
                condition=Q(task="consolidation"),
                name="consolidation_has_one_schedule_per_agent",
            ),
            models.CheckConstraint(
                condition=~Q(kind="cron") | ~Q(cron=""), name="schedule_by_cron_says_when"
            ),
        ]

    def __str__(self) -> str:
        return self.name


class Firing(OwnedModel):
    """One time at which a schedule was due, and what happened."""

    class Outcome(models.TextChoices):
        SENT = "sent"
        NOTHING_TO_DO = "nothing_to_do"
        FAILED = "failed"

    schedule = models.ForeignKey(Schedule, on_delete=models.CASCADE, related_name="firings")
    due_at = models.DateTimeField()
    outcome = models.CharField(max_length=13, choices=Outcome)
    #: How many earlier times were missed because no supervisor ran. They are not made up for.
    missed = models.PositiveIntegerField(default=0)
    session_id = models.UUIDField(null=True)
    run_id = models.UUIDField(null=True)
    note = models.CharField(max_length=300, blank=True)

    class Meta:
        db_table = "schedule_firings"
        ordering = ["-created_at"]
        constraints = [
            models.UniqueConstraint(
                fields=["schedule", "due_at"], name="firing_is_one_per_due_time"
            )
        ]

    def __str__(self) -> str:
        return f"{self.outcome} at {self.due_at}"
