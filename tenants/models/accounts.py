"""Workspaces, users, memberships, invitations, API keys, secrets and sign-in."""

from __future__ import annotations

from typing import Any, ClassVar, Self
from uuid import UUID

from django.conf import settings
from django.contrib.auth.base_user import AbstractBaseUser, BaseUserManager
from django.contrib.auth.models import PermissionsMixin
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import OuterRef, Q, Subquery
from django.db.models.functions import Lower, Now
from encrypted_fields.fields import EncryptedTextField

from core.exceptions import NotFound
from core.ids import uuid7


class Workspace(models.Model):
    """A group of people with their agents, sessions, memory and money."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    name = models.CharField(max_length=80)
    slug = models.SlugField(max_length=90, unique=True)
    #: Addresses besides members' that agents may e-mail: `ann@example.com`, `*@example.com`.
    mail_allowed = ArrayField(
        models.CharField(max_length=320), default=list, db_default=[], blank=True
    )
    #: The person whose quota it counts towards, even after they left it.
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        blank=True,
        editable=False,
        on_delete=models.SET_NULL,
        related_name="+",
    )
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class OwnedQuerySet(models.QuerySet):
    def for_workspace(self, workspace_id: UUID | None) -> Self:
        """Return the rows of a workspace. Without a workspace there are none."""
        return self.filter(workspace_id=workspace_id) if workspace_id else self.none()

    def find(self, detail: str = "", **lookup: object) -> Any:
        """Return the first row that matches, or raise NotFound with this detail."""
        row = self.filter(**lookup).first()
        if row is None:
            raise NotFound(detail)
        return row


class OwnedModel(models.Model):
    """A row that belongs to exactly one workspace."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="+")
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        blank=True,
        editable=False,
        # Only the deletion of a user would use an index, and every write would pay for it.
        db_index=False,
        on_delete=models.SET_NULL,
        related_name="+",
    )
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    objects = OwnedQuerySet.as_manager()

    class Meta:
        abstract = True


class UserManager(BaseUserManager["User"]):
    def get_by_natural_key(self, username: str | None) -> User:
        return self.get(email__iexact=username)

    def create_user(self, email: str, password: str | None = None, **fields: Any) -> User:
        """Create a user. Without a password they can only sign in with a link."""
        user = self.model(email=email.strip().lower(), **fields)
        user.set_password(password)
        user.save(using=self._db)
        return user

    def create_superuser(self, email: str, password: str | None = None, **fields: Any) -> User:
        return self.create_user(email, password, is_staff=True, is_superuser=True, **fields)


class User(AbstractBaseUser, PermissionsMixin):
    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    email = models.EmailField(unique=True)
    name = models.CharField(max_length=80, blank=True)
    is_active = models.BooleanField(default=True)
    is_staff = models.BooleanField(default=False)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    objects = UserManager()

    USERNAME_FIELD = "email"
    EMAIL_FIELD = "email"
    REQUIRED_FIELDS: ClassVar[list[str]] = []

    class Meta:
        ordering = ["email"]
        constraints = [
            models.UniqueConstraint(Lower("email"), name="user_email_is_unique_in_any_case"),
        ]

    def __str__(self) -> str:
        return self.name or self.email

    @property
    def display_name(self) -> str:
        return self.name or self.email.split("@")[0]


class Membership(OwnedModel):
    class Role(models.TextChoices):
        OWNER = "owner"
        ADMIN = "admin"
        BUILDER = "builder"
        VIEWER = "viewer"

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=8, choices=Role, default=Role.BUILDER)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "user"], name="membership_is_one_per_person"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.user} is {self.role}"


class Invitation(OwnedModel):
    email = models.EmailField()
    role = models.CharField(max_length=8, choices=Membership.Role, default=Membership.Role.BUILDER)
    digest = models.CharField(max_length=64, unique=True, editable=False)
    expires_at = models.DateTimeField()
    accepted_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        ordering = ["-created_at"]
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "email"],
                condition=models.Q(accepted_at=None),
                name="invitation_is_open_once_per_address",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.email} as {self.role}"


class ApiKeyQuerySet(OwnedQuerySet):
    def valid(self) -> Self:
        """Return the keys that can be used now, with their creator's current role as `maker_role`.

        The keys of a user who left or was deactivated are not valid, as that user may still know
        them. Keys without a creator stay valid.
        """
        makers = Membership.objects.filter(
            workspace=OuterRef("workspace"), user=OuterRef("created_by"), user__is_active=True
        )
        usable = self.filter(Q(expires_at=None) | Q(expires_at__gt=Now()), revoked_at=None)
        with_roles = usable.annotate(maker_role=Subquery(makers.values("role")))
        return with_roles.filter(Q(created_by=None) | Q(maker_role__isnull=False))


class ApiKey(OwnedModel):
    """A key with which a program uses one workspace. Only its digest is stored."""

    class Scope(models.TextChoices):
        READ = "read"
        RUN = "run"
        ADMIN = "admin"

    name = models.CharField(max_length=80)
    prefix = models.CharField(max_length=16, editable=False)
    digest = models.CharField(max_length=64, unique=True, editable=False)
    scope = models.CharField(max_length=5, choices=Scope, default=Scope.RUN)
    expires_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, editable=False)
    revoked_at = models.DateTimeField(null=True, editable=False)

    #: Set by `valid`.
    maker_role: str | None

    objects = ApiKeyQuerySet.as_manager()  # type: ignore[misc]

    class Meta:
        ordering = ["-created_at"]

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"


class Secret(OwnedModel):
    """A secret of the vault. Its value is encrypted, and no page or API returns it."""

    name = models.CharField(max_length=64)
    value = EncryptedTextField()
    #: Hosts it may be sent to: `api.example.com` or `*.example.com`. Empty means any host.
    hosts = ArrayField(models.CharField(max_length=253), default=list, blank=True)
    set_at = models.DateTimeField(db_default=Now(), editable=False)
    last_used_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        db_table = "vault_secrets"
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "name"], name="secret_name_is_unique_in_its_workspace"
            ),
        ]

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<Secret {self.name}>"


class SignInLink(models.Model):
    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+")
    digest = models.CharField(max_length=64, unique=True, editable=False)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True, editable=False)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    def __str__(self) -> str:
        return f"link for {self.user}"


class SignInAttempt(models.Model):
    """One failed sign-in, with digests of the e-mail address and the client's network address."""

    email_digest = models.CharField(max_length=64)
    client = models.CharField(max_length=64)
    at = models.DateTimeField(db_default=Now())

    class Meta:
        indexes = [
            models.Index(fields=["email_digest", "at"], name="attempt_by_email"),
            models.Index(fields=["client", "at"], name="attempt_by_client"),
        ]

    def __str__(self) -> str:
        return f"attempt at {self.at:%F %T}"
