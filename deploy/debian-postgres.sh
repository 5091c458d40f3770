#!/bin/sh
# Unpacks Debian's PostgreSQL 15 into a folder, for tests against a second version. Installs nothing, works for any user.
# Usage: deploy/debian-postgres.sh FOLDER. Where it cannot be had: one line of reason on standard error, exit 1.
set -eu
folder=$1
version=15
triplet=$(uname -m)-linux-gnu

if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
    echo "no PostgreSQL $version for tests: apt-get is not here" >&2
    exit 1
fi

rm -rf "$folder"
mkdir -p "$folder/apt/lists/partial" "$folder/apt/cache/archives/partial"
work=$(cd "$folder" && pwd)

# Package lists and downloads of our own: those of the system stay as they are.
apt() {
    apt-get -qq -o Dir::State::lists="$work/apt/lists" -o Dir::Cache="$work/apt/cache" \
        -o Debug::NoLocking=1 -o APT::Sandbox::User=root -o Acquire::Retries=2 -o Acquire::Languages=none "$@"
}
if ! apt update >"$work/apt/log" 2>&1 ||
    ! apt install --download-only --reinstall --no-install-recommends -y "postgresql-$version" >>"$work/apt/log" 2>&1; then
    echo "no PostgreSQL $version for tests: $(grep -m 1 '^E: ' "$work/apt/log" || echo 'apt-get failed')" >&2
    exit 1
fi
for package in "$work"/apt/cache/archives/*.deb; do
    case $package in */libllvm*) continue ;; esac # 100 MB, only for compiling expressions, which it does without
    dpkg-deb --extract "$package" "$work"
done
rm -rf "$work/apt" "$work/usr/lib/postgresql/$version/lib/bitcode" "$work/usr/lib/postgresql/$version/lib/llvmjit.so"

LD_LIBRARY_PATH="$work/usr/lib/$triplet" "$work/usr/lib/postgresql/$version/bin/postgres" --version >/dev/null || {
    echo "no PostgreSQL $version for tests: the one that was unpacked does not run" >&2
    exit 1
}
