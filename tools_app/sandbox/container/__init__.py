"""The container sandbox, on the API that Docker and Podman share."""

from __future__ import annotations

from tools_app.sandbox.container.lifecycle import end_session_claims, remove_containers
from tools_app.sandbox.container.sandbox import ContainerSandbox

__all__ = ["ContainerSandbox", "end_session_claims", "remove_containers"]
