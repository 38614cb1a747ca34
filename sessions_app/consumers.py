"""The WebSocket of a session: frames out, `user.*` events in.

It closes with 4000 + the status that HTTP would answer: 4400 a bad cursor, 4401 no identity or one
that was revoked, 4403 no right to read, 4404 no such session, 4408 the client is too slow, 4429 too
many sockets, 4503 the log cannot be read just now. After 4408 and 4503 connect again with `after`.
The web server pings clients that are silent for 20 s, and cuts those that do not answer.
"""

from __future__ import annotations

from urllib.parse import parse_qs
from uuid import UUID

from config.faults import Unauthenticated
from sessions_app.doors import find_session
from sessions_app.encoding import encode
from sessions_app.hub import watching
from sessions_app.reader import Log, SessionLog, cursor_in
from sessions_app.socket_commands import obey
from tenants.off_loop import read
from tenants.pumped import PumpedConsumer


class LogConsumer(PumpedConsumer):
    """Sends every stored event of a log after a cursor in order, once, then what is new."""

    async def followed(self) -> Log:
        """The log that this socket shows, if its viewer may see it."""
        raise NotImplementedError

    async def send_frames(self) -> None:
        query = parse_qs(self.scope["query_string"].decode("latin1"))
        after = cursor_in(query.get("after", ["0"])[-1])
        followed = await self.followed()
        async with watching(followed, after=after, principal=self.principal) as viewer:
            while True:
                for frame in await viewer.next():
                    await self.send_in_time(frame.text)


class SessionConsumer(LogConsumer):
    @property
    def session_id(self) -> UUID:
        return self.scope["url_route"]["kwargs"]["session_id"]

    async def followed(self) -> Log:
        await read(find_session, self.principal, self.session_id)
        return SessionLog(session_id=self.session_id)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        try:
            answer = await obey(self.principal, self.session_id, text_data)
        except Unauthenticated as fault:
            await self.close_for(fault)
        else:
            await self.send(text_data=encode(answer))
