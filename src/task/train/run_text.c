// SPDX-License-Identifier: MIT
// run_text.c: finds the text on which a training run is shown: the text of its probes or, without
// one, the first text of its validation split.
#include "task/train/train_internal.h"
#include <string.h>

enum { SHOWN_TOKENS = 24 }; // as many as a probe has of the validation text

static qkv_status decode(char *out, size_t size, const qkv_tokenizer *t, const int32_t *ids,
                         int64_t n, qkv_error *err)
{
    return qkv_tokenizer_decode(t, out, size, NULL, ids, n, true, err);
}

// Decodes the first pair of the split. The target is the row of targets, without the end token.
static qkv_status decode_pair(char *text, size_t size, char *second, size_t second_size,
                              const qkv_tokenizer *t, const struct qkv_net_batch *b, qkv_error *err)
{
    const qkv_status status = decode(text, size, t, b->source.ids, b->source.offsets[1], err);
    const int64_t n = qkv_max64(0, b->in.offsets[1] - 1);
    return status ? status : decode(second, second_size, t, b->targets, n, err);
}

// Decodes the first text of the split, with the tokens that training masks.
static qkv_status decode_text(char *text, size_t size, const qkv_tokenizer *t,
                              const struct qkv_net_batch *b, qkv_error *err)
{
    int32_t ids[SHOWN_TOKENS];
    const int64_t n = qkv_min64(b->in.offsets[1], SHOWN_TOKENS);
    for (int64_t i = 0; i < n; i++) {
        const bool masked = b->objective == QKV_OBJECTIVE_MASKED && b->targets[i] >= 0;
        ids[i] = masked ? b->targets[i] : b->in.ids[i];
    }
    return decode(text, size, t, ids, n, err);
}

static qkv_status first_valid(char *text, size_t size, char *second, size_t second_size,
                              const char *run, qkv_error *err)
{
    char path[QKV_PATH];
    qkv_data *data = NULL;
    qkv_tokenizer *t = NULL;
    struct qkv_drawn d = { 0 };
    qkv_status status = qkv_path_join(path, run, "data", err);
    if (!status) status = qkv_data_open(&data, path, err);
    if (!status) status = qkv_path_join(path, run, "model", err);
    if (!status) status = qkv_tokenizer_open(&t, path, err);
    if (!status) {
        const struct qkv_draw one = { .tokens = 1,
                                      .sequences = 1,
                                      .vocab = (int32_t)qkv_data_info(data).vocab };
        status = qkv_data_valid(data, &d, 0, &one, err);
    }
    if (!status && d.batch.objective == QKV_OBJECTIVE_SEQ2SEQ)
        status = decode_pair(text, size, second, second_size, t, &d.batch, err);
    else if (!status)
        status = decode_text(text, size, t, &d.batch, err);
    qkv_drawn_free(&d);
    qkv_tokenizer_close(t);
    qkv_data_close(data);
    return status;
}

qkv_status qkv_train_text(const char *run, char *text, size_t size, char *second,
                          size_t second_size, qkv_error *err)
{
    struct train_config config = { 0 };
    const struct qkv_train_options as_it_is = { .run = run, .resume = true };
    if (!run || !text || !size || !second || !second_size)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_train_text: expected the folder of a run and two buffers, found NULL "
                        "or a size of 0");
    *text = *second = 0;
    char path[QKV_PATH];
    qkv_status status = qkv_path_join(path, run, "run.json", err);
    if (!status && !qkv_path_may_exist(path))
        status = qkv_fail(err, QKV_ERR_USAGE, &(struct qkv_location){ .file = run },
                          "folder without run.json, expected the folder of a training run");
    if (!status) status = train_config_read(&config, &as_it_is, err);
    const char *probe = config.o.probe_text;
    if (!status && probe) {
        size_t n = strlen(probe) < size ? strlen(probe) : size - 1;
        while (n && qkv_utf8_continues(probe[n])) n--; // not inside a character
        memcpy(text, probe, n);
        text[n] = 0;
    } else if (!status) {
        status = first_valid(text, size, second, second_size, run, err);
    }
    train_config_free(&config);
    return status;
}
