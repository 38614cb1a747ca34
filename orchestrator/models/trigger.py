"""The trigger: what starts workflows automatically, and the record of each firing."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from encrypted_fields.fields import EncryptedTextField

from agents.models import Agent
from tenants.models import OwnedModel


class WorkflowTrigger(OwnedModel):
    """A schedule or an incoming webhook that starts a workflow or an agent's canvas."""

    class Kind(models.TextChoices):
        SCHEDULE = "schedule"
        WEBHOOK = "webhook"

    class Verify(models.TextChoices):
        #: The sender signs each message as Standard Webhooks specifies.
        SIGNATURE = "signature"
        #: The sender sends the secret itself, for systems that cannot sign.
        TOKEN = "token"  # noqa: S105 (the name of a method, not a secret)

    name = models.CharField(max_length=80)
    kind = models.CharField(max_length=8, choices=Kind)
    workflow = models.CharField(max_length=100)
    #: The agent whose canvas runs, or on whose behalf the workflow runs.
    agent = models.ForeignKey(
        Agent, null=True, blank=True, on_delete=models.CASCADE, related_name="+"
    )
    #: A template: `{{input.…}}` stands for the message that came in.
    params = models.JSONField(default=dict, blank=True)
    interval_seconds = models.PositiveIntegerField(null=True, blank=True)
    cron = models.CharField(max_length=120, blank=True, default="")
    timezone = models.CharField(max_length=64, default="UTC")
    next_at = models.DateTimeField(null=True, editable=False)
    last_at = models.DateTimeField(null=True, editable=False)
    paused_at = models.DateTimeField(null=True, editable=False)
    #: The last part of the webhook's URL. It identifies the trigger and authenticates nothing.
    token = models.CharField(max_length=43, null=True, unique=True, editable=False)
    verify = models.CharField(max_length=9, choices=Verify, default=Verify.SIGNATURE)
    secret = EncryptedTextField(null=True, editable=False)

    class Meta:
        db_table = "workflow_triggers"
        ordering = ["-created_at"]
        indexes = [
            models.Index(fields=["next_at"], condition=Q(paused_at=None), name="trigger_due"),
        ]
        constraints = [
            models.CheckConstraint(
                condition=~Q(kind="webhook") | Q(token__isnull=False, secret__isnull=False),
                name="trigger_by_webhook_has_a_secret",
            ),
            models.CheckConstraint(
                condition=~Q(kind="schedule") | ~Q(cron="") | Q(interval_seconds__isnull=False),
                name="trigger_by_schedule_says_when",
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def path(self) -> str:
        """The path that messages are sent to."""
        return f"/hooks/{self.token}/" if self.token else ""


class TriggerFiring(OwnedModel):
    """One time that a trigger was due or called, and its outcome."""

    class Outcome(models.TextChoices):
        STARTED = "started"
        FAILED = "failed"

    # The unique (trigger, key) is not enough: a failed call has no key, so that it can be repeated.
    trigger = models.ForeignKey(WorkflowTrigger, on_delete=models.CASCADE, related_name="firings")
    #: The due time, or the message's id: the same key starts one workflow.
    key = models.CharField(max_length=80, null=True)
    outcome = models.CharField(max_length=7, choices=Outcome)
    #: How many earlier times were missed because nothing ran. They are not made up for.
    missed = models.PositiveIntegerField(default=0)
    workflow_id = models.UUIDField(null=True)
    note = models.CharField(max_length=300, blank=True, default="")

    class Meta:
        db_table = "trigger_firings"
        ordering = ["-created_at"]
        indexes = [models.Index(fields=["created_at"], name="trigger_firing_by_age")]
        constraints = [
            models.UniqueConstraint(fields=["trigger", "key"], name="trigger_fires_once_per_key"),
        ]

    def __str__(self) -> str:
        return f"{self.outcome} at {self.created_at}"
