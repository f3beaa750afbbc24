# SPDX-License-Identifier: MIT
# long_ranks.sh PROGRAM LIBRARIES TOKENS WINDOW: runs long_ranks on 4 ranks of this machine, under each MPI that is
# installed and built.
export QKV_THREADS=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_btl_vader_single_copy_mechanism=none PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
export OMPI_MCA_mpi_yield_when_idle=1
ran=
for kind in openmpi mpich; do
    set -- "$1" "$2" "$3" "$4" "$2/libqkv_mpi-$kind.so"*
    [ -e "$5" ] && timeout 60 mpirun.$kind -n 2 true >/dev/null 2>&1 || continue
    ran=1
    mpirun.$kind -n 4 "$1" "$3" "$4" 64 64 || exit 1
done
[ -n "$ran" ] || { echo 'long_ranks: no MPI is here'; exit 77; }
