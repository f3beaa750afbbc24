// SPDX-License-Identifier: MIT
// test_struct_layout.c: compares sizes with sizeof, and fingerprints with their definition.
#include "check.h"
#include <qkv/qkv.h>

TEST(sizes_are_those_of_the_compiler)
{
    CHECK(QKV_STRUCT_MATCHES(qkv_attention));
    CHECK(QKV_STRUCT_MATCHES(qkv_error));
    CHECK(QKV_STRUCT_MATCHES(qkv_train_options));
    CHECK(QKV_STRUCT_MATCHES(qkv_view_report));
    CHECK_EQ(qkv_struct_size("qkv_progress"), sizeof(struct qkv_progress));
}

TEST(unknown_names_have_no_size_and_no_layout)
{
    static const char *const names[] = {
        NULL, "", "qkv", "qkv_attentio", "qkv_attention ", "attention", "struct qkv_attention"
    };
    EACH(name, names)
    {
        CHECK_EQ(qkv_struct_size(*name), 0);
        CHECK_EQ(qkv_struct_layout(*name), 0);
    }
}

static uint64_t fnv1a(const char *text)
{
    uint64_t h = 14695981039346656037u;
    for (; *text; text++) h = (h ^ (unsigned char)*text) * 1099511628211u;
    return h;
}

TEST(a_fingerprint_is_the_hash_of_names_offsets_and_sizes)
{
    char want[512];
    const size_t p = sizeof(void *);
    snprintf(want, sizeof want, "qkv_progress %zu\nstep 0 %zu\nuser %zu %zu\n", 2 * p, p, p, p);
    CHECK_EQ(qkv_struct_layout("qkv_progress"), fnv1a(want));
    // Members of an unnamed structure follow it.
    snprintf(want, sizeof want,
             "qkv_attention_gradients %zu\nbias 0 %zu\nbias.at 0 %zu\nrelative %zu %zu\n"
             "alibi %zu %zu\nsinks %zu %zu\n",
             4 * p, p, p, p, p, 2 * p, p, 3 * p, p);
    CHECK_EQ(qkv_struct_layout("qkv_attention_gradients"), fnv1a(want));
}

// Two structures with the same fingerprint would be exchanged unnoticed.
TEST(each_structure_has_a_size_and_a_fingerprint_of_its_own)
{
    static const struct {
        const char *name;
        size_t size;
    } rows[] = {
#define MEMBER(member)
#define STRUCT(name, members) { #name, sizeof(struct name) },
#include "base/layout/struct_members.def"
    };
    static uint64_t seen[sizeof rows / sizeof *rows];
    size_t n = 0;
    EACH(r, rows)
    {
        CHECK_EQ(qkv_struct_size(r->name), r->size);
        seen[n] = qkv_struct_layout(r->name);
        CHECK(seen[n] != 0);
        for (size_t i = 0; i < n; i++) CHECK(seen[i] != seen[n]);
        n++;
    }
    CHECK(n > 90);
}

CHECK_MAIN(CASE(sizes_are_those_of_the_compiler), CASE(unknown_names_have_no_size_and_no_layout),
           CASE(each_structure_has_a_size_and_a_fingerprint_of_its_own),
           CASE(a_fingerprint_is_the_hash_of_names_offsets_and_sizes))
