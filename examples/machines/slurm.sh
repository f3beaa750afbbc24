#!/bin/sh
# SPDX-License-Identifier: MIT
# slurm.sh INPUT OUTPUT [OPTIONS...]: embeds the shard of this task of a Slurm array.
#SBATCH --array=0-9
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=8
input=$1 output=$2
shift 2
exec qkv embed -f "$input" -o "$output" --shard auto --threads "${SLURM_CPUS_PER_TASK:-0}" "$@"
