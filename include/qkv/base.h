// SPDX-License-Identifier: MIT
/** base.h: what every call of libqkv shares: status and error, allocator, threads, CPU, types of
 *  elements, precision, progress.
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
    QKV_ERR_INTERNAL = 1,     /**< a bug of qkv */
    QKV_ERR_USAGE = 2,        /**< an argument is wrong: the caller's mistake */
    QKV_ERR_FORMAT = 3,       /**< a file or text is malformed */
    QKV_ERR_UNSUPPORTED = 4,  /**< valid, but not something qkv does */
    QKV_ERR_LIMIT = 5,        /**< no memory, or over a limit */
    QKV_ERR_IO = 6,           /**< the outer world said no */
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

/** Foreign text for a message: one line of valid UTF-8; characters that control or reorder a line
 *  and bytes that are no UTF-8 become \xNN.
 *  Out: out[size], terminated, cut with "..." when too small.  Returns out. */
QKV_API char *qkv_escape(char *out, size_t size, const char *text);

/** All memory of the library comes from here; NULL restores malloc and free.
 *  alloc may return NULL: every call survives it with QKV_ERR_LIMIT.
 *  Set it before the first other call; it is one for the process, and threads of the library may
 *  call both at once. */
struct qkv_allocator {
    void *(*alloc)(void *user, size_t bytes); /**< aligned as malloc aligns */
    void (*free)(void *user, void *p);        /**< never called with NULL */
    void *user;
};
QKV_API void qkv_allocator_set(const struct qkv_allocator *a);

/** Threads that parallel work uses, 1..QKV_THREADS_MAX; 0 restores the default:
 *  QKV_THREADS, else the CPUs this process may use (affinity and cgroup quota).
 *  Results have the same bits for any number.  Another n is QKV_ERR_USAGE and changes nothing.
 *  Not while another call of the library runs, on any thread.  A plan, and the scratch it asks for,
 *  belongs to the number of threads and the instruction set it was made with: after a change plan
 *  anew (more threads would run past the end of scratch). */
enum { QKV_THREADS_MAX = 256 };
QKV_API QKV_MUST_CHECK qkv_status qkv_threads_set(int n);
QKV_API int qkv_threads(void); /**< the number as it is now */

/** Parallel work runs on OpenMP's threads unless a host lends its own pool; NULL gives it back.
 *  run must call work(ctx, i) once for each i in 0..n-1, on at most n threads, and return when all
 *  have returned.  Set it before the first other call. */
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

/** Type of the elements of an array. */
typedef enum qkv_dtype {
    QKV_F32 = 0,
    QKV_F64,
    QKV_F16,
    QKV_BF16,
    QKV_I64,
    QKV_I32,
    QKV_I16,
    QKV_I8,
    QKV_U64,
    QKV_U32,
    QKV_U16,
    QKV_U8,
    QKV_BOOL,
    QKV_DTYPE_COUNT
} qkv_dtype;
QKV_API size_t qkv_dtype_size(qkv_dtype d);      /**< bytes of one element */
QKV_API const char *qkv_dtype_name(qkv_dtype d); /**< "F32", as safetensors writes it */

/** Exact for every f16 and bf16; to half: round to nearest even, NaN stays NaN. */
QKV_API float qkv_f16_to_f32(uint16_t h);
QKV_API float qkv_bf16_to_f32(uint16_t h);
QKV_API uint16_t qkv_f32_to_f16(float x);
QKV_API uint16_t qkv_f32_to_bf16(float x);

/** Arrays of n numbers that do not overlap, of any alignment.  n <= 0: nothing to do.
 *  to_f32    from every type: F64 rounded, halves exact, integers rounded to nearest, BOOL 0 or 1
 *  from_f32  to F32, F64, F16 and BF16, each number as the functions above have it
 *  Returns:  false: no such conversion, or a NULL; nothing was written. */
QKV_API bool qkv_to_f32(float *to, const void *from, qkv_dtype type, int64_t n);
QKV_API bool qkv_from_f32(void *to, qkv_dtype type, const float *from, int64_t n);

/** Precision of a computation; all sums are float.  "Stored": q, k, v and out of attention and
 *  cache, and what a model keeps between its products; arrays around a linear layer say their own
 *  types.  A CPU without products of a type forms them of converted numbers (plans and infos:
 *  arithmetic).
 *  What is not computed is refused with QKV_ERR_UNSUPPORTED, never lowered in silence: additive
 *  scores (layer.h) other than F32, F32_STRICT and F32_FAST.  How far each is off:
 *  docs/numerics.md */
typedef enum qkv_precision {
    /** Stored float.  The fastest way that is as exact as plain sums of floats; a product may be a
     *  sum of several of fewer bits. */
    QKV_PRECISION_F32 = 0,
    /** Stored float.  Every product is one of two floats. */
    QKV_PRECISION_F32_STRICT,
    /** Stored float.  Products may drop the last 8 bits of their numbers, where that is faster. */
    QKV_PRECISION_F32_FAST,
    /** Stored bfloat16.  Attention and cache: the result is rounded, and where products are native
     *  the softmax's powers are; linear: weights and rows are. */
    QKV_PRECISION_BF16,
    /** Stored IEEE half.  Attention and cache: the result is rounded; linear: weights and rows
     *  are. */
    QKV_PRECISION_F16,
    /** Stored float; whole numbers -127 .. 127 times a scale.  Attention and cache: keys and
     *  values, a scale for each token and head, and the cache keeps only these; q stays float.
     *  Linear: weights, a scale for each row of w, and rows as they meet them.  Models: linear so,
     *  attention F32. */
    QKV_PRECISION_INT8
} qkv_precision;
/** Name to precision; false: no such name, or a NULL. */
QKV_API bool qkv_precision_parse(qkv_precision *out, const char *name);
/** "f32", "f32-strict", "f32-fast", "bf16", "f16", "int8"; NULL past the last. */
QKV_API const char *qkv_precision_name(qkv_precision p);
/** What it stores: F32, BF16 or F16; QKV_DTYPE_COUNT: no such precision. */
QKV_API qkv_dtype qkv_precision_type(qkv_precision p);

/** The instruction set whose kernels run: "scalar", "avx2", "avx512", ...  The variable QKV_ISA
 *  caps it: a name of this list that the machine supports; any other text is passed over, and
 *  qkv_isa_note() says so. */
QKV_API const char *qkv_isa(void);
/** The n-th of those that this machine supports, weakest first; NULL past the last. */
QKV_API const char *qkv_isa_supported(int n);
/** From now on this one, a name of qkv_isa_supported(); NULL: again the one of the start.
 *  Not while another call of the library runs, on any thread.  What was opened or planned before
 *  belongs to the instruction set of that time: make it anew.
 *  Returns: QKV_OK; QKV_ERR_USAGE: no such name; QKV_ERR_UNSUPPORTED: not of this machine;
 *  otherwise than by QKV_OK nothing is changed. */
QKV_API QKV_MUST_CHECK qkv_status qkv_isa_set(const char *name);
/** Why QKV_ISA was passed over, in one line that names what it may be; "" when it was not.
 *  Out: *status (NULL: not wanted) QKV_OK, QKV_ERR_USAGE or QKV_ERR_UNSUPPORTED, as for isa_set. */
QKV_API const char *qkv_isa_note(qkv_status *status);
/** "AMD EPYC 9R14", ...: the processor's own name; "" where it does not say. */
QKV_API const char *qkv_cpu_name(void);
/** The tiles (AMX) of this CPU: "present", "not present", or "present, but the system refuses it
 *  (WHY)": Linux wants to be asked before their first use, and qkv does so once. */
QKV_API const char *qkv_cpu_amx(void);

#ifdef __cplusplus
}
#endif
#endif
