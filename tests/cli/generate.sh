# SPDX-License-Identifier: MIT
# generate.sh: tests generate (models/verse), fill and classify.
. tests/cli/lib.sh
top=$here/../..
verse=$top/models/verse
[ -d "$verse" ] || { echo "skipped: $verse is not there"; exit 77; }
ln -s "$top/models" models # as in the top folder of the source tree

title 'without --model the first suitable model continues the prompt greedily'
runs 0 generate 'In the beginning' -n 6
silent
cp "$out" greedy
[ "$(wc -l <greedy)" -ge 1 ] || failed 'no text'
runs 0 generate 'In the beginning' -n 6 -m "$verse"
check cmp -s "$out" greedy
runs 0 generate 'In the beginning' -n 6 --echo
[ "$(cat "$out")" = "In the beginning$(cat greedy)" ] || failed '--echo'

title 'do_sample of generation_config.json is the default, and options override its values'
mkdir sampled
ln -s "$verse"/* sampled
rm -f sampled/generation_config.json
config() { printf '%s\n' "$1" >sampled/generation_config.json; }
note='qkv: note: the tokens are sampled with temperature 0.9, as generation_config.json of the model says; --temperature 0 takes the most probable ones'
config '{"do_sample": true, "temperature": 0.9, "top_k": 40, "top_p": 0.8, "min_p": 0.01}'
runs 0 generate -m sampled 'In the beginning' -n 30 --seed 5
says "$note"
cp "$out" theirs
runs 0 generate -m "$verse" 'In the beginning' -n 30 --seed 5 -t 0.9 --top-k 40 --top-p 0.8 --min-p 0.01
check cmp "$out" theirs
runs 0 generate -m sampled 'In the beginning' -n 30 --seed 5 --top-p 0.3
says "$note"
cp "$out" theirs
runs 0 generate -m "$verse" 'In the beginning' -n 30 --seed 5 -t 0.9 --top-k 40 --top-p 0.3 --min-p 0.01
check cmp "$out" theirs
runs 0 generate -m "$verse" 'In the beginning' -n 30 --seed 5 -t 0.9 --top-p 0.8
cp "$out" theirs
for none in -1 0; do # no limit, while sampling stays on
    runs 0 generate -m sampled 'In the beginning' -n 30 --seed 5 --top-k $none --min-p $none
    says "$note"
    check cmp "$out" theirs
done
runs 2 generate -m sampled x --top-k -2
runs 2 generate -m sampled x --min-p -0.5
says 'qkv: --min-p: expected a number from 0 to 1, found -0.5'
runs 0 generate -m sampled 'In the beginning' -n 6 --temperature 0
silent
check cmp "$out" greedy
runs 0 generate -m sampled 'In the beginning' -n 6 --beam 2
silent
cp "$out" theirs
runs 0 generate -m "$verse" 'In the beginning' -n 6 --beam 2
check cmp "$out" theirs
runs 0 generate -m sampled 'In the beginning' -n 6 --n-best 3
[ "$(wc -l <"$out")" -ge 3 ] || failed 'three samples'
config '{"do_sample": true}' # as transformers: temperature 1, top_k 50
runs 0 generate -m sampled 'In the beginning' -n 30 --seed 5
cp "$out" theirs
runs 0 generate -m "$verse" 'In the beginning' -n 30 --seed 5 -t 1 --top-k 50
check cmp "$out" theirs
config '{"do_sample": false, "temperature": 0.9, "top_k": 40}'
runs 0 generate -m sampled 'In the beginning' -n 6
silent
check cmp "$out" greedy
for bad in '"temperature": 0' '"temperature": "x"' '"top_p": 2' '"top_k": -1' '"min_p": -1'; do
    config "{\"do_sample\": true, $bad}"
    runs 3 generate -m sampled x
    key=${bad#\"}
    says_part "sampled/generation_config.json: at \$.${key%%\"*}"
done

title 'a stream prints the same text as the whole output'
runs 0 generate 'In the beginning' -n 6 --stream
check cmp -s "$out" greedy
runs 0 generate 'In the beginning' -n 6 --stream --json
python3 - "$out" greedy <<'PY' || failed 'pieces do not make the text'
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
assert ''.join(r['piece'] for r in rows[:-1]) == rows[-1]['text'] == open(sys.argv[2]).read()[:-1]
PY

title 'on a terminal with colors the prompt is dim before its continuation, in a pipe it is absent'
terminal() { python3 -S -E "$here/on_terminal.py" "$QKV_BIN" generate "$@" | tr -d '\r' >"$out"; }
esc=$(printf '\033')
TERM=xterm terminal 'In the beginning' -n 6
[ "$(cat "$out")" = "$esc[2mIn the beginning$esc[0m$(cat greedy)" ] || failed 'a dim prompt'
printf 'In the beginning\nIn the beginning\n' >twice
TERM=xterm terminal -f twice -n 6
[ "$(cat "$out")" = "$(for _ in 1 2; do printf '%s\n' "$esc[2mIn the beginning$esc[0m$(cat greedy)"; done)" ] ||
    failed 'a dim prompt for each text'
NO_COLOR=1 TERM=xterm terminal 'In the beginning' -n 6
check cmp -s "$out" greedy
TERM=xterm terminal 'In the beginning' -n 6 --no-stream
check cmp -s "$out" greedy

title 'samples are reproducible by seed, for any threads and batch'
printf 'And he said\nBlessed\n\nNow these are the names\n' >prompts
runs 0 generate -f prompts -n 12 -t 0.9 --top-p 0.9 --seed 3 --json
cp "$out" drawn
[ "$(wc -l <drawn)" -eq 4 ] || failed 'four texts'
runs 0 generate -f prompts -n 12 -t 0.9 --top-p 0.9 --seed 3 --json --batch 1 --threads 1
check cmp -s "$out" drawn
runs 0 generate -f prompts -n 12 -t 0.9 --top-p 0.9 --seed 4 --json
! cmp -s "$out" drawn || failed 'the seed changes nothing'
"$QKV_BIN" generate -n 12 -t 0.9 --top-p 0.9 --seed 3 --json <prompts >"$out" 2>"$err"
check cmp -s "$out" drawn

title 'a beam search prints its best outputs with descending scores'
runs 0 generate 'Blessed are' --beam 4 --n-best 3 -n 8 --json
python3 - "$out" <<'PY' || failed 'the three best'
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
assert [r['rank'] for r in rows] == [1, 2, 3] and len({tuple(r['ids']) for r in rows}) == 3
assert rows[0]['score'] >= rows[1]['score'] >= rows[2]['score']
PY

title 'logprobs include the most likely tokens in order'
runs 0 generate 'In the' -n 3 --logprobs 2 --json
python3 - "$out" <<'PY' || failed 'logprobs'
import json, sys
r = json.loads(open(sys.argv[1]).read())
assert len(r['logprobs']) == 3 and r['ending'] == 'tokens' and r['model'].endswith('models/verse')
for t, i in zip(r['logprobs'], r['ids']):
    assert t['id'] == i and t['logprob'] == t['top'][0]['logprob'] >= t['top'][1]['logprob']
PY
runs 0 generate 'In the' -n 3 --logprobs 2
[ "$(wc -l <"$out")" -ge 4 ] || failed 'a line a token'

title 'with --echo the tokens of the text have their log-probabilities, whose mean is the loss of eval'
printf 'In the beginning of the day' >day.txt
runs 0 eval models/verse --perplexity day.txt --json
cp "$out" perplexity
runs 0 generate -f day.txt -n 0 --echo --logprobs 2 --json
python3 - "$out" perplexity <<'PY' || failed 'log-probabilities of a text'
import json, sys
r, p = (json.load(open(name)) for name in sys.argv[1:])
first, *rest = r['prompt_logprobs']
assert first['logprob'] is None and 'top' not in first and len(rest) == p['targets']
assert abs(sum(t['logprob'] for t in rest) / len(rest) + p['loss']) < 1e-5
assert all(t['logprob'] <= t['top'][0]['logprob'] >= t['top'][1]['logprob'] for t in rest)
assert (r['text'], r['ids'], r['logprobs'], r['ending']) == ('', [], [], 'tokens')
PY
runs 0 generate 'In the' -n 1 --echo --logprobs 1
[ "$(wc -l <"$out")" = 5 ] || failed 'the text, 3 tokens read and one generated'
runs 2 generate 'In the' -n 0 --beam 2
says_part '--tokens: expected 0 to'
runs 2 translate 'x' -n 0

title 'a stop string is not shown; a prefix is; the caches may be smaller'
runs 0 generate 'In the beginning' -n 6
first=$(cut -c1-4 greedy)
runs 0 generate 'In the beginning' -n 6 --stop "$(cut -c5-8 greedy)|never"
prints "$first"
runs 0 generate 'In the beginning' -n 4 --prefix ' God'
prints_part ' God'
for cache in f32 bf16 f16 int8; do
    runs 0 generate 'In the beginning' -n 6 --cache $cache
done
runs 0 generate 'In the beginning' -n 6 --stats
says_part 'tokens/s'

title 'values out of range are refused by name'
runs 2 generate x --top-p 2 -t 1
says 'qkv: --top-p: expected a number above 0 up to 1, found 2'
runs 2 generate x --temperature -1
says 'qkv: --temperature: expected a number from 0 to 100, found -1'
runs 2 generate x --repetition 1e-46
says 'qkv: --repetition: expected a number from 1e-30 to 100, found 1e-46'
runs 2 generate x --repetition 1e-40
says 'qkv: --repetition: expected a number from 1e-30 to 100, found 1e-40'
runs 0 generate 'In the beginning' --repetition 1e-30 -n 3
runs 2 generate x --repetition 0
says 'qkv: --repetition: expected a number from 1e-30 to 100, found 0'
runs 2 generate x --top-k 5
says 'qkv: --top-k requires --temperature above 0'
runs 2 generate x --beam 2 -t 1
runs 2 generate x --n-best 2
says_part 'qkv: --n-best: expected 1 unless there are several beams or a temperature above 0'
runs 2 generate x --bias 5
says "qkv: --bias: expected ID=X (token id and number) separated by commas, found '5'"
runs 2 generate x --bias 99999=1
says_part 'bias of token 99999'
runs 2 generate x --stop 'a|'
says 'qkv: --stop: expected texts separated by |, found an empty text'
runs 2 generate x --cache int4
runs 2 generate x y
runs 2 generate x --stream --beam 2

title 'prompts that are too long are refused, or truncated with a note'
python3 -c "print('the ' * 300)" >long
runs 2 generate -f long
says_part 'prompt too long, expected at most 255 tokens, found 30'
says_part '; --truncate cuts it'
runs 0 generate -f long --truncate -n 4
says_part "1 of 1 texts were cut to the number of the model's positions"
python3 -c "
import sys
for i in range(100): sys.stdout.write('many words ' * 90000)
print()" >huge
runs 2 generate -f huge
says_part 'found more than'
rm huge

title 'invalid UTF-8 is reported, or refused'
printf 'In \377\300 the\n' >bad
runs 0 generate -f bad -n 2
says 'qkv: note: invalid UTF-8 was replaced by U+FFFD in 2 places, the first at byte 3'
runs 3 generate -f bad --strict
says_part 'qkv: bad: at byte '
says_part '(line '

title 'for another kind of model the error names the suitable command'
runs 4 generate x -m models/dates
says 'qkv: dates: wrong kind of model, expected a decoder with an output projection, found an encoder-decoder (marian), which is for qkv translate'
runs 4 fill 'a [MASK]' -m "$verse"
says_part 'found a decoder (gpt2), which is for qkv generate'
runs 4 classify x -m "$verse"
says_part 'expected a model with labels'
runs 6 generate x -m nowhere

title 'masks are filled in'
mkdir bert labels
cp "$top"/tests/golden/net-bert/config.json "$top"/tests/golden/net-bert/model.safetensors bert
cp "$top"/tests/golden/text/letters.json bert/tokenizer.json
runs 0 fill 'a [MASK] c' -m bert -n 3
[ "$(wc -l <"$out")" -eq 3 ] || failed 'three tokens'
runs 0 fill '[MASK] b [MASK]' -m bert -n 2 --json
python3 - "$out" <<'PY' || failed 'two masks'
import json, sys
r = json.loads(open(sys.argv[1]).read())
assert [m['at'] for m in r['masks']] == [0, 9]
assert r['model'] == 'bert' and r['precision'] == 'f32'
assert all(len(m['tokens']) == 2 and m['tokens'][0]['probability'] >= m['tokens'][1]['probability'] for m in r['masks'])
PY
runs 2 fill 'no mask' -m bert
says_part 'text has no mask, expected [MASK]'

title 'texts and pairs are classified'
cp "$top"/tests/golden/net-labels/config.json "$top"/tests/golden/net-labels/model.safetensors labels
cp bert/tokenizer.json labels
runs 0 classify 'a b' -m labels
prints_part LABEL_
runs 0 classify 'a b' c -m labels --json
prints_part '"pair":"c"'
prints_part '"model":"labels","precision":"f32"}'
cp "$out" pair
printf 'a b\tc\nd\te\n' >pairs
runs 0 classify -f pairs --pairs -m labels --json
[ "$(head -n 1 "$out")" = "$(cat pair)" ] || failed 'a pair of a file'
runs 0 classify 'a b' -m labels -n 1
[ "$(wc -w <"$out")" -eq 2 ] || failed 'one label'
printf 'a b\n' >nopair
runs 3 classify -f nopair --pairs -m labels
says 'qkv: nopair: at line 1: line is no pair, expected two texts separated by a tab, found one text'
runs 2 classify 'a b c d e f g h i j k l m n o p q' -m labels

title 'perplexity of a file, through windows'
printf 'In the beginning God created the heaven and the earth.\n' >genesis
for i in 1 2 3 4 5; do cat genesis genesis >twice; mv twice genesis; done
runs 0 eval --perplexity genesis --window 64 --stride 16 --json
python3 - "$out" <<'PY' || failed 'perplexity'
import json, math, sys
r = json.loads(open(sys.argv[1]).read())
assert r['targets'] == r['tokens'] - 1 and r['windows'] > 20
assert math.isclose(r['perplexity'], math.exp(r['loss']), rel_tol=1e-6) and r['bits_per_byte'] < 2
PY
runs 0 eval "$verse" --perplexity genesis
prints_part 'bits per byte'
mkdir run
ln -s "$verse" run/model
echo '{}' >run/run.json
cp "$out" as_model
runs 0 eval run --perplexity genesis
check cmp -s "$out" as_model
runs 2 eval --perplexity genesis --window 5000
says_part 'window is out of range, expected 2 to 256 tokens'
runs 2 eval --window 5
runs 2 eval
says_part 'too few operands'
runs 4 eval models/dates --perplexity genesis

title 'a full stdout is an error'
if [ -w /dev/full ]; then
    "$QKV_BIN" generate x -n 2 >/dev/full 2>"$err"
    [ $? -eq 6 ] || failed 'full disk'
fi

finish
