"""The policy of a layer and its revisions."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models

from tenants.models import OwnedModel

RULE_LENGTH = 150


def rules() -> ArrayField:
    return ArrayField(models.CharField(max_length=RULE_LENGTH), default=list, blank=True)


class PolicyFields(models.Model):
    """The rules of a policy. Without any, it has no effect."""

    profile = models.CharField(max_length=20, null=True, blank=True)
    allowed_tools = rules()
    denied_tools = rules()
    ask_tools = rules()
    max_tool_calls_per_turn = models.PositiveIntegerField(null=True, blank=True)

    class Meta:
        abstract = True


class ToolPolicy(PolicyFields, OwnedModel):
    """The current policy of one layer. `revision` is the number of its newest revision."""

    class Layer(models.TextChoices):
        WORKSPACE = "workspace"
        AGENT = "agent"
        ENVIRONMENT = "environment"
        SESSION = "session"
        SUBAGENT = "subagent"

    layer = models.CharField(max_length=11, choices=Layer)
    #: The workspace, agent, environment or session that the policy binds. Not a foreign key:
    #: sessions belong to a later app, and the policy of a deleted environment can still be read.
    subject_id = models.UUIDField()
    revision = models.PositiveIntegerField(default=0)

    class Meta:
        db_table = "agent_tool_policies"
        verbose_name_plural = "tool policies"
        ordering = ["-created_at"]
        constraints = [
            # The subject comes first, as a run reads all layers of its subjects at once.
            models.UniqueConstraint(
                fields=["subject_id", "layer"], name="policy_is_one_per_layer_and_subject"
            ),
        ]

    def __str__(self) -> str:
        return f"policy of {self.layer} {self.subject_id}"


class PolicyRevision(PolicyFields, OwnedModel):
    """A revision of a policy, with its author. The database refuses to change it."""

    policy = models.ForeignKey(ToolPolicy, on_delete=models.CASCADE, related_name="revisions")
    revision = models.PositiveIntegerField()
    #: The person's e-mail address or the key's name at that time.
    author = models.CharField(max_length=254, blank=True)
    #: The revision that was restored, if this is a revert.
    reverts_to = models.PositiveIntegerField(null=True, blank=True)

    class Meta:
        db_table = "agent_tool_policy_revisions"
        ordering = ["-revision"]
        constraints = [
            models.UniqueConstraint(
                fields=["policy", "revision"], name="revision_is_unique_in_its_policy"
            ),
        ]

    def __str__(self) -> str:
        return f"revision {self.revision} of {self.policy_id}"
