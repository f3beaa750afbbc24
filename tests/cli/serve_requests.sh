# SPDX-License-Identifier: MIT
# serve_requests.sh: the parser of requests of `qkv serve` against h11 (PyPI), on random requests; skipped where no Python has it.
# QKV_PEERS_VENV names an environment with it; tools/test.sh long makes build/clients-venv otherwise.
. tests/cli/lib.sh
peer=
for python in "${QKV_PEERS_VENV:-}/bin/python" "$here/../../build/clients-venv/bin/python" python3; do
    command -v "$python" >/dev/null && "$python" -c 'import h11' 2>/dev/null && peer=$python && break
done
[ -n "$peer" ] && [ -e "$QKV_HTTP_REQUESTS" ] || { echo 'skipped: h11 is not installed (QKV_PEERS_VENV)'; exit 77; }
title 'every request that the parser accepts is the same request for h11'
check "$peer" -E "$here/serve_requests.py" "$QKV_HTTP_REQUESTS" "${QKV_REQUESTS:-20000}"
finish
