# SPDX-License-Identifier: MIT
# not_finite.sh: tests models whose weights contain NaN or infinity: every command that prints their numbers ends with 1.
. tests/cli/lib.sh
golden=$here/../golden

# poisoned FROM TO NUMBER [TENSOR]: copies a model folder, and sets the weights of its norms, or the last one of the
# tensors with TENSOR in their name, to a number
poisoned() {
    rm -rf "$2"
    cp -rL "$1" "$2"
    python3 - "$2/model.safetensors" "$3" "${4-}" <<'PY'
import json, struct, sys
data = bytearray(open(sys.argv[1], "rb").read())
n = struct.unpack("<Q", data[:8])[0]
for name, t in json.loads(data[8:8 + n]).items():
    if (sys.argv[3] in name if sys.argv[3] else "norm" in name.lower() or "ln_" in name) and name != "__metadata__":
        assert t["dtype"] == "F32", t
        begin, end = t["data_offsets"]
        if sys.argv[3]: begin = end - 4
        data[8 + n + begin:8 + n + end] = struct.pack("<f", float(sys.argv[2])) * ((end - begin) // 4)
open(sys.argv[1], "wb").write(data)
PY
}
# fails NAME args...: qkv ends with 1, says what is not finite, and prints no NaN
fails() {
    name=$1
    shift
    runs 1 "$@"
    says_part "$name not finite"
    says_part 'expected finite numbers, found '
    ! grep -q 'nan' "$out" || failed "nan was printed: qkv $*"
}
echo 'a b c d e f g h' >text.txt
runs 0 convert "$golden/bert-labels" classifier --precision f32
runs 0 convert "$golden/entities/wordpiece" entities --precision f32
for number in nan inf; do
    title "weights that are $number"
    poisoned "$golden/bert" encoder $number
    poisoned "$golden/net-gpt2" decoder $number
    poisoned classifier labels $number
    for folder in encoder decoder labels; do
        runs 0 train-tokenizer text.txt --kind characters -o $folder/tokenizer.json --force
    done
    for end in npy jsonl; do
        fails 'vector of the text is' embed -m encoder --ids 5,6 -o "vectors.$end"
        [ ! -e "vectors.$end" ] || failed 'an output of a failed run'
    done
    fails 'vector of the text is' embed -m encoder --ids 5,6 --json
    fails 'vector of the text is' embed -m encoder --ids 5,6
    printf '5,6\n7,8\n' >ids.txt
    fails 'vector of the text is' embed -m encoder --ids ids.txt
    says_part 'at text 1: '
    runs 0 view -m encoder 'a b c' -o page.html --force
    prints_part 'contain NaN or infinity: damaged or very large weights of a model cause this'
    ! grep -q exact "$out" || failed 'NaN is exact'
    runs 0 trace -m encoder --ids 5,6 --what all -o trace.safetensors --force
    says_part 'arrays contain NaN or infinity, the first is hidden_states.0: damaged or very large weights of a model cause this'
    fails 'logits of the model are' generate -m decoder ab -n 3
    fails 'logits of the model are' generate -m decoder ab -n 3 --beam 2
    fails 'logits of the model are' generate -m decoder ab -n 3 --temperature 1
    fails 'loss is' eval decoder text.txt
    fails 'loss is' eval decoder text.txt --json
    fails 'loss is' eval decoder --perplexity text.txt
    fails 'score of a label is' classify -m labels ab
    poisoned "$temp/entities" tokens $number
    fails 'score of a label is' classify -m tokens ab --tokens
    fails 'score of a label is' classify -m tokens ab --aggregate simple
    fails 'effect of a head is' ablate -m encoder --ids 5,6
    fails 'vector of a text is' similar -m encoder ab cd
    fails 'vector of a text is' similar -m encoder ab cd --json
    fails 'hidden state of the word is' explain -m encoder --context a 'a b' 'b a'
    fails 'vector of a text is' explain -m encoder --lookup a 'a b' 'b a'
    [ $number = nan ] && found=NaN || found=infinity
    refused='number is not finite and cannot be converted to int8, expected finite numbers, found'
    name=encoder.layer.0.attention.self.query.weight
    rm -rf pieces
    poisoned "$golden/bert" weights $number self.query.weight
    runs 0 convert weights pieces --precision f32 --shard-size 10KB
    runs 4 convert weights int8 --precision int8
    says "qkv: weights/model.safetensors: at $name: $refused $found at output 34, input 34"
    runs 4 convert pieces int8 --precision int8
    shard=$(grep -l "$name" pieces/*.safetensors)
    says "qkv: $shard: at $name: $refused $found at output 34, input 34"
    poisoned "$golden/net-gpt2" transposed $number h.0.attn.c_attn.weight
    runs 4 convert transposed int8 --precision int8
    says_part "h.0.attn.c_attn.weight: $refused $found at output"
    ! ls | grep -q '^int8' || failed "a folder of a failed run: $(ls)"
    poisoned "$golden/bert" words $number word_embeddings
    cp encoder/tokenizer.json words
    fails 'sum of the words is' analogy -m words a + b
    fails 'sum of the words is' analogy -m words a + b --json
done

title 'the same folders with finite weights'
cp -rL "$golden/net-gpt2" whole
runs 0 train-tokenizer text.txt --kind characters -o whole/tokenizer.json --force
runs 0 generate -m whole ab -n 3
runs 0 eval whole text.txt
runs 0 embed -m "$golden/bert" --ids 5,6
for what in all embeddings,hidden,q,k,v,attention,probe; do
    runs 0 trace -m "$golden/bert" --ids 5,6 --what $what -o trace.safetensors --force
    silent
done

finish
