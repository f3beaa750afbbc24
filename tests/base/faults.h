// SPDX-License-Identifier: MIT
// faults.h: makes allocations fail on purpose and counts blocks that are not freed.
//
// Including it hooks the allocators of qkv and jansson for the whole program, before main.  Then
// either
//
//   faults_walk(flow, ctx, true)  runs flow with allocation 1, 2, 3... failing, each number once
//       alone and once with all later ones, until a run meets no fault.  A run that met one must
//       return QKV_ERR_LIMIT with err filled and leak nothing.  false: it may also return QKV_OK
//       (it could do without).  Returns the number of fault points.  Slow builds (QKV_FEW)
//       leave out two of three points after the first 30.
//   faults_sample(flow, ctx, most)  the same for about `most` allocations at equal distances (all
//       of them if there are fewer).  A run that met one failure may return QKV_OK (there was
//       another way), a run that met all later ones too may not.  The first run meets none and may
//       fill a cache.  Slow builds take at most 100 of each kind.
//
// or by hand
//
//   faults_begin(n, for_ever);    allocation n fails (0: none), alone or with all later ones
//   ...
//   leaked = faults_end(&hit);    blocks allocated since begin and not freed; hit: a fault was met
#ifndef QKV_FAULTS_H
#define QKV_FAULTS_H
#include "check.h"
#include <jansson.h>
#include <qkv/base.h>
#include <stdatomic.h>
#include <stdlib.h>

struct faults_block {
    uint64_t epoch; // 0: allocated outside begin..end
    uint64_t size;  // aligns the following block as malloc does
};
static _Atomic uint64_t faults_epoch, faults_epochs;
static _Atomic int64_t faults_asked, faults_live, faults_at, faults_peak, faults_bytes;
static atomic_bool faults_for_ever, faults_hit;

static inline void *faults_malloc(size_t bytes)
{
    const uint64_t epoch = atomic_load(&faults_epoch);
    if (epoch) {
        const int64_t n = atomic_fetch_add(&faults_asked, 1) + 1, at = atomic_load(&faults_at);
        if (at && (n == at || (n > at && atomic_load(&faults_for_ever)))) {
            atomic_store(&faults_hit, true);
            return NULL;
        }
    }
    if (bytes > SIZE_MAX - sizeof(struct faults_block)) return NULL;
    struct faults_block *b = malloc(sizeof *b + bytes);
    if (!b) return NULL;
    b->epoch = epoch;
    b->size = bytes;
    if (epoch) {
        atomic_fetch_add(&faults_live, 1);
        const int64_t now = atomic_fetch_add(&faults_bytes, (int64_t)bytes) + (int64_t)bytes;
        int64_t peak = atomic_load(&faults_peak);
        while (now > peak && !atomic_compare_exchange_weak(&faults_peak, &peak, now)) {
        }
    }
    return b + 1;
}
static inline void faults_free(void *p)
{
    if (!p) return;
    struct faults_block *b = (struct faults_block *)p - 1;
    if (b->epoch && b->epoch == atomic_load(&faults_epoch)) {
        atomic_fetch_sub(&faults_live, 1);
        atomic_fetch_sub(&faults_bytes, (int64_t)b->size);
    }
    free(b);
}
static inline void *faults_qkv_alloc(void *user, size_t bytes)
{
    (void)user;
    return faults_malloc(bytes);
}
static inline void faults_qkv_free(void *user, void *p)
{
    (void)user;
    faults_free(p);
}
__attribute__((constructor)) static void faults_install(void)
{
    static const struct qkv_allocator ours = { faults_qkv_alloc, faults_qkv_free, NULL };
    qkv_allocator_set(&ours);
    json_set_alloc_funcs(faults_malloc, faults_free);
}

static inline void faults_begin(int64_t n, bool for_ever)
{
    atomic_store(&faults_asked, 0);
    atomic_store(&faults_live, 0);
    atomic_store(&faults_bytes, 0);
    atomic_store(&faults_peak, 0);
    atomic_store(&faults_at, n);
    atomic_store(&faults_for_ever, for_ever);
    atomic_store(&faults_hit, false);
    atomic_store(&faults_epoch, atomic_fetch_add(&faults_epochs, 1) + 1);
}
static inline int64_t faults_end(bool *hit)
{
    atomic_store(&faults_epoch, 0);
    if (hit) *hit = atomic_load(&faults_hit);
    return atomic_load(&faults_live);
}

typedef qkv_status (*faults_flow)(void *ctx, qkv_error *err);

// Runs flow with allocation n failing, alone or with all later ones.  Returns whether it met the
// fault.
static inline bool faults_point(faults_flow flow, void *ctx, int64_t n, bool for_ever,
                                bool must_fail)
{
    const char *how = for_ever ? " for ever" : "";
    bool hit = false;
    qkv_error err = { 0 };
    faults_begin(n, for_ever);
    const qkv_status status = flow(ctx, &err);
    const int64_t leaked = faults_end(&hit);
    if (leaked != 0)
        fail_msg("allocation %lld failing%s: %lld blocks leaked", (long long)n, how,
                 (long long)leaked);
    if (!hit && status != QKV_OK)
        fail_msg("no fault met, but %s: %s", qkv_status_name(status), err.text);
    if (hit && status != QKV_ERR_LIMIT && (must_fail || status != QKV_OK))
        fail_msg("allocation %lld failing%s: status %s (%s), expected limit", (long long)n, how,
                 qkv_status_name(status), err.text);
    if (status != QKV_OK && (err.status != status || !err.text[0]))
        fail_msg("allocation %lld failing%s: qkv_error is not filled", (long long)n, how);
    return hit;
}
static inline int64_t faults_walk(faults_flow flow, void *ctx, bool must_fail)
{
    for (int64_t n = 1;; n += QKV_FEW && n > 30 ? 3 : 1)
        for (int for_ever = 0; for_ever < 2; for_ever++)
            if (!faults_point(flow, ctx, n, for_ever != 0, must_fail)) return n - 1;
}
static inline int64_t faults_sample(faults_flow flow, void *ctx, int64_t most)
{
    int64_t points = 0;
    qkv_error err = { 0 };
    faults_begin(0, false);
    CHECK_EQ(flow(ctx, &err), QKV_OK);
    if (QKV_FEW && most > 100) most = 100;
    const int64_t all = atomic_load(&faults_asked), step = all / most + 1;
    faults_end(NULL);
    for (int for_ever = 0; for_ever < 2; for_ever++)
        for (int64_t n = 1 + for_ever; n <= all; n += step, points++)
            if (!faults_point(flow, ctx, n, for_ever != 0, for_ever != 0)) break;
    return points;
}
#endif
