"""The form of an environment: where commands run, what they may reach and use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django import forms

from agents.limits import SandboxLimits
from agents.models import Environment
from agents.models.environment import DEFAULT_NAME
from agents.mount_input import PLACES

PLAIN = {"autocomplete": "off", "spellcheck": "false"}
KINDS = [
    ("local", "On this machine", "Namespaces of the kernel. Starts at once."),
    ("container", "In a container", "Podman or Docker, from an image of yours."),
]
NETWORKS = [
    ("none", "None", "Commands reach nothing."),
    ("allowlist", "Named hosts", "Only the hosts below, through a proxy."),
    ("full", "Every public host", "Through a proxy; never this machine or a private network."),
]
#: Empty rows to fill in, beside those that are there.
BLANK_MOUNTS = 2
MOUNT_FIELDS = ("kind", "source_ref", "mount_path", "access")
LIMITS = tuple(SandboxLimits.model_fields)


def limit(name: str, label: str) -> forms.IntegerField:
    known = SandboxLimits.model_fields[name]
    bounds = {type(one).__name__: one for one in known.metadata}
    return forms.IntegerField(
        label=label,
        initial=known.default,
        min_value=bounds["Ge"].ge,
        max_value=bounds["Le"].le,
    )


class EnvironmentForm(forms.Form):
    KINDS, NETWORKS = KINDS, NETWORKS

    name = forms.CharField(label="Name", max_length=80, widget=forms.TextInput(attrs=PLAIN))
    kind = forms.ChoiceField(choices=[(value, title) for value, title, _ in KINDS])
    image = forms.CharField(
        label="Image",
        required=False,
        max_length=200,
        widget=forms.TextInput(attrs=PLAIN),
        help_text="Empty for the one that this installation comes with.",
    )
    network = forms.ChoiceField(choices=[(value, title) for value, title, _ in NETWORKS])
    allowed_hosts = forms.CharField(
        label="Hosts",
        required=False,
        max_length=20_000,
        widget=forms.Textarea(attrs={**PLAIN, "rows": 3}),
        help_text="One per line. *.example.com stands for all below it.",
    )
    cpu_seconds = limit("cpu_seconds", "Processor seconds")
    memory_mb = limit("memory_mb", "Memory (MiB)")
    pids = limit("pids", "Processes")
    wall_seconds = limit("wall_seconds", "Seconds by the clock")

    def __init__(self, *args: Any, **words: Any) -> None:
        super().__init__(*args, **words)
        if self.initial.get("name") == DEFAULT_NAME:
            self.fields["name"].widget.attrs["readonly"] = ""
            self.fields["name"].help_text = "Found by its name, which has to stay."

    def clean_allowed_hosts(self) -> list[str]:
        return self.cleaned_data["allowed_hosts"].split()

    def mounts(self) -> list[dict[str, str]]:
        """The rows as they were sent; else as they are kept, and some to fill in."""
        if self.is_bound and hasattr(self.data, "getlist"):
            columns = [self.data.getlist(f"mount_{name}") for name in MOUNT_FIELDS]
            rows = [
                dict(zip(MOUNT_FIELDS, row, strict=False)) for row in zip(*columns, strict=False)
            ]
        else:
            rows = [dict(row) for row in self.initial.get("mounts", [])]
        kept = [row for row in rows if row.get("source_ref") or row.get("mount_path")]
        return [*kept, *({"access": "read_only"} for _ in range(BLANK_MOUNTS))]

    def kinds_of_mounts(self) -> list[tuple[str, str]]:
        return [(kind, named(kind)) for kind in PLACES]

    def fields_of_environment(self) -> dict[str, Any]:
        given = dict(self.cleaned_data)
        given["limits"] = {name: given.pop(name) for name in LIMITS}
        return {**given, "mounts": [row for row in self.mounts() if row.get("mount_path")]}


def named(kind: str) -> str:
    """A kind of mount in words."""
    return kind.replace("_", " ").capitalize()


def initial_of(environment: Environment) -> dict[str, Any]:
    return {
        "name": environment.name,
        "kind": environment.kind,
        "image": environment.image,
        "network": environment.network,
        "allowed_hosts": "\n".join(environment.allowed_hosts),
        "mounts": environment.mounts,
        **{name: environment.limits.get(name) or default(name) for name in LIMITS},
    }


def default(name: str) -> int:
    return SandboxLimits.model_fields[name].default


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One environment in words."""

    environment: Environment

    @property
    def is_default(self) -> bool:
        return self.environment.name == DEFAULT_NAME

    @property
    def reaches(self) -> str:
        hosts = self.environment.allowed_hosts
        if self.environment.network == "allowlist":
            more = f" and {len(hosts) - 3} more" if len(hosts) > 3 else ""
            return f"reaches {', '.join(hosts[:3])}{more}"
        return "reaches every public host" if self.environment.network == "full" else "no network"

    @property
    def bounds(self) -> str:
        kept = self.environment.limits
        found = {name: kept.get(name) or default(name) for name in LIMITS}
        return (
            f"{found['wall_seconds']} s by the clock · {found['cpu_seconds']} s of processor · "
            f"{found['memory_mb']} MiB · {found['pids']} processes"
        )

    @property
    def mounts(self) -> list[tuple[str, str]]:
        """Where each is, and what it is."""
        told = []
        for mount in self.environment.mounts:
            access = "read and write" if mount.get("access") == "read_write" else "read only"
            words = (named(mount["kind"]), mount.get("source_ref", ""), access)
            told.append((mount["mount_path"], " · ".join(filter(None, words))))
        return told
