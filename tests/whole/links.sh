#!/bin/sh
# SPDX-License-Identifier: MIT
# links.sh QKV BUILD: two ranks on two hosts with a slow link between them (bench/hosts.sh): attention and training have the
# bits of one process, MPI sends the bytes that plans and formulas have, and at least these go over the cable. Prints the
# efficiency and that of the model, which are measured and not compared: speed depends on what else the machine does.
set -u
qkv=$(realpath "$1") build=$(realpath "$2") rate=156
here=$PWD
temp=$(mktemp -d)
. "$here/bench/hosts.sh"
trap 'hosts_close; rm -rf "$temp"' EXIT
trap 'exit 1' HUP INT TERM
export QKV_THREADS=1 TMPDIR="$temp"
counts=$build/tests/libcount_bytes-mpich.so
[ -e "$counts" ] && command -v mpirun.mpich >/dev/null || { echo 'links: no MPICH is here'; exit 77; }
hosts_open $rate || { echo 'links: no network namespaces can be made here'; exit 77; }
cd "$temp" || exit 1
fails() { echo "FAILED: $1"; exit 1; }
# over ARGUMENTS...: runs qkv on the two hosts
over() { mpich_hosts "$qkv" "$@" >stdout 2>stderr </dev/null || { cat stderr; fails "qkv $*"; }; }
same() { cmp "$1" "$2" || fails "$1 and $2 differ: $3"; }

python3 -S -E "$here/tests/cli/arrays.py" random q.npy f4 1x1500x4x32 1
python3 -S -E "$here/tests/cli/arrays.py" random k.npy f4 1x1500x2x32 2
for options in '' '--causal' '--causal --collect-limit 40000' '--precision bf16 --collect-limit 40000'; do
    single=$(echo "$options" | sed 's/--collect-limit [0-9]*//')
    "$qkv" attn -q q.npy -k k.npy -v k.npy $single -o one.npy --force || fails 'one process'
    before=$(cable_bytes)
    over attn -q q.npy -k k.npy -v k.npy $options -o two.npy --force
    bytes=$(($(cable_bytes) - before))
    same one.npy two.npy "attn $options"
    over attn -q q.npy -k k.npy -v k.npy $options --plan --json
    planned=$(python3 -c 'import json; print(json.load(open("stdout"))["ranks"]["rank"][0]["sent"])')
    [ "$planned" -gt 0 ] && [ $bytes -ge "$planned" ] || fails "$bytes bytes on the cable, $planned planned: $options"
    echo "attn $options: the bits of one process; rank 0 plans $planned bytes, its end of the cable sent $bytes"
done

cat "$here"/docs/notes/0*.md >text.txt
run='--arch gpt --tokenizer bytes --width 32 --layers 2 --heads 2 --context 32 --batch-tokens 128 --accumulate 4 --steps 6'
"$qkv" train text.txt $run --out one >stdout 2>&1 || fails 'one process'
over train text.txt $run --out two
for file in model/model.safetensors model/optimizer.safetensors model/state.json log.jsonl; do
    same "one/$file" "two/$file" train
done
echo 'train: the files of one process'

preload=$counts
mpich_hosts "$build/tests/ranks_bytes" || fails 'the bytes of attention'
mpich_hosts "$build/tests/train_bytes" || fails 'the bytes of training'
preload=

over bench machines --json --seconds 1 -s 'H4,N2048,E64,causal;H4,N2048,E64'
python3 - $rate <<'PY' || fails 'the figures of bench machines'
import json, sys
d = json.load(open("stdout"))
assert .001 < d["moving"] < .5, d  # a thread moves messages
assert len(d["results"]) == 4 and 0 < d["bandwidth"] < 1.1e6 / 8 * float(sys.argv[1]), d
for r in d["results"]:
    print(f'{sys.argv[1]} Mbit/s, {r["shape"]} {r["pass"]}: efficiency {100 * r["efficiency"]:.0f} %, '
          f'model {100 * r["model"]["efficiency"]:.0f} %, overlap {100 * r["overlap"]:.0f} %')
PY
