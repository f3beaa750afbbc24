// SPDX-License-Identifier: MIT
// test_page_extras.c: arrays that a page stores if there is space change none of the others.
#include "view/made.h"

enum { T = 201, L = 2, H = 4, G = 2, E = 16, D = 8 };

// What a view has in addition to queries and keys.
enum { STREAM = 1, VECTORS = 2 };

static qkv_status fill_with(qkv_view **v, const struct made *m, int what, qkv_error *err)
{
    qkv_status status = qkv_view_new(v, &m->shape, err);
    float *stream = zeros(3 * T * D, sizeof *stream),
          *at[3] = { stream, stream + T * D, stream + 2 * T * D };
    const float *const after[3] = { at[1], NULL, at[2] };
    for (int64_t l = 0; l < L && !status; l++) {
        const float *k = m->k + l * T * G * E;
        made_stream(at, m, l);
        const struct qkv_view_layer_data seen = { .q = m->q + l * T * H * E,
                                                  .k = k,
                                                  .lse = m->lse + l * H * T,
                                                  .v = what & VECTORS ? k : NULL,
                                                  .x = what & VECTORS ? at[0] : NULL,
                                                  .scale = .25f };
        status = qkv_view_layer(*v, 0, l, &seen, err);
        if (!status && what & STREAM) status = qkv_view_residual(*v, 0, l, at[0], after, err);
    }
    free(stream);
    return status;
}

static void open_with(struct page *p, const struct made *m, int what)
{
    qkv_view *v = NULL;
    qkv_error err = { 0 };
    if (fill_with(&v, m, what, &err)) fail_msg("%s", err.text);
    char *html = html_of(v, NULL, NULL);
    CHECK(page_open(p, html)); // its CRC-32 are right
    CHECK_TEXT(p->kind, "qk16");
    free(html);
    qkv_view_free(v);
}

TEST(optional_arrays_leave_the_others_as_they_are)
{
    struct made *m = malloc(sizeof *m);
    struct page plain;
    make(m, T, L, H, G, E, false);
    m->stack.width = D;
    open_with(&plain, m, 0);
    for (int what = 1; what <= (STREAM | VECTORS); what++) {
        struct page p;
        open_with(&p, m, what);
        for (int64_t l = 0; l < L; l++) {
            CHECK_BITS(array(&p, "q", l), array(&plain, "q", l), 2 * H * T * E + 8 * H * E);
            CHECK_BITS(array(&p, "k", l), array(&plain, "k", l), 2 * G * T * E + 8 * G * E);
            CHECK_BITS(array(&p, "lse", l), array(&plain, "lse", l), 4 * H * T);
            CHECK_EQ(find_array(&p, "residual.before", l, NULL) != NULL, (what & STREAM) != 0);
            CHECK_EQ(find_array(&p, "v", l, NULL) != NULL, (what & VECTORS) != 0);
            CHECK_EQ(find_array(&p, "x", l, NULL) != NULL, (what & VECTORS) != 0);
        }
        page_close(&p);
    }
    page_close(&plain);
    unmake(m);
    free(m);
}

TEST(failed_allocations_are_survived)
{
    const struct qkv_allocator counted = { counted_alloc, counted_free, NULL };
    struct made *m = malloc(sizeof *m);
    make(m, T, L, H, G, E, false);
    m->stack.width = D;
    for (int what = STREAM; what <= (STREAM | VECTORS); what += VECTORS) {
        qkv_status status = QKV_ERR_LIMIT;
        int64_t n = 0;
        qkv_allocator_set(&counted);
        for (; status; n++) {
            qkv_view *v = NULL;
            qkv_error err = { 0 };
            allowed = n;
            live = 0;
            status = fill_with(&v, m, what, &err);
            if (!status) status = qkv_view_html(v, place("alloc.html"), true, NULL, NULL, &err);
            CHECK(status == QKV_OK || status == QKV_ERR_LIMIT);
            qkv_view_free(v);
            CHECK_EQ(live, 0);
            CHECK(n < 100000);
        }
        qkv_allocator_set(NULL);
        CHECK(n > 30);
    }
    unmake(m);
    free(m);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        CASE(optional_arrays_leave_the_others_as_they_are),
        CASE(failed_allocations_are_survived),
    };
    return cmocka_run_group_tests(cases, NULL, sweep);
}
