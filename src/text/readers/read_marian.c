// SPDX-License-Identifier: MIT
// read_marian.c: reads the tokenizer of one side of a Marian translator: source.spm or target.spm
// splits the text into pieces (tokens of SentencePiece); vocab.json contains the ids of both sides,
// so that ids of either side can be decoded.
//
// A piece that vocab.json does not contain becomes one unknown token.  A token ">>xx<<" at the start
// of a text selects the target language; it is separated from the text before it is split.
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include "text/readers/readers.h"

static bool read_ids(qkv_tokenizer *t, const char *file, qkv_error *err)
{
    struct qkv_map map = { 0 };
    bool ok = !qkv_map_read(&map, file, QKV_TOKENIZER_BYTES, err);
    ok = ok && qkv_vocab_object(&t->vocab, (const char *)map.data, map.size, file, err);
    qkv_map_close(&map);
    return ok;
}

static int32_t need(const qkv_tokenizer *t, const char *file, const char *text, qkv_error *err)
{
    const int32_t id = qkv_trie_find(&t->vocab.trie, text, strlen(text));
    if (id < 0)
        qkv_fail(err, QKV_ERR_FORMAT, &(struct qkv_location){ .file = file },
                 "token %s is missing, expected it in the vocabulary", text);
    return id;
}

// Adds a piece for which vocab.json has no id.  Returns false if memory is exhausted.
static bool add_absent(struct qkv_assembly *g, const struct qkv_spm_piece *p, int64_t pieces)
{
    struct qkv_absent *a = &g->absent;
    int32_t got;
    if (!a->trie.slots && !qkv_trie_init(&a->trie, 64)) return false;
    if (!a->scores) a->scores = qkv_alloc((size_t)pieces, sizeof *a->scores);
    if (!a->scores) return false;
    a->scores[a->count] = (double)p->score;
    for (size_t i = 3; i + 3 <= p->bytes; i++)
        if (memcmp(p->text + i, QKV_SPM_MARK, 3) == 0) g->marks_inside = true;
    return qkv_trie_add(&a->trie, p->text, p->bytes, (int32_t)a->count++, &got);
}

static bool scores(qkv_tokenizer *t, const struct qkv_spm *m, qkv_error *err)
{
    struct qkv_assembly *g = &t->assembly;
    int64_t twice;
    qkv_vocab_finish(&t->vocab, &twice);
    g->floats = true;
    g->score_count = qkv_tokenizer_size(t);
    g->scores = qkv_alloc((size_t)qkv_max64(g->score_count, 1), sizeof *g->scores);
    if (!g->scores) {
        qkv_fail_memory(err, t->file);
        return false;
    }
    for (int64_t i = 0; i < g->score_count; i++) g->scores[i] = -INFINITY;
    for (int64_t i = 0; i < m->count; i++) {
        const struct qkv_spm_piece *p = &m->pieces[i];
        const int32_t id = qkv_trie_find(&t->vocab.trie, p->text, p->bytes);
        if (p->type != QKV_SPM_NORMAL) continue;
        if (id >= 0)
            g->scores[id] = (double)p->score;
        else if (!add_absent(g, p, m->count)) {
            qkv_fail_memory(err, t->file);
            return false;
        }
    }
    return true;
}

static bool build_tokenizer(qkv_tokenizer *t, const struct qkv_spm *m, struct qkv_spm_steps *steps,
                            struct qkv_text_buffer *json, const char *vocab, qkv_error *err)
{
    if (m->model != 1 || m->suffix) {
        qkv_fail(
            err, QKV_ERR_UNSUPPORTED, &(struct qkv_location){ .file = t->file },
            "folder with vocab.json has a SentencePiece model of another type, expected unigram");
        return false;
    }
    const int32_t end = need(t, vocab, "</s>", err), unknown = need(t, vocab, "<unk>", err);
    if (end < 0 || unknown < 0 || !scores(t, m, err)) return false;
    qkv_spm_steps_init(steps, t, m);
    t->assembly.verbatim = true;
    t->added.languages = true;
    t->assembly.add_steps = qkv_spm_steps;
    t->assembly.context = steps;
    bool first = true;
    qkv_text_append_string(json, "{\"model\":{\"type\":\"Unigram\",\"unk_id\":");
    qkv_text_append_integer(json, unknown);
    qkv_text_append_string(json, "}");
    qkv_text_append_string(json, ",\"decoder\":{\"type\":\"Sequence\",\"decoders\":[");
    if (m->escape)
        qkv_text_append_string(json, "{\"type\":\"Replace\",\"pattern\":{\"String\":\"" QKV_SPM_MARK
                                     "\"},\"content\":\" \"},");
    qkv_text_append_string(json, "{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":\" \","
                                 "\"start\":1000000000,\"stop\":1000000000}]}");
    qkv_text_append_string(json, ",\"added_tokens\":[");
    for (int64_t i = 0; i < t->vocab.count; i++) {
        const struct qkv_token *token = &t->vocab.tokens[i];
        const char *text = t->vocab.pool + token->text;
        if (token->id == end || token->id == unknown || strcmp(text, "<pad>") == 0 ||
            qkv_added_language((const uint8_t *)text, token->bytes) == token->bytes)
            qkv_assembly_append_added(json, &first, token->id, text, true, false, false);
    }
    qkv_text_append_string(json, "],\"post_processor\":");
    qkv_assembly_append_template(json, t, -1, end);
    qkv_text_append_string(json, "}");
    return true;
}

qkv_status qkv_read_marian(qkv_tokenizer **out, const uint8_t *data, size_t size, const char *file,
                           qkv_error *err)
{
    struct qkv_text_buffer json = { 0 };
    struct qkv_spm model = { 0 };
    struct qkv_spm_steps steps;
    char vocab[QKV_PATH];
    qkv_error own = { 0 };
    qkv_tokenizer *t = NULL;
    *out = NULL;
    if (qkv_path_sibling(vocab, file, "vocab.json", &own) ||
        qkv_spm_read(&model, data, size, file, &own) || qkv_tokenizer_new(&t, file, &own) ||
        !read_ids(t, vocab, &own) || !build_tokenizer(t, &model, &steps, &json, vocab, &own))
        goto done;
    qkv_tokenizer_assemble(out, t, &json, &own);
    t = NULL;
done:
    qkv_tokenizer_close(t);
    qkv_spm_free(&model);
    qkv_text_buffer_free(&json);
    if (own.status && err && !err->status) *err = own;
    return own.status;
}
