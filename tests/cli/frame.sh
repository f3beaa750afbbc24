# SPDX-License-Identifier: MIT
# frame.sh: tests rules that apply to every command: help, unknown words, numbers, environment.
. tests/cli/lib.sh
commands=$(sed -n 's/^COMMAND(\([a-z_]*\))$/\1/p' "$here/../../cli/command.def" | tr _ -)

title 'without arguments the help goes to stderr and the code is 2'
runs 2
prints ''
says_part 'qkv COMMAND [operands] [options]'

title 'help and --help print to stdout'
for word in help --help -h; do
    runs 0 $word
    silent
    prints_part 'Commands'
    prints_part '  Vectors and search'
    [ "$(grep -c '^    [a-z]' "$out")" -eq "$(echo "$commands" | wc -l)" ] || failed 'each command has a line in its group'
done
runs 0 --version
prints "qkv $(sed -n 's/#define QKV_VERSION_[A-Z]* //p' "$here/../../include/qkv/base.h" | paste -sd.)"
runs 2 --version x
says "qkv: unexpected operand 'x', expected no operand after --version"
runs 2 -V --json
runs 0 analogy --help
prints_part 'number of words to list, 1 to 1000 (default: 10)'
runs 0 attn --help
[ "$(tr -s ' \n' '  ' <"$out" | grep -o './123 is a file with the name 123' | wc -l)" -eq 2 ] || failed 'lists and files of that name'

title 'every command has help with two examples, in 80 columns'
for name in $commands; do
    runs 0 "$name" --help
    silent
    for part in "qkv $name - " Usage Examples 'Exit codes' --help; do prints_part "$part"; done
    [ "$(grep -c "^  .*qkv .*$name" "$out")" -ge 3 ] || failed "$name: usage and two examples"
    awk 'length($0) > 80 { exit 1 }' "$out" || failed "$name: a line over 80 columns"
    cp "$out" kept
    runs 0 help "$name"
    check cmp -s "$out" kept
done

title 'a narrow terminal gets narrow help'
COLUMNS=50 "$QKV_BIN" embed --help >"$out"
grep -v '^  qkv ' "$out" | awk "length(\$0) > 50 { exit 1 }" || failed 'lines over the width'

title 'an unknown command names the nearest'
runs 2 embd
says "qkv: unknown command 'embd'; did you mean 'embed'?"
runs 2 help analgy
says "qkv: unknown command 'analgy'; did you mean 'analogy'?"
runs 2 xyzzyx
says "qkv: unknown command 'xyzzyx', 'qkv help' lists all that exist"

title 'an unknown option names the nearest'
runs 2 attn --casual
says "qkv: unknown option '--casual' of attn; did you mean '--causal'?"
runs 2 attn --xyzzyxyz
says "qkv: unknown option '--xyzzyxyz' of attn, 'qkv attn --help' lists all options"
runs 2 attn -Z
says_part "unknown option '-Z'"

title 'an option without a value, repeated, empty, or with an invalid value'
runs 2 attn -q
says 'qkv: option -q: value is missing, expected FILE, found the end of the command line'
runs 2 attn --scale --causal
says 'qkv: option --scale: value is missing, expected X|none, found --causal'
runs 2 attn --causal --causal
says 'qkv: option --causal occurs twice, expected once'
runs 2 attn -q a --query b
says 'qkv: option --query occurs twice, expected once'
runs 2 attn --softcap=
says 'qkv: option --softcap: value is missing, expected C, found an empty value'
runs 2 attn --causal=yes
says "qkv: option --causal accepts no value, found 'yes'"

title 'all numbers have one grammar'
for n in -1 1e3 0x10 99999999999999999999 NaN ' 5' 5x +5 05 257 ''; do
    runs 2 attn --threads="$n"
    says_part --threads
done
for x in NaN inf 0x1p3 ' 1' 1x . -. .e3 1e --1 1,5 1.2.3; do
    runs 2 attn --softcap="$x"
    says_part '--softcap: expected a number such as 0.5'
done
for x in 1e999 -1e39 3.5e38; do
    runs 2 attn --softcap="$x"
    says_part "--softcap: expected a number between -3.4e38 and 3.4e38, found '$x'"
done

title 'an unknown word gives an error that lists the choices'
runs 2 attn --layout bteh
says "qkv: --layout: unknown value, expected one of bthe, bhte, found 'bteh'"

title 'one operand too many, one too few'
runs 2 attn x.npy
says_part "attn: unexpected operand 'x.npy'"
runs 2 analogy
says_part 'analogy: too few operands'

title 'errors are JSON with --json'
runs 2 attn --json --layout bteh
says '{"status":"usage","code":2,"text":"--layout: unknown value, expected one of bthe, bhte, found '"'bteh'"'"}'
runs 6 info --json 'no such "file"'
says_part '"status":"io","code":6,"file":"no such \"file\"","text":"'
python3 -c 'import json,sys; json.load(open(sys.argv[1]))' "$err" || failed 'not JSON'

title 'texts and names of files never control the terminal; without a terminal they are unchanged'
python3 - <<'PY'
import json, os
evil = ["\x1b]0;x\x07", "\x9b31m", "\u202eabc", "\u2067", "plain \u00e9"]
json.dump({"version": "1.0", "added_tokens": [], "model": {"type": "WordLevel", "unk_token": "plain \u00e9",
           "vocab": {t: i for i, t in enumerate(evil)}}}, open("evil.json", "w"))
os.mkdir("name\x1b[2J\u202e")
PY
evil=$(ls -d name*)
cp evil.json "$evil/tokenizer.json"
runs 0 tokenize --tokenizer evil.json --decode 0,1,2,3,4
check grep -q "$(printf '\033]0;x')" "$out"
"$QKV_BIN" tokenize --tokenizer evil.json --decode 4 >word
on_terminal() {
    python3 "$here/on_terminal.py" "$QKV_BIN" "$@" >"$out" 2>"$err" || failed "qkv $* on a terminal"
    python3 - "$out" <<'PY' || failed "a control character on a terminal: qkv $*"
import re, sys
text = open(sys.argv[1], "rb").read().decode("utf-8").replace("\r\n", "\n")
text = re.sub("\x1b\\[[0-9;]*m", "", text)  # colours
assert text and not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text), ascii(text)
PY
}
on_terminal tokenize --tokenizer evil.json --decode 0,1,2,3,4
prints_part '\x1b]0;x\x07'
prints_part '\xe2\x80\xaeabc'
prints_part "$(cat word)"
on_terminal info "$evil/tokenizer.json"
prints_part 'name\x1b[2J'
on_terminal train-tokenizer evil.json --kind bytes -o "$evil/other.json"
printf 'a\n' >row.txt
python values one.npy f4 1x1x1x1x1 1
on_terminal view --attention one.npy --tokens row.txt -o "$evil/page.html"
prints_part 'name\x1b[2J'
LC_ALL=C on_terminal tokenize --tokenizer evil.json --decode 0,1,2,3,4

title 'control bytes of an argument never reach the terminal'
runs 2 "$(printf 'em\033[2Jbed')"
says_part 'em\x1b[2Jbed'
runs 2 "$(printf 'a\302\2332J\342\200\256b\377')" # an 8-bit CSI, a bidi control, invalid UTF-8
says_part "'a\xc2\x9b2J\xe2\x80\xaeb\xff'"

title 'threads: 0 and more than there are cores are defined, QKV_THREADS is checked'
python values x.npy f4 1x1 1
for n in 0 1 64 256; do runs 0 attn -x x.npy --threads $n; done
for n in abc 1e9 1000000000 0 -1; do
    QKV_THREADS=$n runs 2 info
    says "qkv: QKV_THREADS: invalid number of threads, expected 1 to 256, found '$n'"
done
QKV_THREADS=3 runs 0 info --json
prints_part '"threads":3'
QKV_THREADS=3 runs 0 info --json --threads 2
prints_part '"threads":2'
QKV_THREADS=abc runs 0 help

title 'QKV_ISA must be a name of this machine'
QKV_ISA=avx9 runs 2 info
says_part "QKV_ISA: unknown instruction set, expected one of scalar"
says_part "found 'avx9'"
if [ "$(uname -m)" = aarch64 ]; then other=avx2; else other=neon; fi
QKV_ISA=$other runs 4 info
says_part "QKV_ISA: instruction set not supported by this machine, expected one of scalar"
QKV_ISA=$other runs 4 attn --json # before any file is opened
says_part '{"status":"unsupported"'
QKV_ISA= runs 0 info
QKV_ISA=scalar runs 0 info --json
prints_part '"isa":"scalar"'

title 'the same output in any locale, terminal and width'
runs 0 attn -x x.npy --json
cp "$out" kept
LC_ALL=C TERM=dumb COLUMNS=1 NO_COLOR=1 runs 0 attn -x x.npy --json
check cmp -s "$out" kept
for name in $commands; do
    LC_ALL=C TERM=dumb COLUMNS=1 runs 0 "$name" --help
    ! grep -q "$(printf '\033')" "$out" || failed 'an escape sequence where stdout is no terminal'
done

title 'arguments of 2 MB in all are read'
long=$(head -c 120000 /dev/zero | tr '\0' a)
runs 2 "$long"
says_part 'unknown command'
runs 2 attn "$long" "$long" "$long" "$long" "$long" "$long" "$long" "$long" "$long" "$long" "$long" "$long"
says_part 'unexpected operand'

title 'completion and man pages are well formed'
runs 0 help --completion bash
check bash -n "$out"
runs 0 help --completion fish
prints_part '__fish_seen_subcommand_from attn'
runs 0 help --completion zsh
prints_part '#compdef qkv'
runs 2 help --completion tcsh
runs 0 help --man attn
prints_part '.SH EXAMPLES'

title 'a file in place of a model folder'
printf 'GGUF' >m.gguf
runs 4 generate -m m.gguf hi
says 'qkv: m.gguf: GGUF files are not supported (use the .safetensors files of the model), expected .safetensors or .npy, found a GGUF file'
cp "$here/../golden/bert/model.safetensors" w.safetensors
runs 3 embed -m w.safetensors hi
says 'qkv: w.safetensors: expected a model folder with config.json, found a file of weights: use its folder'

finish
