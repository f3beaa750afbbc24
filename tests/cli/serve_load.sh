# SPDX-License-Identifier: MIT
# serve_load.sh: `qkv serve` under mixed load, with clients that leave, until SIGTERM; for the builds with sanitizers.
# QKV_SERVE_SECONDS: how long; without it each client makes a few requests.
. tests/cli/lib.sh
mkdir labels
cp "$here/../golden/bert/tokenizer.json" "$here/../golden/bert-labels/config.json" "$here/../golden/bert-labels/model.safetensors" labels
title 'answers have the bits of the command, and SIGTERM ends a busy server'
check python3 -E "$here/serve_load.py" "$here/../golden/bert" "$here/../../models/verse" labels ${QKV_SERVE_SECONDS:+"$QKV_SERVE_SECONDS"}
finish
