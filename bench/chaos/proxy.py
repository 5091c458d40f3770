"""A TCP proxy in this process that can be cut and can go deaf or mute, as a network does."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from types import TracebackType
from typing import Self

CHUNK_BYTES = 65_536


class Proxy:
    """Forwards a free port of the loopback address, `port`, to `to_port`. Use it as a context manager."""

    def __init__(self, to_port: int) -> None:
        self.port = 0
        self._to_port = to_port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._hears = asyncio.Event()
        self._speaks = asyncio.Event()
        self._is_cut = False
        self._ends: set[asyncio.StreamWriter] = set()
        self._pairs: set[asyncio.Task[None]] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result()
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def is_troubled(self) -> bool:
        """Whether anything is kept from passing."""
        return self._is_cut or not (self._hears.is_set() and self._speaks.is_set())

    def cut(self) -> None:
        """Reset every connection, and each new one, until `heal`."""
        self._do(self._cut)

    def deafen(self) -> None:
        """Accept and keep connections but forward nothing, not even their end, until `heal`."""
        self._do(self._hears.clear)

    def mute(self) -> None:
        """Forward what is said to the far end and hold its answers back, until `heal` or `drop`."""
        self._do(self._speaks.clear)

    def drop(self) -> None:
        """Reset every connection, with the answers that were held back, and forward new ones."""
        self._do(self._drop)

    def heal(self) -> None:
        """Forward again, what came meanwhile first."""
        self._do(self._heal)

    def _do(self, change: Callable[[], object]) -> None:
        done: Future[None] = Future()

        def make() -> None:
            change()
            done.set_result(None)

        self._loop.call_soon_threadsafe(make)
        done.result()

    def _cut(self) -> None:
        self._is_cut = True
        for end in self._ends:
            _reset(end)

    def _drop(self) -> None:
        self._cut()
        self._heal()

    def _heal(self) -> None:
        self._is_cut = False
        self._hears.set()
        self._speaks.set()

    async def _listen(self) -> asyncio.Server:
        self._heal()
        return await asyncio.start_server(self._accept, "127.0.0.1", 0)

    async def _close(self) -> None:
        self._server.close()
        for pair in self._pairs:
            pair.cancel()
        await asyncio.gather(*self._pairs, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pair = asyncio.create_task(self._join(reader, writer))
        self._pairs.add(pair)
        pair.add_done_callback(self._pairs.discard)

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward both ways until one side ends; then both do."""
        ends = {writer}
        self._ends.add(writer)
        try:
            if self._is_cut:
                _reset(writer)
                return
            await self._hears.wait()
            there, back = await asyncio.open_connection("127.0.0.1", self._to_port)
            ends.add(back)
            self._ends.add(back)
            ways = [
                asyncio.create_task(self._forward(reader, back, self._hears)),
                asyncio.create_task(self._forward(there, writer, self._hears, self._speaks)),
            ]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
        except OSError:
            pass  # the database is away: so is this connection
        finally:
            self._ends -= ends
            for end in ends:
                end.transport.abort()

    async def _forward(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *open_when: asyncio.Event
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(CHUNK_BYTES):
                for condition in open_when:
                    await condition.wait()
                writer.write(data)
                await writer.drain()
            for condition in open_when:
                await condition.wait()


def _reset(end: asyncio.StreamWriter) -> None:
    """End it at once with a reset, which the peer sees as an error and not as an orderly end."""
    at_once = struct.pack("ii", 1, 0)
    end.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
    end.transport.abort()
