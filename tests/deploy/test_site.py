"""The site as nginx and gunicorn serve it, started with what deploy/nginx and deploy/systemd say."""

from __future__ import annotations

import re
import socket
import ssl
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
import requests
from cryptography import x509
from cryptography.fernet import Fernet
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from deploy.parts import free_port

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "deploy" / "nginx" / "sluice.conf"
# The user: as root, nginx would become one who cannot read this checkout.
NGINX = """
{user} worker_processes 1; daemon off; pid {folder}/nginx.pid; error_log stderr warn;
events {{ worker_connections 64; }}
http {{
    include {mime_types}; default_type application/octet-stream; access_log off;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    include {folder}/site.conf;
}}
"""


@dataclass(frozen=True, slots=True)
class Site:
    """nginx's files in `folder`, ready to be started, and the ports that replace those of the file."""

    command: list[str]
    folder: Path
    app_port: int
    http_port: int
    https_port: int

    def get(self, path: str, **more: Any) -> requests.Response:
        address = f"https://127.0.0.1:{self.https_port}{path}"
        return requests.get(address, verify=str(self.folder / "fullchain.pem"), timeout=10, **more)


@pytest.fixture
def site(tmp_path: Path, debian_tool: Callable[[str], list[str]], is_root: bool) -> Site:
    command = debian_tool("nginx")
    folder = tmp_path / "nginx"
    folder.mkdir()
    write_certificate(folder)
    app_port, http_port, https_port = free_port(), free_port(), free_port()
    text = SITE.read_text()
    for there, here in {
        r"listen \[::\].*": "",
        r"listen 80;": f"listen 127.0.0.1:{http_port};",
        r"listen 443 ": f"listen 127.0.0.1:{https_port} ",
        r"127\.0\.0\.1:8000;": f"127.0.0.1:{app_port};",
        r"/opt/sluice/": f"{ROOT}/",
        r"/etc/letsencrypt/live/sluice": str(folder),
    }.items():
        text, count = re.subn(there, here, text)
        assert count, f"{SITE.name} has no {there}"
    (folder / "site.conf").write_text(text)
    mime_types = ROOT / "var/debian/etc/nginx/mime.types"
    main = NGINX.format(
        user="user root;" if is_root else "",
        folder=folder,
        mime_types=mime_types if mime_types.exists() else "/etc/nginx/mime.types",
    )
    (folder / "nginx.conf").write_text(main)
    words = ["-p", str(folder), "-e", "stderr", "-c", str(folder / "nginx.conf")]
    return Site([*command, *words], folder, app_port, http_port, https_port)


@pytest.fixture
def served(
    site: Site,
    dsn: str,
    env_example: dict[str, str],
    start_unit: Callable[[str, Mapping[str, str]], subprocess.Popen[bytes]],
    notified: Any,
    until: Callable[..., None],
) -> Iterator[Site]:
    """The site with the web unit behind it, configured as docs/operations.md says."""
    settings = {
        "DATABASE_URL": dsn,
        "SLUICE_MASTER_KEYS": Fernet.generate_key().decode(),
        "SLUICE_SECRET_KEY": "s" * 32,
        "PUBLIC_URL": "https://sluice.example.com",
        "TRUSTED_PROXIES": "1",
        "PORT": str(site.app_port),
    }
    start_unit("sluice-web.service", env_example | settings)
    notified.wait("READY=1")
    with subprocess.Popen(site.command) as nginx:
        until(lambda: answers(site.https_port))
        yield site
        nginx.terminate()


def test_nginx_accepts_the_site(site: Site) -> None:
    done = subprocess.run([*site.command, "-t"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_console_is_served_through_nginx(served: Site) -> None:
    health = served.get("/healthz")
    assert health.status_code == 200
    assert health.headers["Strict-Transport-Security"] == "max-age=31536000"
    once = health.raw.headers
    for name in ("Strict-Transport-Security", "X-Content-Type-Options", "Content-Security-Policy"):
        assert len(once.getlist(name)) == 1, name

    signed_out = served.get("/", allow_redirects=False, headers={"Host": "sluice.example.com"})
    assert signed_out.status_code == 302
    assert signed_out.headers["Location"].startswith(("/", "https://sluice.example.com/"))

    plain = requests.get(f"http://127.0.0.1:{served.http_port}/lists?a=b", allow_redirects=False, timeout=10)
    assert (plain.status_code, plain.headers["Location"]) == (301, "https://sluice.example.com/lists?a=b")


def test_static_files_come_from_the_disk_and_hold_for_a_year_under_their_sum(served: Site) -> None:
    style = next((ROOT / "static").rglob("*.css"))
    path = f"/{style.relative_to(ROOT)}"
    named = served.get(f"{path}?v=0123456789ab")
    assert named.content == style.read_bytes()
    assert named.headers["Cache-Control"] == "public, max-age=31536000, immutable"
    assert named.headers["Content-Encoding"] == "gzip"
    assert named.headers["X-Content-Type-Options"] == "nosniff"
    assert named.headers["Server"] == "nginx"
    assert served.get(path).headers["Cache-Control"] == "no-cache"
    assert "DATABASE_URL" not in served.get("/static/%2e%2e/deploy/env.example").text


def test_a_file_that_is_too_large_is_refused_before_it_is_sent(served: Site) -> None:
    request = f"POST /lists HTTP/1.1\r\nHost: x\r\nContent-Length: {50 * 2**20 + 1}\r\n\r\n"
    assert ask_over_tls(served, request.encode()).startswith(b"HTTP/1.1 413 ")


def test_while_the_console_is_away_people_are_told_to_try_again(
    site: Site, until: Callable[..., None]
) -> None:
    with subprocess.Popen(site.command, stderr=subprocess.DEVNULL) as nginx:
        until(lambda: answers(site.https_port))
        away = site.get("/")
        nginx.terminate()
    assert (away.status_code, away.headers["Retry-After"]) == (503, "5")
    assert "Try again" in away.text


def answers(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


def ask_over_tls(site: Site, request: bytes) -> bytes:
    context = ssl.create_default_context(cafile=str(site.folder / "fullchain.pem"))
    with (
        socket.create_connection(("127.0.0.1", site.https_port), 10) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as tls,
    ):
        tls.sendall(request)
        return tls.recv(1000)


def write_certificate(folder: Path) -> None:
    """One for 127.0.0.1 that signs itself, where certbot would put one."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    (folder / "fullchain.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "privkey.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
