// SPDX-License-Identifier: MIT
// fuzz_regex.c: runs a regular expression of a tokenizer.json over a text, separated by a zero
// byte: accepted expressions find matches in order, at character boundaries, or reach their limit;
// failing memory is reported.
// Inputs have up to 256 bytes.
#include "fuzz/fuzz.h"
#include "text/text_internal.h"

// Copies data[size] to text without invalid UTF-8.
static int64_t valid(char *text, const uint8_t *data, size_t size)
{
    int64_t n = 0;
    for (size_t i = 0; i < size;) {
        uint32_t code;
        const int used = data[i] ? qkv_utf8_read(data + i, size - i, &code) : -1;
        if (used > 0) n += qkv_utf8_write((uint8_t *)text + n, code);
        i += (size_t)(used < 0 ? -used : used);
    }
    text[n] = 0;
    return n;
}

static qkv_status walk(const char *regex, const char *text, int64_t size, int64_t fault)
{
    qkv_error err = { 0 };
    struct qkv_expression x = { 0 };
    struct qkv_matches m = { 0 };
    struct qkv_effort effort = qkv_effort_for(size, NULL, &err);
    json_t *object = json_object();
    const struct qkv_json_at at = { object, "fuzz", "$", &err };
    int64_t begin, end, last = 0;
    int found = 0;
    FUZZ_CHECK(object);
    fuzz_fail_at(fault);
    const bool made = qkv_expression_new(&x, &at, "Regex", regex);
    FUZZ_CHECK(made == (err.status == QKV_OK));
    if (made && !qkv_matches_open(&m, &x, size, &effort)) found = -1;
    if (made && !found) {
        qkv_matches_text(&m, (const uint8_t *)text, size);
        while ((found = qkv_matches_next(&m, &begin, &end)) > 0) {
            FUZZ_CHECK(begin >= last && end >= begin && end <= size);
            FUZZ_CHECK((text[begin] & 0xC0) != 0x80 && (text[end] & 0xC0) != 0x80);
            last = end;
        }
    }
    if (found < 0) (void)qkv_fail_memory(&err, NULL); // sets an error unless one is set already
    fuzz_fault = 0;
    qkv_matches_close(&m);
    qkv_expression_free(&x);
    json_decref(object);
    if (err.status) fuzz_refusal(err.status, &err);
    return err.status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *zero = size ? memchr(data, 0, size) : NULL;
    const size_t head = zero ? (size_t)(zero - data) : size;
    char *regex = malloc(head + 1), *text = malloc(size - head + 1);
    FUZZ_CHECK(regex && text);
    valid(regex, data, head);
    const int64_t bytes = valid(text, data + head, size - head);
    const qkv_status first = walk(regex, text, bytes, 0);
    if (fuzz_fails(data, size))
        fuzz_survived(first, walk(regex, text, bytes, fuzz_choose(data, size)));
    free(regex);
    free(text);
    return 0;
}
