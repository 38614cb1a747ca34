"""An agent and a session, for the pages that show what they spent."""

from tests.sessions_app.conftest import agent, session

__all__ = ["agent", "session"]
