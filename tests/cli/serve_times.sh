# SPDX-License-Identifier: MIT
# serve_times.sh: `qkv serve`: the time limits of heads, bodies and idle connections.
. tests/cli/lib.sh
small=$here/../golden/bert
title 'a time limit is 1 second to a day'
for option in --head-timeout --body-timeout --idle-timeout; do
    for value in 0 86401 1.5; do
        runs 2 serve -m "$small" --port 0 $option $value
        says_part "$option"
    done
done
title 'slow heads, slow bodies, idle connections'
check python3 -E "$here/serve_times.py" "$small"
finish
