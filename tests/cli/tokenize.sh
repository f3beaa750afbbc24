# SPDX-License-Identifier: MIT
# tokenize.sh: tests conversion of texts to tokens, and of ids to text.
. tests/cli/lib.sh
data=$here/../golden/text/formats

title 'one line per token: id, token, byte range, source text'
runs 0 tokenize --tokenizer "$data/bert/vocab.txt" 'Hello, wide'
silent
prints ' 2  [CLS]
10  hell    0..4   Hell
11  ##o     4..5   o
 5  ,       5..6   ,
13  wide    7..11  wide
 3  [SEP]

[CLS]  special token before the text; a classifier reads its vector
[SEP]  special token after each text
##     continues the word before it; pieces follow frequency, not meaning'

title 'the meaning of the marks of other tokenizers; ## is one of WordPiece only'
marks() { # FILE TEXT: the marks that are explained, one per line
    runs 0 tokenize --tokenizer "$1" "$2"
    sed '1,/^$/d; s/  .*//' "$out" >marks
}
wordlevel() { # TOKEN...: a tokenizer that splits at spaces
    python3 - "$@" >level.json <<'PY'
import json, sys
print(json.dumps({"version": "1.0", "added_tokens": [], "normalizer": None, "decoder": None, "post_processor": None,
                  "pre_tokenizer": {"type": "WhitespaceSplit"},
                  "model": {"type": "WordLevel", "vocab": {t: i for i, t in enumerate(sys.argv[1:])},
                            "unk_token": "<unk>"}}))
PY
}
wordlevel '<unk>' '<mask>' '<|endoftext|>' Ġ ▁ ▁a '##a' Ċ
marks level.json 'nothing <mask> <|endoftext|> ##a'
check test "$(tr '\n' ' ' <marks)" = '<mask> <unk> <|endoftext|> '
prints_part '<mask>         special token in the place of a hidden token'
for token in Ġ ▁ ▁a; do
    marks level.json $token
    check test "$(cat marks)" = "${token%a}"
    prints_part 'a space'
done
marks level.json Ċ
prints_part 'Ċ      a line break'

title 'padding is a token of its own, and a longer text is trimmed'
runs 0 tokenize --tokenizer "$data/bert" --pad --max-length 7 --json hello
prints_part '"ids":[2,10,11,3,0,0,0]'
prints_part '"attend":[1,1,1,1,0,0,0],"trimmed":0'
runs 0 tokenize --tokenizer "$data/bert" --pad --max-length 6 hello
check grep -qx ' 0  \[PAD\]' "$out"
prints_part '[PAD]  padding to equal length; masked'
runs 0 tokenize --tokenizer "$data/bert" --max-length 3 hello
prints_part '1 token trimmed by --max-length 3'
runs 2 tokenize --tokenizer "$data/bert" --pad hello
says 'qkv: --pad requires --max-length'

title 'only ids, of operands and then of lines'
printf 'hello\n\nhe\377llo\r\nwide' >lines
runs 0 tokenize --tokenizer "$data/bert" --ids hello -f lines
prints '2 10 11 3
2 10 11 3
2 3
2 10 11 3
2 13 3'
says 'qkv: note: text 4: invalid UTF-8 was replaced by U+FFFD in 1 place, the first at byte 2'
runs 0 tokenize --tokenizer "$data/bert" --ids --no-special 'hello [SEP]'
prints '10 11 1 1 1'
printf hello >one
"$QKV_BIN" tokenize --tokenizer "$data/bert" --ids <one >"$out" 2>"$err" || failed 'standard input'
prints '2 10 11 3'

title 'JSON contains the same, and the pair'
runs 0 tokenize --tokenizer "$data/bert" --json hello --pair wide
prints '{"text":"hello","pair":"wide","ids":[2,10,11,3,13,3],"tokens":["[CLS]","hell","##o","[SEP]","wide","[SEP]"],"offsets":[[0,0],[0,4],[4,5],[0,0],[0,4],[0,0]],"special":[true,false,false,true,false,true],"types":[0,0,0,0,1,1]}'

title 'ids are decoded to text'
runs 0 tokenize --tokenizer "$data/bert" --decode 2,10,11,13,3
prints '[CLS] hello wide [SEP]'
runs 0 tokenize --tokenizer "$data/bert" --decode '2 10 11 3' --no-special --json
prints '{"ids":[2,10,11,3],"text":"hello"}'
printf '10 11\n13\n' >ids
runs 0 tokenize --tokenizer "$data/bert" --decode ids
prints 'hello
wide'

title 'colour on a terminal, none with NO_COLOR'
if command -v script >/dev/null; then
    TERM=xterm script -qec "'$QKV_BIN' tokenize --tokenizer '$data/bert' hello" /dev/null </dev/null >"$out" 2>"$err"
    grep -q "$(printf '\033\\[')" "$out" || failed 'no colour'
    NO_COLOR=1 TERM=xterm script -qec "'$QKV_BIN' tokenize --tokenizer '$data/bert' hello" /dev/null </dev/null >"$out" 2>"$err"
    grep -q "$(printf '\033\\[')" "$out" && failed 'colour in spite of NO_COLOR'
fi

title 'the tokenizer of a checkpoint is in its folder'
cp "$data/llama2c/tokenizer.bin" .
printf 'weights' >stories.bin
runs 0 tokenize --tokenizer stories.bin --ids hello
cp "$out" from_folder
runs 0 tokenize --tokenizer tokenizer.bin --ids hello
check cmp -s "$out" from_folder

title 'characters that a tokenizer leaves out are noted, and refused by --strict'
printf '%s' '{"version":"1.0","model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]}}' >bpe.json
runs 0 tokenize --tokenizer bpe.json --ids abcZb
prints '2 1'
says 'qkv: note: 2 characters were left out, since the tokenizer has neither a token for them nor an unknown token; the first is in the word at byte 0 of text 1'
runs 3 tokenize --tokenizer bpe.json --strict --ids abcZb
says_part 'at byte 0: text has characters without a token'

title 'invalid input is refused with the reason'
runs 2 tokenize --tokenizer "$data/bert" --decode 10,14
says 'qkv: --decode: token id out of range, expected 0 to 13, found 14'
runs 2 tokenize --tokenizer "$data/bert" --decode 10 hello
says 'qkv: texts cannot be combined with --decode'
for option in '--max-length 3' --strict; do
    # shellcheck disable=SC2086
    runs 2 tokenize --tokenizer "$data/bert" --decode 10 $option
    says "qkv: ${option% *} cannot be combined with --decode"
done
runs 3 tokenize --tokenizer "$data/bert" --strict "$(printf 'a\377')"
runs 3 tokenize --tokenizer "$data/bert" --strict a b -f lines
says 'qkv: lines: at byte 2 (line 3): text is not valid UTF-8, expected a character, found an invalid sequence of bytes'
says_part 'not valid UTF-8'
runs 6 tokenize --tokenizer nowhere.model hello
says_part 'nowhere.model'
printf 'x' >tokbad.bin
runs 3 tokenize --tokenizer tokbad.bin hello
says_part 'file too short for a tokenizer of llama2.c'
finish
