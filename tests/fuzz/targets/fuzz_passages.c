// SPDX-License-Identifier: MIT
// fuzz_passages.c: reads any bytes as a file of `qkv index`: lines, JSON lines through its engine,
// and chunks of sentences.  Four bytes of settings, then the file.  Chunks that are joined are the
// text without white space between them, a passage is on the line that it names, and a JSON line
// has the text, key and metadata that jansson finds.
// Inputs have up to 1024 bytes.
#include "fuzz/fuzz.h"
#include "engines/engine.h"
#include "index/index.h"
#include <fcntl.h>

extern const struct store_engine qkv_engine;
const struct cmd *const cmd_table[] = { NULL };
static const char *const fields[] = { "text", "id", "a.b", "" };
static struct {
    const char *text; // of the file; NULL: it is not compared with its passages
    size_t bytes;
    bool json, sentences;
    int64_t lines, count;
} file;

const void *engine_open(const struct engine *x, qkv_error *err)
{
    (void)err;
    FUZZ_CHECK(x->size == qkv_engine.size);
    return &qkv_engine;
}

static bool is_space(char c)
{
    return c && strchr(" \t\n\r\f\v", c);
}

static bool valid(const char *text, size_t bytes)
{
    for (size_t n, i = 0; i < bytes; i += n)
        if (!text[i] || !(n = qkv_utf8_bytes(text + i, bytes - i))) return false;
    return true;
}

// ---- the engine: SQLite's parser, with passages that are checked instead of stored --------------
static json_t *value_of(const struct store_text *t)
{
    return t->at ? json_loadb(t->at, t->bytes, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL)
                 : NULL;
}

// Compares a line that was read with jansson, if that reads it too: it refuses half a surrogate
// pair and numbers beyond its types.
static void check_line(json_t *line, const char *field, const struct store_passage *p)
{
    if (!line) return;
    json_t *id = json_object_get(line, "id"), *text = json_object_get(line, field);
    json_t *key = value_of(&p->key), *rest = value_of(&p->metadata);
    FUZZ_CHECK(json_is_string(text) && !p->text.at[p->text.bytes]);
    FUZZ_CHECK(p->text.bytes == json_string_length(text));
    FUZZ_CHECK(!memcmp(p->text.at, json_string_value(text), p->text.bytes));
    if (json_is_string(id) || json_is_number(id))
        FUZZ_CHECK(json_equal(key, id));
    else
        FUZZ_CHECK(!p->key.at);
    json_incref(text);
    json_object_del(line, field);
    json_object_del(line, "id");
    if (json_object_size(line))
        FUZZ_CHECK(json_equal(rest, line));
    else
        FUZZ_CHECK(!p->metadata.at);
    json_decref(text);
    json_decref(key);
    json_decref(rest);
}

static enum store_status parse(struct store *s, const char *line, size_t bytes, const char *field,
                               struct store_passage *p, struct store_reason *why)
{
    const int64_t fault = fuzz_fault;
    const enum store_status status = qkv_engine.parse(s, line, bytes, field, p, why);
    FUZZ_CHECK(status == STORE_OK || (status == STORE_LINE && why->text[0] && !why->code));
    fuzz_fault = 0; // jansson has memory
    json_t *root = json_loadb(line, bytes, JSON_REJECT_DUPLICATES, NULL);
    if (!status) check_line(root, field, p);
    json_decref(root);
    fuzz_fault = fault;
    return status;
}

static enum store_status add_passage(struct store *s, int64_t n, const struct store_passage *p,
                                     struct store_reason *why)
{
    (void)s;
    (void)why;
    FUZZ_CHECK(n == file.count++ && p->file == 7 && p->line >= 1 && p->line <= file.lines);
    FUZZ_CHECK(p->text.bytes && valid(p->text.at, p->text.bytes));
    if (!file.text || file.json) return STORE_OK;
    const char *line = file.text, *end = file.text + file.bytes;
    for (int64_t i = 1; i < p->line; i++)
        line = (const char *)memchr(line, '\n', (size_t)(end - line)) + 1;
    const char *next = memchr(line, '\n', (size_t)(end - line));
    const char *at = memmem(line, (size_t)(end - line), p->text.at, p->text.bytes);
    FUZZ_CHECK(at && (!next || at < next));
    if (!file.sentences) FUZZ_CHECK(!memchr(p->text.at, '\n', p->text.bytes));
    return STORE_OK;
}

static struct store *store_of(struct store_engine *engine)
{
    static struct store *s;
    struct store_reason why;
    *engine = qkv_engine;
    engine->parse = parse;
    engine->add_passage = add_passage;
    if (s) return s;
    const int fd = open(MEMORY_FOLDER "/store", O_RDWR | O_CREAT | O_TRUNC, 0600);
    FUZZ_CHECK(fd >= 0 && !qkv_engine.open(&s, fd, 1, &why));
    return s;
}

// ---- tokenizers: words and pieces, and one token per byte --------------------------------------
static const qkv_tokenizer *tokenizer(int kind)
{
    static qkv_tokenizer *made[2];
    qkv_error err = { 0 };
    if (made[kind]) return made[kind];
    char text[1 << 13];
    size_t n = 0;
    if (kind) {
        n = (size_t)snprintf(text, sizeof text,
                             "{\"version\":\"1.0\",\"model\":{\"type\":\"BPE\",\"unk_token\":"
                             "\"?\",\"byte_fallback\":true,\"merges\":[],\"vocab\":{\"?\":0");
        for (unsigned i = 0; i < 256; i++)
            n += (size_t)snprintf(text + n, sizeof text - n, ",\"<0x%02X>\":%u", i, i + 1);
        n += (size_t)snprintf(text + n, sizeof text - n, "}}}");
    } else {
        n = (size_t)snprintf(text, sizeof text, "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n");
        for (char c = '!'; c <= '~'; c++)
            n += (size_t)snprintf(text + n, sizeof text - n, "%c\n##%c\n", c, c);
    }
    fuzz_file(kind ? "tokenizer.json" : "vocab.txt", text, n);
    fuzz_success(qkv_tokenizer_open(&made[kind], MEMORY_FOLDER, &err), &err);
    memory_remove(kind ? MEMORY_FOLDER "/tokenizer.json" : MEMORY_FOLDER "/vocab.txt");
    return made[kind];
}

// ---- checks ------------------------------------------------------------------------------------
// Splits a text, and checks that only white space is outside of its chunks.
static void check_chunks(struct chunker *c, const char *text, size_t bytes)
{
    size_t covered = 0;
    qkv_error err = { 0 };
    const qkv_status status = chunker_split(c, text, bytes, &err);
    if (status) fuzz_refusal(status, &err);
    for (int64_t i = 0; !status && i < c->count; i++) {
        const struct chunk *now = &c->chunks[i];
        int64_t tokens = 0, sentences = 0, again = 0;
        FUZZ_CHECK(now->begin < now->end && now->end <= bytes && now->end > covered);
        FUZZ_CHECK(!is_space(text[now->begin]) && !is_space(text[now->end - 1]));
        // after a heading that moved to the next chunk, the overlap may be a whole chunk
        if (i) FUZZ_CHECK(now->begin >= c->chunks[i - 1].begin);
        for (size_t k = covered; k < now->begin; k++) FUZZ_CHECK(is_space(text[k]));
        for (int64_t k = 0; k < c->sentence_count; k++) {
            if (c->sentences[k].begin < now->begin || c->sentences[k].end > now->end) continue;
            tokens += c->sentences[k].tokens;
            if (c->sentences[k].end <= covered) again += c->sentences[k].tokens;
            sentences++;
        }
        covered = now->end;
        FUZZ_CHECK(again <= c->overlap);
        FUZZ_CHECK(sentences == 1 || tokens <= c->size);
    }
    for (size_t k = covered; !status && k < bytes; k++) FUZZ_CHECK(is_space(text[k]));
}

static qkv_status index_once(struct index_build *b, const struct index_file *f, int64_t fault)
{
    struct qkv_digest d;
    char hex[QKV_DIGEST_TEXT], expected[QKV_SHA256_TEXT];
    qkv_error err = { 0 };
    b->passages = file.count = b->count.skipped = 0;
    qkv_digest_begin(&d, QKV_DIGEST_SHA256);
    fuzz_fail_at(fault);
    const qkv_status status = index_texts(b, f, 7, &d, &err);
    fuzz_fault = 0;
    FUZZ_CHECK(status == err.status && b->passages == file.count);
    if (status) {
        fuzz_refusal(status, &err);
        return status;
    }
    size_t size = 0;
    const uint8_t *written = memory_contents(f->name, &size);
    qkv_digest_end(&d, hex);
    qkv_sha256(expected, written, size);
    FUZZ_CHECK(!strcmp(hex, expected));
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct store_engine engine;
    if (size < 4) return 0;
    const int kind = data[0] & 1;
    struct index_build b = { .path = MEMORY_FOLDER "/i.qkvi",
                             .engine = &engine,
                             .store = store_of(&engine),
                             .split = (enum index_split)(data[1] % 3),
                             .field = fields[data[1] / 3 % 4],
                             .strict = data[0] & 2 };
    b.chunker = (struct chunker){ .tokenizer = tokenizer(kind), .size = 1 + data[2] % 64 };
    b.chunker.overlap = data[3] % b.chunker.size;
    const struct index_file f = { .name = (char[]){ MEMORY_FOLDER "/f" },
                                  .json = data[0] & 4,
                                  .folder = data[0] & 8 };
    const char *text = (const char *)data + 4;
    size -= 4;
    fuzz_file("f", text, size);
    file.json = f.json;
    file.sentences = b.split == SPLIT_SENTENCES || (b.split == SPLIT_AUTO && f.folder);
    file.text = valid(text, size) ? text : NULL;
    file.bytes = size;
    file.lines = 1;
    for (size_t i = 0; i < size; i++) file.lines += text[i] == '\n';
    const qkv_status first = index_once(&b, &f, 0);
    const int64_t count = file.count;
    if (fuzz_fails(data, size + 4)) { // the tokenizer can do without its cache
        const qkv_status second = index_once(&b, &f, fuzz_choose(data, size + 4));
        FUZZ_CHECK(second ? file.count <= count : file.count == count);
        fuzz_survived_mostly(first, second);
    }
    check_chunks(&b.chunker, text, size);
    chunker_free(&b.chunker);
    free(b.source);
    free(b.replaced_file);
    free(b.skipped_file);
    return 0;
}
