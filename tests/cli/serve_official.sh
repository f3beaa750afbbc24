# SPDX-License-Identifier: MIT
# serve_official.sh: the official clients of OpenAI and Cohere (PyPI: openai, cohere) on `qkv serve`; skipped where no Python
# has them.  QKV_PEERS_VENV names an environment with them; tools/test.sh long makes build/clients-venv otherwise.
. tests/cli/lib.sh
unset http_proxy https_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY
clients=
for python in "${QKV_PEERS_VENV:-}/bin/python" "$here/../../build/clients-venv/bin/python" "$here/../../build/peers-venv/bin/python" \
    python3; do
    command -v "$python" >/dev/null && "$python" -c 'import openai, cohere' 2>/dev/null && clients=$python && break
done
[ -n "$clients" ] || { echo 'skipped: openai and cohere are not installed (QKV_PEERS_VENV)'; exit 77; }
small=$here/../golden/bert
verse=$here/../../models/verse
cp -r "$verse" chat
printf '%s' '{{ bos_token }}{% for m in messages %}{{ "<" + m.role + "> " + m.content + "\n" }}{% endfor %}{% if add_generation_prompt %}{{ "<assistant>" }}{% endif %}' \
    >chat/chat_template.jinja
cat >chat/tokenizer_config.json <<END
{"bos_token": "<|endoftext|>", "model_max_length": 256}
END
mkdir ranks
sed 's/"BertProcessing"/"RobertaProcessing", "trim_offsets": true, "add_prefix_space": false/' "$small/tokenizer.json" >ranks/tokenizer.json
cp "$here/../golden/xlm-roberta-labels/config.json" "$here/../golden/xlm-roberta-labels/model.safetensors" ranks
title 'the answers that the clients of OpenAI and Cohere read have the bits of the command'
check "$clients" -E "$here/serve_official.py" "$small" "$verse" chat ranks
finish
