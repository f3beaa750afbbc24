// SPDX-License-Identifier: MIT
// fuzz_texts.c: reads any bytes as a file of training texts.  The first byte selects the format
// (text, JSONL, TSV), the objective and the fields.  A count without texts finds the same examples.
#include "fuzz/fuzz.h"
#include "task/data/data.h"

static qkv_status walk(const qkv_corpus *corpus, bool skim, int64_t *count, qkv_error *err)
{
    struct qkv_corpus_cursor c = { .corpus = corpus, .skim = skim };
    struct qkv_example x = { 0 };
    bool more = true;
    qkv_status status = QKV_OK;
    int64_t line = 0;
    for (*count = 0; more && !status; *count += more) {
        status = qkv_corpus_next(&c, &x, &more, err);
        if (status || !more) break;
        FUZZ_CHECK(x.line > line || (*count && x.line >= line));
        line = x.line;
        for (size_t i = 0; !skim && i < x.bytes; i++) (void)*(const volatile char *)(x.text + i);
        for (size_t i = 0; !skim && x.second && i < x.second_bytes; i++)
            (void)*(const volatile char *)(x.second + i);
    }
    qkv_corpus_cursor_free(&c);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const paths[] = { MEMORY_FOLDER "/texts" };
    static const char *const formats[] = { "text", "jsonl", "tsv" };
    if (!size) return 0;
    const int format = data[0] % 3, settings = data[0] / 3;
    const struct qkv_text_source s = {
        .paths = paths,
        .n = 1,
        .format = formats[format],
        .field = settings & 1 ? (format == 2 ? "2" : "source") : NULL,
        .field_b = settings & 2 ? (format == 2 ? "1" : "target") : NULL,
        .per_line = settings & 4,
    };
    const enum qkv_objective objective = (enum qkv_objective)(settings / 8 % QKV_OBJECTIVES);
    fuzz_file("texts", data + 1, size - 1);
    qkv_corpus *c = NULL;
    qkv_error err = { 0 };
    const qkv_status status = qkv_corpus_open(&c, &s, objective, &err);
    FUZZ_CHECK((status == QKV_OK) == (c != NULL));
    if (status) {
        FUZZ_CHECK(status == QKV_ERR_USAGE);
        return 0;
    }
    int64_t count, skimmed;
    char hash[QKV_SHA256_TEXT];
    FUZZ_CHECK(qkv_corpus_bytes(c) == (int64_t)size - 1);
    qkv_corpus_hash(c, hash);
    const qkv_status whole = walk(c, false, &count, &err);
    if (whole) fuzz_refusal(whole, &err);
    if (!whole) FUZZ_CHECK(!walk(c, true, &skimmed, &err) && skimmed == count);
    qkv_corpus_close(c);
    return 0;
}
