# SPDX-License-Identifier: MIT
# ranks.sh LIBRARIES SIZES PROGRAM ARGUMENTS...: runs a program on so many ranks of this machine ("2 3 4"), under each MPI
# that is installed and built, with the exit code $QKV_CODE (default 0). If LIBRARIES has a library that counts the bytes of
# MPI, it is loaded. QKV_NEED_MPI=1: it is an error if Open MPI or MPICH is missing.
export QKV_THREADS=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_btl_vader_single_copy_mechanism=none PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
# no rank has a core of its own: other tests run next to these
export OMPI_MCA_hwloc_base_binding_policy=none PRTE_MCA_hwloc_default_binding_policy=none
export OMPI_MCA_mpi_yield_when_idle=1
libraries=$1 sizes=$2
shift 2
ran=
for kind in openmpi mpich; do
    set -- "$libraries/libqkv_mpi-$kind.so"* "$@"
    there=$1
    shift
    [ -e "$there" ] && timeout 60 mpirun.$kind -n 2 true >/dev/null 2>&1 || {
        [ -z "${QKV_NEED_MPI:-}" ] || { echo "ranks: QKV_NEED_MPI, and $kind is not built or starts no processes"; exit 1; }
        continue
    }
    ran=1
    export QKV_LIBRARY="$there"
    counts=$libraries/tests/libcount_bytes-$kind.so
    for size in $sizes; do
        if [ -e "$counts" ]; then
            mpirun.$kind -n "$size" env LD_PRELOAD="$counts" "$@"
        else
            mpirun.$kind -n "$size" "$@"
        fi
        code=$?
        [ $code -eq "${QKV_CODE:-0}" ] || { echo "exit code $code: mpirun.$kind -n $size $*"; exit 1; }
    done
done
[ -n "$ran" ] || { echo 'ranks: no MPI is here'; exit 77; }
