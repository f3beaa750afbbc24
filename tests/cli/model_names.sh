# SPDX-License-Identifier: MIT
# Models by name: every command that reads a model folder finds org/name[@revision] in the cache of the Hugging Face Hub.
. ./tests/cli/lib.sh
verse=$here/../../models/verse
one=0123456789abcdef0123456789abcdef01234567 two=89abcdef0123456789abcdef0123456789abcdef
export HF_HUB_CACHE=$temp/hub

# The cache as huggingface_hub makes it: the files of a snapshot are links to blobs.
folder=$HF_HUB_CACHE/models--org--verse
mkdir -p "$folder/blobs" "$folder/refs" "$folder/snapshots/$one" "$folder/snapshots/$two"
for file in config.json model.safetensors tokenizer.json tokenizer_config.json; do
    cp "$verse/$file" "$folder/blobs/blob-$file"
    ln -s "../../blobs/blob-$file" "$folder/snapshots/$one/$file"
done
printf %s $one >"$folder/refs/main"
"$QKV_BIN" convert "$verse" shards --precision bf16 --shard-size 2MB >/dev/null || failed 'no shards'
cp shards/* "$folder/snapshots/$two/"
printf %s $two >"$folder/refs/v2"

title 'a name has the results of its folder, also with links and with shards'
runs 0 generate -m "$verse" 'In the beginning' -n 8
cp "$out" want
for name in org/verse org/verse@main org/verse@v2 org/verse@$one; do
    runs 0 generate -m $name 'In the beginning' -n 8
    silent
    check cmp -s want "$out"
done
QKV_MODEL=org/verse runs 0 generate 'In the beginning' -n 8
check cmp -s want "$out"

title 'the places of the cache'
unset HF_HUB_CACHE
mkdir -p xdg home/.cache
ln -s "$temp" xdg/huggingface
ln -s "$temp" home/.cache/huggingface
HF_HOME=$temp runs 0 info org/verse
XDG_CACHE_HOME=$temp/xdg runs 0 info org/verse
HOME=$temp/home runs 0 info org/verse
HOME=$temp/xdg runs 6 info -m org/verse
export HF_HUB_CACHE=$temp/hub

title 'operands and options that name a folder'
runs 0 info org/verse
prints_part "$folder/snapshots/$one"
runs 0 info -m org/verse@v2
prints_part 'family      gpt2, causal'
runs 0 tokenize --tokenizer org/verse hello
runs 0 tokenize -m org/verse@v2 hello
runs 0 convert org/verse converted --precision bf16
runs 0 generate -m converted 'In the beginning' -n 8
check cmp -s want "$out"
printf 'In the beginning God created the heaven and the earth. And the earth was without form.\n' >text.txt
runs 0 eval org/verse text.txt
runs 0 eval --perplexity text.txt org/verse
runs 0 train text.txt --from org/verse --steps 1 --batch-tokens 64 --context 8 --valid text.txt --out run
QKV_MODEL=org/verse runs 0 info --json
prints_part '"why":"from the variable QKV_MODEL, in the cache of the Hugging Face Hub"'

title 'a name without a model in the cache is a folder of QKV_MODELS'
export QKV_MODELS=$here/../../models
for name in verse models/verse org2/verse; do
    runs 0 generate -m $name 'In the beginning' -n 8
    silent
    check cmp -s want "$out"
done
runs 0 info verse
prints_part 'family      gpt2, causal'
QKV_MODEL=verse runs 0 info --json
prints_part '"why":"from the variable QKV_MODEL, in a folder of models"'
runs 6 generate -m org2/verse@main x
unset QKV_MODELS

title 'a folder precedes a name'
mkdir -p org
cp -r "$verse" org/verse
rm org/verse/config.json
runs 6 generate -m org/verse x
says_part 'org/verse/config.json'
rm -r org

title 'a name that is not there names the next step'
for name in org/none org/verse@v3; do
    runs 6 generate -m $name x
    says "qkv: no file or folder $name, and no model of the name $name in the cache $HF_HUB_CACHE; 'qkv pull $name' downloads it"
    says="$(cat "$err")"
    QKV_MODEL=$name runs 6 embed x
    says "$says"
done
for words in 'convert org/none out --precision bf16' 'info org/none' 'check org/none' 'eval org/none text.txt' \
    'tokenize --tokenizer org/none x' 'train text.txt --from org/none --steps 1 --out new'; do
    runs 6 $words
    says "qkv: no file or folder org/none, and no model of the name org/none in the cache $HF_HUB_CACHE; 'qkv pull org/none' downloads it"
done
runs 6 info org/none.npy
says_part 'qkv: org/none.npy: cannot open'
runs 6 generate -m ./org/none x
says_part './org/none/config.json'

title 'a folder of an adapter says what it is'
mkdir -p adapter
echo '{"peft_type": "LORA"}' >adapter/adapter_config.json
for words in 'embed -m adapter x' 'info adapter' 'view -m adapter x' 'convert adapter out --precision bf16'; do
    runs 4 $words
    says_part 'this folder is an adapter (LoRA), expected a model folder with config.json; merge the adapter into its base model'
done

title 'a broken cache is malformed'
printf '../../../x' >"$folder/refs/main"
runs 3 generate -m org/verse x
says_part 'refs/main: '
finish
