// SPDX-License-Identifier: MIT
/** entities.h: finds the labels of the tokens of a text and the spans that they form, such as named
 *  entities. */
#ifndef QKV_ENTITIES_H
#define QKV_ENTITIES_H

#include <qkv/model.h>

QKV_BEGIN_DECLS

/** How the labels of tokens become entities: the strategies of the token-classification pipeline of
 *  transformers.
 *    NONE     each token is an entity, with its most probable label
 *    SIMPLE   adjacent tokens with the same kind of label are one entity
 *    FIRST    as SIMPLE for words, each with the label of its first token
 *    AVERAGE  as SIMPLE for words, each with the label that is most probable in the mean of the
 *             probabilities of its tokens
 *    MAX      as SIMPLE for words, each with the most probable label of all its tokens
 *  Labels "B-X" and "I-X" have the same kind X, and "B-X" begins a new entity; any other label is
 *  its own kind.  A word is a token with the tokens that continue it: those marked by
 *  continuing_subword_prefix ("##ing"), or, in tokenizers without such a prefix, those without a
 *  space before them. */
enum qkv_aggregation {
    QKV_AGGREGATE_NONE = 0,
    QKV_AGGREGATE_SIMPLE,
    QKV_AGGREGATE_FIRST,
    QKV_AGGREGATE_AVERAGE,
    QKV_AGGREGATE_MAX
};

/** A token with its label, or adjacent tokens or words with a kind of label. */
struct qkv_entity {
    /** the label ("B-PER"), or with aggregation its part after the first "-" ("PER"); valid until
     *  qkv_model_close */
    const char *label;
    /** the token as spelled in the vocabulary, or with aggregation the decoded tokens */
    const char *word;
    /** probability of the label, the softmax over all labels; of several tokens or words the mean
     *  of their probabilities */
    float score;
    int64_t begin, end;    /**< byte range [begin, end) in the text */
    int64_t first, last;   /**< the same range in characters: [first, last) */
    int64_t token, tokens; /**< index of the first token in the encoding; number of tokens */
};

/** The entities of a text.  The caller owns this struct, zeroes it before the first use and frees
 *  it with qkv_entities_free. */
struct qkv_entities {
    struct qkv_entity *entity; /**< [count] in the order of the text */
    int64_t count;
    int64_t cut; /**< number of tokens removed by truncation */
    int64_t capacity;
};
QKV_API void qkv_entities_free(struct qkv_entities *e); /**< NULL is fine */

/** Options of qkv_entities_find; zero is the default. */
struct qkv_entities_options {
    enum qkv_aggregation aggregate;
    bool outside; /**< true: entities with the label "O", outside of all entities, are included */
    /** what happens to a text longer than the positions of the model.  true: it is truncated;
     *  false: the call returns QKV_ERR_USAGE */
    bool truncate;
    bool strict; /**< true: invalid UTF-8 is QKV_ERR_FORMAT; false: it becomes U+FFFD */
};
/** Finds the entities of text[bytes]; special tokens have no label.  o may be NULL.
 *  Returns: QKV_OK; QKV_ERR_USAGE; QKV_ERR_UNSUPPORTED (no output head for labels of tokens: err
 *           names the kind of the model), QKV_ERR_FORMAT, QKV_ERR_LIMIT, QKV_ERR_INTERNAL (a score
 *           is not finite).  After an error out has no entities. */
QKV_API QKV_MUST_CHECK qkv_status qkv_entities_find(struct qkv_entities *out, const qkv_model *m,
                                                    const qkv_tokenizer *t, const char *text,
                                                    size_t bytes,
                                                    const struct qkv_entities_options *o,
                                                    qkv_error *err);

QKV_END_DECLS
#endif
