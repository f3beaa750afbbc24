// SPDX-License-Identifier: MIT
// memory.c: allocates all memory of the library; every size product is checked.
#define _DEFAULT_SOURCE // madvise
#include "base/base.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#if defined(__linux__)
#include <sys/mman.h>
#endif

#if defined(__SANITIZE_ADDRESS__)
#define QKV_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define QKV_ASAN 1
#endif
#endif
#ifdef QKV_ASAN
#include <sanitizer/asan_interface.h>
#define POISON(p, n)   __asan_poison_memory_region(p, n)
#define UNPOISON(p, n) __asan_unpoison_memory_region(p, n)
#else
#define POISON(p, n)   (void)(n)
#define UNPOISON(p, n) (void)(n)
#endif

enum { ALIGN = 64 }; // a cache line and an AVX-512 vector

// Header before every block: address and size of the memory that the allocator returned.
struct block {
    char *raw;
    size_t whole;
};

// Weights and the arena of a run are read sequentially, so large pages, if the system grants them,
// make page faults and address translation much cheaper.  A block of about one large page or more
// is aligned to the size of a large page, and its size is rounded up to whole pages if that adds at
// most a quarter of a page.
static const size_t large_page = (size_t)2 << 20;

static void *large_alloc(size_t bytes)
{
#ifdef MADV_HUGEPAGE
    // a last part of at least 3/4 of a page counts as a page
    const size_t pages = (bytes + large_page / 4) / large_page;
    const size_t all = pages * large_page;
    void *p = NULL;
    const int saved = errno;
    if (posix_memalign(&p, large_page, bytes > all ? bytes : all) != 0) p = NULL;
    if (p) (void)madvise(p, all, MADV_HUGEPAGE); // a hint: a refusal is no error
    errno = saved;
    return p;
#else
    return malloc(bytes);
#endif
}

static void *plain_alloc(void *user, size_t bytes)
{
    (void)user;
    return bytes < large_page / 4 * 3 ? malloc(bytes) : large_alloc(bytes);
}
static void plain_free(void *user, void *p)
{
    (void)user;
    free(p);
}
static struct qkv_allocator allocator = { plain_alloc, plain_free, NULL };

void qkv_allocator_set(const struct qkv_allocator *a)
{
    allocator =
        a && a->alloc && a->free ? *a : (struct qkv_allocator){ plain_alloc, plain_free, NULL };
}

void *qkv_alloc(size_t count, size_t size)
{
    size_t bytes, whole;
    if (!qkv_mul_size(&bytes, count, size)) return NULL;
    if (!qkv_add_size(&whole, bytes, sizeof(struct block) + ALIGN - 1)) return NULL;
    if (whole > PTRDIFF_MAX) return NULL;
    char *raw = allocator.alloc(allocator.user, whole);
    if (!raw) return NULL;
    char *p = raw + sizeof(struct block);
    p += (ALIGN - (uintptr_t)p % ALIGN) % ALIGN;
    const struct block b = { raw, whole };
    memcpy(p - sizeof b, &b, sizeof b);
    POISON(p + bytes, whole - (size_t)(p - raw) - bytes); // padding for the alignment
    return p;
}

void *qkv_alloc_zero(size_t count, size_t size)
{
    void *p = qkv_alloc(count, size);
    if (p) memset(p, 0, count * size);
    return p;
}

void qkv_free(void *p)
{
    if (!p) return;
    struct block b;
    memcpy(&b, (char *)p - sizeof b, sizeof b);
    UNPOISON(b.raw, b.whole);
    allocator.free(allocator.user, b.raw);
}

bool qkv_reserve(void **p, int64_t *capacity, int64_t need, size_t size)
{
    if (need <= *capacity) return true;
    int64_t more = *capacity > INT64_MAX / 2 ? need : *capacity * 2;
    if (more < need) more = need;
    if (more < 16) more = 16;
    void *q = qkv_alloc((size_t)more, size);
    if (!q) return false;
    if (*p) memcpy(q, *p, (size_t)*capacity * size);
    qkv_free(*p);
    *p = q;
    *capacity = more;
    return true;
}

char *qkv_copy_text(const char *text, size_t bytes)
{
    size_t whole;
    if (!qkv_add_size(&whole, bytes, 1)) return NULL;
    char *p = qkv_alloc(whole, 1);
    if (!p) return NULL;
    if (bytes) memcpy(p, text, bytes);
    p[bytes] = 0;
    return p;
}

void *qkv_arena_alloc(struct qkv_arena *a, size_t count, size_t size)
{
    size_t bytes, end;
    if (!qkv_mul_size(&bytes, count, size) || bytes > SIZE_MAX - ALIGN ||
        !qkv_add_size(&end, a->used, qkv_round_up(bytes, ALIGN)) || end > a->size) {
        // The arena stays full, so that the caller needs to check only once, at the end.
        a->used = SIZE_MAX;
        return NULL;
    }
    void *p = a->base ? a->base + a->used : NULL;
    a->used = end;
    return p;
}

void *qkv_arena_rows(struct qkv_arena *a, int64_t rows, int64_t width, size_t size)
{
    size_t row;
    if (!qkv_mul_size(&row, (size_t)width, size)) row = SIZE_MAX;
    return qkv_arena_alloc(a, (size_t)rows, row);
}

bool qkv_arena_full(const struct qkv_arena *a)
{
    return a->used == SIZE_MAX;
}

void *qkv_arena_twice(void (*lay_out)(void *ctx, struct qkv_arena *a), void *ctx, bool zeroed)
{
    struct qkv_arena count = { .size = SIZE_MAX };
    lay_out(ctx, &count);
    if (qkv_arena_full(&count)) return NULL;
    void *block = zeroed ? qkv_alloc_zero(count.used, 1) : qkv_alloc(count.used, 1);
    if (!block) return NULL;
    struct qkv_arena arena = { block, count.used, 0 };
    lay_out(ctx, &arena);
    return block;
}
