"""A network between workers and database that can be cut, or go deaf."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

CHUNK_BYTES = 65_536


class Proxy:
    """Forwards TCP from `port` to another port of this machine, one thread a direction."""

    def __init__(self, to_port: int) -> None:
        self._to_port = to_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._hears = threading.Event()
        self._hears.set()
        self._is_cut = False
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """End all connections; refuse new ones until `mend`."""
        with self._lock:
            self._is_cut = True
            for one in self._open:
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

    def go_deaf(self) -> None:
        """Accept and forward nothing until `mend`: nobody is told."""
        self._hears.clear()

    def mend(self) -> None:
        """Forward again."""
        self._is_cut = False
        self._hears.set()

    def close(self) -> None:
        self._listener.close()
        self.cut()
        self._hears.set()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._join, args=(client,), daemon=True).start()

    def _join(self, client: socket.socket) -> None:
        self._hears.wait()
        try:
            if self._is_cut:
                raise ConnectionRefusedError
            server = socket.create_connection(("127.0.0.1", self._to_port))
        except OSError:
            client.close()
            return
        with self._lock:
            self._open |= {client, server}
        back = threading.Thread(target=self._pump, args=(server, client), daemon=True)
        back.start()
        self._pump(client, server)
        back.join()
        with self._lock:
            self._open -= {client, server}
        client.close()
        server.close()

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(CHUNK_BYTES):
                self._hears.wait()
                target.sendall(data)
        for one in (source, target):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
