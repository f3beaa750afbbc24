// SPDX-License-Identifier: MIT
// test_digest.c: checks the public digests on the examples of FIPS 180-4 in pieces of any size, and
// the name that Git gives a file.
#include "check.h"
#include <qkv/digest.h>

static const char *digest(enum qkv_digest_kind kind, const char *text, size_t piece)
{
    static char hex[QKV_DIGEST_TEXT];
    struct qkv_digest d;
    size_t left = strlen(text);
    qkv_digest_begin(&d, kind);
    for (size_t n; left; text += n, left -= n) {
        n = left < piece ? left : piece;
        qkv_digest_add(&d, text, n);
    }
    qkv_digest_end(&d, hex);
    return hex;
}

TEST(known_messages_have_their_digests)
{
    static const char *const words = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    static const size_t pieces[] = { 1, 3, 55, 56, 64, 1000 };
    EACH(piece, pieces)
    {
        CHECK_TEXT(digest(QKV_DIGEST_SHA1, "", *piece), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
        CHECK_TEXT(digest(QKV_DIGEST_SHA1, "abc", *piece),
                   "a9993e364706816aba3e25717850c26c9cd0d89d");
        CHECK_TEXT(digest(QKV_DIGEST_SHA1, words, *piece),
                   "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
        CHECK_TEXT(digest(QKV_DIGEST_SHA256, words, *piece),
                   "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    }
}

TEST(a_million_letters_have_their_digest)
{
    char text[1000], hex[QKV_DIGEST_TEXT];
    struct qkv_digest d;
    memset(text, 'a', sizeof text);
    qkv_digest_begin(&d, QKV_DIGEST_SHA1);
    for (int i = 0; i < 1000; i++) qkv_digest_add(&d, text, sizeof text);
    qkv_digest_end(&d, hex);
    CHECK_TEXT(hex, "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
}

TEST(a_copy_of_the_state_continues_alone)
{
    struct qkv_digest a, b;
    char hex[QKV_DIGEST_TEXT];
    qkv_digest_begin(&a, QKV_DIGEST_SHA1);
    qkv_digest_add(&a, "ab", 2);
    b = a;
    qkv_digest_add(&a, "x", 1);
    qkv_digest_add(&b, "c", 1);
    qkv_digest_end(&b, hex);
    CHECK_TEXT(hex, "a9993e364706816aba3e25717850c26c9cd0d89d");
}

TEST(git_names_a_file_by_its_size_and_contents)
{
    struct qkv_digest d;
    char hex[QKV_DIGEST_TEXT];
    qkv_digest_begin(&d, QKV_DIGEST_SHA1);
    qkv_digest_add(&d, "blob 6\0hello\n", 13); // echo hello | git hash-object --stdin
    qkv_digest_end(&d, hex);
    CHECK_TEXT(hex, "ce013625030ba8dba906f756967f9e9ca394464a");
}

TEST(null_adds_nothing_and_has_no_digest)
{
    struct qkv_digest d;
    char hex[QKV_DIGEST_TEXT] = "x";
    qkv_digest_begin(NULL, QKV_DIGEST_SHA1);
    qkv_digest_add(NULL, "abc", 3);
    qkv_digest_end(NULL, hex);
    CHECK_TEXT(hex, "");
    qkv_digest_begin(&d, QKV_DIGEST_SHA1);
    qkv_digest_add(&d, NULL, 3);
    qkv_digest_end(&d, NULL);
    qkv_digest_end(&d, hex);
    CHECK_TEXT(hex, "da39a3ee5e6b4b0d3255bfef95601890afd80709"); // of no data
}

CHECK_MAIN(CASE(known_messages_have_their_digests), CASE(a_million_letters_have_their_digest),
           CASE(a_copy_of_the_state_continues_alone),
           CASE(git_names_a_file_by_its_size_and_contents),
           CASE(null_adds_nothing_and_has_no_digest))
