#!/bin/sh
# Unpacks what tests need of Debian's packages into a folder: PostgreSQL 15, PgBouncer, nginx, systemd-analyze.
# Installs nothing, works for any user. Usage: deploy/debian.sh FOLDER
# What cannot be had: one line of reason on standard error, and exit 1 when the others are done.
set -eu
folder=$1
triplet=$(uname -m)-linux-gnu

if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
    echo "no packages of Debian for tests: apt-get is not here" >&2
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

# unpack PACKAGE COMMAND...: the package with what it needs beyond this system; COMMAND shows that it runs.
unpack() {
    package=$1
    shift
    rm -f "$work"/apt/cache/archives/*.deb
    if ! apt install --download-only --reinstall --no-install-recommends -y "$package" >"$work/apt/log" 2>&1; then
        echo "no $package for tests: $(grep -m 1 '^E: ' "$work/apt/log" || echo 'apt-get failed')" >&2
        return 1
    fi
    for file in "$work"/apt/cache/archives/*.deb; do
        case $file in */libllvm*) continue ;; esac # 100 MB, only for compiling expressions, which PostgreSQL does without
        dpkg-deb --extract "$file" "$work"
    done
    if ! LD_LIBRARY_PATH="$work/usr/lib/$triplet:$work/usr/lib/$triplet/systemd:$work/lib/$triplet:$work/lib/systemd:$work/usr/lib/systemd" \
        "$@" >"$work/apt/log" 2>&1; then
        echo "no $package for tests: the one that was unpacked does not run: $(head -n 1 "$work/apt/log")" >&2
        return 1
    fi
}

if ! apt update >"$work/apt/log" 2>&1; then
    echo "no packages of Debian for tests: $(grep -m 1 '^E: ' "$work/apt/log" || echo 'apt-get failed')" >&2
    exit 1
fi
failed=0
unpack postgresql-15 "$work/usr/lib/postgresql/15/bin/postgres" --version || failed=1
unpack pgbouncer "$work/usr/sbin/pgbouncer" --version || failed=1
unpack nginx "$work/usr/sbin/nginx" -v || failed=1
unpack systemd "$work/usr/bin/systemd-analyze" --version || failed=1
rm -rf "$work/apt" "$work/usr/lib/postgresql/15/lib/bitcode" "$work/usr/lib/postgresql/15/lib/llvmjit.so" \
    "$work/usr/share/doc" "$work/usr/share/man" "$work/usr/share/locale"
exit $failed
