// SPDX-License-Identifier: MIT
// against.c: two pictures of the same stacks: tokens aligned, heads by how far they moved.
#include "view/view.h"

void view_against_free(qkv_view *v)
{
    for (int64_t t = 0; v->align && t < v->shape.texts; t++) qkv_free(v->align[t]);
    qkv_free(v->align);
    qkv_free(v->moved);
    v->align = NULL;
    v->moved = NULL;
    v->moved_count = 0;
}

const struct qkv_view_moved *qkv_view_moved(const qkv_view *v, int64_t *count)
{
    if (count) *count = v ? v->moved_count : 0;
    return v ? v->moved : NULL;
}

qkv_status qkv_view_against(qkv_view *v, const qkv_view *other, qkv_error *err)
{
    (void)v;
    (void)other;
    return qkv_fail(err, QKV_ERR_UNSUPPORTED, NULL, "two pictures are not compared yet");
}

qkv_status qkv_view_training(qkv_view *v, const struct qkv_view_frame *frame, int64_t frames,
                             qkv_error *err)
{
    (void)v;
    (void)frame;
    (void)frames;
    return qkv_fail(err, QKV_ERR_UNSUPPORTED, NULL, "frames of a run are not taken yet");
}
