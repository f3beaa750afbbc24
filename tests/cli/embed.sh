# SPDX-License-Identifier: MIT
# embed.sh: tests qkv embed: lines to vectors (MiniLM).
. tests/cli/lib.sh
need_model
texts=1100 words=19000000 flood=many # more than one chunk; 100 MB
[ -z "${QKV_SLOW:-}" ] || texts=1030 words=190000 flood=lines # a sanitized build gets less of the same

title 'a text gives one line of 384 numbers, a vector of length 1'
runs 0 embed hello
silent
awk 'END { exit NR != 1 }  NF != 384 { exit 1 }' "$out" || failed 'one line of 384 numbers'
awk '{ for (i = 1; i <= NF; i++) s += $i * $i } END { exit !(s > 1 - 1e-6 && s < 1 + 1e-6) }' "$out" || failed 'length 1'
cp "$out" hello

title 'operands, lines of a file and of stdin give the same'
printf 'hello\nworld\r\nlast without newline' >lines
runs 0 embed hello world 'last without newline'
cp "$out" three
[ "$(head -n 1 three)" = "$(cat hello)" ] || failed 'a neighbour changed a text'
runs 0 embed -f lines
check cmp -s "$out" three
for way in '-f -' ''; do
    "$QKV_BIN" embed $way <lines >"$out" 2>"$err" || failed "stdin by '$way'"
    check cmp -s "$out" three
done
printf 'world\nlast without newline' >two
runs 0 embed hello -f two
check cmp -s "$out" three

title 'config_sentence_transformers.json: a prompt before each text, the first numbers of each vector'
mkdir prompted
cp -r "$model"/. prompted # the contents: the folder itself may be a link
prompts() { printf '%s' "$1" >prompted/config_sentence_transformers.json; }
prompts '{"prompts": {"query": "find: ", "none": ""}, "default_prompt_name": "query", "truncate_dim": null}'
runs 0 embed 'find: hello' 'find: other words'
cp "$out" joined
runs 0 embed hello 'other words' -m prompted
check cmp -s "$out" joined
runs 0 embed hello -m prompted --prompt none
check cmp -s "$out" hello
runs 2 embed hello -m prompted --prompt other
says_part 'unknown prompt, expected one of the names query, none, found "other"'
runs 2 embed hello --prompt query
printf 'a\377' >bad
"$QKV_BIN" embed -f bad -m prompted >/dev/null 2>"$err"
cp "$err" with
"$QKV_BIN" embed -f bad >/dev/null 2>"$err"
check cmp -s "$err" with # the byte of the text, not of the prompt with the text
prompts '{"default_prompt_name": "query"}'
runs 3 embed hello -m prompted
prompts '{"prompts": {"query": "find: "}, "default_prompt_name": null, "truncate_dim": 64}'
runs 0 embed hello 'other words' -m prompted --prompt query
cut -d' ' -f1-64 joined >first
check cmp -s "$out" first
runs 0 similar hello 'other words' -m prompted --json
python3 -c 'import json; print(json.load(open("'"$out"'"))["cosine"][0][1])' >cosine
runs 0 similar hello 'other words' --why -m prompted --json
python3 -c 'import json; d = json.load(open("'"$out"'"))
assert abs(d["cosine"] - float(open("cosine").read())) < 1e-6' || failed 'terms with truncate_dim'
prompts '{"truncate_dim": 1000}'
runs 0 embed hello -m prompted
check cmp -s "$out" hello
prompts '{"truncate_dim": 0}'
runs 3 embed hello -m prompted
says_part '$.truncate_dim: '

title '.npy, .jsonl and --json contain the same numbers'
runs 0 embed -f lines -o v.npy
prints ''
[ "$(python shape v.npy)" = '3x384 f4' ] || failed "shape: $(python shape v.npy)"
runs 0 embed -f lines -o v.jsonl
runs 0 embed -f lines --json
check cmp -s "$out" v.jsonl
python3 - <<'PY' || failed 'the three forms differ'
import json, struct
def f32(x): return struct.unpack('<f', struct.pack('<f', x))[0]
b = open('v.npy', 'rb').read()
n = struct.unpack('<H', b[8:10])[0] + 10
npy = struct.unpack('<1152f', b[n:])
rows = [json.loads(line) for line in open('v.jsonl')]
assert [r['text'] for r in rows] == ['hello', 'world', 'last without newline']
assert [f32(x) for r in rows for x in r['vector']] == list(npy)
assert [f32(float(x)) for line in open('three') for x in line.split()] == list(npy)
PY

title 'threads, batches and chunks change no bit'
python3 -c "
for i in range($texts): print(i, 'of many ' * (i % 3) * (i % 8 == 0))" >many
runs 0 embed -f many -o many.npy
[ "$(python shape many.npy)" = "${texts}x384 f4" ] || failed "shape: $(python shape many.npy)"
runs 0 embed -f many -o many2.npy --threads 1 --batch-tokens 100
check cmp -s many.npy many2.npy

title 'poolings and lengths'
for pool in mean cls max last; do
    runs 0 embed --pool $pool hello
    cp "$out" $pool
done
check cmp -s mean hello
! cmp -s cls mean || failed 'cls is mean'
runs 0 embed --no-normalize hello
awk '{ for (i = 1; i <= NF; i++) s += $i * $i } END { exit s < 1.01 && s > .99 }' "$out" || failed 'not left as pooled'
runs 2 embed --pool first hello
says "qkv: --pool: unknown value, expected one of mean, cls, max, last, mean-sqrt, weighted, found 'first'"

title 'a text that is too long is refused with both counts, or truncated on request and reported'
python3 -c "print('word ' * 300)" >long
runs 2 embed -f long
says_part 256
says_part 302
runs 0 embed -f long --truncate
says 'qkv: note: the text was cut to 256 tokens: 46 tokens were dropped'
cp "$out" cut
python3 -c "print('word ' * 254)" >fits
runs 0 embed -f fits
silent
check cmp -s "$out" cut
printf 'a b c d e f\na\nb c d e\n' >short
runs 0 embed -f short --max-length 5
says 'qkv: note: 2 of 3 texts were cut to 5 tokens: 4 tokens were dropped in total'
cp "$out" five
runs 0 embed 'a b c' a 'b c d'
check cmp -s "$out" five
cat many long >late
runs 2 embed -f late -o late.npy
says_part "qkv: late: at line $((texts + 1)): "
[ ! -e late.npy ] || failed 'an output of a failed run'

runs 2 embed hello --max-length 513
says "qkv: --max-length: number exceeds the model's positions, expected 1 to 512, found 513"

title 'padding changes no bit'
runs 0 embed -f lines --pad
check cmp -s "$out" three
runs 0 embed -f short --max-length 5 --pad --batch-tokens 7
check cmp -s "$out" five
for pool in cls max last; do
    runs 0 embed --pad --pool $pool hello
    check cmp -s "$out" $pool
done

title 'token ids give the same vectors as their text'
runs 0 embed --ids 101,7592,102
check cmp -s "$out" hello
printf '101 7592 102\n101,2088,102\n' >ids
runs 0 embed --ids ids
[ "$(head -n 2 three)" = "$(cat "$out")" ] || failed 'lines of ids'
runs 0 embed --ids ids --pad --max-length 9 --json
prints_part '{"ids":[101,7592,102],"vector":['
runs 0 embed --ids 101,7592,7592,102 --max-length 3
says 'qkv: note: the text was cut to 3 tokens: 1 tokens were dropped'
runs 2 embed --ids 101,30522,102
runs 2 embed --ids 1,99999999999
runs 2 embed --ids 1,2 hello
says 'qkv: texts cannot be combined with --ids'
for list in , ' ' ', ,'; do
    runs 2 embed --ids "$list"
    says 'qkv: --ids: expected token ids, found none'
done
printf '101 102\n\n101\n' >badids
runs 3 embed --ids badids
says 'qkv: badids: line 2: expected token ids, found none'
printf '101 102\n101 x\n' >badids
runs 3 embed --ids badids
says "qkv: badids: line 2: not a token id, expected a number from 0 to 2147483647, found 'x'"

title 'empty texts, spaces, emoji, NUL and invalid UTF-8 are texts'
printf '\n   \n\360\237\230\200\na\000b\n\377\300\200x\n' >odd
runs 0 embed -f odd --json
says '{"note":"invalid UTF-8 was replaced by U+FFFD in 3 places, the first at byte 0 of text 5"}'
python3 - "$out" <<'PY' || failed 'odd texts'
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1], encoding='utf-8')]
assert [r['text'] for r in rows] == ['', '   ', '\U0001F600', 'a\0b', '\ufffd\ufffd\ufffdx']
assert all(len(r['vector']) == 384 for r in rows) and rows[0]['vector'] == rows[1]['vector']
PY
: >none
runs 0 embed -f none -o none.npy
[ "$(python shape none.npy)" = '0x384 f4' ] || failed 'no text, no row'

# A preloaded library makes every seek fail; a sanitizer's runtime does not allow it.
if [ -z "${QKV_SLOW:-}" ] && [ -f "${QKV_NO_SEEK:-}" ]; then
    title 'a header that cannot be written at the end is an error, not a file without rows'
    LD_PRELOAD=$QKV_NO_SEEK runs 6 embed hello -o unseekable.npy
    says 'qkv: unseekable.npy: cannot write the header: Input/output error'
    [ ! -e unseekable.npy ] || failed 'a file without rows'
fi

title '--strict refuses invalid UTF-8 with its byte, --no-special treats special tokens as text'
printf 'good\nab\355\240\200c\n' >bad
runs 3 embed -f bad --strict
says_part 'qkv: bad: '
says_part 'at byte 2 (line 2): '
runs 0 embed '[SEP]'
cp "$out" special
runs 0 embed --no-special '[SEP]'
! cmp -s "$out" special || failed '[SEP] was not plain text'
runs 0 embed --no-special --ids 7592
cp "$out" special
runs 0 embed --no-special hello
check cmp -s "$out" special

title 'pipes and open descriptors are written in place'
mkfifo pipe.npy pipe.jsonl
for form in npy jsonl; do
    exec 5<>pipe.$form # opens the reader first; the pipe buffers the output
    runs 0 embed -f lines -o pipe.$form
    timeout 60 head -c "$(wc -c <v.$form)" <&5 >through.$form
    exec 5>&-
    check cmp -s through.$form v.$form
    [ -p pipe.$form ] || failed 'the pipe was replaced'
done
for name in - /dev/stdout /dev/fd/1; do
    runs 0 embed -f lines -o $name
    check cmp -s "$out" three
done
"$QKV_BIN" embed -f lines --json -o /dev/fd/3 3>at3 || failed 'descriptor 3'
check cmp -s at3 v.jsonl

title 'an unknown format, a missing file, an output that is the input'
runs 2 embed hello -o v.txt
says 'qkv: v.txt: unknown format of the output, expected a name that ends with .npy or .jsonl'
runs 6 embed -f missing
says 'qkv: missing: cannot open: No such file or directory'
runs 6 embed -f .
says 'qkv: .: the input is a directory, expected a text file'
runs 6 embed -f /dev/zero
says 'qkv: /dev/zero: the input is a device without an end of file, expected a text file'
cp lines in.jsonl
runs 2 embed -f in.jsonl -o in.jsonl --force
says 'qkv: in.jsonl: this file is an input and an output at once, expected another output file'
runs 6 embed hello -m nowhere

title 'every precision gives a vector near that in f32, and --json names it'
for p in f32 f32-strict f32-fast bf16 f16 int8; do
    runs 0 embed hello --precision $p
    cat hello "$out" | awk '{ for (i = 1; i <= NF; i++) v[NR, i] = $i }
        END { for (i = 1; i <= 384; i++) c += v[1, i] * v[2, i]; exit !(NR == 2 && c > 0.98) }' || failed "$p is far off"
    runs 0 embed -f lines --precision $p --threads 2 -o $p.npy
    runs 0 embed -f lines --precision $p --threads 1 --batch-tokens 3 -o one.npy --force
    check cmp -s $p.npy one.npy
    runs 0 embed hello --precision $p --json
    prints_part ",\"precision\":\"$p\"}"
done
runs 2 embed hello --precision double
says "qkv: --precision: unknown value, expected one of f32, f32-strict, f32-fast, bf16, f16, int8, found 'double'"

title 'an output that is a link is followed'
printf old >real.npy
ln -s real.npy link.npy
runs 0 embed hello -o link.npy --force
[ -L link.npy ] || failed 'the link was replaced'
runs 0 info real.npy
prints_part '(1, 384)'

title 'a full stdout stops the work at the first chunk'
if [ -w /dev/full ]; then
    "$QKV_BIN" embed -f $flood >/dev/full 2>"$err"
    [ $? -eq 6 ] || failed 'full disk'
    says 'qkv: standard output: cannot write: No space left on device'
fi

title 'an interrupt ends it with 130 and leaves no file'
python3 -c "
for i in range(40000): print('line', i, 'of very many ' * 9)" >endless
python3 "$here/run_for.py" INT 1 "$QKV_BIN" embed -f endless -o endless.npy 2>"$err"
code=$?
[ $code -eq 130 ] || failed "exit code $code"
[ -z "$(ls | grep endless.npy)" ] || failed 'something was left'
# a batch of a thousand texts takes seconds: the second interrupt does not wait for its end
python3 "$here/run_for.py" INT,INT 1 "$QKV_BIN" embed -f endless -o endless.npy --batch-tokens 16000000 2>"$err"
code=$?
[ $code -eq 130 ] || failed "exit code $code of the second interrupt"
says 'qkv: interrupted'
[ -z "$(ls | grep endless.npy)" ] || failed 'something was left'

title 'a line of 100 MB is refused by its token count, or cut'
python3 -c "
import sys
for i in range(100): sys.stdout.write('many words ' * ($words // 200))
print()" >huge
runs 2 embed -f huge
says_part $((words + 2))
runs 0 embed -f huge --truncate
says_part 'was cut to 256 tokens'

finish
