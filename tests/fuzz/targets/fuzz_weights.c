// SPDX-License-Identifier: MIT
// fuzz_weights.c: opens any bytes as the attention weights of `qkv view --attention`, with files of
// tokens.  The input is a byte of settings, the sizes of the two files of tokens, these files, and
// the .npy or .safetensors file.  Weights that are accepted are drawn in the terminal.
// Inputs have up to 1024 bytes.
#include "fuzz/fuzz_outputs.h"
#include "view/view_source.h"
#include <math.h>

enum { KIND = 1, KEYS = 2, NO_TOKENS = 4, DRAW = 24 };
const struct cmd *const cmd_table[] = { NULL };

static void check(const struct source *s, unsigned settings)
{
    FUZZ_CHECK(s->view && s->shape.stacks >= 1 && s->shape.stacks <= 3);
    FUZZ_CHECK(s->shape.texts == (s->text[1].token ? 2 : 1));
    for (int64_t i = 0; i < s->shape.texts; i++) {
        FUZZ_CHECK(s->shown[i].tokens > 0);
        for (int64_t t = 0; t < s->shown[i].tokens; t++) {
            const char *raw = s->shown[i].token[t].raw;
            FUZZ_CHECK(!strchr(raw, '\n'));
        }
    }
    for (int64_t i = 0; i < s->shape.stacks; i++) {
        const struct qkv_view_stack *k = &s->stack[i];
        FUZZ_CHECK(k->layers > 0 && k->heads > 0);
        FUZZ_CHECK(k->rows < s->shape.texts && k->keys < s->shape.texts);
        if (k->causal) FUZZ_CHECK(k->rows == k->keys);
    }
    if (settings & DRAW) return;
    for (int64_t i = 0; i < s->shape.stacks; i++) {
        const struct qkv_view_options o = { .stack = i, .columns = 60, .utf8 = true };
        char *text = NULL;
        qkv_error err = { 0 };
        fuzz_success(qkv_view_terminal(s->view, &text, &o, &err), &err);
        fuzz_utf8(text);
        qkv_view_text_free(text);
    }
}

// Checks that rows and keys of the only tensor of the file have a token each.
static void check_sizes(const struct source *s, const char *path)
{
    qkv_tensors *all = NULL;
    qkv_error err = { 0 };
    fuzz_success(array_open(&all, path, true, &err), &err);
    if (qkv_tensors_count(all) == 1) {
        const struct qkv_tensor *t = qkv_tensors_at(all, 0);
        FUZZ_CHECK(t->shape[t->rank - 2] == s->shown[s->stack[0].rows].tokens);
        FUZZ_CHECK(t->shape[t->rank - 1] == s->shown[s->stack[0].keys].tokens);
    }
    qkv_tensors_close(all);
}

static qkv_status open_once(const char *path, const char *tokens, const char *keys,
                            unsigned settings, int64_t fault)
{
    struct source s = { 0 };
    qkv_error err = { 0 };
    fuzz_fail_at(fault);
    const qkv_status status = source_given(&s, path, tokens, keys, &err);
    fuzz_fault = 0;
    FUZZ_CHECK(status == err.status);
    if (status && status != QKV_ERR_USAGE) fuzz_refusal(status, &err);
    if (!status && !fault) {
        check_sizes(&s, path);
        check(&s, settings);
    }
    qkv_view_free(s.view);
    for (int i = 0; i < 2; i++) {
        free(s.text[i].token);
        free(s.text[i].made);
    }
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 3) return 0;
    const unsigned settings = data[0];
    const size_t n = (size_t)data[1] % (size - 2), m = (size_t)data[2] % (size - 2 - n);
    char path[MEMORY_PATH];
    common.quiet = true;
    memory_remove(MEMORY_FOLDER);
    const char *name = settings & KIND ? "w.safetensors" : "w.npy";
    fuzz_file("tokens", data + 3, n);
    fuzz_file("keys", data + 3 + n, m);
    snprintf(path, sizeof path, "%s/%s", fuzz_file(name, data + 3 + n + m, size - 3 - n - m), name);
    const char *tokens = settings & NO_TOKENS ? NULL : MEMORY_FOLDER "/tokens";
    const char *keys = settings & KEYS ? MEMORY_FOLDER "/keys" : NULL;
    const qkv_status first = open_once(path, tokens, keys, settings, 0);
    if (fuzz_fails(data, size))
        fuzz_survived(first, open_once(path, tokens, keys, settings, fuzz_choose(data, size)));
    return 0;
}
