#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# format.sh [--check]: formats all C sources by .clang-format; --check only lists the changes.
# It requires one version of clang-format, since the output differs between versions.
set -eu
cd "$(dirname "$0")/.."
tool=$(command -v clang-format-14) || { echo "format.sh: clang-format-14 is not here: skipped"; exit 0; }
git ls-files '*.c' '*.h' '*.cpp' | if [ "${1:-}" = --check ]; then
    xargs "$tool" --dry-run -Werror
else
    xargs "$tool" -i
fi
