"""Fetch what the console's pages stand on into `static/`: `python -m deploy.vendor`. Needs npm; run by hand.

The files are kept in the repository, so nothing is fetched when Sluice is set up.
`static/vendor/manifest.json` says where each is from, and a test compares their sums.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import tarfile
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

STATIC = Path(__file__).resolve().parents[1] / "static"


@dataclass(frozen=True, slots=True)
class Package:
    """A package of npm, and its files that are taken as they are: path in the package to name here."""

    name: str
    version: str
    licence: str
    files: dict[str, str]


@dataclass(frozen=True, slots=True)
class Vendored:
    """A file in `static/`, where it is from, and its sum."""

    file: str
    package: str
    version: str
    sha256: str
    licence: str


PACKAGES = (
    Package(
        "bootstrap",
        "5.3.9",
        "MIT",
        {"dist/css/bootstrap.min.css": "bootstrap.min.css", "LICENSE": "bootstrap.LICENSE"},
    ),
    Package(
        "htmx.org",
        "4.0.1",
        "0BSD",
        {
            "dist/htmx.min.js": "htmx.min.js",
            "dist/ext/hx-ptag.min.js": "hx-ptag.min.js",
            "LICENSE": "htmx.LICENSE",
        },
    ),
    Package(
        "uplot",
        "1.6.32",
        "MIT",
        {
            "dist/uPlot.iife.min.js": "uPlot.iife.min.js",
            "dist/uPlot.min.css": "uPlot.min.css",
            "LICENSE": "uPlot.LICENSE",
        },
    ),
)
ICONS = Package("@tabler/icons", "3.52.0", "MIT", {"LICENSE": "tabler-icons.LICENSE"})

# What our icons are called, and what Tabler calls them where that is another name.
DRAWN = """
clock loader check x ban circle-half circle-dashed player-play player-pause alert-triangle alert-octagon bolt
upload key moon sun user refresh download dots list copy flag quote plug-off arrow-back-up cloud-download
chevron-right chevron-left search plus logout bell settings users trash send eye calendar filter arrow-right
"""
SYMBOLS = {name: name for name in DRAWN.split()}
SYMBOLS |= {"wave": "ripple", "info": "info-circle"}
_MAP_COMMENT = re.compile(rb"\n?/[/*]# sourceMappingURL=\S+(?: ?\*/)?\s*$")


def main() -> None:
    """Fetch every package, write its files, the sprite of icons and the manifest."""
    (STATIC / "vendor").mkdir(parents=True, exist_ok=True)
    found: list[Vendored] = []
    for package in (*PACKAGES, ICONS):
        with tempfile.TemporaryDirectory() as folder:
            content = _fetch(package, Path(folder))
            for source, name in package.files.items():
                # The maps are not kept, and a browser would ask for them.
                found.append(_write(package, f"vendor/{name}", _MAP_COMMENT.sub(b"\n", content[source])))
            if package is ICONS:
                found.append(_write(package, "icons.svg", _sprite(content).encode()))
    manifest = json.dumps([asdict(one) for one in found], indent=1) + "\n"
    (STATIC / "vendor" / "manifest.json").write_text(manifest, encoding="utf-8")
    print(f"{len(found)} files in {STATIC}")


def _fetch(package: Package, folder: Path) -> dict[str, bytes]:
    """The files of a package by their path in it."""
    words = ["npm", "pack", "--silent", f"{package.name}@{package.version}"]
    subprocess.run(words, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    (archive,) = folder.glob("*.tgz")
    content = {}
    with tarfile.open(archive) as tar:
        for member in tar:
            if (file := tar.extractfile(member)) is not None:
                content[member.name.partition("/")[2]] = file.read()
    return content


def _sprite(content: dict[str, bytes]) -> str:
    """One SVG with a symbol per icon; size and stroke are the stylesheet's."""
    symbols = []
    for name in sorted(SYMBOLS):
        drawing = content[f"icons/outline/{SYMBOLS[name]}.svg"].decode()
        inner = drawing[drawing.index(">") + 1 : drawing.rindex("</svg>")]
        inner = inner.replace('<path stroke="none" d="M0 0h24v24H0z" fill="none" />', "")
        paths = "".join(line.strip() for line in inner.splitlines())
        symbols.append(f'<symbol id="{name}" viewBox="0 0 24 24">{paths}</symbol>')
    return '<svg xmlns="http://www.w3.org/2000/svg">\n' + "\n".join(symbols) + "\n</svg>\n"


def _write(package: Package, name: str, content: bytes) -> Vendored:
    (STATIC / name).write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    return Vendored(name, package.name, package.version, digest, package.licence)


if __name__ == "__main__":
    main()
