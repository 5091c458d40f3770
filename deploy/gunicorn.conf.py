"""How gunicorn serves the console: `gunicorn -c deploy/gunicorn.conf.py wsgi:app`, with nginx in front."""

from __future__ import annotations

import sys
from pathlib import Path

from store.start import CannotStart, read_settings

try:
    # Loopback only: who is outside comes through nginx, which speaks TLS.
    bind = f"127.0.0.1:{read_settings().port}"
except CannotStart as error:
    sys.exit(f"Error: {error}")

worker_class = "gthread"
workers = 2
threads = 8
preload_app = False  # each worker finds its own database; a forked one would share connections

# gthread beats beside its requests: this ends a worker that hangs, never a long download.
timeout = 60
graceful_timeout = 25  # below TimeoutStopSec of deploy/systemd/sluice-web.service
keepalive = 75  # longer than nginx keeps an idle connection, so that it is nginx who closes it

# The heartbeat file must not be on a disk that can be slow.
worker_tmp_dir = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108

forwarded_allow_ips = "127.0.0.1"  # only nginx may say that a request came by https
control_socket_disable = True  # nobody uses it, and it would want a place to write
accesslog = None  # nginx writes one
errorlog = "-"
