// SPDX-License-Identifier: MIT
// test_sha256.c: checks the examples of FIPS 180-4 and the long message of NIST, in pieces of any
// size.
#include "base/base.h"
#include "check.h"

TEST(known_messages_have_their_sums)
{
    static const struct {
        const char *text, *sum;
    } known[] = {
        { "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
        { "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
        { "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
          "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" },
    };
    char hex[QKV_SHA256_TEXT];
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        qkv_sha256(hex, known[i].text, strlen(known[i].text));
        CHECK_TEXT(hex, known[i].sum);
    }
}

TEST(a_million_letters_in_pieces_of_any_size)
{
    static const size_t sizes[] = { 1, 63, 64, 65, 127, 1000 };
    char text[1000], hex[QKV_SHA256_TEXT];
    memset(text, 'a', sizeof text);
    EACH(size, sizes)
    {
        struct qkv_sha256 h;
        qkv_sha256_begin(&h);
        for (size_t left = 1000000; left;) {
            const size_t n = left < *size ? left : *size;
            qkv_sha256_add(&h, text, n);
            left -= n;
        }
        qkv_sha256_end(&h, hex);
        CHECK_TEXT(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    }
}

CHECK_MAIN(CASE(known_messages_have_their_sums), CASE(a_million_letters_in_pieces_of_any_size))
