#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# typecheck.sh: checks the types of the page's script, which JSDoc declares, with TypeScript
# (src/view/web/jsconfig.json).
# Without tsc (Debian's node-typescript) it prints a note and exits with 77, which ctest counts as skipped.
set -eu
cd "$(dirname "$0")/.."
command -v tsc >/dev/null 2>&1 || { echo "typecheck.sh: tsc is not installed: skipped"; exit 77; }
tsc -p src/view/web/jsconfig.json
