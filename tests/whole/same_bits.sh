#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# same_bits.sh QKV: checks that result files are equal, byte for byte, for any number of threads and any batch.
set -eu
qkv=$1
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
unset QKV_THREADS

# q[2][150][4][20], k[2][170][2][20], v[2][170][2][25]: grouped heads, widths that are not multiples of any vector
# width
python3 - "$temp" <<'PY'
import random, struct, sys
random.seed(7)
for name, shape in (("q", (2, 150, 4, 20)), ("k", (2, 170, 2, 20)), ("v", (2, 170, 2, 25))):
    head = repr({"descr": "<f4", "fortran_order": False, "shape": shape})
    head += " " * (-(len(head) + 11) % 64) + "\n"
    n = 1
    for size in shape:
        n *= size
    with open(f"{sys.argv[1]}/{name}.npy", "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode())
        f.write(struct.pack(f"<{n}f", *(random.gauss(0, 1) for _ in range(n))))
PY
for n in 1 2 3 5 8; do
    "$qkv" attn -q "$temp/q.npy" -k "$temp/k.npy" -v "$temp/v.npy" --causal-br --threads $n \
        -o "$temp/out$n.npy" --lse "$temp/lse$n.npy"
    cmp "$temp/out1.npy" "$temp/out$n.npy"
    cmp "$temp/lse1.npy" "$temp/lse$n.npy"
done

model=models/all-MiniLM-L6-v2
[ -f $model/model.safetensors ] || { echo "attn: same bits; $model is not there: embed skipped"; exit 77; }
sed -n 'p' README.md CONTRIBUTING.md docs/design.md | grep -v '^ *$' |
    head -n $([ "${QKV_ISA:-}" = scalar ] && echo 4 || echo 60) >"$temp/lines"
for how in "--threads 1" "--threads 2" "--threads 3" "--threads 1 --batch-tokens 300"; do
    "$qkv" embed -m $model -f "$temp/lines" --truncate $how --force -o "$temp/now.npy" 2>/dev/null
    [ -f "$temp/first.npy" ] || cp "$temp/now.npy" "$temp/first.npy"
    cmp "$temp/first.npy" "$temp/now.npy"
done
