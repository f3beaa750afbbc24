# SPDX-License-Identifier: MIT
# train_formats.sh: tests that a run begins with a tokenizer of any format, given as a file or as a folder, resumes with
# it, and exports it to a model that opens with the same tokens.
. tests/cli/lib.sh
export QKV_THREADS=1
formats=$PWD/formats
cp -r "$here/../golden/text/formats" formats
for i in 1 2 3 4 5 6 7 8 9; do printf 'one two three, a word or two of the text %s.\n\n' $i; done >text.txt
small='--arch gpt --layers 1 --heads 1 --width 8 --context 8 --batch-tokens 16 --save-every 1'
# tokens TOKENIZER: the ids of a text
tokens() { "$QKV_BIN" tokenize --tokenizer "$1" --ids 'a word or two, 1999'; }
# trains TOKENIZER NAME...: the run has exactly the files NAME... of a tokenizer, and it and its export have its tokens
trains() {
    what=$1
    shift
    rm -rf run exported
    runs 0 train text.txt --tokenizer "$what" --out run --steps 1 $small
    found=$(cd run && ls | grep -vE '^(best|checkpoint-.*|data|lock|log.jsonl|model|probes.jsonl|run.json)$' | tr '\n' ' ')
    [ "$found" = "$* " ] || failed "files of the tokenizer $what: $found"
    [ "$(tokens run)" = "$(tokens "$what")" ] || failed "tokens of the run of $what"
    runs 0 train --resume run --steps 2 --export exported
    for name; do check cmp "run/$name" "exported/$name"; done
    [ "$(tokens exported)" = "$(tokens "$what")" ] || failed "tokens of the export of $what"
    runs 0 generate -m exported 'a word' -n 2 --temperature 0
    silent
}

title 'one file of a tokenizer, of any name'
trains formats/unigram.model tokenizer.model
trains formats/bpe.model tokenizer.model
trains formats/marian/target.spm source.spm vocab.json
trains formats/gpt2/vocab.json merges.txt vocab.json
trains formats/bert/vocab.txt vocab.txt
trains formats/llama2c/tokenizer.bin tokenizer.bin
cp formats/llama2c/tokenizer.bin tok99.bin
trains tok99.bin tokenizer.bin
cp formats/unigram.model spm.model
trains spm.model spm.model
cp "$here/../golden/bert/tokenizer.json" words.json
trains words.json tokenizer.json

title 'a folder with a tokenizer'
for folder in bert gpt2 llama2c; do trains formats/$folder $(ls formats/$folder); done
trains formats/marian source.spm target.spm vocab.json

title 'the settings next to a file are copied with it'
mkdir settings
cp formats/unigram.model settings/words.model
echo '{"tokenizer_class":"LlamaTokenizer","add_eos_token":true}' >settings/tokenizer_config.json
trains settings/words.model tokenizer.model tokenizer_config.json
cp formats/bert/vocab.txt settings/list.txt
echo '{"do_lower_case":false}' >settings/tokenizer_config.json
trains settings/list.txt tokenizer_config.json vocab.txt

title 'a checkpoint of llama2.c names the tokenizer of its folder'
mkdir checkpoint
cp "$here/../golden/llama2c-v0/model.bin" checkpoint/stories.bin
cp formats/llama2c/tokenizer.bin checkpoint
trains checkpoint/stories.bin tokenizer.bin

title 'what is no tokenizer is refused before the run'
rm -rf run
echo no >none.model
runs 3 train text.txt --tokenizer none.model --out run --steps 1 $small
[ ! -e run/run.json ] || failed 'a run was begun'
ln -s "$formats/gpt2/merges.txt" settings/merges.txt
cp formats/gpt2/vocab.json settings
runs 3 train text.txt --tokenizer settings/vocab.json --out run --steps 1 $small
says_part 'settings/merges.txt: link leads out of the folder'
finish
