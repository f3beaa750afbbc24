# SPDX-License-Identifier: MIT
# serve.sh: `qkv serve`: options, malformed requests.
. tests/cli/lib.sh
small=$here/../golden/bert

title 'a server that other machines reach needs a token'
runs 2 serve -m "$small" --host 0.0.0.0 --port 0
says_part '--host 0.0.0.0 is reached from other machines, expected --token-file FILE'
title 'a short token is refused'
echo short >token
runs 3 serve -m "$small" --token-file token
says_part 'the token is too short, expected 16 characters or more, found 5'
title 'a token that no header can carry is refused'
printf '%04097d\n' 0 >token
runs 3 serve -m "$small" --token-file token
says_part 'the token is too long, expected at most 4096 characters, found 4097'
title 'two models of one name are refused'
runs 2 serve -m "$small" -m "$small" --port 0
says_part 'two models have the name bert'
title 'a missing model is named'
runs 6 serve -m nothing --port 0
check [ ! -s "$out" ] # no address of a server that does not answer

title 'malformed and hostile requests (H1 to H18)'
check python3 -E "$here/serve_http.py" "$small" "$here/../../models/verse"

title 'answers: the bits of the command under load, streams, chats, rankings, the end of the server'
mkdir labels ranks
cp "$small/tokenizer.json" labels
# the model of ranks has one token type
sed 's/"BertProcessing"/"RobertaProcessing", "trim_offsets": true, "add_prefix_space": false/' "$small/tokenizer.json" \
    >ranks/tokenizer.json
cp "$here/../golden/bert-labels/config.json" "$here/../golden/bert-labels/model.safetensors" labels
cp "$here/../golden/xlm-roberta-labels/config.json" "$here/../golden/xlm-roberta-labels/model.safetensors" ranks
check python3 -E "$here/serve_faults.py" "$small" ranks
check python3 -E "$here/serve_answers.py" "$small" "$here/../../models/verse" labels ranks ${QKV_SERVE_SECONDS:+--seconds "$QKV_SERVE_SECONDS"}
finish
