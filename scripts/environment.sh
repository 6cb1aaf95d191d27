# Keeps the virtual environment in .venv in step with a lock file. Sourced by the other scripts.
#
#   ensure_environment requirements.lock       what the gateway needs
#   ensure_environment requirements-dev.lock   that, and what its tests need
#
# Does nothing (some milliseconds) if the environment was already made from this lock.

set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
venv="$root/.venv"

say() { printf '%s\n' "$*" >&2; }

find_python() {
    local candidate
    for candidate in "${PYTHON:-}" python3 python3.14 python3.13 python3.12 python3.11; do
        if [ -n "$candidate" ] && command -v "$candidate" >/dev/null 2>&1 &&
            "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    say "No Python 3.11 or later was found. Install one, or name it: PYTHON=/path/to/python3 $0"
    exit 69
}

# The stamp is the lock itself: comparing files needs no checksum tool.
is_current() {
    [ -x "$venv/bin/python" ] && cmp -s "$root/$1" "$venv/$1" && cmp -s "$root/pyproject.toml" "$venv/pyproject.toml"
}

ensure_environment() {
    local lock=$1
    if is_current "$lock" || { [ "$lock" = requirements.lock ] && is_current requirements-dev.lock; }; then
        return
    fi
    (
        # Starts at the same time set up one after the other; the lock is released when the process ends.
        if command -v flock >/dev/null 2>&1; then
            exec 9>"$root/.setup.lock"
            flock 9
        fi
        is_current "$lock" && exit 0
        say "Setting up $venv from $lock (once; a minute or two) ..."
        [ -x "$venv/bin/python" ] || "$(find_python)" -m venv "$venv"
        rm -f "$venv/requirements.lock" "$venv/requirements-dev.lock"
        # As a constraint as well: pip before 23.3 takes the newest `name[extra]` regardless of the pin of `name`, and
        # then refuses it, since it has no hash.
        "$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
            --require-hashes --requirement "$root/$lock" --constraint "$root/$lock"
        "$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
            --no-deps --no-build-isolation --editable "$root"
        cp "$root/pyproject.toml" "$venv/pyproject.toml"
        cp "$root/$lock" "$venv/$lock"
    ) >&2
}
