// SPDX-License-Identifier: MIT
// special_tokens.c: determines the special tokens with which texts become batches: the tokens that
// begin and end a text or the decoder's input, padding, and the mask.
//
// A vocabulary may contain a token that is spelled </s> or <|endoftext|> as plain text, or as the
// special token of another purpose. So the model's files decide, and a spelling counts only for
// tokens that the tokenizer declares special.
#include "task/generate/generation_config.h"
#include "task/train/train_internal.h"
#include <inttypes.h>

// Returns the id of the first of names[] (ended by NULL) that is a special token; -1: none is.
static int32_t special_named(const qkv_tokenizer *t, const char *const *names)
{
    for (; *names; names++) {
        const int32_t id = qkv_tokenizer_id(t, *names);
        if (id >= 0 && qkv_tokenizer_special(t, id)) return id;
    }
    return -1;
}

static struct train_ids ids_by_name(const qkv_tokenizer *t)
{
    static const char *const firsts[] = { "<s>", "[CLS]", "<|endoftext|>", NULL };
    static const char *const lasts[] = { "</s>", "[SEP]", "<|endoftext|>", NULL };
    static const char *const pads[] = { "[PAD]", "<pad>", NULL };
    static const char *const masks[] = { "[MASK]", "<mask>", NULL };
    return (struct train_ids){ .vocab = qkv_tokenizer_size(t),
                               .bos = special_named(t, firsts),
                               .forced = -1,
                               .eos = special_named(t, lasts),
                               .pad = special_named(t, pads),
                               .mask = special_named(t, masks) };
}

qkv_status train_ids_read(struct train_ids *ids, const char *dir, enum qkv_objective objective,
                          const qkv_tokenizer *tokenizer, qkv_error *err)
{
    const bool pairs = objective == QKV_OBJECTIVE_SEQ2SEQ;
    struct qkv_net_shape s;
    *ids = ids_by_name(tokenizer);
    if (!dir) return QKV_OK;
    qkv_status status = qkv_net_shape_read(&s, dir, err);
    struct qkv_generation_config c = {
        .bos = -1, .start = -1, .forced_first = -1, .forced_last = -1
    };
    if (!status) status = qkv_generation_file_read(&c, dir, s.vocab, !pairs, err);
    if (status) {
        qkv_generation_config_free(&c);
        return status;
    }
    ids->vocab = s.vocab;
    ids->eos = s.eos >= 0 ? s.eos : c.end_count ? c.ends[0] : -1;
    ids->bos = s.bos >= 0 ? s.bos : c.bos;
    if (s.pad >= 0) ids->pad = s.pad;
    if (ids->mask < 0) ids->mask = s.mask;
    if (pairs) {
        const int32_t start = s.start >= 0 ? s.start : c.start;
        ids->bos = start >= 0 ? start : ids->bos;
        ids->forced = s.forced >= 0 ? s.forced : c.forced_first;
    }
    qkv_generation_config_free(&c);
    return QKV_OK;
}

qkv_status train_ends(const qkv_tokenizer *t, int32_t eos, struct qkv_data_options *o,
                      qkv_error *err)
{
    qkv_encoding e = { 0 };
    const qkv_status status = qkv_tokenizer_encode(t, &e, "a", 1, NULL, 0, NULL, err);
    o->end = eos;
    o->ends = !status && eos >= 0 && !(e.count > 0 && e.ids[e.count - 1] == eos);
    qkv_encoding_free(&e);
    return status;
}

qkv_status train_draw(struct qkv_draw *d, const struct qkv_train_options *o,
                      enum qkv_objective objective, const struct train_ids *ids,
                      const qkv_tokenizer *tokenizer, int64_t vocab, qkv_error *err)
{
    const bool pairs = objective == QKV_OBJECTIVE_SEQ2SEQ;
    *d = (struct qkv_draw){ .tokens = o->batch_tokens,
                            .sequences = o->batch_sequences,
                            .seed = (uint64_t)o->seed,
                            .bos = ids->bos,
                            .forces = ids->forced >= 0,
                            .forced = ids->forced,
                            .eos = ids->eos,
                            .pad = ids->pad,
                            .mask = ids->mask,
                            .vocab = (int32_t)(pairs ? ids->vocab : qkv_tokenizer_size(tokenizer)),
                            .mask_share = o->mask_share };
    if (vocab > ids->vocab)
        return qkv_fail(err, QKV_ERR_FORMAT, &(struct qkv_location){ .file = o->run },
                        "tokenizer has token ids for which the model has no embedding, expected "
                        "ids below %" PRId64 ", found %" PRId64,
                        ids->vocab, vocab - 1);
    if (objective == QKV_OBJECTIVE_MASKED && d->mask < 0)
        return qkv_fail(err, QKV_ERR_UNSUPPORTED, &(struct qkv_location){ .file = o->run },
                        "no mask token, which objective masked requires, expected a special token "
                        "[MASK] or <mask> in the tokenizer");
    if (pairs && (d->bos < 0 || d->eos < 0))
        return qkv_fail(err, QKV_ERR_UNSUPPORTED, &(struct qkv_location){ .file = o->run },
                        "no %s, which objective seq2seq requires, expected %s in config.json or "
                        "generation_config.json, or a special token %s in a new tokenizer",
                        d->bos < 0 ? "first token of the decoder's input" : "end token",
                        d->bos < 0 ? "decoder_start_token_id" : "eos_token_id",
                        d->bos < 0 ? "<s>" : "</s>");
    return QKV_OK;
}
