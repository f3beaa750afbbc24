# SPDX-License-Identifier: MIT
# gradcheck.sh: tests that qkv gradcheck finds its program, lists checks, runs one or a folder of them.
. tests/cli/lib.sh
[ -x "$(dirname "$QKV_BIN")/qkv-gradcheck" ] || { echo "skipped: qkv-gradcheck was not built"; exit 77; }

title 'names of the checks, one per line'
runs 0 gradcheck --list
silent
prints_part 'layer/linear'
runs 0 gradcheck --list --only layer/norm
prints 'layer/norm'

title 'one check, with its numbers, its largest error and its location'
runs 0 gradcheck --quick --only layer/rope
silent
check grep -Eq '^layer/rope +[0-9]+ numbers  worst +[0-9.]+e-[0-9]+  [a-z]' "$out"
prints_part '1 checks, 0 failed'

title 'all checks, quickly'
runs 0 gradcheck --quick
silent
prints_part ' 0 failed'

title 'an unknown name is a usage error'
runs 2 gradcheck --only layer/none
says "qkv-gradcheck: no check has the name 'layer/none'; the options are --list, --only NAME and --quick"
runs 2 gradcheck --sideways

finish
