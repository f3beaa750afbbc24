// SPDX-License-Identifier: MIT
// fuzz_encode.c: encodes and decodes any texts with tokenizers of each kind, which are opened once.
// The input is a byte for the tokenizer and the options, the text, a zero byte, the second text.
#include "fuzz/fuzz_encode.h"

static const char *const tokenizers[] = {
    "{\"version\":\"1.0\",\"added_tokens\":[{\"id\":3,\"content\":\"[X]\",\"special\":true},"
    "{\"id\":4,\"content\":\"New\",\"normalized\":true,\"lstrip\":true}],"
    "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFKC\"},"
    "{\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":true,"
    "\"strip_accents\":null,\"lowercase\":true}]},"
    "\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},"
    "\"post_processor\":{\"type\":\"BertProcessing\",\"sep\":[\"b\",2],\"cls\":[\"a\",1]},"
    "\"decoder\":{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true},"
    "\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"?\",\"continuing_subword_prefix\":\"##\","
    "\"max_input_chars_per_word\":9,\"vocab\":{\"?\":0,\"a\":1,\"b\":2,\"##b\":5,\"##e\":6}}}",
    "{\"version\":\"1.0\",\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":true,"
    "\"trim_offsets\":true,\"use_regex\":true},\"decoder\":{\"type\":\"ByteLevel\"},"
    "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"\u0120\":2,\"ab\":3,\"\u0120a\":4,"
    "\"\u00c3\":5,\"\u0142\":6},\"merges\":[\"a b\",\"\u0120 a\"]}}",
    "{\"version\":\"1.0\",\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"\u2581\","
    "\"prepend_scheme\":\"first\"},\"decoder\":{\"type\":\"Sequence\",\"decoders\":["
    "{\"type\":\"ByteFallback\"},{\"type\":\"Metaspace\",\"replacement\":\"\u2581\"}]},"
    "\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"byte_fallback\":true,\"vocab\":["
    "[\"<unk>\",0],[\"\u2581\",-2.5],[\"a\",-3],[\"\u2581a\",-1],[\"ab\",-2.25],"
    "[\"<0x62>\",-9],[\"\u00e9\",-4],[\"aaaa\",-5]]}}",
    "{\"version\":\"1.0\",\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":["
    "{\"type\":\"NFD\"},{\"type\":\"StripAccents\"},{\"type\":\"Replace\",\"pattern\":"
    "{\"Regex\":\" +\"},\"content\":\"_\"}]},\"pre_tokenizer\":{\"type\":\"Sequence\","
    "\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"String\":\",\"},"
    "\"behavior\":\"MergedWithNext\",\"invert\":false},{\"type\":\"Digits\",\"individual_digits\":"
    "true},"
    "{\"type\":\"UnicodeScripts\"}]},\"model\":{\"type\":\"BPE\",\"unk_token\":\"a\","
    "\"end_of_word_suffix\":\"</w>\",\"vocab\":{\"a\":0,\"b\":1,\"b</w>\":2,\"ab</w>\":3,"
    "\"_\":4},\"merges\":[\"a b</w>\"]}}"
};
enum { TOKENIZERS = sizeof tokenizers / sizeof tokenizers[0] };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static qkv_tokenizer *opened[TOKENIZERS]; // static: no leak
    struct fuzz_part part[2];
    if (!size) return 0;
    qkv_tokenizer **t = &opened[data[0] % TOKENIZERS];
    qkv_error err = { 0 };
    if (!*t && qkv_tokenizer_parse(t, tokenizers[data[0] % TOKENIZERS],
                                   strlen(tokenizers[data[0] % TOKENIZERS]), "fuzz", &err)) {
        fprintf(stderr, "%s: %s\n", err.path, err.text);
        abort();
    }
    fuzz_split(part, 2, data + 1, size - 1);
    fuzz_encode(*t, part[0], part[1], data[0] / TOKENIZERS);
    return 0;
}
