# SPDX-License-Identifier: MIT
# convert.sh: tests qkv convert: the same numbers in another type, rounded; written completely or not at all.
. tests/cli/lib.sh
golden=$here/../golden

title 'float types: every tensor of floats is rounded, the others are unchanged, small files are copied'
cp -r "$golden/bert" from
mkdir from/1_Pooling from/.git
echo '{}' >from/1_Pooling/config.json
echo x | tee from/pytorch_model.bin from/.git/x from/state.json from/notes.txt >/dev/null
runs 0 convert from bf16 --precision bf16
prints '39 tensors in 1 file, 42422 bytes, 0.5 of the original size'
says 'qkv: note: 3 files of from not copied: weights in other formats, or large files'
[ "$(ls bf16 | tr '\n' ' ')" = '1_Pooling config.json model.safetensors notes.txt tokenizer.json ' ] ||
    failed "files: $(ls bf16)"
check cmp -s from/tokenizer.json bf16/tokenizer.json
check cmp -s from/1_Pooling/config.json bf16/1_Pooling/config.json
grep -q '"dtype": "bfloat16"' bf16/config.json || failed 'dtype of config.json'
runs 0 convert bf16 again --precision f32
runs 0 convert again bf16b --precision bf16
check cmp -s bf16/model.safetensors bf16b/model.safetensors
runs 0 convert from f32 --precision f32
python3 - <<'PY' || failed 'the numbers'
import json, struct
def read(path):
    data = open(path, "rb").read()
    n = struct.unpack("<Q", data[:8])[0]
    head = json.loads(data[8:8 + n])
    head.pop("__metadata__")
    return {k: (v["dtype"], v["shape"], data[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]])
            for k, v in head.items()}
a, b, c = read("from/model.safetensors"), read("bf16/model.safetensors"), read("f32/model.safetensors")
assert a == c and a.keys() == b.keys()
for name, (dtype, shape, raw) in a.items():
    bits = struct.unpack("<%dI" % (len(raw) // 4), raw)
    want = [(x + 0x7fff + (x >> 16 & 1)) >> 16 for x in bits]
    assert b[name] == ("BF16", shape, struct.pack("<%dH" % len(want), *want)), name
PY

title 'int8: the folder is bit-identical to its source with --precision int8'
for name in bert distilbert net-gpt2 net-llama encoder-both llama2c-v1; do
    rm -rf int8
    runs 0 convert "$golden/$name" int8 --precision int8
    "$QKV_BIN" check "$golden/$name" --precision int8 --tolerance 1e9 --json >one 2>"$err" || failed 'int8 at load'
    "$QKV_BIN" check int8 -r "$golden/$name/golden.safetensors" --precision int8 --tolerance 1e9 --json >two 2>"$err" ||
        failed "int8 saved: $name"
    check cmp -s one two
    runs 0 info int8 --json
    prints_part '"precision":"int8"'
    eight=$(grep -o '"parameters":[0-9]*' "$out")
    runs 0 info "$golden/$name" --json
    prints_part "$eight,"
done
runs 0 convert "$golden/bert" int8b --precision int8
prints_part '12 of the tensors are 8-bit weights with a scale for each output'
# golden.safetensors; the weights that were converted are not among the files left out
says 'qkv: note: 1 file of '"$golden"'/bert not copied: weights in other formats, or large files'
runs 0 convert "$golden/bert" pieces --precision bf16 --shard-size 10KB
for precision in f32 int8; do
    runs 0 convert pieces "joined-$precision" --precision $precision
    silent
done
runs 4 check int8b -r "$golden/bert/golden.safetensors" --precision bf16 --tolerance 1
says 'qkv: int8b: weights of the model are stored as int8, expected precision int8, found bf16'
runs 4 convert int8b int8c --precision int8
says 'qkv: int8b: weights cannot be converted to int8, expected floats, found int8'
runs 0 convert int8b back --precision f32
runs 0 convert back int8c --precision int8
check cmp -s int8b/model.qkv-int8.safetensors int8c/model.qkv-int8.safetensors
[ "$(ls int8b | tr '\n' ' ')" = 'config.json model.qkv-int8.safetensors tokenizer.json ' ] || failed "files: $(ls int8b)"
mv int8c/model.qkv-int8.safetensors int8c/model.safetensors # as version 0.1 wrote it
runs 0 check int8c -r "$golden/bert/golden.safetensors" --tolerance 1e9 --json
mv "$out" one
runs 0 check int8b -r "$golden/bert/golden.safetensors" --tolerance 1e9 --json
check cmp "$out" one
sed 's/qkv-int8/gptq/' int8b/config.json >config
mv config int8b/config.json
runs 4 info int8b
says_part '$.quantization_config.quant_method: unsupported quantization of the weights, expected the method "qkv-int8", found "gptq"'

title 'shards: filled with whole tensors, with an index; read as one set'
runs 0 convert from sharded --precision f32 --shard-size 20KB
prints_part '39 tensors in 5 files'
[ -f sharded/model-00001-of-00005.safetensors ] && [ ! -f sharded/model.safetensors ] || failed 'names of shards'
for f in sharded/*.safetensors; do [ "$(wc -c <"$f")" -lt 30000 ] || failed "size of $f"; done
runs 0 check sharded -r from/golden.safetensors
runs 0 convert sharded whole --precision f32
check cmp -s whole/model.safetensors f32/model.safetensors
runs 0 convert from sharded8 --precision int8 --shard-size 10000B
[ -f sharded8/model.qkv-int8.safetensors.index.json ] && ! ls sharded8/model-* sharded8/model.safetensors* >/dev/null 2>&1 ||
    failed 'names of 8-bit shards'
runs 0 convert sharded8 whole8 --precision f32
for size in 0 -1 5XB 1.5GB 99999999999999999999 GB; do
    runs 2 convert from no --precision f32 --shard-size "$size"
    says "qkv: --shard-size: expected a size such as 500MB, 2GB or 1GiB, found '$size'"
done

title 'links out of the folder are not copied'
cp -r "$golden/bert" links
echo key >secret
mkdir keys
echo key >keys/private
ln -s ../secret links/notes.txt
ln -s ../keys links/assets
ln -s . links/self
ln -s .. links/above
ln -s config.json links/copy.json
runs 0 convert links linked --precision f32
says_part 'qkv: note: 4 links of links not copied: only links to files inside the folder are'
[ "$(ls linked | tr '\n' ' ')" = 'config.json copy.json model.safetensors tokenizer.json ' ] ||
    failed "files: $(ls linked)"

title 'settings, weights and tokenizers that are links out of the folder are refused; a cache of the hub is converted'
for file in config.json model.safetensors tokenizer.json tokenizer_config.json modules.json vocab.txt vocab.json merges.txt; do
    rm -rf outside linked
    cp -r "$golden/bert" outside
    case $file in
    tokenizer_config.json) echo '{}' >"outside/$file" ;;
    modules.json) echo '[]' >"outside/$file" ;;
    vocab.txt) mv outside/tokenizer.json "outside/$file" ;;
    vocab.json | merges.txt) mv outside/tokenizer.json outside/vocab.json; echo x >outside/merges.txt ;;
    esac
    mv "outside/$file" "private-$file"
    ln -s "../private-$file" "outside/$file"
    runs 3 convert outside linked --precision bf16
    says "qkv: outside/$file: link leads out of the folder, expected a file inside of outside, such as a copy in place of the link"
    [ ! -e linked ] || failed "a folder from a link: $file"
done
rm -rf outside linked
cp -r "$golden/bert" outside
ln -s ../private-vocab.txt outside/vocab.txt # tokenizer.json is read, and not this file
runs 0 convert outside linked --precision bf16
says_part 'qkv: note: 1 link of outside not copied'
rm -rf outside linked
cp -r "$golden/sentences/model" outside
cp -r "$golden/sentences/labse/." outside
mv outside/1_Pooling pooling
for link in ../pooling inside; do # modules.json names this folder, so that a copy without it cannot be opened
    ln -sfn "$link" outside/1_Pooling
    [ "$link" != inside ] || cp -r pooling outside/inside
    runs 3 convert outside linked --precision bf16
    says 'qkv: outside/1_Pooling: this folder of a module is a link, which is not copied, expected a copy in place of the link'
    [ ! -e linked ] || failed 'a folder without its pooling'
done
rm -rf outside/1_Pooling outside/inside && mkdir outside/1_Pooling
ln -s ../../pooling/config.json outside/1_Pooling/config.json
runs 3 convert outside linked --precision bf16
says_part 'qkv: outside/1_Pooling/config.json: link leads out of the folder'
mkdir checkpoint
cp "$golden/llama2c-v0/model.bin" checkpoint
ln -s ../private-vocab.txt checkpoint/tokenizer.bin
runs 3 convert checkpoint/model.bin new --precision f32
says_part 'qkv: checkpoint/tokenizer.bin: link leads out of the folder'
[ ! -e new ] || failed 'a folder without its tokenizer'
rm -rf outside linked
mkdir -p cache/blobs cache/snapshots/1
for file in config.json model.safetensors tokenizer.json; do
    cp "$golden/bert/$file" cache/blobs/b-$file
    ln -s ../../blobs/b-$file cache/snapshots/1/$file
done
runs 0 convert cache/snapshots/1 linked --precision f32
check cmp -s "$golden/bert/tokenizer.json" linked/tokenizer.json
cp -r "$golden/bert" untyped
echo '{"auths":{}}' >untyped/config.json
runs 3 convert untyped new --precision bf16
says 'qkv: untyped/config.json: at $.model_type: required member is missing, expected the family of the model, found none'

title 'a checkpoint of llama2.c becomes a folder'
cp -r "$golden/llama2c-v0" ckpt
echo x | tee ckpt/tokenizer.bin ckpt/other.txt >/dev/null
runs 0 convert ckpt/model.bin llama --precision f32
silent
[ "$(ls llama | tr '\n' ' ')" = 'config.json model.safetensors tokenizer.bin ' ] || failed "files: $(ls llama)"
runs 0 check llama -r ckpt/golden.safetensors
runs 0 convert ckpt llama2 --precision f16
[ -f llama2/other.txt ] || failed 'files of the folder'
# the folder contains the tokenizer with which FILE.bin is opened, whatever its name
rm ckpt/tokenizer.bin
cp "$golden/text/formats/unigram.model" ckpt/spm.model
echo '{"tokenizer_class":"LlamaTokenizer"}' >ckpt/tokenizer_config.json
runs 0 convert ckpt/model.bin llama3 --precision f32
[ "$(ls llama3 | tr '\n' ' ')" = 'config.json model.safetensors spm.model tokenizer_config.json ' ] || failed "files: $(ls llama3)"
runs 0 tokenize --tokenizer ckpt/model.bin --ids 'a word'
prints "$("$QKV_BIN" tokenize --tokenizer llama3 --ids 'a word')"

title 'an existing folder is refused without --force, and replaced whole with it'
cp -r bf16 kept
runs 2 convert from bf16 --precision f32
says 'qkv: bf16: output exists already, expected a new name, or --force to replace it'
check cmp -s bf16/model.safetensors kept/model.safetensors
runs 0 convert from bf16 --precision f32 --force
check cmp -s bf16/model.safetensors f32/model.safetensors
mkdir mine
echo x >mine/thesis.txt
runs 2 convert from mine --precision f32 --force
says "qkv: mine: cannot replace this folder, expected a model folder with config.json, found other files"
[ -f mine/thesis.txt ] || failed 'a folder that is no model was replaced'
runs 2 convert from mine/thesis.txt --precision f32 --force
says 'qkv: mine/thesis.txt: output exists already, expected the name of a new folder, found a file'
for name in from ./from/ from/../from; do
    runs 2 convert from "$name" --precision f32 --force
    says "qkv: $name: folder is input and output at once, expected another name for the output"
done
cp -r from parent
cp -r "$golden/distilbert" parent/0_Transformer
for name in parent ./parent/; do
    runs 2 convert parent/0_Transformer "$name" --precision bf16 --force
    says "qkv: $name: old folder is inside the new one, expected a folder outside of $name"
done
check cmp -s "$golden/distilbert/model.safetensors" parent/0_Transformer/model.safetensors
runs 2 convert from from/deep --precision f32
says 'qkv: from/deep: new folder is inside the old one, expected a folder outside of from'

title 'input that cannot be read, output that cannot be written'
runs 2 convert from new
says 'qkv: --precision is missing, expected f32, f16, bf16 or int8'
runs 6 convert missing new --precision f32
runs 6 convert from nowhere/new --precision f32
says 'qkv: nowhere/new: cannot make: No such file or directory'
runs 6 convert from /proc/new --precision f32
says_part 'qkv: /proc/new: cannot make'
cp -r from torn
head -c 30000 from/model.safetensors >torn/model.safetensors
runs 3 convert torn new --precision f32
cp -r from huge
python3 - <<'PY'
import struct
data = bytearray(open("huge/model.safetensors", "rb").read())
data[-4:] = struct.pack("<f", 70000)
open("huge/model.safetensors", "wb").write(data)
PY
runs 4 convert huge new --precision f16
says_part 'number too large for F16, expected at most 65504, found 70000'
runs 0 convert huge fine --precision bf16
(
    ulimit -f 40 # blocks: a full disk, early
    trap '' XFSZ
    "$QKV_BIN" convert from new --precision f32 >"$out" 2>"$err"
    echo $? >code
)
[ "$(cat code)" -eq 6 ] || failed 'a full disk'
says_part 'qkv: new/model.safetensors: cannot write: File too large' # its name, not that of the temporary folder
for files in 4 5 6 7; do # with too few files the temporary folder is removed too
    rm -rf few
    (ulimit -n $files && "$QKV_BIN" convert from few --precision int8) >"$out" 2>"$err"
    ! ls | grep -q 'few.tmp' || failed "a temporary folder with $files files"
done
if [ "$(id -u)" -eq 0 ] && setpriv --reuid=65534 --clear-groups "$QKV_BIN" help >/dev/null 2>&1; then
    chmod 755 "$temp"
    setpriv --reuid=65534 --clear-groups "$QKV_BIN" convert from new --precision f32 >"$out" 2>"$err"
    [ $? -eq 6 ] || failed 'a folder without permission'
    says 'qkv: new: cannot make: Permission denied'
fi
[ ! -e new ] || failed 'a folder of a failed run'
! ls | grep -qE 'tmp|old' || failed "temporary files remain: $(ls)"

finish
