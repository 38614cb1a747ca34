"""What a chat shows beside itself: a page for untrusted documents, and files of the session.

Documents that models write are shown in a sandboxed frame. Its page has an opaque origin and a policy
of its own that lets a document style itself and run its own scripts, and reach nothing.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from uuid import UUID

from django.conf import settings
from django.http import FileResponse, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import cache_control, never_cache
from django.views.decorators.clickjacking import xframe_options_exempt
from django.views.decorators.http import require_safe

from core.exceptions import NotFound
from sessions_app.resources.files import open_stored
from sessions_app.sessions import find_session
from tenants.authentication import principal_of

#: The sources are for the script of the frame's page. The page that embeds it lets it navigate nowhere.
SCRIPTS = " ".join(settings.CONTENT_SECURITY_POLICY["DIRECTIVES"]["script-src"])
FRAME_POLICY = (
    f"default-src 'none'; script-src {SCRIPTS} 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
    "img-src data: blob:; font-src data:; media-src data: blob:; form-action 'none'; "
    "base-uri 'none'; frame-ancestors 'self'; sandbox allow-scripts"
)
#: The content types of files that are shown as they are. All others are only downloaded.
IMAGES = {
    ".avif": "image/avif",
    ".gif": "image/gif",
    ".jpeg": "image/jpeg",
    ".jpg": "image/jpeg",
    ".png": "image/png",
    ".webp": "image/webp",
}
PDF = ".pdf"
IMAGE_POLICY = "default-src 'none'; sandbox"
#: The browser's own viewer shows a PDF outside of this origin. It does not work in a sandbox.
PDF_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'self'"


@xframe_options_exempt
@cache_control(private=True, max_age=3600)
@require_safe
def content_frame(request: HttpRequest) -> HttpResponse:
    """Return the page that shows one untrusted document, which its parent sends as a message."""
    response = render(request, "pages/chat/frame.html")
    response["Content-Security-Policy"] = FRAME_POLICY
    return response


@xframe_options_exempt
@never_cache
@require_safe
def chat_file(request: HttpRequest, session_id: UUID, path: str) -> FileResponse:
    """Return an image or a PDF of the session's files to be shown, not downloaded."""
    session = find_session(principal_of(request), session_id)
    suffix = PurePosixPath(path).suffix.lower()
    if suffix not in IMAGES and suffix != PDF:
        raise NotFound("Files of this kind are not shown.")
    return FileResponse(
        open_stored(session, path),
        content_type=IMAGES.get(suffix, "application/pdf"),
        headers={
            "Content-Security-Policy": PDF_POLICY if suffix == PDF else IMAGE_POLICY,
            "X-Content-Type-Options": "nosniff",
            "Content-Disposition": "inline",
        },
    )
