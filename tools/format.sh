#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# format.sh [--check]: .clang-format on all C sources; --check only says what would change.
# One version of clang-format, since its output differs between versions.
set -eu
cd "$(dirname "$0")/.."
tool=$(command -v clang-format-14) || { echo "format.sh: clang-format-14 is not here: skipped"; exit 0; }
git ls-files '*.c' '*.h' '*.cpp' | if [ "${1:-}" = --check ]; then
    xargs "$tool" --dry-run -Werror
else
    xargs "$tool" -i
fi
