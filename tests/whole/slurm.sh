#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# slurm.sh QKV BUILD: starts a Slurm of one node in a temporary folder, and runs in it what docs/machines.md shows: qkv over
# the ranks of srun by PMI-2 and PMIx, with the bits of one process, the end of a rank, and the array of examples/machines.
set -u
qkv=$(realpath "$1") build=$(realpath "$2") here=$PWD
for program in slurmctld slurmd srun sbatch sinfo; do
    PATH="$PATH:/usr/sbin:/sbin" command -v $program >/dev/null || { echo "slurm: $program is not here"; exit 77; }
done
export PATH="$PATH:/usr/sbin:/sbin"
temp=$(mktemp -d) daemons=
stop() {
    # shellcheck disable=SC2086
    [ -z "$daemons" ] || { timeout 10 scancel -u "$(id -un)"; kill $daemons; wait; } 2>/dev/null
    rm -rf "$temp"
}
trap stop EXIT
trap 'exit 1' HUP INT TERM
cd "$temp" || exit 1
fails() { echo "FAILED: $1"; tail -n 20 stdout stderr slurm-*.out 2>/dev/null; exit 1; }
same() { cmp "$1" "$2" || fails "$1 and $2 differ: $3"; }
unset RANK WORLD_SIZE PMI_RANK PMI_SIZE SLURM_PROCID SLURM_NTASKS OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE
mkdir bin state spool
ln -s "$qkv" bin/qkv
ln -s "$here/examples" examples
cp -r "$here/tests/golden/bert" model
export PATH="$temp/bin:$PATH" QKV_MODEL="$temp/model" QKV_THREADS=1 SLURM_CONF="$temp/slurm.conf"

# ---- the node: 16 processors in the eyes of Slurm, whatever the machine has ----
ports=$(python3 -c 'import socket
s = [socket.socket() for _ in range(2)]
for x in s: x.bind(("127.0.0.1", 0))
print(*(x.getsockname()[1] for x in s))')
name=$(hostname -s)
cat >slurm.conf <<CONF
ClusterName=test
SlurmctldHost=$name(127.0.0.1)
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
SlurmctldPort=${ports% *}
SlurmdPort=${ports#* }
AuthType=auth/none
CredType=cred/none
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
ReturnToService=2
SchedulerParameters=sched_interval=1,batch_sched_delay=0
StateSaveLocation=$temp/state
SlurmdSpoolDir=$temp/spool
SlurmctldPidFile=$temp/slurmctld.pid
SlurmdPidFile=$temp/slurmd.pid
SlurmctldLogFile=$temp/slurmctld.log
SlurmdLogFile=$temp/slurmd.log
NodeName=one NodeHostname=$name NodeAddr=127.0.0.1 CPUs=16 State=UNKNOWN
PartitionName=all Nodes=one Default=YES MaxTime=INFINITE State=UP
CONF
slurmctld -D -f slurm.conf >control 2>&1 &
daemons=$!
slurmd -D -f slurm.conf -N one >node 2>&1 &
daemons="$daemons $!"
for _ in $(seq 60); do
    [ "$(timeout 10 sinfo -h -o %T 2>/dev/null)" = idle ] && break
    sleep 0.5
done
timeout 60 srun -n 2 true >stdout 2>stderr || { tail -n 5 control node stderr; echo 'slurm: no node can be started here'; exit 77; }

# ---- ranks ----
kinds=
! ls "$build"/libqkv_mpi-mpich.so* >/dev/null 2>&1 || kinds=pmi2
! ls "$build"/libqkv_mpi-openmpi.so* >/dev/null 2>&1 || kinds="$kinds pmix"
offered=$(srun --mpi=list 2>&1)
python3 -S -E "$here/tests/cli/arrays.py" random q.npy f4 1x700x4x32 1
python3 -S -E "$here/tests/cli/arrays.py" random k.npy f4 1x700x2x32 2
python3 -S -E "$here/tests/cli/arrays.py" random huge.npy f4 1x30000x2x64 3
qkv attn -q q.npy -k k.npy -v k.npy --causal -o one.npy || fails 'one process'
qkv attn -q q.npy -k k.npy -v k.npy --causal --sum >sum || fails 'one process'
# Ends rank 1 when it has opened its arrays, after the ranks are connected.
cat >die.sh <<'SH'
if [ "$SLURM_PROCID" -eq 1 ]; then
    { until grep -q huge.npy "/proc/$$/maps"; do sleep 0.05; done; sleep 0.5; kill -9 $$; } &
fi
exec qkv "$@"
SH
tried=
for mpi in $kinds; do
    case " $(echo "$offered" | tr -s '\n\t' '  ') " in *" $mpi "*) ;; *) continue ;; esac
    for n in 1 2 3; do
        timeout 120 srun --mpi="$mpi" -n $n qkv attn -q q.npy -k k.npy -v k.npy --causal -o many.npy --force \
            >stdout 2>stderr || fails "srun --mpi=$mpi -n $n"
        same one.npy many.npy "srun --mpi=$mpi -n $n"
        timeout 120 srun --mpi="$mpi" -n $n qkv attn -q q.npy -k k.npy -v k.npy --causal --sum >stdout 2>stderr ||
            fails "srun --mpi=$mpi -n $n"
        same sum stdout "srun --mpi=$mpi -n $n: rank 0 alone prints"
    done
    timeout 120 srun --mpi="$mpi" -n 3 qkv attn -q q.npy -k k.npy -v k.npy --plan --json >stdout 2>stderr || fails "plan, $mpi"
    [ "$(python3 -c 'import json; print(len(json.load(open("stdout"))["ranks"]["rank"]))')" -eq 3 ] || fails "3 ranks by $mpi"
    timeout 120 srun --mpi="$mpi" -n 2 qkv generate x >stdout 2>stderr
    [ "$(grep -c '^qkv: generate cannot run on several ranks' stderr)" -eq 1 ] || fails "a command without ranks, $mpi"

    echo old >kept.npy
    begin=$(date +%s)
    timeout 120 srun --kill-on-bad-exit=1 --mpi="$mpi" -n 2 sh die.sh attn -q huge.npy -k huge.npy -v huge.npy -o kept.npy \
        --force >stdout 2>stderr
    code=$?
    [ $code -ne 0 ] && [ $(($(date +%s) - begin)) -lt 60 ] || fails "exit code $code after the end of a rank, $mpi"
    [ "$(grep -c '^qkv: rank 1 has ended before the others' stderr)" -eq 1 ] || fails "one message with the rank, $mpi"
    grep -q 'task 0: Exited with exit code 6' stderr || fails "exit code 6 of the other rank, $mpi"
    [ "$(cat kept.npy)" = old ] && [ "$(find . -name '*kept*' | wc -l)" -eq 1 ] || fails "the old output, $mpi"
    tried="$tried $mpi"
    echo "srun --mpi=$mpi: the bits of one process on 1 to 3 ranks; a rank that ends, ends all"
done
[ -n "$tried" ] || echo 'srun: no MPI that Slurm and qkv both have'

# Without MPI each task runs alone, which task 0 says. A script with other files for each task is a use of that.
timeout 120 srun --mpi=none -n 3 sh -c 'qkv attn -q q.npy -k k.npy -v k.npy --causal -o alone$SLURM_PROCID.npy' >stdout 2>stderr ||
    fails 'srun --mpi=none'
for n in 0 1 2; do same one.npy alone$n.npy 'srun --mpi=none'; done
[ "$(grep -c '^qkv: note: srun started 3 tasks without MPI' stderr)" -eq 1 ] || fails 'the note of srun --mpi=none'
timeout 120 srun --mpi=none -n 1 qkv attn -q q.npy -k k.npy -v k.npy --causal --sum >stdout 2>stderr || fails 'one task'
[ ! -s stderr ] || fails 'a note for one task'

# A batch script is no rank, whatever number of tasks its job has; mpirun in it has its own number of ranks.
cat >batch.sh <<'SH'
#!/bin/sh
qkv attn -q q.npy -k k.npy -v k.npy --causal -o alone.npy
SH
timeout 120 sbatch --wait --ntasks 4 -o batch.log batch.sh >stdout 2>stderr || fails "sbatch: $(cat batch.log)"
same one.npy alone.npy 'a batch script of 4 tasks'
! grep -q 'without MPI' batch.log || fails 'a note in a batch script'

# ---- the array of the page ----
for n in $(seq 25); do echo "owl $((n * n % 17))"; done >lines.txt
qkv embed -f lines.txt -o one.npy --force || fails 'one process'
command_of_page() { # PATTERN: the first line of code that contains it
    sed -n 's/^    \(.*'"$1"'.*\)/\1/p' "$here/docs/machines.md" | head -n 1
}
job=
for _ in 1 2; do # submitted again, all parts are there
    rm -f vectors.npy
    eval "$(command_of_page 'sbatch --parsable')" || fails 'the array'
    join=$(command_of_page 'sbatch --dependency')
    eval "timeout 300 ${join/sbatch/sbatch --wait}" 2>/dev/null >stdout || fails "the command that joins, after job $job"
    same one.npy vectors.npy 'the joined array'
done
[ "$(ls vectors.part-*.npy | wc -l)" -eq 10 ] || fails 'not 10 parts'
[ "$(grep -l '^qkv: note: .*complete' slurm-"$job"_*.out | wc -l)" -eq 10 ] || fails 'parts were computed again'
echo "sbatch --array of examples/machines/slurm.sh: the bytes of one process, twice"
timeout 120 srun -n 3 qkv embed -f lines.txt -o other.npy --shard auto >stdout 2>stderr || fails 'srun embed'
qkv embed --join other.npy >stdout 2>&1 || fails 'join'
same one.npy other.npy 'srun -n 3 qkv embed --shard auto'
