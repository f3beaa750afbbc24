// SPDX-License-Identifier: MIT
/** base.h: what every call of libqkv shares: status and error, allocator, threads, CPU, progress.
 *
 *  No call of the library prints, exits, aborts on input or changes errno on success.
 */
#ifndef QKV_BASE_H
#define QKV_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define QKV_API
#else
#define QKV_API __attribute__((visibility("default")))
#endif
#if defined(__GNUC__)
#define QKV_MUST_CHECK __attribute__((warn_unused_result))
#else
#define QKV_MUST_CHECK
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define QKV_VERSION_MAJOR 0
#define QKV_VERSION_MINOR 1
#define QKV_VERSION_PATCH 0

/** "0.1.0": the version of the library that is running. */
QKV_API const char *qkv_version(void);

/** What a call answers; the value is also the exit code of the command. */
typedef enum qkv_status {
    QKV_OK = 0,
    QKV_ERR_INTERNAL = 1,    /**< a bug of qkv */
    QKV_ERR_USAGE = 2,       /**< an argument is wrong: the caller's mistake */
    QKV_ERR_FORMAT = 3,      /**< a file or text is malformed */
    QKV_ERR_UNSUPPORTED = 4, /**< valid, but not something qkv does */
    QKV_ERR_LIMIT = 5,       /**< no memory, or over a limit */
    QKV_ERR_IO = 6,          /**< the outer world said no */
    QKV_ERR_INTERRUPTED = 130 /**< the caller's progress callback asked to stop */
} qkv_status;

/** "format", "io", ...: one word for a status. */
QKV_API const char *qkv_status_name(qkv_status status);

/** What went wrong and where; zero it before the first use, the first error stays. */
typedef struct qkv_error {
    qkv_status status;
    int64_t offset;  /**< byte in the file; meaningful where has_offset */
    bool has_offset; /**< offset says something */
    char file[512];  /**< path as given; "" when no file is concerned */
    char path[256];  /**< "$.vocab.size" or "line:column"; "" when neither */
    char text[768];  /**< WHAT, expected X, found Y; control bytes escaped */
} qkv_error;

/** One line for people, without newline: "FILE: at byte N: WHAT, expected X, found Y".
 *  Out: out[size], always terminated, cut with "..." when too small.  Returns out. */
QKV_API char *qkv_error_line(char *out, size_t size, const qkv_error *err);

/** Foreign text for a message: one line of valid UTF-8, control and direction characters and bytes that
 *  are no UTF-8 as \xNN.  Out: out[size], terminated, cut with "..." when too small.  Returns out. */
QKV_API char *qkv_escape(char *out, size_t size, const char *text);

/** All memory of the library comes from here; NULL restores malloc and free.
 *  alloc may return NULL: every call survives it with QKV_ERR_LIMIT.
 *  Set it before the first other call; it is one for the process. */
struct qkv_allocator {
    void *(*alloc)(void *user, size_t bytes); /**< aligned as malloc aligns */
    void (*free)(void *user, void *p);        /**< never called with NULL */
    void *user;
};
QKV_API void qkv_allocator_set(const struct qkv_allocator *a);

/** Threads that parallel work uses, 1..QKV_THREADS_MAX; 0 restores the default:
 *  QKV_THREADS, else the CPUs this process may use (affinity and cgroup quota).
 *  Results have the same bits for any number. */
enum { QKV_THREADS_MAX = 256 };
QKV_API QKV_MUST_CHECK qkv_status qkv_threads_set(int n);
QKV_API int qkv_threads(void);

/** Parallel work runs on OpenMP's threads unless a host lends its own pool; NULL gives it back.
 *  run must call work(ctx, i) once for each i in 0..n-1, on at most `n` threads, and return after all. */
struct qkv_host_pool {
    void (*run)(void *user, int n, void (*work)(void *ctx, int i), void *ctx);
    void *user;
};
QKV_API void qkv_host_pool_set(const struct qkv_host_pool *p);

/** The file mapped at this address, NULL: none.  Async-signal-safe: for a SIGBUS handler that wants
 *  to say which file was cut short while it was read. */
QKV_API const char *qkv_mapped_file(const void *address);

/** Called between pieces of long work; a result other than 0 stops it with QKV_ERR_INTERRUPTED.
 *  total < 0: not known.  Called on the thread that called the library, never in parallel. */
struct qkv_progress {
    int (*step)(void *user, const char *what, int64_t done, int64_t total);
    void *user;
};

/** Precision of a computation.  This version computes in f32; the others are refused with
 *  QKV_ERR_UNSUPPORTED, never lowered in silence. */
typedef enum qkv_precision {
    QKV_PRECISION_F32 = 0,
    QKV_PRECISION_F32_STRICT,
    QKV_PRECISION_F32_FAST,
    QKV_PRECISION_BF16,
    QKV_PRECISION_F16,
    QKV_PRECISION_INT8
} qkv_precision;
/** Name to precision ("f32", "bf16", ...); false: no such name. */
QKV_API bool qkv_precision_parse(qkv_precision *out, const char *name);

/** The instruction set whose kernels run: "scalar", "avx2", "avx512"...; QKV_ISA caps it.
 *  n-th row that this machine supports, weakest first; NULL past the last. */
QKV_API const char *qkv_isa(void);
QKV_API const char *qkv_isa_supported(int n);

#ifdef __cplusplus
}
#endif
#endif
