# SPDX-License-Identifier: MIT
# serve_resident.sh: `qkv serve`: the resident memory after many requests.
. tests/cli/lib.sh
title 'the resident memory does not grow with the number of requests'
python3 -E "$here/serve_resident.py" "$here/../golden/bert" "$here/../../models/verse" || failed 'resident memory'
finish
