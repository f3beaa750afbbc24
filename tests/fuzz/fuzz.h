// SPDX-License-Identifier: MIT
// fuzz.h: declares what fuzz targets share: files in memory, failing memory, checks of errors, and
// a set of tensors that is opened from bytes.
#ifndef QKV_FUZZ_H
#define QKV_FUZZ_H
#include "file/set.h"
#include "fuzz/memory_files.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#ifdef QKV_FUZZ
// Options that make an allocation cheaper: no stack of the caller is stored, and freed memory is
// used again sooner.
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "malloc_context_size=0:quarantine_size_mb=1:thread_local_quarantine_size_kb=64:"
           "max_malloc_fill_size=256:allocator_may_return_null=1";
}
#endif

#define FUZZ_CHECK(x)                                                                              \
    do {                                                                                           \
        if (!(x)) {                                                                                \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x);                                \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

// Checks that a call succeeded.
static inline void fuzz_success(qkv_status s, const qkv_error *err)
{
    if (s) fprintf(stderr, "status %d: %s: %s: %s\n", (int)s, err->file, err->path, err->text);
    FUZZ_CHECK(!s);
}

// Checks an error: an input status, a text, one line of UTF-8.
static inline void fuzz_refusal(qkv_status s, const qkv_error *err)
{
    char line[2048];
    FUZZ_CHECK(s == QKV_ERR_FORMAT || s == QKV_ERR_UNSUPPORTED || s == QKV_ERR_LIMIT ||
               s == QKV_ERR_IO);
    FUZZ_CHECK(err->status == s && err->text[0]);
    qkv_error_line(line, sizeof line, err);
    const size_t bytes = strlen(line);
    for (size_t n, i = 0; i < bytes; i += n) {
        n = qkv_utf8_bytes(line + i, bytes - i);
        FUZZ_CHECK(n > 0 && (n > 1 || (line[i] >= 0x20 && line[i] != 0x7f)));
    }
}

// Memory that fails once: the number of the allocation, by qkv or jansson, that fails from now on.
// 0: none.
static int64_t fuzz_fault;
static bool fuzz_hit; // the failing allocation was reached
static inline void *fuzz_malloc(size_t bytes)
{
    if (fuzz_fault > 0 && --fuzz_fault == 0) {
        fuzz_hit = true;
        return NULL;
    }
    return malloc(bytes);
}
static inline void *fuzz_alloc(void *user, size_t bytes)
{
    (void)user;
    return fuzz_malloc(bytes);
}
static inline void fuzz_free(void *user, void *p)
{
    (void)user;
    free(p);
}
__attribute__((constructor)) static void fuzz_install(void)
{
    static const struct qkv_allocator ours = { fuzz_alloc, fuzz_free, NULL };
    qkv_allocator_set(&ours);
    json_set_alloc_funcs(fuzz_malloc, free);
}
// Returns the number of the allocation that fails in the second run of an input: a function of its
// bytes.
static inline int64_t fuzz_choose(const uint8_t *data, size_t size)
{
    uint64_t h = size;
    for (size_t i = 0; i < size; i++) h = (h ^ data[i]) * 1099511628211u;
    return 1 + (int64_t)(h >> 40) % 96;
}
// Returns whether an input also runs with failing memory: in a search one of four, in a replay all.
static inline bool fuzz_fails(const uint8_t *data, size_t size)
{
#ifdef QKV_FUZZ
    return fuzz_choose(data, size) % 4 == 0;
#else
    (void)data, (void)size;
    return true;
#endif
}
static inline void fuzz_fail_at(int64_t n)
{
    fuzz_hit = false;
    fuzz_fault = n;
}
// Checks the second run: if the failing allocation was reached, the result is QKV_ERR_LIMIT,
// otherwise the result of the first run.
static inline void fuzz_survived(qkv_status first, qkv_status second)
{
    const qkv_status expected = fuzz_hit ? QKV_ERR_LIMIT : first;
    fuzz_fault = 0;
    if (second != expected) fprintf(stderr, "status %d, expected %d\n", (int)second, (int)expected);
    FUZZ_CHECK(second == expected);
}
// Checks the second run of a reader that can do without some of its memory.
static inline void fuzz_survived_mostly(qkv_status first, qkv_status second)
{
    if (second == first) fuzz_hit = false;
    fuzz_survived(first, second);
}

// Makes data[size] a file of that name in the folder MEMORY_FOLDER, and returns that folder.
static inline const char *fuzz_file(const char *name, const void *data, size_t size)
{
    char path[MEMORY_PATH];
    snprintf(path, sizeof path, MEMORY_FOLDER "/%s", name);
    memory_file(path, data, size);
    return MEMORY_FOLDER;
}

// Splits data[size] at the first `n` - 1 zero bytes into n parts; missing parts are empty.
struct fuzz_part {
    const char *at;
    size_t bytes;
};
static inline void fuzz_split(struct fuzz_part *out, size_t n, const uint8_t *data, size_t size)
{
    const char *p = (const char *)data;
    for (size_t i = 0; i < n; i++) {
        const char *zero = size && i + 1 < n ? memchr(p, 0, size) : NULL;
        const size_t bytes = zero ? (size_t)(zero - p) : size;
        out[i] = (struct fuzz_part){ p, bytes };
        p += bytes + (zero ? 1 : 0);
        size -= bytes + (zero ? 1 : 0);
    }
}

// Returns a part as a string up to its first zero byte, which the caller frees. (strndup would do,
// but AddressSanitizer's reads its argument to the end.)
static inline char *fuzz_string(const struct fuzz_part *part)
{
    const size_t n = strnlen((const char *)part->at, part->bytes);
    char *text = malloc(n + 1);
    if (!text) abort();
    memcpy(text, part->at, n);
    text[n] = 0;
    return text;
}

typedef qkv_status fuzz_reader(struct qkv_tensors *, struct qkv_source *, qkv_error *);

// Reads data[size] by `read` while allocation `fault` fails; touches every byte of every tensor and
// finds every name.
static inline qkv_status fuzz_read(const uint8_t *data, size_t size, fuzz_reader *read,
                                   int64_t fault)
{
    struct qkv_tensors *t = qkv_alloc_zero(1, sizeof *t);
    qkv_error err = { 0 };
    FUZZ_CHECK(t && qkv_reserve((void **)&t->sources, &t->sources_capacity, 1, sizeof *t->sources));
    struct qkv_source *s = t->sources;
    memset(s, 0, sizeof *s);
    t->n_sources = 1;
    uint8_t *copy = qkv_alloc(size, 1);
    FUZZ_CHECK(copy);
    if (size) memcpy(copy, data, size);
    s->map =
        (struct qkv_map){ .data = copy, .size = size, .path = qkv_copy_text("f", 1), .slot = -1 };
    fuzz_fail_at(fault);
    qkv_status status = read(t, s, &err);
    if (!status) status = qkv_tensors_sort(t, "f", &err);
    fuzz_fault = 0;
    if (status) {
        fuzz_refusal(status, &err);
        qkv_tensors_close(t);
        return status;
    }
    for (int64_t i = 0; i < qkv_tensors_count(t); i++) {
        const struct qkv_tensor *x = qkv_tensors_at(t, i);
        const uint8_t *p = x->data;
        for (size_t k = 0; k < x->bytes; k++) (void)*(const volatile uint8_t *)(p + k);
        FUZZ_CHECK(qkv_tensors_find(t, x->name) == x);
        FUZZ_CHECK(i == 0 || strcmp(qkv_tensors_at(t, i - 1)->name, x->name) < 0);
        FUZZ_CHECK((uint64_t)qkv_tensor_count(x) * qkv_dtype_size(x->dtype) == x->bytes);
        if (x->bytes && x->bytes <= 1 << 16) {
            const int64_t n = qkv_tensor_count(x);
            float *f = qkv_alloc((size_t)n, sizeof *f);
            FUZZ_CHECK(f);
            qkv_tensor_to_f32(f, x);
            qkv_free(f);
        }
    }
    for (int64_t i = 0; i < t->n_meta; i++)
        FUZZ_CHECK(qkv_tensors_metadata(t, t->meta[i].key) == t->meta[i].value);
    qkv_tensors_close(t);
    return QKV_OK;
}
static inline void fuzz_tensors(const uint8_t *data, size_t size, fuzz_reader *read)
{
    const qkv_status first = fuzz_read(data, size, read, 0);
    if (fuzz_fails(data, size))
        fuzz_survived(first, fuzz_read(data, size, read, fuzz_choose(data, size)));
}
#endif
