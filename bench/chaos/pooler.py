"""PgBouncer in transaction mode before a database: no session is a worker's own, and only the lease tells."""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from psycopg.conninfo import conninfo_to_dict

from deploy.parts import free_port

# A server that was away is tried again after a second, not after fifteen.
SETTINGS = """
[databases]
{database} = {server}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
server_login_retry = 1
default_pool_size = {size}
max_client_conn = 200
"""


@contextmanager
def pooler(command: Sequence[str], url: str, size: int) -> Iterator[int]:
    """The port of one with `size` connections to the database at `url`; `command` runs PgBouncer."""
    there, port = conninfo_to_dict(url), free_port()
    names = ("host", "port", "user", "password")
    server = " ".join(f"{name}={there[name]}" for name in names if name in there)
    with TemporaryDirectory() as folder:  # in a place that everybody may enter
        file = Path(folder) / "pgbouncer.ini"
        file.touch(mode=0o600)
        file.write_text(
            SETTINGS.format(database=there["dbname"], server=server, port=port, size=size), encoding="utf-8"
        )
        run = [*command, "-q", str(file)]
        who = _nobody(folder, file)
        process = subprocess.Popen(run, cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **who)
        try:
            yield port
        finally:
            process.kill()
            process.wait()


def _nobody(*paths: Path | str) -> dict[str, Any]:
    """It runs as nobody when we are root: it refuses to be root."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    for path in paths:
        os.chown(path, nobody.pw_uid, nobody.pw_gid)
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
