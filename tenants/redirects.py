"""Follows redirects one by one: where each leads is looked at, and what else it says is not read.

The HTTP client's own way reads the whole body of a redirect, however large it unfolds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx2

from tenants.egress import MOST_REDIRECTS


@contextmanager
def following(
    client: httpx2.Client, url: str, *, check: Callable[[str], None] | None = None
) -> Iterator[httpx2.Response]:
    """What stands at an address, its body not read yet. `check` raises for where it must not lead."""
    request = client.build_request("GET", url)
    for _ in range(MOST_REDIRECTS + 1):
        response = client.send(request, stream=True, follow_redirects=False)
        try:
            if response.next_request is None:
                yield response
                return
            request = response.next_request
        finally:
            response.close()
        if check:
            check(str(request.url))
    raise httpx2.TooManyRedirects("It redirects too often.", request=request)
