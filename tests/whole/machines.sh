#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# machines.sh QKV BUILD: runs the commands of docs/machines.md on one machine, with the variables that a launcher sets:
# each way of making the parts gives the bytes of one run.
set -eu
qkv=$(realpath "$1")
page=$PWD/docs/machines.md examples=$PWD/examples/machines
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
mkdir "$temp/bin"
ln -s "$qkv" "$temp/bin/qkv"
cp -r tests/golden/bert "$temp/model"
export PATH="$temp/bin:$PATH" QKV_MODEL="$temp/model"
unset RANK WORLD_SIZE PMI_RANK PMI_SIZE SLURM_PROCID SLURM_NTASKS OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE
cd "$temp"
for n in $(seq 25); do echo "owl $((n * n % 17))"; done >lines.txt
qkv embed -f lines.txt -o one.npy

# compare NAME: joins the parts by the command of the page, compares, and removes them
compare() {
    [ "$(ls vectors.part-*.npy | wc -l)" -eq 10 ] || { echo "$1: not 10 parts"; exit 1; }
    join=$(sed -n 's/^    \(qkv embed --join vectors.npy\).*/\1/p' "$page" | head -n 1)
    $join
    cmp vectors.npy one.npy
    rm vectors.*
    echo "$1: the bytes of one run"
}
command_of_page() { # PATTERN: the first line of code that contains it
    line=$(grep -m 1 "^    .*$1" "$page") || { echo "no command with $1"; exit 1; }
    echo "$line"
}
eval "$(command_of_page 'xargs -P')"
compare xargs
if command -v parallel >/dev/null; then
    eval "$(command_of_page 'parallel --jobs')" 2>/dev/null
    compare parallel
fi
# launchers of several processes, where they are installed: 10 processes
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
launch() { # NAME COMMAND WORDS: runs the line of the page that begins with WORDS 4, with 10 processes of the command
    command -v "$2" >/dev/null || return 0
    line=$(command_of_page "$3 4")
    eval "timeout 120 ${line/"$3 4"/$2 ${3#* } 10}" >/dev/null 2>&1
    compare "$1"
}
launch openmpi mpirun.openmpi 'mpirun -n'
launch mpich mpirun.mpich 'mpirun -n'
launch torchrun "${QKV_PEERS_VENV:-none}/bin/torchrun" 'torchrun --nproc-per-node'
# the script of the array, for each of its tasks and once more for two of them
last=$(sed -n 's/^#SBATCH --array=0-\([0-9]*\)$/\1/p' "$examples/slurm.sh")
for task in $(seq 0 "$last") 3 7; do
    SLURM_ARRAY_TASK_ID=$task SLURM_ARRAY_TASK_MIN=0 SLURM_ARRAY_TASK_MAX=$last SLURM_ARRAY_TASK_STEP=1 \
        SLURM_ARRAY_TASK_COUNT=$((last + 1)) SLURM_PROCID=0 SLURM_NTASKS=1 SLURM_CPUS_PER_TASK=2 \
        sh "$examples/slurm.sh" lines.txt vectors.npy 2>/dev/null
done
compare slurm
# the command and the variables of the container
yaml=$examples/kubernetes.yaml
words=$(sed -n 's/^ *command: \[\(.*\)\]$/\1/p' "$yaml" | tr -d ,)
pods=$(sed -n 's/^ *completions: //p' "$yaml")
value=$(sed -n '/name: JOB_COMPLETIONS/{n;s/^ *value: "\(.*\)"$/\1/p}' "$yaml")
[ -n "$words" ] && [ "$pods" = "$value" ] || { echo "kubernetes.yaml: completions $pods, JOB_COMPLETIONS $value"; exit 1; }
for pod in $(seq 0 $((pods - 1))); do
    JOB_COMPLETION_INDEX=$pod JOB_COMPLETIONS=$value ${words//\/data\//} 2>/dev/null
done
compare kubernetes
