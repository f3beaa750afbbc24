# SPDX-License-Identifier: MIT
# translate.sh: tests translating dates to ISO 8601 by models/dates.
. tests/cli/lib.sh
top=$here/../..
[ -d "$top/models/dates" ] || { echo 'skipped: models/dates is not there'; exit 77; }
ln -s "$top/models" models

title 'a text is translated, a file line by line'
runs 0 translate 'the third of May 1987'
silent
prints 1987-05-03
printf 'the third of May 1987\n12 Jan 2031\nSunday, 4 July 1776\n' >lines
printf '1987-05-03\n2031-01-12\n1776-07-04\n' >want
for way in '' '--beam 1' '--beam 5 --batch 5' '--threads 1'; do
    runs 0 translate -f lines $way
    check cmp -s "$out" want
done

title 'on a terminal the command names a model that --model does not choose'
python3 "$here/on_terminal.py" "$QKV_BIN" translate '12 Jan 2031' >"$out" 2>"$err" || failed 'a terminal'
prints_part 'qkv: note: the model is '
prints_part 'dates'
python3 "$here/on_terminal.py" "$QKV_BIN" translate '12 Jan 2031' -m models/dates >"$out" 2>"$err" || failed 'a terminal'
! grep -q note "$out" || failed 'a note'

title 'settings of generation_config.json are defaults, options replace them, the command names the others'
cp -r "$top/models/dates" told
settings() { printf '%s' "$1" >told/generation_config.json; }
settings '{"eos_token_id": 1, "decoder_start_token_id": 3, "max_length": 5, "num_beams": 2}'
runs 0 translate -m told '12 Jan 2031'
silent
prints 2031
runs 0 translate -m told '12 Jan 2031' -n 30
prints 2031-01-12
settings '{"eos_token_id": 1, "decoder_start_token_id": 3, "no_repeat_ngram_size": 1, "min_new_tokens": 12}'
runs 0 translate -m told '12 Jan 2031' -n 30
[ "$(cat "$out")" != 2031-01-12 ] || failed 'repeated letters'
runs 0 translate -m told '12 Jan 2031' -n 30 --no-repeat 0 --min-tokens 0
prints 2031-01-12
settings '{"eos_token_id": 1, "decoder_start_token_id": 3, "do_sample": true, "temperature": 0.6, "top_p": 1.0,
    "num_beams": 4, "diversity_penalty": 0.5, "encoder_no_repeat_ngram_size": 0, "guidance_scale": null}'
runs 0 translate -m told '12 Jan 2031'
prints 2031-01-12
says 'qkv: note: generation_config.json of the model has settings that are not applied: do_sample, temperature, diversity_penalty'
for penalty in 0 -1.0; do
    settings "{\"eos_token_id\": 1, \"decoder_start_token_id\": 3, \"length_penalty\": $penalty, \"forced_eos_token_id\": [1]}"
    runs 0 translate -m told '12 Jan 2031' --json
    cp "$out" "score$penalty"
done
python3 - <<'PY' || failed 'a negative length_penalty multiplies by a power of the length'
import json
none, negative = (json.loads(open(f).read())['score'] for f in ('score0', 'score-1.0'))
assert 9.99 < negative / none < 12.01, (none, negative)
PY
settings '{"eos_token_id": 1, "decoder_start_token_id": 3, "forced_eos_token_id": [1, 2]}'
runs 4 translate -m told x
says_part 'generation_config.json: at $.forced_eos_token_id'
title 'without a key in generation_config.json, config.json has no forced token, and its end token counts'
runs 0 tokenize -m told 2031-01-12 --json
python3 - "$out" <<'PY' || failed 'config.json is changed'
import json, sys
ids = json.loads(open(sys.argv[1]).readline())['ids']
config = json.load(open('told/config.json'))
config['forced_bos_token_id'] = ids[1]
config['eos_token_id'] = [config['eos_token_id'], ids[4]] # the hyphen
json.dump(config, open('told/config.json', 'w'))
PY
settings '{"eos_token_id": 1, "decoder_start_token_id": 3}'
runs 0 translate -m told '12 Jan 2031' -n 30
prints 2031-01-12
settings '{"decoder_start_token_id": 3}'
runs 0 translate -m told '12 Jan 2031' -n 30
prints 2031
rm told/generation_config.json
runs 0 translate -m told '12 Jan 2031' -n 30
grep -q '^0' "$out" || failed 'config.json alone has the settings of generation, a forced token too'
cp "$top/models/dates/config.json" told/config.json
for bad in '"repetition_penalty": 1e-46' '"length_penalty": -11' '"early_stopping": 3' '"repetition_penalty": 0' '"max_length": -1' '"bad_words_ids": [[1, 99999]]' '"length_penalty": "x"'; do
    settings "{$bad}"
    runs 3 translate -m told x
    key=${bad#\"}
    says_part "told/generation_config.json: at \$.${key%%\"*}"
done

title 'an alignment is a row of weights for each token of the output'
runs 0 translate '12 Jan 2031' --alignment
[ "$(wc -l <"$out")" -eq 15 ] || failed 'the text, the legend, the head, ten tokens and the end'
prints_part 'layer 1, mean of 4 heads; weights in hundredths'
prints_part 'rows: written tokens; columns: source tokens; <: the largest weight of a row'
runs 0 translate '12 Jan 2031' --alignment --layer 0 --json
python3 - "$out" <<'PY' || failed 'alignment'
import json, sys
r = json.loads(open(sys.argv[1]).read())
assert r['text'] == '2031-01-12' and r['ending'] == 'end' and r['score'] < 0
assert len(r['alignment']) == 11 and len(r['source_ids']) == 12
assert all(len(a) == 12 and abs(sum(a) - 1) < 1e-4 for a in r['alignment'])
PY
runs 2 translate x --alignment --layer 2
says_part 'qkv: --layer: expected 0 to 1, found 2'
runs 2 translate x --layer 1

title 'a beam search has the log-probability of each token, which add up to the score'
runs 0 translate '12 Jan 2031' --beam 4 --logprobs 1 --json
python3 - "$out" <<'PY' || failed 'log-probabilities of a beam search'
import json, sys
r = json.load(open(sys.argv[1]))
p = [t['logprob'] for t in r['logprobs']]
assert len(p) == len(r['ids']) and [t['id'] for t in r['logprobs']] == r['ids'], r
# the score is the mean over these tokens and the one that ends the text
assert (len(p) + 1) * r['score'] - 1e-6 <= sum(p) < 0, (r['score'], p)
PY

title 'the best of a beam search, or samples'
runs 0 translate '12 Jan 2031' --beam 4 --n-best 3
[ "$(wc -l <"$out")" -eq 4 ] || failed 'the head and three outputs'
prints_part '    score  output (score: log-probability in nats / length^X, X: --length-penalty)'
runs 0 translate '12 Jan 2031' -t 1 --seed 2
runs 0 translate '12 Jan 2031' --prefix 203
prints 2031-01-12

title 'a decoder is refused'
runs 4 translate x -m models/verse
says 'qkv: verse: wrong kind of model, expected an encoder-decoder with an output projection, found a decoder (gpt2), which is for qkv generate'
runs 4 translate -m "$top/tests/golden/bart-labels" x
says 'qkv: bart-labels: wrong kind of model, expected an encoder-decoder with an output projection, found an encoder-decoder (bart), which is for qkv classify'

title 'a tokenizer with more ids than the model is refused, also by eval'
cat >grow.py <<'PY'
import json, sys
t = json.load(open(sys.argv[1] + "/tokenizer.json"))
vocab = json.load(open(sys.argv[1] + "/config.json"))["vocab_size"]
t["added_tokens"].append({"id": vocab + 3, "content": "<new>", "single_word": False, "lstrip": False, "rstrip": False,
                          "normalized": False, "special": True})
json.dump(t, open(sys.argv[1] + "/tokenizer.json", "w"))
PY
for name in dates verse; do
    cp -rL "$top/models/$name" $name
    check python3 -S -E grow.py $name
done
printf 'May\t05\n' >pair.tsv
for words in 'translate May -m dates' 'eval pair.tsv -m dates' 'eval pair.tsv --format text -m verse'; do
    vocab=65
    [ "${words%verse}" = "$words" ] || vocab=2048
    runs 3 $words
    says "qkv: ${words##* }: tokenizer has token ids for which the model has no embedding, expected ids below $vocab, found $((vocab + 3))"
done

title 'a source longer than the positions is refused, or truncated'
python3 -c "print('May ' * 100)" >long
runs 2 translate -f long
says_part 'source too long, expected at most 105 tokens, found 40'
runs 0 translate -f long --truncate -n 3
says_part "cut to the number of the model's positions"

finish
