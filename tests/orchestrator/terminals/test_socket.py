"""Tests of a terminal's socket: a real shell in a real sandbox, several viewers, permissions."""

from __future__ import annotations

import asyncio
import logging
from uuid import uuid4

import pytest
from asgiref.sync import sync_to_async

from orchestrator import consumers
from orchestrator.exceptions import TerminalOver, TerminalsAway
from orchestrator.terminals import host as terminal_host
from orchestrator.terminals import terminals
from orchestrator.terminals.client import watch as watch_host
from orchestrator.terminals.host import REPLAY_BYTES
from tenants.models import ApiKey
from tests.conftest import add_member
from tests.orchestrator.terminals.conftest import is_closed, now, until, watch
from tests.tools_app.sandbox.conftest import alive, sleep_command


async def test_typed_input_runs_and_its_output_is_shown(async_db, terminal, workspace):
    async with watch(terminal.pk, workspace) as viewer:
        ready = await viewer.hears("ready")
        assert (ready["cols"], ready["rows"], ready["write"]) == (91, 31, True)
        await viewer.types("echo $((6 * 7)) is it; pwd; stty size\n")

        seen = await viewer.sees(b"31 91")
        assert b"42 is it\r\n/workspace" in seen


async def test_a_new_size_reaches_the_shell_and_the_other_viewers(async_db, terminal, workspace):
    async with watch(terminal.pk, workspace) as one, watch(terminal.pk, workspace) as other:
        await other.hears("ready")
        await one.tells(type="resize", cols=120, rows=40)

        assert await other.hears("resize") == {"type": "resize", "cols": 120, "rows": 40}
        await one.types("stty size\n")
        await one.sees(b"40 120")
        await other.sees(b"40 120")


async def test_a_viewer_that_reconnects_sees_earlier_output(async_db, terminal, workspace):
    async with watch(terminal.pk, workspace) as viewer:
        await viewer.types("echo before $((1 + 1))\n")
        await viewer.sees(b"before 2")

    async with watch(terminal.pk, workspace) as viewer:
        await viewer.sees(b"before 2")
        await viewer.types("echo after $((2 + 2))\n")
        await viewer.sees(b"after 4")


async def test_only_the_newest_output_is_replayed(async_db, terminal, workspace, hosted):
    async with watch(terminal.pk, workspace) as viewer:
        await viewer.types("seq 100000 199999; echo that is $((3 * 3)) all\n")
        await viewer.sees(b"that is 9 all")

    async with watch(terminal.pk, workspace) as viewer:
        ready = await viewer.hears("ready")
        seen = await viewer.sees(b"that is 9 all")
        assert REPLAY_BYTES - 4 <= ready["replay"] <= REPLAY_BYTES
        assert b"199999\r\n" in seen
        assert b"\n100001\r\n" not in seen


async def test_a_read_only_key_needs_a_link_and_cannot_type(async_db, terminal, workspace):
    async with watch(terminal.pk, workspace, "read") as viewer:
        assert await viewer.ends() == 4403
    token, _ = await sync_to_async(terminals.share_terminal)(await sync_to_async(now)(terminal))

    async with (
        watch(terminal.pk, workspace, "read", token) as reader,
        watch(terminal.pk, workspace) as writer,
    ):
        assert (await reader.hears("ready"))["write"] is False
        await reader.types("echo $((40 + 2)) by a reader\n")
        assert (await reader.hears("error"))["code"] == "forbidden"
        await reader.tells(type="resize", cols=20, rows=10)
        await writer.types("echo $((40 + 3)) by a writer; stty size\n")
        seen = await reader.sees(b"31 91")
        assert b"43 by a writer" in seen
        assert b"by a reader" not in seen


async def test_a_link_never_lets_its_reader_type_with_or_without_its_token(
    async_db, terminal, workspace, owner
):
    """A builder may type in terminals of their own, not in one that was shown to them."""
    builder = await sync_to_async(add_member)(workspace, "builder")
    token, _ = await sync_to_async(terminals.share_terminal)(await sync_to_async(now)(terminal))

    async with watch(terminal.pk, workspace, token=token, by=builder) as viewer:
        assert (await viewer.hears("ready"))["write"] is False
        await viewer.types("echo $((40 + 2)) by a builder\n")
        assert (await viewer.hears("error"))["code"] == "forbidden"
    async with watch(terminal.pk, workspace, by=builder) as viewer:
        assert await viewer.ends() == 4404
    async with watch(terminal.pk, workspace, token="x", by=builder) as viewer:
        assert await viewer.ends() == 4403
    async with watch(terminal.pk, workspace, token=token, by=owner) as viewer:
        assert (await viewer.hears("ready"))["write"] is False
    async with watch(terminal.pk, workspace, by=owner) as viewer:
        assert (await viewer.hears("ready"))["write"] is True
        assert b"by a builder" not in viewer.seen


async def test_an_admin_may_type_in_every_terminal_of_the_workspace(async_db, terminal, workspace):
    admin = await sync_to_async(add_member)(workspace, "admin")

    async with watch(terminal.pk, workspace, "admin", by=admin) as viewer:
        assert (await viewer.hears("ready"))["write"] is True


async def test_revoking_a_link_disconnects_the_viewers_who_used_it(
    async_db, terminal, workspace, monkeypatch
):
    monkeypatch.setattr(consumers, "CHECK_SECONDS", 0.05)
    monkeypatch.setattr(consumers, "FRESH_SECONDS", 0.0)
    token, _ = await sync_to_async(terminals.share_terminal)(await sync_to_async(now)(terminal))
    async with watch(terminal.pk, workspace, "read", token) as reader:
        await reader.hears("ready")
        await sync_to_async(terminals.unshare_terminal)(terminal)

        assert await reader.ends() == 4403
    async with watch(terminal.pk, workspace, "read", token) as reader:
        assert await reader.ends() == 4403


async def test_a_revoked_key_cannot_type(async_db, terminal, workspace, monkeypatch):
    monkeypatch.setattr(consumers, "FRESH_SECONDS", 0.0)
    async with watch(terminal.pk, workspace) as viewer:
        await viewer.hears("ready")
        await ApiKey.objects.all().adelete()
        await viewer.types("echo $((40 + 2)) afterwards\n")

        assert await viewer.ends() == 4401
        assert b"42 afterwards" not in viewer.seen


async def test_a_foreign_terminal_looks_like_a_missing_one(
    async_db, terminal, workspace, foreign_workspace
):
    async with watch(terminal.pk, foreign_workspace) as viewer:
        assert await viewer.ends() == 4404
    async with watch(uuid4(), workspace) as viewer:
        assert await viewer.ends() == 4404


async def test_invalid_frames_are_refused_and_harm_no_viewer(async_db, terminal, workspace):
    async with watch(terminal.pk, workspace) as viewer:
        for words in ({"type": "resize", "cols": 0, "rows": 9}, {"type": "what"}):
            viewer.said.clear()
            await viewer.tells(**words)
            assert (await viewer.hears("error"))["code"] == "invalid"
        await viewer.socket.send_to(text_data="[not json")
        await viewer.tells(type="ping")
        await viewer.hears("pong")
        await viewer.types("echo still $((1 + 1))\n")
        await viewer.sees(b"still 2")


async def test_a_shell_that_exits_closes_the_terminal(async_db, terminal, workspace):
    async with watch(terminal.pk, workspace) as viewer:
        await viewer.types("exit\n")

        assert (await viewer.hears("closed"))["reason"] == "The shell ended."
        assert await viewer.ends() == 4410
    await sync_to_async(until)(lambda: is_closed(terminal))
    async with watch(terminal.pk, workspace) as viewer:
        assert await viewer.ends() == 4410


async def test_closing_a_terminal_ends_every_process_in_it(
    async_db, terminal, workspace, principal
):
    marker = sleep_command()
    async with watch(terminal.pk, workspace) as viewer:
        await viewer.types(f"setsid {marker} & {marker} & echo both $((1 + 1))\n")
        await viewer.sees(b"both 2")
        await sync_to_async(until)(lambda: alive(marker))
        await sync_to_async(terminals.close_terminal)(terminal, principal)

        assert (await viewer.hears("closed"))["reason"] == "Closed by Olive Owner."
        assert await viewer.ends() == 4410
    assert alive(marker) == []
    await sync_to_async(until)(lambda: is_closed(terminal))
    closed = await sync_to_async(now)(terminal)
    assert closed.reason == "Closed by Olive Owner."
    assert closed.closed_by_id == principal.user.pk


async def test_a_viewer_that_does_not_read_is_disconnected_and_the_others_continue(
    async_db, terminal, workspace, hosted, monkeypatch
):
    monkeypatch.setattr(terminal_host, "SLOW_SECONDS", 0.2)
    async with (
        watch_host(terminal.pk, may_write=False) as deaf,
        watch(terminal.pk, workspace) as one,
    ):
        await deaf.next()
        await one.types("seq 1 400000; echo done $((3 + 4))\n")
        await one.sees(b"done 7")
        assert len(hosted.sessions[terminal.pk].viewers) == 1


async def test_a_terminal_on_another_machine_is_unavailable_but_not_closed(
    async_db, terminal, workspace
):
    elsewhere = await sync_to_async(now)(terminal)
    elsewhere.pk, elsewhere.host = uuid4(), "another"
    await elsewhere.asave(force_insert=True)

    async with watch(elsewhere.pk, workspace) as viewer:
        assert await viewer.ends() == 4503


# ── Viewers that leave ───────────────────────────────────────────────────────────────────────────


async def test_a_viewer_that_leaves_at_any_moment_logs_no_error(
    async_db, terminal, workspace, hosted, caplog, monkeypatch
):
    async with watch(terminal.pk, workspace):
        pass  # before the terminal answered
    async with watch(terminal.pk, workspace) as viewer:
        await viewer.types("seq 1 200000\n")  # while it writes
    for _ in range(20):
        async with watch_host(terminal.pk, may_write=True) as connection:
            await connection.send(b"seq 1 1000\n")
    await sync_to_async(until)(lambda: not hosted.sessions[terminal.pk].viewers)

    async def join_too_late(*_: object, **options: object) -> None:
        raise ConnectionResetError("Connection lost")

    monkeypatch.setattr(terminal_host.TerminalSession, "join", join_too_late)
    async with watch_host(terminal.pk, may_write=True) as connection:
        with pytest.raises(TerminalsAway):
            await connection.next()

    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_typing_into_a_shell_that_just_ended_logs_no_error(
    async_db, terminal, workspace, hosted, caplog
):
    session = hosted.sessions[terminal.pk]
    async with watch(terminal.pk, workspace) as viewer:
        await viewer.hears("ready")
        await viewer.types("exit\n")
        assert await viewer.ends() == 4410
    # Its thread is gone; a frame of another viewer may still be on the way.
    typing = asyncio.run_coroutine_threadsafe(session.write(b"late"), session._loop)
    with pytest.raises(TerminalOver):
        await asyncio.wrap_future(typing)

    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []
