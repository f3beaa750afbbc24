// SPDX-License-Identifier: MIT
// fuzz_options.c: parses any bytes as the arguments of a command (the first byte selects it, zero
// bytes separate the arguments), as numbers, as lists of numbers and token ids, and as a head.
// Inputs have up to 256 bytes.
#include "fuzz/fuzz.h"
#include "frame/tokens.h"
#include <math.h>

enum { ARGUMENTS = 8 };

// A command with an option of each kind, except of files: the list of inputs and outputs lasts as
// long as the process.
static struct {
    bool flag;
    const char *text;
    int64_t integer;
    double real;
    int choice;
    struct cmd_words words;
} values;
static const char *const choices[] = { "first", "second", NULL };
static const struct opt options[] = {
    OPT_GROUP("Options"),
    OPT_FLAG('f', "flag", &values.flag, "a flag"),
    OPT_TEXT('t', "text", &values.text, "TEXT", "a text"),
    OPT_INT('n', "number", &values.integer, -5, 1 << 20, "N", "a number"),
    OPT_REAL('x', "real", &values.real, "X", "a real number"),
    OPT_CHOICE('c', "choice", &values.choice, choices, "WORD", "a word"),
    OPT_WORDS('w', "words", &values.words, "WORD", "words"),
    OPT_END
};
static const struct cmd commands[] = {
    { .name = "one", .usage = "TEXT [options]", .opts = options, .min_args = 1, .max_args = 2 },
    { .name = "two",
      .usage = "-WORD...\n",
      .opts = options,
      .uses = USES_JSON | USES_OUTPUT | SIGNED_WORDS,
      .max_args = -1 }
};
const struct cmd *const cmd_table[] = { &commands[0], &commands[1], NULL };

static void check_error(qkv_status status, const qkv_error *err)
{
    FUZZ_CHECK(err->status == status);
    if (status) FUZZ_CHECK(err->text[0] && status == QKV_ERR_USAGE);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size) return 0;
    struct fuzz_part part[ARGUMENTS];
    char *text[ARGUMENTS + 1] = { NULL }, *argv[ARGUMENTS + 1] = { NULL };
    int argc = 0, operands = 0;
    fuzz_split(part, ARGUMENTS, data + 1, size - 1);
    for (; argc < ARGUMENTS && part[argc].bytes; argc++)
        argv[argc] = text[argc] = fuzz_string(&part[argc]);
    for (int i = 0; i < argc; i++) {
        int64_t integer = 0, *list = NULL, count = 0;
        double real = 0;
        qkv_error err = { 0 };
        if (cmd_parse_int(text[i], &integer)) FUZZ_CHECK(cmd_parse_real(text[i], &real));
        qkv_status status = cmd_parse_ints("--x", text[i], -3, 1000, &list, &count, &err);
        check_error(status, &err);
        for (int64_t k = 0; !status && k < count; k++) FUZZ_CHECK(list[k] >= -3 && list[k] <= 1000);
        if (!status) free(list);
        if (text[i][strspn(text[i], "-0123456789, ")] || !strcmp(text[i], "-")) continue; // a file
        struct id_lists ids;
        err = (qkv_error){ 0 };
        status = id_lists_read(&ids, text[i], &err);
        check_error(status, &err);
        for (int64_t k = 0; !status && k < ids.offsets[ids.count]; k++) FUZZ_CHECK(ids.ids[k] >= 0);
        id_lists_free(&ids);
    }
    qkv_error err = { 0 };
    check_error(cmd_options(&commands[data[0] & 1], argc, argv, &operands, &err), &err);
    FUZZ_CHECK(values.integer >= -5 && values.integer <= 1 << 20 && isfinite(values.real));
    FUZZ_CHECK(values.choice == 0 || values.choice == 1);
    free(values.words.text);
    memset(&values, 0, sizeof values);
    common = (struct cmd_common){ .json = false };
    struct qkv_ablation head;
    if (argc) (void)!qkv_ablation_parse(&head, text[0], part[0].bytes, NULL);
    for (int i = 0; i < argc; i++) free(text[i]);
    return 0;
}
