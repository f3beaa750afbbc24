// SPDX-License-Identifier: MIT
// token_numbers.c: stores named arrays with numbers for each token and layer, such as the norms of
// the residual stream.
#include "view/data/view_data.h"
#include <string.h>

static struct view_numbers *find(const struct view_stack *v, const char *name, int64_t layer)
{
    for (int64_t i = 0; i < v->numbers_count; i++)
        if (v->numbers[i].layer == layer && !strcmp(v->numbers[i].name, name))
            return &v->numbers[i];
    return NULL;
}

float *view_numbers_add(struct view_stack *v, const char *name, int64_t layer, int64_t columns)
{
    struct view_numbers *n = find(v, name, layer);
    size_t count;
    if (!qkv_mul_size(&count, (size_t)v->shape.tokens, (size_t)columns)) return NULL;
    if (!n) {
        if (!qkv_reserve((void **)&v->numbers, &v->numbers_capacity, v->numbers_count + 1,
                         sizeof *v->numbers))
            return NULL;
        n = &v->numbers[v->numbers_count++];
        *n = (struct view_numbers){ name, layer, 0, NULL };
    }
    qkv_free(n->at);
    n->at = qkv_alloc_zero(count, sizeof *n->at);
    n->columns = n->at ? columns : 0;
    return n->at;
}

const float *view_numbers_find(const struct view_stack *v, const char *name, int64_t layer)
{
    const struct view_numbers *n = find(v, name, layer);
    return n ? n->at : NULL;
}

void view_numbers_free(struct view_stack *v)
{
    for (int64_t i = 0; i < v->numbers_count; i++) qkv_free(v->numbers[i].at);
    qkv_free(v->numbers);
    v->numbers = NULL;
    v->numbers_count = v->numbers_capacity = 0;
}
