#!/bin/sh
# SPDX-License-Identifier: MIT
# built.sh: exits with 77, and the reason, if the package in PYTHONPATH is not built or is older than the headers of the library.
package=$PYTHONPATH/qkv
headers=$(dirname "$0")/../../include/qkv
for file in "$package/_layout.py" "$package/__init__.py" "$package/libqkv.so" ${QKV_LIBRARY:+"$QKV_LIBRARY"}; do
    [ -e "$file" ] || { echo "skipped: the target qkv_python is not built: $file is missing"; exit 77; }
done
newer=$(find "$headers" -name '*.h' -newer "$package/_layout.py" | head -n 1)
[ -z "$newer" ] || { echo "skipped: the target qkv_python is older than $newer: build it again"; exit 77; }
