# SPDX-License-Identifier: MIT
# ranks_end.sh: ranks of MPICH that are connected by TCP end, also if one of them comes late (late_end.c).
. tests/cli/lib.sh
. "$here/ranks_lib.sh"
case $launchers in *mpich*) ;; *)
    echo 'ranks_end: no MPICH is here'
    exit 77
    ;;
esac
export UCX_TLS=tcp,self MPIR_CVAR_NOLOCAL=1 # as between machines
python random short.npy f4 1x60x2x64 9
[ -e "$QKV_LATE_END" ] || failed "no $QKV_LATE_END, which delays a rank"
runs 0 attn -q short.npy -k short.npy -v short.npy -o one.npy

title 'ranks that are connected by TCP end when the last has come'
for ranks in 2 2 2 3 4; do
    timeout 60 mpirun.mpich -genv LD_PRELOAD "$QKV_LATE_END" -n $ranks "$QKV_BIN" attn -q short.npy -k short.npy -v short.npy \
        -o out.npy --force >"$out" 2>"$err" </dev/null || failed "exit code $? of $ranks ranks, expected 0"
    check cmp one.npy out.npy
done

title 'they also end after an error'
timeout 60 mpirun.mpich -genv LD_PRELOAD "$QKV_LATE_END" -n 2 "$QKV_BIN" attn -q short.npy -k short.npy -v none.npy -o none-out.npy \
    >"$out" 2>"$err" </dev/null
code=$?
[ $code -eq 6 ] || failed "exit code $code, expected 6"
says_part 'none.npy'

finish
