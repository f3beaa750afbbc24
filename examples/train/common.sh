# SPDX-License-Identifier: MIT
# common.sh: defines functions and folders for the training examples.  A script sources it first.
#
#   need COMMAND PACKAGE...    installs the packages with apt-get if the command is missing
#   qkv ARGS...                runs the command, which is built first if missing
#   data, runs                 folders for texts and for runs: $DATA, $RUNS, else build/data,
#   build/runs
set -eu
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
data=${DATA:-$top/build/data}
runs=${RUNS:-$top/build/runs}
mkdir -p "$data" "$runs"

need() {
    command=$1
    shift
    [ -e "$command" ] || command -v "$command" >/dev/null 2>&1 && return
    if ! command -v apt-get >/dev/null 2>&1; then
        echo "missing: $command (Debian: $*)" >&2
        exit 1
    fi
    root=
    [ "$(id -u)" -eq 0 ] || root=sudo
    echo "installing $*"
    $root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" >/dev/null || {
        $root apt-get update >/dev/null
        $root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" >/dev/null
    }
}

if [ -z "${QKV:-}" ]; then
    QKV=$top/build/release/bin/qkv
    [ -x "$QKV" ] || TARGETS="qkv qkv_cli" "$top/tools/build.sh" build/release
fi
qkv() { "$QKV" "$@"; }

# train NAME ARGS...: trains a run in $runs/NAME, or continues it; $out is that folder.  Of a
# repeated option the last value counts, so that the user's options override the script's.
train() {
    out=$runs/$1
    shift
    left=$#
    while [ "$left" -gt 0 ]; do
        word=$1 again=
        shift
        left=$((left - 1))
        case $word in --*) for later; do [ "$later" != "$word" ] || again=1; done ;; esac
        if [ -z "$again" ]; then
            set -- "$@" "$word"
        elif [ "$left" -gt 0 ]; then # its value goes, too
            case $1 in --*) ;; *) shift && left=$((left - 1)) ;; esac
        fi
    done
    qkv train "$@" --out "$out"
}
