# SPDX-License-Identifier: MIT
# serve_live.sh: the live page: GET / of `qkv serve`, and `qkv view --live`.
. tests/cli/lib.sh
title 'options that a live page does not have are refused'
runs 2 view --live "a text" --layer 3
says_part '--live cannot be combined with --layer'
runs 2 view --live "a text" "another"
says_part '--live cannot be combined with a second text'
title 'models of two stacks are refused by name'
runs 4 view --live -m "$here/../../models/dates"
says_part 'this model is an encoder-decoder (marian)'
title 'the page, its secret, and the numbers of its answers'
mkdir long
sed 's/"max_position_embeddings": 96/"max_position_embeddings": 1000000/' "$here/../golden/llama/config.json" >long/config.json
cp "$here/../golden/llama/model.safetensors" long
printf '%s' '{"version":"1.0","added_tokens":[],"normalizer":null,"pre_tokenizer":{"type":"Whitespace"},"post_processor":null,"decoder":null,"model":{"type":"WordLevel","vocab":{"[UNK]":0,"a":1,"b":2},"unk_token":"[UNK]"}}' >long/tokenizer.json
check python3 -E "$here/serve_live.py" "$here/../golden/bert" "$here/../../models/verse" long
finish
