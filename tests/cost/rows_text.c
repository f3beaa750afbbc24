// SPDX-License-Identifier: MIT
// rows_text.c: the rows of cost.def for texts and for readers of tokenizers.
#include "cost/cost.h"
#include "file/fixtures.h"
#include "text/text_internal.h"
#include "text/readers/readers.h"

// ---- texts --------------------------------------------------------------------------------------
static qkv_tokenizer *opened(const struct cost_text *json)
{
    qkv_tokenizer *t = NULL;
    qkv_error err = { 0 };
    if (qkv_tokenizer_parse(&t, json->at, json->bytes, "cost", &err))
        fail_msg("%s: %s", err.path, err.text);
    return t;
}

static void encode(const qkv_tokenizer *t, const struct cost_text *text)
{
    qkv_encoding e = { 0 };
    qkv_error err = { 0 };
    cost_begin();
    const qkv_status status =
        qkv_tokenizer_encode(t, &e, text->at, text->bytes, NULL, 0, NULL, &err);
    cost_end();
    if (status) fail_msg("%s", err.text);
    qkv_encoding_free(&e);
}

// Opens the tokenizer, which is measured too, and encodes the text; frees both texts.
static void open_and_encode(struct cost_text *json, struct cost_text *text)
{
    cost_begin();
    qkv_tokenizer *t = opened(json);
    cost_end();
    encode(t, text);
    qkv_tokenizer_close(t);
    free(json->at);
    free(text->at);
}

#define UNIGRAM(more)                                                                              \
    "{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"?\",0],[\"a\",-1],[\"b\",-1]" more "]}"
static void add_unigram(struct cost_text *json, const char *rest)
{
    cost_printf(json, "{\"version\":\"1.0\"%s,\"model\":" UNIGRAM("") "}", rest);
}

static void almost(struct cost_text *text, int64_t n) // the pattern is a^(n / 4) b
{
    cost_repeat(text, "a", n);
}

void cost_unigram_long(int64_t n)
{
    struct cost_text json = { 0 }, text = { 0 };
    cost_printf(&json, "{\"version\":\"1.0\",\"model\":{\"type\":\"Unigram\",\"unk_id\":0,"
                       "\"vocab\":[[\"?\",0],[\"a\",-1],[\"");
    cost_repeat(&json, "a", n);
    cost_printf(&json, "\",-2]]}}");
    cost_repeat(&text, "a", n);
    open_and_encode(&json, &text);
}

// Opens a vocabulary of as many suffixes of one text as n bytes contain, which is refused, and
// encodes a text of n bytes with as many suffixes as allowed.
void cost_unigram_suffixes(int64_t n)
{
    for (int refused = 1; refused >= 0; refused--) {
        struct cost_text json = { 0 }, text = { 0 };
        qkv_tokenizer *t = NULL;
        const int64_t most = refused ? INT64_MAX : QKV_SHORT_TOKEN + QKV_LONG_ENDS;
        cost_printf(&json, "{\"version\":\"1.0\",\"model\":{\"type\":\"Unigram\",\"unk_id\":0,"
                           "\"vocab\":[[\"?\",0]");
        for (int64_t i = 1, used = 0; i <= most && used + i <= n; used += i++) {
            cost_printf(&json, ",[\"");
            cost_repeat(&json, "a", i);
            cost_printf(&json, "\",-1]");
        }
        cost_printf(&json, "]}}");
        cost_repeat(&text, "a", n);
        cost_begin();
        const qkv_status status = qkv_tokenizer_parse(&t, json.at, json.bytes, "cost", NULL);
        cost_end();
        if (!status) encode(t, &text);
        if (!refused && status) fail_msg("suffixes: refused");
        qkv_tokenizer_close(t);
        free(json.at);
        free(text.at);
    }
}

void cost_unigram_unknown(int64_t n)
{
    struct cost_text json = { 0 }, text = { 0 };
    add_unigram(&json, "");
    cost_repeat(&text, "\xC3\xA9", n / 2);
    open_and_encode(&json, &text);
}

static void bpe(const char *members, const char *vocab, const char *merges, const char *word,
                int64_t n)
{
    struct cost_text json = { 0 }, text = { 0 };
    cost_printf(
        &json,
        "{\"version\":\"1.0\",\"model\":{\"type\":\"BPE\"%s,\"vocab\":{%s},\"merges\":[%s]}}",
        members, vocab, merges);
    cost_repeat(&text, word, n / (int64_t)strlen(word));
    open_and_encode(&json, &text);
}

void cost_bpe_word(int64_t n)
{
    bpe("", "\"a\":0,\"aa\":1,\"aaaa\":2,\"aaaaaaaa\":3", "\"a a\",\"aa aa\",\"aaaa aaaa\"", "a",
        n);
}

void cost_bpe_bytes(int64_t n)
{
    bpe(",\"byte_fallback\":true", "\"<0xC3>\":0,\"<0xA9>\":1", "", "\xC3\xA9", n);
}

void cost_bpe_prefix(int64_t n)
{
    struct cost_text json = { 0 }, text = { 0 };
    cost_printf(&json, "{\"version\":\"1.0\",\"model\":{\"type\":\"BPE\",\"merges\":[],"
                       "\"continuing_subword_prefix\":\"");
    cost_repeat(&json, "a", 250);
    cost_printf(&json, "\",\"vocab\":{\"a\":0,\"");
    cost_repeat(&json, "a", 251);
    cost_printf(&json, "\":1}}}");
    cost_repeat(&text, "a", n);
    open_and_encode(&json, &text);
}

void cost_wordpiece_words(int64_t n)
{
    struct cost_text json = { 0 }, text = { 0 };
    cost_printf(&json, "{\"version\":\"1.0\",\"pre_tokenizer\":{\"type\":\"WhitespaceSplit\"},"
                       "\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"?\","
                       "\"continuing_subword_prefix\":\"#\",\"max_input_chars_per_word\":1000,"
                       "\"vocab\":{\"?\":0,\"a\":1,\"#a\":2,\"#");
    cost_repeat(&json, "a", 1000);
    cost_printf(&json, "\":3}}}");
    for (int64_t i = 0; i < n; i += 1000) {
        cost_repeat(&text, "a", 999);
        cost_add(&text, " ", 1);
    }
    open_and_encode(&json, &text);
}

void cost_wordlevel_words(int64_t n)
{
    struct cost_text json = { 0 }, text = { 0 };
    cost_printf(&json, "{\"version\":\"1.0\",\"pre_tokenizer\":{\"type\":\"Whitespace\"},"
                       "\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"?\",\"vocab\":{\"?\":0,"
                       "\"a\":1}}}");
    for (int64_t i = 0; i < n; i += 8) cost_printf(&text, "a w%lld.", (long long)i);
    open_and_encode(&json, &text);
}

void cost_added(int64_t n)
{
    struct cost_text json = { 0 }, text = { 0 };
    cost_printf(&json, "{\"version\":\"1.0\",\"added_tokens\":[{\"id\":3,\"content\":\"");
    cost_repeat(&json, "a", QKV_ADDED_BYTES - 1);
    cost_printf(&json, "b\"}],\"model\":" UNIGRAM("") "}");
    cost_repeat(&text, "a", n);
    open_and_encode(&json, &text);
}

void cost_added_spaces(int64_t n)
{
    struct cost_text json = { 0 }, text = { 0 };
    cost_printf(&json, "{\"version\":\"1.0\",\"added_tokens\":[{\"id\":3,\"content\":\"<t>\","
                       "\"lstrip\":true,\"rstrip\":true},{\"id\":4,\"content\":\"<w>\","
                       "\"single_word\":true,\"lstrip\":true}],\"model\":" UNIGRAM("") "}");
    for (int64_t i = 0; i < n; i += 1000) {
        cost_repeat(&text, " ", 900);
        cost_repeat(&text, "a<w>", 10);
        cost_repeat(&text, "<t> ", 10);
    }
    cost_repeat(&text, " ", n);
    open_and_encode(&json, &text);
}

// ---- normalizers, pre-tokenizers, decoders ------------------------------------------------------
static void component(const char *before, const char *after, int64_t n)
{
    struct cost_text json = { 0 }, text = { 0 };
    cost_printf(&json, "{\"version\":\"1.0\",%s", before);
    cost_repeat(&json, "a", n / 4);
    cost_printf(&json, "%s,\"model\":" UNIGRAM("") "}", after);
    almost(&text, n);
    open_and_encode(&json, &text);
}

void cost_replace(int64_t n)
{
    component("\"normalizer\":{\"type\":\"Replace\",\"content\":\"b\",\"pattern\":{\"String\":\"",
              "b\"}}", n);
}

void cost_split(int64_t n)
{
    component("\"pre_tokenizer\":{\"type\":\"Split\",\"behavior\":\"Isolated\",\"invert\":false,"
              "\"pattern\":{\"String\":\"",
              "b\"}}", n);
}

void cost_marks(int64_t n)
{
    static const char *const kinds[] = {
        "NFC", "NFD", "NFKC", "NFKD", "StripAccents", "Lowercase"
    };
    EACH(kind, kinds)
    {
        struct cost_text json = { 0 }, text = { 0 };
        char rest[96];
        snprintf(rest, sizeof rest, ",\"normalizer\":{\"type\":\"%s\"}", *kind);
        add_unigram(&json, rest);
        cost_add(&text, "a", 1);
        cost_repeat(&text, "\xCC\x81\xCC\xA3", n / 4); // above and below
        open_and_encode(&json, &text);
    }
}

void cost_spaces(int64_t n)
{
    static const char *const parts[] = {
        ",\"normalizer\":{\"type\":\"Strip\",\"strip_left\":true,\"strip_right\":true}",
        ",\"normalizer\":{\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":"
        "true,\"strip_accents\":null,\"lowercase\":true}",
        ",\"normalizer\":{\"type\":\"Nmt\"}",
        ",\"pre_tokenizer\":{\"type\":\"Metaspace\","
        "\"replacement\":\"_\",\"prepend_scheme\":\"always\"}",
        ",\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"trim_offsets\":"
        "true}",
        ",\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"}",
        ",\"post_processor\":{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"trim_offsets\":"
        "true}"
    };
    EACH(part, parts)
    {
        struct cost_text json = { 0 }, text = { 0 };
        add_unigram(&json, *part);
        cost_repeat(&text, " ", n / 2);
        cost_repeat(&text, "\n", n / 2);
        open_and_encode(&json, &text);
    }
}

void cost_punctuation(int64_t n)
{
    static const char *const kinds[] = { "Removed", "Isolated", "MergedWithPrevious",
                                         "MergedWithNext", "Contiguous" };
    EACH(kind, kinds)
    {
        struct cost_text json = { 0 }, text = { 0 };
        char rest[128];
        snprintf(rest, sizeof rest,
                 ",\"pre_tokenizer\":{\"type\":\"Punctuation\",\"behavior\":\"%s\"}", *kind);
        add_unigram(&json, rest);
        cost_repeat(&text, "!", n / 2);
        cost_repeat(&text, "a!", n / 4);
        open_and_encode(&json, &text);
    }
}

void cost_patterns(int64_t n)
{
    static qkv_pattern_fn *const patterns[] = {
#define QKV_PATTERN(name, regex) qkv_pattern_##name,
#include "text/tokenizer.def"
    };
    static const char *const units[] = {
        "a", "A",  "aA", " ",        "\n",           " \n",      "1", "!",
        "'", "\t", "a'", "\xC3\xA9", "\xE4\xB8\x80", "\xCC\x81", "/"
    };
    EACH(unit, units)
    {
        struct cost_text text = { 0 };
        cost_repeat(&text, *unit, n / (int64_t)strlen(*unit));
        cost_begin();
        EACH(pattern, patterns)
        for (int64_t at = 0; at < (int64_t)text.bytes;)
            at = (*pattern)((const uint8_t *)text.at, &at, (int64_t)text.bytes);
        cost_end();
        free(text.at);
    }
}

// The text is refused when its budget of steps is used up.  PCRE2 itself is not counted as blocks.
void cost_regex(int64_t n)
{
    struct cost_text json = { 0 }, text = { 0 };
    qkv_encoding e = { 0 };
    qkv_error err = { 0 };
    cost_printf(&json,
                "{\"version\":\"1.0\",\"pre_tokenizer\":{\"type\":\"Split\",\"behavior\":"
                "\"Isolated\",\"invert\":false,\"pattern\":{\"Regex\":\"(\\\\w+\\\\s?)*$\"}},"
                "\"model\":" UNIGRAM("") "}");
    cost_repeat(&text, "ab cd ", n / 6);
    cost_add(&text, "!!", 2);
    qkv_tokenizer *t = opened(&json);
    cost_begin();
    const qkv_status status = qkv_tokenizer_encode(t, &e, text.at, text.bytes, NULL, 0, NULL, &err);
    cost_end();
    if (status != QKV_ERR_LIMIT) fail_msg("status %d", (int)status);
    qkv_encoding_free(&e);
    qkv_tokenizer_close(t);
    free(json.at);
    free(text.at);
}

static void decode(struct cost_text *json, int32_t id, int64_t n)
{
    size_t need;
    int32_t *ids = malloc((size_t)n * sizeof *ids);
    for (int64_t i = 0; i < n; i++) ids[i] = id;
    qkv_tokenizer *t = opened(json);
    qkv_decode_stream *s = NULL;
    cost_begin();
    if (qkv_tokenizer_decode(t, NULL, 0, &need, ids, n, false, NULL)) fail_msg("decode");
    if (qkv_decode_stream_new(&s, t, false, NULL)) fail_msg("stream");
    for (int64_t i = 0; i < n; i++) {
        const char *text;
        size_t bytes;
        if (qkv_decode_stream_put(s, id, &text, &bytes, NULL)) fail_msg("put");
    }
    cost_end();
    qkv_decode_stream_free(s);
    qkv_tokenizer_close(t);
    free(ids);
    free(json->at);
}

void cost_decode_replace(int64_t n)
{
    struct cost_text json = { 0 };
    cost_printf(&json, "{\"version\":\"1.0\",\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{"
                       "\"type\":\"Fuse\"},{\"type\":\"Replace\",\"content\":\"b\",\"pattern\":{"
                       "\"String\":\"");
    cost_repeat(&json, "a", n / 4);
    cost_printf(&json, "b\"}}]},\"model\":" UNIGRAM("") "}");
    decode(&json, 1, n);
}

void cost_decode_stream(int64_t n)
{
    static const char *const decoders[] = {
        "{\"type\":\"ByteFallback\"}",
        "{\"type\":\"Fuse\"}",
        "{\"type\":\"Metaspace\",\"replacement\":\"a\",\"prepend_scheme\":\"always\"}",
        "{\"type\":\"WordPiece\",\"prefix\":\"#\",\"cleanup\":true}",
        "{\"type\":\"ByteLevel\"}",
        "{\"type\":\"BPEDecoder\",\"suffix\":\"a\"}",
        "{\"type\":\"CTC\",\"pad_token\":\"b\",\"word_delimiter_token\":\"|\",\"cleanup\":true}",
        "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},{"
        "\"type\":\"Strip\",\"content\":\"a\",\"start\":1,\"stop\":100000000}]}"
    };
    EACH(decoder, decoders)
    for (int id = 1; id <= 3; id += 2) {
        struct cost_text json = { 0 };
        cost_printf(
            &json, "{\"version\":\"1.0\",\"decoder\":%s,\"model\":" UNIGRAM(",[\"<0xC3>\",-1]") "}",
            *decoder);
        decode(&json, id, n);
    }
}

void cost_truncation(int64_t n)
{
    static const char *const kinds[] = { "Left", "Right" };
    EACH(kind, kinds)
    {
        struct cost_text json = { 0 }, text = { 0 };
        char rest[256];
        snprintf(rest, sizeof rest,
                 ",\"truncation\":{\"direction\":\"%s\",\"max_length\":16,\"strategy\":"
                 "\"LongestFirst\",\"stride\":0},\"padding\":{\"strategy\":{\"Fixed\":32},"
                 "\"direction\":\"%s\",\"pad_to_multiple_of\":8,\"pad_id\":0,\"pad_type_id\":0,"
                 "\"pad_token\":\"?\"}",
                 *kind, *kind);
        add_unigram(&json, rest);
        cost_repeat(&text, "ab", n / 2);
        open_and_encode(&json, &text);
    }
}

// ---- readers ------------------------------------------------------------------------------------
static void open_json(struct cost_text *json)
{
    cost_begin();
    qkv_tokenizer *t = opened(json);
    cost_end();
    qkv_tokenizer_close(t);
    free(json->at);
}

void cost_open_bpe(int64_t n)
{
    struct cost_text json = { 0 };
    cost_printf(&json,
                "{\"version\":\"1.0\",\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1");
    for (int64_t i = 0; i < n; i++)
        cost_printf(&json, ",\"w%lld\":%lld", (long long)i, (long long)i + 2);
    for (int64_t i = 0; i < n; i++)
        cost_printf(&json, ",\"w%lldb\":%lld", (long long)i, (long long)(n + i + 2));
    cost_printf(&json, "},\"merges\":[\"w0 b\"");
    for (int64_t i = 1; i < n; i++) cost_printf(&json, ",[\"w%lld\",\"b\"]", (long long)i);
    cost_printf(&json, "]}}");
    open_json(&json);
}

// The texts of the vocabulary grow with the root of n, and each merge names two of them.
void cost_open_merges(int64_t n)
{
    struct cost_text json = { 0 };
    cost_printf(&json, "{\"version\":\"1.0\",\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"");
    cost_repeat(&json, "a", n);
    cost_printf(&json, "\":1,\"");
    cost_repeat(&json, "a", n + 1);
    cost_printf(&json, "\":2},\"merges\":[[\"");
    cost_repeat(&json, "a", n);
    cost_printf(&json, "\",\"a\"]]}}");
    open_json(&json);
}

void cost_open_unigram(int64_t n)
{
    struct cost_text json = { 0 };
    cost_printf(&json,
                "{\"version\":\"1.0\",\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":"
                "[[\"?\",0]");
    for (int64_t i = 0; i < n; i++) {
        cost_printf(&json, ",[\"%lld", (long long)i);
        cost_repeat(&json, i % 16 ? "a" : "bcdefghi", i % 16 ? 3 : 12); // some are long
        cost_printf(&json, "\",-%lld.5]", (long long)i);
    }
    cost_printf(&json, "]}}");
    open_json(&json);
}

void cost_open_added(int64_t n)
{
    struct cost_text json = { 0 };
    cost_printf(&json, "{\"version\":\"1.0\",\"normalizer\":{\"type\":\"Lowercase\"},"
                       "\"added_tokens\":[{\"id\":0,\"content\":\"?\"}");
    for (int64_t i = 0; i < n; i++)
        cost_printf(&json, ",{\"id\":%lld,\"content\":\"<T%lld>\",\"normalized\":%s}",
                    (long long)i + 3, (long long)i, i % 2 ? "true" : "false");
    cost_printf(&json, "],\"model\":" UNIGRAM("") "}");
    open_json(&json);
}

static void open_data(qkv_text_reader *reader, struct cost_text *data, const char *name)
{
    qkv_tokenizer *t = NULL;
    qkv_error err = { 0 };
    cost_begin();
    const qkv_status status = reader(&t, (const uint8_t *)data->at, data->bytes, name, &err);
    cost_end();
    if (status) fail_msg("%s: %s", err.path, err.text);
    qkv_tokenizer_close(t);
    free(data->at);
}

void cost_open_list(int64_t n)
{
    struct cost_text data = { 0 };
    cost_printf(&data, "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n");
    for (int64_t i = 0; i < n / 8; i++) cost_printf(&data, "##w%lld\n", (long long)i);
    open_data(qkv_read_vocab_list, &data, "nowhere/vocab.txt");
}

// A piece of a SentencePiece model: field 1 with text, score and type.
static void add_piece(struct cost_text *b, const char *text, size_t bytes, float score, int type)
{
    char head[32];
    struct cost_text piece = { 0 };
    size_t at = 0;
    head[at++] = 0x0A;
    for (size_t left = bytes;; left >>= 7) {
        head[at++] = (char)((left & 0x7F) | (left > 0x7F ? 0x80 : 0));
        if (left <= 0x7F) break;
    }
    cost_add(&piece, head, at);
    cost_add(&piece, text, bytes);
    cost_add(&piece, "\x15", 1);
    cost_add(&piece, (const char *)&score, 4);
    cost_add(&piece, (const char[]){ 0x18, (char)type }, 2);
    at = 0;
    head[at++] = 0x0A;
    for (size_t left = piece.bytes;; left >>= 7) {
        head[at++] = (char)((left & 0x7F) | (left > 0x7F ? 0x80 : 0));
        if (left <= 0x7F) break;
    }
    cost_add(b, head, at);
    cost_add(b, piece.at, piece.bytes);
    free(piece.at);
}

void cost_open_spm(int64_t n)
{
    struct cost_text data = { 0 };
    char text[32];
    add_piece(&data, "<unk>", 5, 0, QKV_SPM_UNKNOWN);
    for (int64_t i = 0; i < n; i++) {
        const int bytes = snprintf(text, sizeof text, "w%lld", (long long)i);
        add_piece(&data, text, (size_t)bytes, -1 - (float)i, i % 8 ? QKV_SPM_NORMAL : QKV_SPM_USER);
    }
    open_data(qkv_read_spm, &data, "nowhere/m.model");
}

static void spm_text(struct cost_text *data, int64_t n)
{
    qkv_tokenizer *t = NULL;
    qkv_error err = { 0 };
    struct cost_text text = { 0 };
    if (qkv_read_spm(&t, (const uint8_t *)data->at, data->bytes, "nowhere/m.model", &err))
        fail_msg("%s", err.text);
    cost_repeat(&text, "a", n);
    encode(t, &text);
    qkv_tokenizer_close(t);
    free(text.at);
    free(data->at);
}

void cost_spm_long(int64_t n)
{
    struct cost_text data = { 0 }, piece = { 0 };
    add_piece(&data, "<unk>", 5, 0, QKV_SPM_UNKNOWN);
    add_piece(&data, "a", 1, -1, QKV_SPM_NORMAL);
    cost_repeat(&piece, "a", n);
    add_piece(&data, piece.at, piece.bytes, -2, QKV_SPM_NORMAL);
    free(piece.at);
    spm_text(&data, n);
}

void cost_spm_merges(int64_t n)
{
    struct cost_text data = { 0 }, piece = { 0 };
    add_piece(&data, "<unk>", 5, 0, QKV_SPM_UNKNOWN);
    for (int i = 0; i < 12; i++) {
        cost_repeat(&piece, "a", 1);
        add_piece(&data, piece.at, piece.bytes, -(float)(i + 1), QKV_SPM_NORMAL);
    }
    cost_add(&data, "\x12\x02\x18\x02", 4); // model_type: bpe
    free(piece.at);
    spm_text(&data, n);
}

void cost_open_llama2c(int64_t n)
{
    struct cost_text data = { 0 };
    static const char *const first[] = { "<unk>", "\n<s>\n", "\n</s>\n" };
    cost_add(&data, "\x10\0\0\0", 4);
    for (int64_t i = 0; i < n + 259; i++) {
        char text[32];
        const float score = -(float)i;
        int bytes;
        if (i >= 3 && i < 259)
            bytes = snprintf(text, sizeof text, "<0x%02X>", (unsigned)(i - 3));
        else if (i >= 259)
            bytes = snprintf(text, sizeof text, "w%lld", (long long)i);
        else
            bytes = snprintf(text, sizeof text, "%s", first[i]);
        const uint32_t size = (uint32_t)bytes;
        cost_add(&data, (const char *)&score, 4);
        cost_add(&data, (const char *)&size, 4);
        cost_add(&data, text, size);
    }
    open_data(qkv_read_llama2c, &data, "nowhere/tokenizer.bin");
}
