# SPDX-License-Identifier: MIT
# embed_shards.sh: tests qkv embed --shard and --join: parts of an input, and the output joined from them.
. tests/cli/lib.sh
for name in RANK WORLD_SIZE OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE PMI_RANK PMI_SIZE SLURM_PROCID SLURM_NTASKS \
    SLURM_ARRAY_TASK_ID SLURM_ARRAY_TASK_COUNT SLURM_ARRAY_TASK_MIN SLURM_ARRAY_TASK_STEP JOB_COMPLETION_INDEX JOB_COMPLETIONS; do
    unset $name
done
cp -r "$here/../golden/bert" model
export QKV_MODEL="$temp/model"
python3 - <<'PY'
import random
draw = random.Random(1)
with open("lines", "wb") as f:
    for i in range(37): f.write(" ".join(draw.choices(["a", "owl", "it", "xx"], k=(i + 1) % 4)).encode() + b"\n" * (i < 36))
open("ids", "w").write("".join(f"2,{5 + i},{6 + i},3\n" for i in range(9)))
PY
# shards COUNT OUTPUT OPTIONS...: embeds all shards, in an order that is not theirs
shards() {
    count=$1 output=$2
    shift 2
    i=$((count - 1))
    while [ $i -ge 0 ]; do
        runs 0 embed -o "$output" --shard $i/"$count" "$@"
        i=$((i - 1))
    done
}

title 'joined parts are the bytes of one run: any number of shards, threads and batches, and both forms'
for form in npy jsonl; do
    runs 0 embed -f lines -o one.$form
    for n in 1 2 3 10 40; do
        shards $n p$n.$form -f lines --threads $((1 + n % 3)) --batch-tokens $((10 * n))
        silent
        [ "$(ls p$n.part-*-of-*.$form | wc -l)" -eq $n ] || failed "$n parts"
        runs 0 embed --join p$n.$form
        silent
        check cmp -s p$n.$form one.$form
    done
done

title 'no line, one line, a line without its end, and more shards than lines'
printf '' >none
printf 'one\n' >single
printf 'one' >open
printf '\n' >blank
for input in none single open blank; do
    runs 0 embed -f $input -o $input.one.npy
    for n in 1 2 5; do
        shards $n $input.$n.npy -f $input
        runs 0 embed --join $input.$n.npy
        check cmp -s $input.$n.npy $input.one.npy
    done
done
[ "$(python shape none.5.part-00003-of-00005.npy)" = '0x35 f4' ] || failed "shape: $(python shape none.5.part-00003-of-00005.npy)"

title 'the first L mod N shards have one line more'
rows() { for i in 0 1 2 3; do python shape p.part-0000$i-of-00004.npy | sed 's/x.*//'; done | tr '\n' ' '; }
printf 'a\nb\nc\nd\ne\nf\n' >six
shards 4 p.npy -f six
[ "$(rows)" = '2 2 1 1 ' ] || failed "rows: $(rows)"

title 'options and token ids belong to the run'
runs 0 embed -f lines -o opt.one.npy --pool cls --no-normalize --precision bf16 --ablate 'L1.H0=zero' --max-length 6
shards 3 opt.npy -f lines --pool cls --no-normalize --precision bf16 --ablate 'L1.H0=zero' --max-length 6
runs 0 embed --join opt.npy
check cmp -s opt.npy opt.one.npy
runs 0 embed --ids ids -o ids.one.jsonl
shards 4 ids.jsonl --ids ids
runs 0 embed --join ids.jsonl
check cmp -s ids.jsonl ids.one.jsonl

title 'a complete part is skipped, with a note, and not written again'
before=$(stat -c '%i %y' p2.part-00001-of-00002.npy)
runs 0 embed -f lines -o p2.npy --shard 1/2
says 'qkv: note: p2.part-00001-of-00002.npy is complete: skipped'
runs 0 embed -f lines -o p2.npy --shard 1/2 --strict --truncate # these only decide whether a run fails
says 'qkv: note: p2.part-00001-of-00002.npy is complete: skipped'
[ "$(stat -c '%i %y' p2.part-00001-of-00002.npy)" = "$before" ] || failed 'the part was written again'
runs 0 embed -f lines -o p2.npy --shard 1/2 --force
silent
[ "$(stat -c '%i %y' p2.part-00001-of-00002.npy)" != "$before" ] || failed 'the part was not written again'

title 'a manifest without its part, which a killed process leaves, is completed'
cp p2.part-00000-of-00002.npy kept
rm p2.part-00000-of-00002.npy
runs 6 embed --join p2.npy --force
says 'qkv: p2.npy: 1 of 2 parts are missing: 0 (counted from 0)'
runs 0 embed -f lines -o p2.npy --shard 0/2
silent
check cmp -s p2.part-00000-of-00002.npy kept

title 'a part of another run is refused, and the message names what differs'
differs() {
    what=$1
    shift
    runs 2 embed -o p2.npy --shard 0/2 "$@"
    says_part "qkv: p2.part-00000-of-00002.npy: the part belongs to another run than this one: $what"
}
differs 'precision differs, expected bf16, found f32' -f lines --precision bf16
differs 'pool differs, expected cls, found model' -f lines --pool cls
differs 'normalize differs, expected no, found model' -f lines --no-normalize
differs 'max_length differs, expected 5, found' -f lines --max-length 5
differs 'special_tokens differs' -f lines --no-special
differs 'ablate differs, expected L0.H1=mean, found ' -f lines --ablate 'L0.H1=mean'
differs 'input_sha256 differs' -f six
cp -r model other
sed 's/"layer_norm_eps": [^,]*/"layer_norm_eps": 1e-11/' model/config.json >other/config.json
! cmp -s model/config.json other/config.json || failed 'the same config.json'
differs 'model differs' -f lines -m other
cp model/golden.safetensors other/unused.safetensors
cp model/config.json other/config.json
runs 0 embed -f lines -o p2.npy --shard 0/2 -m other # the same files elsewhere, and one that is not read
weakest=$("$QKV_BIN" info | sed -n 's/.*this machine supports: \([a-z0-9]*\).*/\1/p')
if [ "$weakest" = scalar ]; then
    QKV_ISA=scalar runs 2 embed -f lines -o p2.npy --shard 0/2
    says_part 'instruction_set differs, expected scalar, found '
fi

title 'the manifest: the model is the SHA-256 of the sums of the files that were read'
python3 - <<'PY' || failed 'a wrong manifest'
import hashlib, json
def sha(name): return hashlib.sha256(open(name, "rb").read()).hexdigest()
m = json.load(open("p3.part-00001-of-00003.npy.manifest.json"))
assert m["format"] == "qkv-part" and m["version"] == 1 and m["shard"] == 1 and m["shards"] == 3
assert m["first"] == 13 and m["rows"] == 12
part = open("p3.part-00001-of-00003.npy", "rb").read()
assert m["bytes"] == len(part) and m["sha256"] == hashlib.sha256(part).hexdigest()
assert m["run"]["input_sha256"] == sha("lines") and m["run"]["input_lines"] == "37"
names = ["config.json", "model.safetensors", "tokenizer.json"]
text = "".join(f"{sha('model/' + n)}  {n}\n" for n in names)
assert m["run"]["model"] == hashlib.sha256(text.encode()).hexdigest()
PY

title 'every file of a model in shards is part of its sum'
runs 0 convert model split --precision f32 --shard-size 30KB
[ "$(ls split/model-*-of-*.safetensors | wc -l)" -gt 2 ] || failed "files: $(ls split)"
runs 0 embed -f six -o split.npy --shard 0/1 -m split
python3 - <<'PY' || failed 'another sum'
import hashlib, json, os
def sha(name): return hashlib.sha256(open(name, "rb").read()).hexdigest()
read = [n for n in sorted(os.listdir("split")) if n.startswith("model") or n in ("config.json", "tokenizer.json")]
text = "".join(f"{sha('split/' + n)}  {n}\n" for n in read)
assert json.load(open("split.part-00000-of-00001.npy.manifest.json"))["run"]["model"] == hashlib.sha256(text.encode()).hexdigest()
PY

title 'missing parts are listed by number; parts of two runs, and of two numbers of shards, are refused'
for i in 3 5 6 7 9; do rm p10.part-0000$i-of-00010.npy; done
runs 6 embed --join p10.npy --force
says 'qkv: p10.npy: 5 of 10 parts are missing: 3, 5 to 7, 9 (counted from 0)'
runs 6 embed --join nothing.npy
says 'qkv: nothing.npy: no part of this output is there, expected files such as nothing.part-00000-of-00001.npy'
for option in --truncate --pad --strict '--batch-tokens 64' '--precision bf16' '--ablate L0.H0' '-m model' '-f lines'; do
    runs 2 embed --join p10.npy $option
    says_part 'qkv: --join reads parts only'
done
rm p3.npy
runs 0 embed -f lines -o p3.npy --shard 1/3 --force --precision bf16
runs 2 embed --join p3.npy
says 'qkv: p3.part-00001-of-00003.npy: the part belongs to another run than part 0: precision differs, expected f32, found bf16'
[ ! -e p3.npy ] || failed 'an output of a refused join'
cp p2.part-00000-of-00002.npy p3.part-00000-of-00002.npy
runs 2 embed --join p3.npy
says 'qkv: p3.npy: there are parts of different numbers of shards, expected one number, found 2 and 3'

title 'a part that is damaged, without a manifest, or with the manifest of another part'
shards 2 d.npy -f six
for change in 'b[:-1]' 'b[:-1] + bytes([b[-1] ^ 1])'; do
    cp d.part-00001-of-00002.npy good
    python3 -c "
b = open('good', 'rb').read()
open('d.part-00001-of-00002.npy', 'wb').write($change)"
    runs 3 embed --join d.npy
    says_part 'qkv: d.part-00001-of-00002.npy: the part differs from its manifest, expected'
    runs 3 embed -f six -o d.npy --shard 1/2
    says_part 'qkv: d.part-00001-of-00002.npy: the part differs from its manifest, expected'
    cp good d.part-00001-of-00002.npy
done
manifest=d.part-00001-of-00002.npy.manifest.json
cp $manifest saved
cp d.part-00000-of-00002.npy.manifest.json $manifest
runs 3 embed --join d.npy
says_part 'the manifest is of another part, expected shard 1 of 2, found 0 of 2'
for change in 's/qkv-part/other/' 's/"rows": 3/"rows": "3"/' 's/"run"/"walk"/' 's/"sha256": "./"sha256": "/' 's/{/[/'; do
    sed "$change" saved >$manifest
    runs 3 embed --join d.npy
    says_part "qkv: $manifest:"
done
sed 's/"first": 3/"first": 4/' saved >$manifest
runs 3 embed --join d.npy
says_part 'the part does not follow the preceding one, expected first row 3, found 4'
sed 's/"version": 1/"version": 2/' saved >$manifest
runs 4 embed --join d.npy
says_part 'manifest format is too new, expected version 1 or earlier, found 2'
rm $manifest
runs 6 embed --join d.npy
runs 2 embed -f six -o d.npy --shard 1/2
says "qkv: d.part-00001-of-00002.npy: file exists already and is no part, expected its manifest at $manifest, found none"
[ ! -e d.npy ] || failed 'an output of a failed join'
runs 0 embed -f six -o d.npy --shard 1/2 --force
runs 0 embed --join d.npy
runs 2 embed --join d.npy
says_part 'qkv: d.npy: the output file exists already'

title 'auto: the shard of the environment'
part() { # SHARD VARIABLES...
    want=$1
    shift
    rm -f a.part-*
    env "$@" "$QKV_BIN" embed -f six -o a.npy --shard auto >"$out" 2>"$err" || failed "$*"
    name=$(printf 'a.part-%05d-of-%05d.npy' "${want%/*}" "${want#*/}")
    [ "$(ls a.part-*.npy)" = "$name" ] || failed "$*: $(ls a.part-*.npy)"
    says_part "qkv: note: shard $want, from "
}
refused() { # MESSAGE VARIABLES...
    want=$1
    shift
    env "$@" "$QKV_BIN" embed -f six -o a.npy --shard auto >"$out" 2>"$err"
    [ $? -eq 2 ] || failed "accepted: $*"
    says "qkv: --shard auto: $want"
}
part 1/3 RANK=1 WORLD_SIZE=3
part 2/4 OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=4
part 0/2 PMI_RANK=0 PMI_SIZE=2
part 3/5 SLURM_PROCID=3 SLURM_NTASKS=5
part 0/1 SLURM_PROCID=0
part 6/7 JOB_COMPLETION_INDEX=6 JOB_COMPLETIONS=7
part 4/10 SLURM_ARRAY_TASK_ID=4 SLURM_ARRAY_TASK_COUNT=10 SLURM_ARRAY_TASK_MIN=0
part 4/10 SLURM_ARRAY_TASK_ID=5 SLURM_ARRAY_TASK_COUNT=10 SLURM_ARRAY_TASK_MIN=1 SLURM_ARRAY_TASK_STEP=1
part 2/4 SLURM_ARRAY_TASK_ID=5 SLURM_ARRAY_TASK_COUNT=4 SLURM_ARRAY_TASK_MIN=1 SLURM_ARRAY_TASK_STEP=2
part 4/10 SLURM_ARRAY_TASK_ID=4 SLURM_ARRAY_TASK_COUNT=10 SLURM_PROCID=0 SLURM_NTASKS=1
part 4/10 SLURM_ARRAY_TASK_ID=4 SLURM_ARRAY_TASK_COUNT=10 SLURM_PROCID=0
part 1/3 RANK=1 WORLD_SIZE=3 SLURM_PROCID=1 SLURM_NTASKS=3 PMI_RANK=1 PMI_SIZE=3
refused 'expected the variables of a launcher, such as RANK and WORLD_SIZE, found none; choose with --shard I/N'
refused 'the variable RANK is set without WORLD_SIZE, expected both' RANK=1
refused 'the variable JOB_COMPLETION_INDEX is set without JOB_COMPLETIONS, expected both' JOB_COMPLETION_INDEX=1
refused 'the variable WORLD_SIZE is set without RANK, expected both' WORLD_SIZE=3
refused "invalid value of the variable RANK, expected 0 to 2, found '3'" RANK=3 WORLD_SIZE=3
refused "invalid value of the variable RANK, expected 0 to 2, found 'x'" RANK=x WORLD_SIZE=3
refused "invalid value of the variable RANK, expected 0 to 2, found ''" RANK= WORLD_SIZE=3
refused "invalid value of the variable WORLD_SIZE, expected 1 to 1000000, found '0'" RANK=0 WORLD_SIZE=0
refused "invalid value of the variable SLURM_ARRAY_TASK_ID, expected 1 to 3, found '7'" \
    SLURM_ARRAY_TASK_ID=7 SLURM_ARRAY_TASK_COUNT=3 SLURM_ARRAY_TASK_MIN=1
refused "the variable SLURM_ARRAY_TASK_ID is not in the array, expected a multiple of 2 after 1, found '4'" \
    SLURM_ARRAY_TASK_ID=4 SLURM_ARRAY_TASK_COUNT=4 SLURM_ARRAY_TASK_MIN=1 SLURM_ARRAY_TASK_STEP=2
refused 'the environment is ambiguous, expected one shard, found 5/8 in RANK and WORLD_SIZE, and 1/2 in SLURM_PROCID and SLURM_NTASKS; choose with --shard I/N' \
    RANK=5 WORLD_SIZE=8 SLURM_PROCID=1 SLURM_NTASKS=2

title 'wrong shards, inputs and outputs'
for shard in 1 a/b 1/ /2 -1/2 0/0 1/2/3 '0 /2' 99999999999999999999999999/2; do
    runs 2 embed -f six -o a.npy --shard "$shard"
    says "qkv: --shard: expected I/N, such as 0/10, or auto, found '$shard'"
done
runs 2 embed -f six -o a.npy --shard 2/2
says "qkv: --shard: shards are counted from 0, expected 0/2 to 1/2, found '2/2'"
runs 2 embed -f six -o a.npy --shard 0/1000001
says 'qkv: --shard: too many shards, expected at most 1000000, found 1000001'
runs 2 embed -f six --shard 0/2
says 'qkv: --shard: expected an output file, -o FILE'
runs 2 embed -f six --shard 0/2 -o /dev/stdout
says 'qkv: --shard: expected an output file, found a pipe or a device'
runs 2 embed text --shard 0/2 -o a.npy
says 'qkv: --shard: expected the lines of a file, -f FILE, found texts as operands'
runs 2 embed --ids 2,3 --shard 0/2 -o a.npy
says 'qkv: --shard: expected a file of token ids, found a list or standard input'
runs 2 embed --shard 0/2 -o a.npy
says 'qkv: --shard: expected a file, -f FILE, found standard input'
runs 2 embed -f six --shard 0/2 -o a.txt
says 'qkv: a.txt: unknown format of the output, expected a name that ends with .npy or .jsonl'
mkfifo pipe
(cat six >pipe &)
runs 6 embed -f pipe --shard 0/2 -o a.npy
says 'qkv: pipe: the input of a shard is read twice, expected a regular file, found a pipe or a device'
runs 6 embed -f missing --shard 0/2 -o a.npy
runs 6 embed -f six --shard 0/2 -o nowhere/a.npy
runs 2 embed --join a.npy -f six
says 'qkv: --join reads parts only, expected no text and no option but --force, --json and --quiet, found --file'
runs 2 embed --join a.npy text
runs 2 embed --join a.txt
cp six b.part-00000-of-00002.npy
runs 2 embed -f b.part-00000-of-00002.npy --shard 0/2 -o b.npy --force
says_part 'this file is an input and an output at once'

title 'an error of a text names its line in the whole file, and leaves no part'
python3 -c "
for i in range(9): print('a' if i < 7 else 'a ' * 900)" >long
runs 2 embed -f long --shard 2/3 -o long.npy
says_part 'qkv: long: at line 8: '
[ -z "$(ls | grep '^long[.]')" ] || failed 'something was left'

title 'two processes that compute the same part at once both succeed'
for i in 1 2 3 4; do
    "$QKV_BIN" embed -f lines -o twice.npy --shard 0/1 2>>"$err" || echo failed >bad.$i &
done
wait
[ -z "$(ls | grep '^bad[.]')" ] || failed 'one of them failed'
check cmp -s twice.part-00000-of-00001.npy one.npy

finish
