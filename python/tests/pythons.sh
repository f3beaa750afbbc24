#!/bin/sh
# SPDX-License-Identifier: MIT
# pythons.sh: prints one interpreter of each version of Python from 3.9 to 3.14 that this machine has, also of pyenv.
found=
for python in ${QKV_PYTHONS:-python3.9 python3.10 python3.11 python3.12 python3.13 python3.14 python3 \
    "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.*/bin/python3}; do
    version=$("$python" -c 'import ctypes, sys, venv; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || continue
    case $version in 3.9 | 3.1[0-4]) ;; *) continue ;; esac
    case " $found " in *" $version "*) continue ;; esac
    found="$found $version"
    echo "$python"
done
