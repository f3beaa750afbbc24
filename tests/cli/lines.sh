# SPDX-License-Identifier: MIT
# lines.sh: tests how commands read lines: a line without end, a pipe that stays open.
. tests/cli/lib.sh
top=$here/../..
ner=$top/tests/golden/entities/wordpiece
cp -rL "$top/tests/golden/llama-labels" .
printf 'a b c d xe\n' >words
runs 0 train-tokenizer words --kind characters -o llama-labels/tokenizer.json
cat >commands <<EOF
embed -m llama-labels
classify -m llama-labels
classify --tokens -m $ner
generate -n 3 -t 1 --seed 5 -m $top/models/verse
generate -n 3 --no-stream --echo --logprobs 1 -m $top/models/verse
translate -n 3 -m $top/models/dates
tokenize --ids -m $top/models/dates
EOF

title 'a line without end is refused in bounded memory'
endless=1500000000
[ -z "${QKV_SLOW:-}" ] || endless=150000000
while read -r command; do
    ([ -n "${QKV_SLOW:-}" ] || ulimit -v 2000000 # a sanitizer needs more address space
    tr '\0' a </dev/zero | head -c $endless | "$QKV_BIN" $command -f - >"$out" 2>"$err")
    [ $? -eq 5 ] || failed "exit code: $command"
    says 'qkv: standard input: at line 1: line too long, expected at most 134217728 bytes, found more'
done <commands

title 'the limit: the longest line is read, one byte more is refused, and lines before it are answered'
longest() { tr '\0' ' ' </dev/zero | head -c "$1"; }
if [ -z "${QKV_SLOW:-}" ]; then # 20 s with a sanitizer
    longest 134217728 >long
    runs 0 embed -f long -m llama-labels --truncate
fi
longest 134217729 >long
runs 5 embed -f long -m llama-labels --truncate
says 'qkv: long: at line 1: line too long, expected at most 134217728 bytes, found more'
{ echo a; echo b; cat long; echo; echo a; } >after
runs 5 tokenize -f after -m "$top/models/dates" --ids
says 'qkv: after: at line 3: line too long, expected at most 134217728 bytes, found more'
[ "$(wc -l <"$out")" -eq 2 ] || failed 'the lines before'
rm long after

title 'a blank line is a text: each command has an output for each line'
printf 'a b\n\n \nc' >blank
mkdir labels
cp "$top/tests/golden/bert-labels/config.json" "$top/tests/golden/bert-labels/model.safetensors" \
    "$top/tests/golden/bert/tokenizer.json" labels
for words in 'embed -m llama-labels' 'classify -m labels' "tokenize --ids -m $top/models/dates" \
    "translate -n 3 -m $top/models/dates" "generate -n 3 --no-stream -m $top/models/verse"; do
    runs 0 $words -f blank --json
    [ "$(wc -l <"$out")" -eq 4 ] || failed "four lines: $words"
done
runs 0 similar -m llama-labels -f blank --json
prints_part '"texts":["a b",""," ","c"]'
runs 0 similar -m llama-labels -f blank --query a --json
[ "$(grep -o '"number":' "$out" | wc -l)" -eq 4 ] || failed 'four texts'
runs 2 classify -m llama-labels -f blank
says 'qkv: blank: at line 2: text has no tokens, expected tokens to classify, found none'

title 'a pipe that stays open gets the output of each line; chunks do not change the output'
printf 'a b\nc\na\nd d d\n' >texts
cat >ask.py <<'EOF'
import select, subprocess, sys
lines, command = open("texts", "rb").read().splitlines(True), sys.argv[1:]
child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
out, part = b"", lines[1][:1]
for i, line in enumerate(lines):
    child.stdin.write(line[1:] if i == 1 else line)
    child.stdin.flush()
    if i == 0:  # the beginning of a line does not delay the output of the line before it
        child.stdin.write(part)
        child.stdin.flush()
    if not select.select([child.stdout], [], [], 60)[0]:
        sys.exit(f"no output for line {i + 1}")
    while select.select([child.stdout], [], [], 0.05)[0]:
        got = child.stdout.read1()
        if not got:
            sys.exit("the command ended")
        out += got
child.stdin.close()
sys.stdout.buffer.write(out + child.stdout.read())
sys.exit(child.wait())
EOF
while read -r command; do
    runs 0 $command -f texts
    cp "$out" whole
    python3 -S -E ask.py "$QKV_BIN" $command -f - >"$out" 2>"$err" || failed "one by one: $command"
    cmp -s "$out" whole || failed "other output: $command"
    [ "$(wc -l <whole)" -ge 4 ] || failed "four lines: $command"
done <commands

title 'a closed pipe ends the help without a message'
for what in 'view --help' 'help' 'help --man'; do
    { sleep 0.2; "$QKV_BIN" $what 2>"$err"; echo $? >code; } | true
    sleep 0.2
    [ "$(cat code)" = 6 ] || failed "exit code: $what"
    silent
done

title 'an error names its line, also in a later chunk'
(echo 'a'; sleep 1; printf 'b\n\377\n') | "$QKV_BIN" classify --strict -m llama-labels -f - >"$out" 2>"$err"
[ $? -eq 3 ] || failed 'exit code'
says_part 'qkv: standard input: at byte 0 (line 3)'
(printf 'a\tb\n'; sleep 1; echo 'b') | "$QKV_BIN" classify --pairs -m llama-labels -f - >"$out" 2>"$err"
says 'qkv: standard input: at line 2: line is no pair, expected two texts separated by a tab, found one text'
[ "$(wc -l <"$out")" -eq 1 ] || failed 'the pair before'

finish
