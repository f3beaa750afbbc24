# SPDX-License-Identifier: MIT
# ranks_lib.sh: what tests of commands on several ranks share. Skips a test where no MPI can start processes, and in a build
# with sanitizers, which the libraries of MPI are not made for; with small tiles it runs, and ThreadSanitizer, which sees
# races in the threads of MPI, reports nothing. QKV_NEED_MPI=1: a test without Open MPI or MPICH fails.
if [ -n "${QKV_TILES:-}" ]; then
    export TSAN_OPTIONS=report_bugs=0
elif [ -n "${QKV_SLOW:-}" ]; then
    echo 'ranks: not with sanitizers or small builds'
    exit 77
fi
export QKV_THREADS=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
# no rank has a core of its own: other tests run next to these
export OMPI_MCA_hwloc_base_binding_policy=none PRTE_MCA_hwloc_default_binding_policy=none
export OMPI_MCA_mpi_yield_when_idle=1 # more ranks than cores
export OMPI_MCA_btl_vader_single_copy_mechanism=none PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
# starts KIND: true if the launcher starts processes. It is asked again, since a launcher that starts at the same time as one of
# another test has failed at times; what it says is printed.
starts() {
    for _ in 1 2 3; do
        said=$(timeout 60 "mpirun.$1" -n 2 true 2>&1) && return 0
        echo "ranks: mpirun.$1 has started no processes: $said"
        sleep 1
    done
    return 1
}
launchers=
for kind in openmpi mpich; do
    set -- "$(dirname "$QKV_BIN")/../libqkv_mpi-$kind.so"*
    [ -e "$1" ] && command -v mpirun.$kind >/dev/null && starts $kind && launchers="$launchers mpirun.$kind"
done
if [ -n "${QKV_NEED_MPI:-}" ] && [ "$launchers" != ' mpirun.openmpi mpirun.mpich' ]; then
    echo "ranks: QKV_NEED_MPI, and only these MPI libraries are built and start processes:$launchers"
    exit 1
fi
if [ -z "$launchers" ]; then
    echo 'ranks: no MPI is here'
    exit 77
fi

# ranked LAUNCHER RANKS CODE ARGUMENTS...: runs qkv on so many ranks
ranked() {
    launcher=$1 size=$2 want=$3
    shift 3
    timeout 300 "$launcher" -n "$size" "$QKV_BIN" "$@" >"$out" 2>"$err" </dev/null
    code=$?
    [ $code -eq "$want" ] || failed "exit code $code, expected $want: $launcher -n $size qkv $*"
}
