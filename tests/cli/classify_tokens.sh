# SPDX-License-Identifier: MIT
# classify_tokens.sh: tests classify --tokens and --aggregate, which label the tokens of texts.
. tests/cli/lib.sh
golden=$here/../golden
ner=$golden/entities/wordpiece

title 'every token has a line: itself, its label, its probability, its bytes'
runs 0 classify 'Zoë in' -m "$ner" --tokens
check [ "$(sed 's/ [01][.][0-9]* / P /' "$out" | tr -s ' ' | cut -d' ' -f1,3,4 | tr '\n' ' ')" = 'z P 0..1 ##oe P 1..4 in P 5..7 ' ]
title 'entities are without the label O, which tokens show'
runs 0 classify 'Zoë — naïve in New York' -m "$ner" --tokens
check grep -q '  O  ' "$out"
for how in none simple first average max; do
    runs 0 classify 'Zoë — naïve in New York' -m "$ner" --aggregate $how
    check [ -s "$out" ]
    ! grep -q '  O  ' "$out" || failed "$how prints O"
done
title 'JSON has the members of the pipeline, and bytes'
runs 0 classify 'Zoë — naïve in New York' -m "$ner" --aggregate simple --json
prints_part '"entities":[{"entity_group":"PER","score":0.3'
prints_part '"word":"##oe","start":1,"end":3,"bytes":[1,4]}'
runs 0 classify 'Zoë' -m "$ner" --tokens --json
prints_part '"index":1,"word":"z","start":0,"end":1,"bytes":[0,1]}'
title 'texts of a file, separated by an empty line; a text that is empty has no tokens'
printf 'in\n\nnew\n' >texts
runs 0 classify -f texts -m "$ner" --tokens
check [ "$(cut -d' ' -f1 "$out" | tr '\n' ,)" = 'in,,,new,' ]
title 'a text that is too long is refused, or truncated'
long=$(yes a | head -n 70 | tr '\n' ' ')
runs 2 classify "$long" -m "$ner" --tokens
runs 0 classify "$long" -m "$ner" --tokens --truncate
says_part 'number of tokens that were dropped in total: 8'
title 'other models and other options are refused'
cp -rL "$golden/bert-labels" labels
cp "$ner/tokenizer.json" labels
runs 4 classify in -m labels --tokens
says_part 'expected a model with labels of tokens, found an encoder (bert), which is for qkv classify'
runs 4 classify in -m "$ner"
says_part 'expected a model with labels, found an encoder (bert), which is for qkv classify --tokens'
runs 2 classify in new -m "$ner" --tokens
says_part 'found a pair'
runs 2 classify in -m "$ner" --tokens --aggregate simple
runs 2 classify in -m "$ner" --tokens -n 3
runs 2 classify in -m "$ner" --aggregate mean
title 'a decoder with one label prints its score, with several labels probabilities'
for folder in llama-labels qwen3-labels; do
    cp -rL "$golden/$folder" $folder
    printf 'a b c d\n' >words
    runs 0 train-tokenizer words --kind characters -o $folder/tokenizer.json
    runs 0 classify 'a b c' -m $folder --json
    grep -o '"score":[-0-9.e]*' "$out" | cut -d: -f2 >scores
    grep -o '"probability":[-0-9.e]*' "$out" | cut -d: -f2 >probabilities
    runs 0 classify 'a b c' -m $folder
    [ $folder = qwen3-labels ] || mv scores probabilities
    check [ "$(cat "$out" | tr -s ' ' '\n' | grep '[.]' | tr '\n' ' ')" = "$(xargs printf '%.4f ' <probabilities)" ]
    runs 4 generate a -m $folder
    says_part 'which is for qkv classify'
done
printf 'a\tx\nb\ty\n' >decoder.tsv
runs 4 train decoder.tsv --from llama-labels --objective classify --out run --steps 1
says_part 'found LlamaForSequenceClassification'

title 'the other commands open such a model'
runs 0 info -m "$ner"
runs 0 embed in -m "$ner"
runs 0 trace in -m "$ner" -o trace.safetensors
runs 0 view in -m "$ner" -o view.html
runs 0 convert "$ner" half --precision bf16
runs 0 classify in -m half --tokens
title 'training such a head is refused by its name'
printf 'in\tx\nnew\ty\n' >labels.tsv
runs 4 train labels.tsv --from "$ner" --objective classify --out run --steps 1
says_part 'found BertForTokenClassification'


title 'a class whose output head is not supported is named, with what it needs'
cp -r "$here/../golden/bert" unread
echo text >'a [MASK]' # of eval
for row in 'BertForNextSentencePrediction|two scores for a pair of texts' \
    'BertForMultipleChoice|one score for each text of a choice' \
    'BertForQuestionAnswering|two scores for each token, of the begin and of the end of an answer'; do
    class=${row%%|*}
    python3 -S -E -c 'import json, sys
c = json.load(open("unread/config.json"))
c["architectures"] = [sys.argv[1]]
json.dump(c, open("unread/config.json", "w"))' $class
    for words in classify 'classify --tokens' fill generate translate eval 'eval --objective classify' 'eval --perplexity'; do
        runs 4 $words 'a [MASK]' -m unread
        says_part "found the class $class, whose output head is not supported: it needs ${row#*|}; without it this is an encoder (bert), which is for qkv embed, qkv view"
    done
    runs 0 info unread
    prints_part "head        none: the head of $class is not supported, it needs ${row#*|}"
    runs 0 info unread --json
    prints_part "\"missing_head\":{\"class\":\"$class\",\"needs\":\"${row#*|}\"}"
    runs 0 embed -m unread --ids 5,6
done

title 'a class whose head has no tensors in the file is named'
classed() {
    python3 -S -E -c 'import json, sys
c = json.load(open("unread/config.json"))
c["architectures"] = json.loads(sys.argv[1])
json.dump(c, open("unread/config.json", "w"))' "$1"
}
for class in BertForMaskedLM BertForTokenClassification XForVisionEncoder; do
    classed "[\"$class\"]"
    runs 4 fill 'a [MASK]' -m unread
    says_part "found the class $class, whose output head was not found: the file has no tensors of one that qkv supports; without it this is an encoder (bert)"
    runs 0 info unread
    prints_part "head        none: the file has no tensors of a supported head of $class"
    runs 0 info unread --json
    prints_part "\"missing_head\":{\"class\":\"$class\",\"needs\":null}"
done
long=$(printf '%062d' 0 | tr 0 A)
classed "[\"${long}ForMaskedLM\"]"
runs 0 info unread
prints_part "head        none: the file has no tensors of a supported head of ${long%AA}..."
classed '["B\u001b[2JForMultipleChoice"]'
runs 0 info unread
prints_part 'the head of B\x1b[2JForMultipleChoice is not supported'

title 'a model without a head is what its class says: nothing is missing'
for classes in '["BertModel"]' '["Foreword"]' '["ForModel"]' '[""]' '[]' '[5]' 5 null '{}'; do
    classed "$classes"
    runs 0 info unread
    ! grep -q '^head  ' "$out" || failed "a head is missing: $classes"
    runs 4 fill 'a [MASK]' -m unread
    says_part 'with a head for masked tokens, found an encoder (bert), which is for qkv embed, qkv view'
done
runs 0 info "$here/../golden/bert-labels"
! grep -q '^head  ' "$out" || failed 'a head that is there'
finish
