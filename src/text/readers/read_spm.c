// SPDX-License-Identifier: MIT
// read_spm.c: reads a SentencePiece .model, with the ids and decoded texts of SentencePiece; its
// control symbols become special tokens, as when Hugging Face transformers converts such a model.
// The class in tokenizer_config.json determines the special tokens around a text.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "text/readers/readers.h"

// ---- steps -------------------------------------------------------------------------------------
bool qkv_spm_steps(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    const struct qkv_spm_steps *s = t->assembly.context;
    const struct qkv_spm *m = s->model;
    return (!m->charsmap || qkv_charsmap_add(t, at, m->charsmap, m->charsmap_size, m)) &&
           qkv_spaces_add(t, at, &s->spaces) && (!s->decodes || qkv_pieces_add_decoder(t, at, m));
}

void qkv_spm_steps_init(struct qkv_spm_steps *s, const qkv_tokenizer *t, const struct qkv_spm *m)
{
    const char *mark = m->escape ? QKV_SPM_MARK : " ";
    *s = (struct qkv_spm_steps){
        .model = m,
        .spaces = { .mark = mark,
                    .single = m->single,
                    .prefix = m->prefix,
                    .cut = qkv_spaces_cut_of(t, mark) },
    };
}

// ---- classes -----------------------------------------------------------------------------------
struct family {
    const char *kind;
    bool begins, ends; // <s> before, </s> after a text, or the names that the model uses
    bool shifted;      // ids of fairseq: <s> <pad> </s> <unk>, then ids of the model
    bool extra;        // <extra_id_N> after the pieces
};
static const struct family families[] = {
    { NULL, false, false, false, false },
    { "AlbertTokenizer", true, true, false, false },
    { "CodeLlamaTokenizer", true, false, false, false },
    { "GemmaTokenizer", true, false, false, false },
    { "LlamaTokenizer", true, false, false, false },
    { "PreTrainedTokenizer", false, false, false, false },
    { "T5Tokenizer", false, true, false, true },
    { "XLMRobertaTokenizer", true, true, true, false },
};

static const struct family *family_of(const struct qkv_text_config *c, const char *file,
                                      qkv_error *err)
{
    if (!c->kind) return &families[0];
    for (size_t i = 1; i < sizeof families / sizeof families[0]; i++)
        if (qkv_text_config_is(c, families[i].kind)) return &families[i];
    qkv_fail(err, QKV_ERR_UNSUPPORTED, &(struct qkv_location){ .file = file },
             "tokenizer class %s may use other ids than its SentencePiece file, expected a "
             "tokenizer.json in the folder, found none",
             c->kind);
    return NULL;
}

// ---- pieces ------------------------------------------------------------------------------------
struct building {
    qkv_tokenizer *t;
    const struct qkv_spm *m;
    const struct family *family;
    struct qkv_text_buffer *json;
    int32_t begin, end; // ids of <s>, </s>; -1: none
    qkv_error *err;
};

static bool unsupported(const struct building *b, const char *what)
{
    qkv_fail(b->err, QKV_ERR_UNSUPPORTED, &(struct qkv_location){ .file = b->t->file }, "%s", what);
    return false;
}

static bool is(const struct qkv_spm_piece *p, const char *text)
{
    return p->bytes == strlen(text) && memcmp(p->text, text, p->bytes) == 0;
}

static int32_t id_of(const struct building *b, int64_t piece)
{
    static const int32_t first[] = { 3, 0, 2 };
    if (!b->family->shifted) return (int32_t)piece;
    return piece < 3 ? first[piece] : (int32_t)piece + 1;
}

static bool pieces(struct building *b)
{
    const struct qkv_spm *m = b->m;
    struct qkv_assembly *g = &b->t->assembly;
    g->floats = g->no_texts = true;
    g->score_count = m->count + 2;
    g->scores = qkv_alloc((size_t)g->score_count, sizeof *g->scores);
    if (!g->scores || !qkv_trie_init(&b->t->vocab.trie, (size_t)m->count)) {
        qkv_fail_memory(b->err, b->t->file);
        return false;
    }
    for (int64_t i = 0; i < g->score_count; i++) g->scores[i] = -INFINITY;
    for (int64_t i = 0; i < m->count; i++) {
        const struct qkv_spm_piece *p = &m->pieces[i];
        const int32_t id = id_of(b, i);
        if (p->type == QKV_SPM_UNUSED && m->model == 2)
            return unsupported(b, "unused pieces in a model of byte pairs are not supported, "
                                  "expected a model without unused pieces");
        if (p->type == QKV_SPM_NORMAL) g->scores[id] = (double)p->score;
        if (!qkv_assembly_add_token(b->t, p->text, p->bytes, id, "piece", i, b->err)) return false;
        if (is(p, "<s>") || is(p, "[CLS]") || is(p, "<bos>")) b->begin = id;
        if (is(p, "</s>") || is(p, "[SEP]") || is(p, "<eos>")) b->end = id;
    }
    if (b->family->shifted &&
        (!qkv_assembly_add_token(b->t, "<pad>", 5, 1, "added token", 1, b->err) ||
         !qkv_assembly_add_token(b->t, "<mask>", 6, (int32_t)m->count + 1, "added token",
                                 m->count + 1, b->err)))
        return false;
    int64_t twice;
    qkv_vocab_finish(&b->t->vocab, &twice);
    b->t->vocab.scanned = true;
    return true;
}

// ---- the rest, as JSON -------------------------------------------------------------------------
static void say_model(struct building *b)
{
    const struct qkv_spm *m = b->m;
    qkv_text_append_string(b->json, m->model == 1
                                        ? "{\"model\":{\"type\":\"Unigram\",\"unk_id\":"
                                        : "{\"model\":{\"type\":\"BPE\",\"fuse_unk\":true,"
                                          "\"unk_token\":");
    const int32_t unknown = id_of(b, m->unknown);
    const char *text = qkv_tokenizer_token(b->t, unknown);
    if (m->model == 1)
        qkv_text_append_integer(b->json, unknown);
    else
        qkv_text_append_json(b->json, text, strlen(text), QKV_JSON_PLAIN);
    qkv_text_append_string(b->json, m->fallback ? ",\"byte_fallback\":true}" : "}");
}

// Writes the added tokens.  Control symbols are matched in the original text, user-defined symbols
// in the normalized text.
static bool say_added(struct building *b, const struct qkv_text_config *c)
{
    const struct qkv_spm *m = b->m;
    bool first = true;
    qkv_text_append_string(b->json, ",\"added_tokens\":[");
    for (int64_t i = 0; i < m->count; i++) {
        const enum qkv_spm_type type = m->pieces[i].type;
        const int32_t id = id_of(b, i);
        const bool special = type == QKV_SPM_UNKNOWN || type == QKV_SPM_CONTROL;
        if (special || type == QKV_SPM_USER)
            qkv_assembly_append_added(b->json, &first, id, qkv_tokenizer_token(b->t, id), special,
                                      !special, false);
    }
    if (b->family->shifted) {
        qkv_assembly_append_added(b->json, &first, 1, "<pad>", true, false, false);
        qkv_assembly_append_added(b->json, &first, (int32_t)m->count + 1, "<mask>", true, false,
                                  true);
    }
    int64_t extra = b->family->extra ? 100 : 0;
    const struct qkv_json_at at = { c->json, b->t->file, "$", b->err };
    if (extra && !qkv_json_limited(&at, "extra_ids", false, &extra, 0, 10000)) return false;
    for (int64_t i = 0; i < extra; i++) {
        char text[32];
        snprintf(text, sizeof text, "<extra_id_%" PRId64 ">", i);
        if (qkv_trie_find(&b->t->vocab.trie, text, strlen(text)) < 0)
            qkv_assembly_append_added(b->json, &first, (int32_t)(m->count + extra - 1 - i), text,
                                      true, false, false);
    }
    qkv_text_append_string(b->json, "]");
    return true;
}

static bool say_around(struct building *b, const struct qkv_text_config *c)
{
    bool begins = b->family->begins, ends = b->family->ends;
    const struct qkv_json_at at = { c->json, b->t->file, "$", b->err };
    if (c->json && (!qkv_json_bool(&at, "add_bos_token", false, &begins) ||
                    !qkv_json_bool(&at, "add_eos_token", false, &ends)))
        return false;
    if ((begins && b->begin < 0) || (ends && b->end < 0))
        return unsupported(b, "model has no piece that marks the beginning or the end of a text, "
                              "expected <s> and </s>");
    qkv_text_append_string(b->json, ",\"post_processor\":");
    if (b->family->shifted) {
        qkv_text_append_string(
            b->json, "{\"type\":\"RobertaProcessing\",\"trim_offsets\":false,"
                     "\"add_prefix_space\":false,\"cls\":[\"<s>\",0],\"sep\":[\"</s>\",2]}}");
        return true;
    }
    qkv_assembly_append_template(b->json, b->t, begins ? b->begin : -1, ends ? b->end : -1);
    qkv_text_append_string(b->json, "}");
    return true;
}

static bool build_tokenizer(struct building *b, struct qkv_spm_steps *steps,
                            const struct qkv_text_config *c)
{
    const struct qkv_spm *m = b->m;
    if (m->model != 1 && m->model != 2 && m->model != 4)
        return unsupported(
            b,
            "model of words or of an unknown type is not supported, expected unigram, bpe or char");
    if (m->suffix)
        return unsupported(b, "model marks white space at the end of words, which is not "
                              "supported, expected it at the beginning");
    b->family = family_of(c, b->t->file, b->err);
    if (!b->family) return false;
    if (b->family->shifted && m->count < 3)
        return unsupported(b,
                           "too few pieces in the model, expected at least 3: <unk>, <s> and </s>");
    if (!pieces(b) || (m->model == 2 && !qkv_assembly_derive_merges(b->t, b->err))) return false;
    qkv_spm_steps_init(steps, b->t, m);
    steps->decodes = true;
    b->t->assembly.merged = m->model != 1;
    b->t->assembly.verbatim = true;
    b->t->assembly.add_steps = qkv_spm_steps;
    b->t->assembly.context = steps;
    say_model(b);
    return say_added(b, c) && say_around(b, c);
}

qkv_status qkv_read_spm(qkv_tokenizer **out, const uint8_t *data, size_t size, const char *file,
                        qkv_error *err)
{
    struct qkv_text_buffer json = { 0 };
    struct qkv_text_config config = { 0 };
    struct qkv_spm model = { 0 };
    struct qkv_spm_steps steps;
    qkv_error own = { 0 };
    struct building b = { .m = &model, .json = &json, .begin = -1, .end = -1, .err = &own };
    *out = NULL;
    if (qkv_spm_read(&model, data, size, file, &own) || qkv_tokenizer_new(&b.t, file, &own) ||
        qkv_text_config_open(&config, file, &own) || !build_tokenizer(&b, &steps, &config))
        goto done;
    const int32_t unknown = id_of(&b, model.unknown);
    if (!qkv_tokenizer_assemble(out, b.t, &json, &own) &&
        !qkv_added_decode_as(&(*out)->added, unknown, (char[]){ (char)QKV_SPM_ABSENT, 0 })) {
        qkv_fail_memory(&own, file);
        qkv_tokenizer_close(*out);
        *out = NULL;
    }
    b.t = NULL;
done:
    qkv_tokenizer_close(b.t);
    qkv_text_config_free(&config);
    qkv_spm_free(&model);
    qkv_text_buffer_free(&json);
    if (own.status && err && !err->status) *err = own;
    return own.status;
}
