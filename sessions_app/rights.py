"""Whether an identity that was let in once still holds; see `tenants/rights.py`."""

from __future__ import annotations

from tenants.rights import renewed, revoked

__all__ = ["renewed", "revoked"]
