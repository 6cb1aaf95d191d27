# Programs from npm with a Node.js of their own, kept in ${XDG_CACHE_HOME:-~/.cache}/memory-gateway/<name>/<version>:
# nothing global is changed. Sourced by the scripts that set one up; `need_npm` comes first.

set -euo pipefail

say() { printf '%s\n' "$*" >&2; }

# need_npm OTHERWISE: sets `platform` to its name in npm's packages of Node.js, or ends with 69.
need_npm() {
    case "$(uname -s)-$(uname -m)" in
        Linux-x86_64) platform=linux-x64 ;;
        Linux-aarch64 | Linux-arm64) platform=linux-arm64 ;;
        *)
            say "This script knows Linux on x86-64 and ARM64. Elsewhere: $1"
            exit 69
            ;;
    esac
    command -v npm >/dev/null 2>&1 || { say "npm was not found; install Node.js with npm first."; exit 69; }
}

# npm_install DIRECTORY [OPTION | PACKAGE]...: install scripts never run, none is needed.
npm_install() {
    local directory=$1
    shift
    npm install --prefix "$directory" --ignore-scripts --no-audit --no-fund --no-update-notifier \
        --loglevel=error "$@" >&2
}

# install_once NAME VERSION COST [COMMAND]: prints the path of the program's command, which is called NAME
# unless COMMAND says otherwise. If it is not there yet, the caller's `fill DIRECTORY` installs it; a start that
# is killed meanwhile leaves no unfinished installation.
install_once() {
    local place=${XDG_CACHE_HOME:-$HOME/.cache}/memory-gateway/$1/$2
    local program=$place/node_modules/.bin/${4:-$1} making=$place.making
    if [ ! -x "$program" ]; then
        mkdir -p "$(dirname "$place")"
        # Starts at the same time install one after the other; the lock is released when the process ends.
        if command -v flock >/dev/null 2>&1; then
            exec 9>"$place.lock"
            flock 9
        fi
        if [ ! -x "$program" ]; then
            say "Installing $1 $2 in $place (once; $3) ..."
            rm -rf "$making" "$place"
            mkdir "$making"
            fill "$making"
            mv "$making" "$place"
        fi
    fi
    printf '%s\n' "$program"
}
