// SPDX-License-Identifier: MIT
// word_vectors.c: describes a model that consists only of word vectors: an embedding table without
// layers, so that the last hidden state of a token is its vector.
//
// Its config.json has the keys model_type ("qkv-words"), vocab_size and hidden_size.
#include "model/family/description.h"

static bool describe(struct qkv_description *d, const struct qkv_config *c)
{
    d->kind = QKV_NET_ENCODER;
    d->position = QKV_POSITION_NONE;
    d->size.heads = d->size.kv_heads = 1; // must be positive, though there are no layers
    d->size.positions = QKV_POSITIONS_MAX;
    return qkv_config_int(c, "vocab_size", true, &d->size.vocab, 1, QKV_VOCAB_MAX) &&
           qkv_config_int(c, "hidden_size", true, &d->size.width, 1, QKV_WIDTH_MAX);
}

static const struct qkv_names names = { .word = "embeddings.weight" };

const struct qkv_family qkv_family_word_vectors = {
    .prefix = "",
    .describe = describe,
    .names = &names,
};
