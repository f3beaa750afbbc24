# SPDX-License-Identifier: MIT
# ranks_faults.sh: a disk that is full for one rank, commands that do not run on ranks, and processes that only inherit the
# variables of a launcher.
. tests/cli/lib.sh
. "$here/ranks_lib.sh"
python random q.npy f4 1x600x2x16 1
export QKV_BIN

title 'a command that does not run on ranks is refused once, before work'
for launcher in $launchers; do
    for command in 'generate hello' 'embed hello' 'embed --join v.npy' 'tokenize hello' 'eval text.txt'; do
        ranked "$launcher" 2 2 $command
        [ "$(grep -c '^qkv: .* cannot run on several ranks' "$err")" -eq 1 ] || failed "one message: $launcher, $command"
        [ ! -s "$out" ] || failed "output: $command"
    done
    ranked "$launcher" 2 0 info --json
    [ "$(grep -c '"version"' "$out")" -eq 2 ] || failed "info of each process: $launcher"
done

title 'message and exit code are from the first rank that fails'
mkdir rank0 rank1
cp q.npy rank0
printf broken >rank0/k.npy # malformed, code 3; on rank 1 it is missing, code 6
cp q.npy rank1
for launcher in $launchers; do
    timeout 120 "$launcher" -n 2 sh -c 'cd "rank${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" && exec "$QKV_BIN" attn -q q.npy -k k.npy -v q.npy' \
        >"$out" 2>"$err" </dev/null
    code=$?
    [ $code -eq 3 ] || failed "exit code $code of ranks with the codes 3 and 6, expected 3: $launcher"
    [ "$(grep -c '^qkv: k.npy' "$err")" -eq 1 ] || failed "one message: $launcher"
done

title 'a process that inherits the variables of a launcher is alone'
runs 0 attn -q q.npy -k q.npy -v q.npy -o one.npy
PMI_SIZE=2 PMI_RANK=1 runs 0 attn -q q.npy -k q.npy -v q.npy -o two.npy
check cmp one.npy two.npy
PMI_SIZE=2 PMI_RANK=1 PMI_FD=97 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=1 \
    runs 0 attn -q q.npy -k q.npy -v q.npy -o two.npy --force
check cmp one.npy two.npy
# a child of a rank: the parent has loaded the MPI
cat >parent.py <<'PY'
import ctypes, os, subprocess, sys
rank = os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ["PMI_RANK"]
ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_GLOBAL)
sys.exit(subprocess.run([os.environ["QKV_BIN"], *"attn -q q.npy -k q.npy -v q.npy -o".split(), f"child{rank}.npy"]).returncode)
PY
for launcher in $launchers; do
    kind=${launcher#mpirun.}
    set -- "$(dirname "$QKV_BIN")/../libqkv_mpi-$kind.so"*
    library=$(ldd "$1" | sed -n 's/.*libmpi[a-z]*\.so[^ ]* => \([^ ]*\).*/\1/p' | head -1)
    timeout 60 "$launcher" -n 2 python3 parent.py "$library" >"$out" 2>"$err" || failed "a child of a rank: $launcher"
    check cmp one.npy child0.npy
    check cmp one.npy child1.npy
    rm -f child0.npy child1.npy
done

title 'the mode, the bytes and the bits with a limit for what is collected'
for launcher in $launchers; do
    ranked "$launcher" 3 0 attn -q q.npy -k q.npy -v q.npy --causal --collect-limit 40000 -o limited.npy --force
    runs 0 attn -q q.npy -k q.npy -v q.npy --causal -o one.npy --force
    check cmp one.npy limited.npy
    ranked "$launcher" 3 0 attn -q q.npy -k q.npy -v q.npy --causal --collect-limit 40000 --plan
    [ "$(grep -c 'since all keys and values have 153600 bytes, more than the limit of 40000 bytes' "$out")" -eq 1 ] ||
        failed 'the reason'
    for limit in 153599 153600; do
        ranked "$launcher" 3 0 attn -q q.npy -k q.npy -v q.npy --causal --collect-limit $limit --plan --json
        python3 - "$out" $limit <<'PY' || failed "the plan of $limit"
import json, sys
d = json.load(open(sys.argv[1]))["ranks"]
pipeline = sys.argv[2] == "153599"
assert d["size"] == len(d["rank"]) == 3 and d["mode"] == ("pipeline" if pipeline else "collect"), d
assert sorted(i for r in d["rank"] for run in r["rows"] for i in range(*run)) == list(range(600)), d
assert sum(r["sent"] for r in d["rank"]) == 2 * 153600, d  # every number goes to 2 others
assert all(r["link"] == (r["sent"] / 2 if pipeline else r["sent"]) for r in d["rank"]), d
PY
    done
done

title 'without a limit, ranks collect half of the memory that is available to the rank with the least'
# 2 rows of q, 64 MB of keys and values. The address space of rank 1 is limited to $LIMIT kB.
python random few.npy f4 1x2x1x64 3
python random some.npy f4 1x1000x1x64 4
python3 - <<'PY'
import struct
numbers = open("some.npy", "rb").read()[-256000:]
header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 125000, 1, 64), }"
header += b" " * (-(len(header) + 11) % 64) + b"\n"
open("many.npy", "wb").write(b"\x93NUMPY\x01\0" + struct.pack("<H", len(header)) + header + numbers * 125)
PY
cat >space.sh <<'SH'
rank=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}}
[ "$rank" -ne 1 ] || ulimit -v "$LIMIT"
exec "$QKV_BIN" "$@"
SH
export QKV_BIN
limit_of() { sed -n 's/.*"mode":"'"$1"'".* the limit of \([0-9]*\) bytes, half of the memory .*/\1/p' "$out"; }
arrays='-q few.npy -k many.npy -v many.npy'
runs 0 attn $arrays -o one.npy --force
for launcher in $launchers; do
    # with 1 GB more than a rank needs all is collected, and the plan shows what it needs
    LIMIT=2000000 timeout 60 "$launcher" -n 2 sh space.sh attn $arrays --plan --json >"$out" 2>"$err" || failed "$launcher"
    found=$(limit_of collect)
    [ "${found:-0}" -gt 64000000 ] && [ "${found:-0}" -lt 1000000000 ] || failed "the limit $found: $launcher"
    less=$((2000000 - 2 * ${found:-0} / 1024 + 112500)) # 57.6 MB can be collected
    LIMIT=$less timeout 60 "$launcher" -n 2 sh space.sh attn $arrays --plan --json >"$out" 2>"$err" || failed "$launcher"
    found=$(limit_of pipeline)
    [ "${found:-0}" -gt 50000000 ] && [ "${found:-0}" -lt 64000000 ] || failed "the limit $found: $launcher"
    LIMIT=$less timeout 60 "$launcher" -n 2 sh space.sh attn $arrays -o two.npy --force >"$out" 2>"$err" || failed "$launcher"
    check cmp one.npy two.npy
done
rm many.npy

# Rank $VICTIM can write no more than $BYTES to a file, once the file $AFTER exists. MPI itself writes some files of a few MB
# before.
cat >full.sh <<'SH'
rank=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}}
limit() {
    while [ ! -e "$AFTER" ] && kill -0 $$; do sleep 0.01; done
    prlimit --pid $$ --fsize="$BYTES:$BYTES"
}
if [ "$rank" -eq "$VICTIM" ]; then
    if [ -e "$AFTER" ]; then limit; else limit & fi
fi
exec "$QKV_BIN" "$@"
SH

title 'a disk that is full for rank 0 ends all ranks of attn with 6, and the old output stays'
python random long.npy f4 1x400000x1x4 9
python random keys.npy f4 1x16x1x4 8
python random wide.npy f4 1x16x1x64 7
for launcher in $launchers; do
    echo old >kept.npy
    VICTIM=0 BYTES=67108864 AFTER=kept.npy timeout 300 "$launcher" -n 2 sh full.sh attn -q long.npy -k keys.npy -v wide.npy \
        -o kept.npy --force >"$out" 2>"$err" </dev/null
    [ $? -eq 6 ] || failed "exit code: $launcher"
    [ "$(grep -c '^qkv: .*kept.npy.*[Ff]ile too large' "$err")" -eq 1 ] || failed "one message: $launcher"
    [ "$(cat kept.npy)" = old ] || failed 'the old output'
    [ "$(find . -name '*kept*' | wc -l)" -eq 1 ] || failed 'a temporary file'
done

title 'a disk that is full for rank 0 of train: the run continues later to the same bits'
cat "$here"/../../docs/notes/0*.md >text.txt
options='--arch gpt --tokenizer bytes --width 48 --layers 2 --heads 2 --context 32 --batch-tokens 256 --accumulate 4
    --eval-every 60 --save-every 40 --steps 120'
runs 0 train text.txt $options --out alive
for launcher in $launchers; do
    VICTIM=0 BYTES=4096 AFTER=full/log.jsonl timeout 300 "$launcher" -n 2 sh full.sh train text.txt $options --out full \
        >"$out" 2>"$err" </dev/null
    code=$?
    [ $code -eq 6 ] || failed "exit code $code: $launcher"
    [ "$(grep '^qkv: ' "$err" | grep -vc '^qkv: note: ')" -eq 1 ] || failed "one message: $launcher"
    runs 0 train text.txt $options --out full
    for file in model/model.safetensors model/optimizer.safetensors model/state.json log.jsonl; do
        check cmp "alive/$file" "full/$file"
    done
    rm -rf full
done

finish
