# SPDX-License-Identifier: MIT
# text_files.sh: tests that view, explain, ablate and trace read whole files as texts (-f).
. tests/cli/lib.sh
verse=$here/../../models/verse
[ -f "$verse/model.safetensors" ] || {
    echo 'skipped: models/verse is not here'
    exit 77
}
printf 'to be or not\nto be' >a.txt
printf 'that is' >b.txt

title 'the content of a file is the text, with its line ends'
runs 0 view "$(cat a.txt)" -m "$verse" --terminal
cp "$out" operand
silent
runs 0 view -f a.txt -m "$verse" --terminal
silent
check cmp operand "$out"
"$QKV_BIN" view -f - -m "$verse" --terminal <a.txt >"$out" 2>"$err"
check cmp operand "$out"

title 'trace and ablate read the same text'
runs 0 trace "$(cat a.txt)" -m "$verse" -o operand.safetensors
runs 0 trace -f a.txt -m "$verse" -o file.safetensors
check cmp operand.safetensors file.safetensors
runs 0 ablate "$(cat a.txt)" -m "$verse" --json
cp "$out" operand
runs 0 ablate -f a.txt -m "$verse" --json
check cmp operand "$out"

title 'a file is the text, an operand or a second file the text after it'
runs 0 explain --reads -f a.txt or -m "$verse" --token not --json
cp "$out" file
runs 0 explain --reads "$(cat a.txt)" or -m "$verse" --token not --json
check cmp file "$out"
runs 0 explain --context be -f a.txt -f a.txt -m "$verse"
prints_part 'What does “be” mean here?'
runs 2 view -f a.txt -f b.txt c -m "$verse" --terminal
says_part 'too many texts, expected at most 2 operands and files of -f, found 3'

title 'an operand that is the name of a file is a text, with a note'
runs 0 view a.txt -m "$verse" --terminal
says "qkv: note: the text is 'a.txt' itself: a file of that name exists; use -f to read it"

title 'an operand that is a word is no text, and has no note'
: >or
runs 0 explain --reads "$(cat a.txt)" or -m "$verse" --token not
silent
runs 0 explain --reads -f a.txt or -m "$verse" --token not
silent
: >be
runs 0 explain --context be "$(cat a.txt)" "$(cat a.txt)" -m "$verse"
silent

title 'with --quiet only the line about the file is printed, and no note'
runs 0 view a.txt -m "$verse" -o quiet.html -q
silent
check test "$(wc -l <"$out")" -eq 1
prints_part 'quiet.html: '
runs 0 view a.txt -m "$verse" -o quiet.svg --quiet
prints 'quiet.svg: picture of the view'
silent

title 'files that are no texts'
runs 6 view -f none.txt -m "$verse" --terminal
printf 'to\0be' >nul.txt
runs 3 view -f nul.txt -m "$verse" --terminal
says 'qkv: nul.txt: at byte 2: expected a text, found a NUL byte'
: >empty.txt
printf ' \n\t' >blank.txt
for file in empty blank; do
    for command in 'view --terminal' explain ablate 'trace -o empty.safetensors'; do
        # shellcheck disable=SC2086
        runs 2 $command -f $file.txt -m "$verse"
        says "qkv: $file.txt: the text is empty, expected words"
    done
done
[ ! -e empty.safetensors ] || failed 'a trace of an empty text'
runs 2 ablate -f - -m "$verse" </dev/null
says 'qkv: standard input: the text is empty, expected words'
check test "$("$QKV_BIN" view -f - -f - -m "$verse" --terminal <a.txt >"$out" 2>"$err" || echo $?)" = 2
says_part 'standard input occurs twice'
runs 2 view -f a.txt --ids 1,2 -m "$verse" --terminal
says_part '-f cannot be combined with --ids'
runs 2 trace -f a.txt -m "$verse" -o ./a.txt --force
says_part 'a.txt'

title 'a text with more tokens than positions names the option that cuts it'
i=0
while [ $i -lt 300 ]; do printf 'word %d of many\n' $i; i=$((i + 1)); done >long.txt
runs 2 view -f long.txt -m "$verse" --terminal
says_part 'text too long, expected at most 256 tokens, found '
says_part '(--truncate cuts it)'
runs 0 view -f long.txt -m "$verse" --terminal --truncate
says_part 'the text was cut to 256 tokens'
finish
