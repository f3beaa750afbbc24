// SPDX-License-Identifier: MIT
/** base.h: declares the types and settings that all of libqkv shares: status and error, allocator,
 *  threads, CPU, element types, precision, progress.
 *
 *  No function of the library prints, exits, aborts on input or changes errno on success.
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

/* Around the declarations of each header: C++ gives the names C linkage.  Some functions have the
 * name of the struct that they return, which g++ reports with -Wshadow as a hidden constructor. */
#if defined(__cplusplus) && defined(__GNUC__) && !defined(__clang__)
#define QKV_BEGIN_DECLS                                                                            \
    _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wshadow\"") extern "C"       \
    {
#define QKV_END_DECLS                                                                              \
    }                                                                                              \
    _Pragma("GCC diagnostic pop")
#elif defined(__cplusplus)
#define QKV_BEGIN_DECLS extern "C" {
#define QKV_END_DECLS   }
#else
#define QKV_BEGIN_DECLS
#define QKV_END_DECLS
#endif

QKV_BEGIN_DECLS

#define QKV_VERSION_MAJOR 0
#define QKV_VERSION_MINOR 2
#define QKV_VERSION_PATCH 0

/** Returns the version of the running library, such as "0.1.0". */
QKV_API const char *qkv_version(void);

/** The result of a call; its value is also the exit code of the command `qkv`. */
typedef enum qkv_status {
    QKV_OK = 0,
    QKV_ERR_INTERNAL = 1,     /**< a computed number is not finite, or a bug of qkv */
    QKV_ERR_USAGE = 2,        /**< the caller passed an invalid argument */
    QKV_ERR_FORMAT = 3,       /**< a file or text is malformed */
    QKV_ERR_UNSUPPORTED = 4,  /**< the input is valid, but qkv does not support it */
    QKV_ERR_LIMIT = 5,        /**< out of memory, or over a limit */
    QKV_ERR_IO = 6,           /**< the operating system refused a file operation */
    QKV_ERR_INTERRUPTED = 130 /**< the caller's progress callback asked to stop */
} qkv_status;

/** The most bytes of a line of text, without its line end, that the command and the readers of data
 *  sets accept. A longer line is QKV_ERR_LIMIT, so that a file without line ends cannot exhaust
 *  memory. */
enum { QKV_LINE_BYTES = 1 << 27 };

/** Returns one word for a status: "format", "io", ... */
QKV_API const char *qkv_status_name(qkv_status status);

/** An error and its place in the input.  The caller zeroes the struct before the first use; a later
 *  error does not overwrite an earlier one. */
typedef struct qkv_error {
    qkv_status status;
    int64_t offset; /**< byte offset of the error in the file; valid if has_offset */
    bool has_offset;
    char file[512]; /**< path of the file as passed by the caller; "" when no file is involved */
    /** place of the error: in a file a JSON path such as "$.vocab.size", "line:column" or "line N";
     *  in the texts of a call "text N" or "prompt N"; N counts from 1.  "" if the place is
     *  unknown */
    char path[256];
    char text[768]; /**< the message "WHAT, expected X, found Y", with control bytes escaped */
} qkv_error;

/** Formats an error as one line without newline: "FILE: at byte N: WHAT, expected X, found Y".
 *  Out: out[size], always NUL-terminated; a line that is too long is truncated and ends with "...".
 *       Returns out. */
QKV_API char *qkv_error_line(char *out, size_t size, const qkv_error *err);

/** Writes untrusted text as one line of valid UTF-8 for a message.  Invalid bytes, control
 *  characters and characters that change the text direction become \xNN.
 *  Out: out[size], NUL-terminated; a text that is too long is truncated and ends with "...".
 *       Returns out. */
QKV_API char *qkv_escape(char *out, size_t size, const char *text);

/** The functions that allocate and free all memory of the library.  qkv_allocator_set(NULL)
 *  restores malloc and free.  If alloc returns NULL, the library call that needed the memory
 *  returns QKV_ERR_LIMIT.
 *  Set the allocator before any other call of the library.  It is global to the process, and
 *  threads of the library may call both functions concurrently. */
struct qkv_allocator {
    void *(*alloc)(void *user, size_t bytes); /**< returns memory aligned as malloc does */
    void (*free)(void *user, void *p);        /**< frees p, which is never NULL */
    void *user;
};
QKV_API void qkv_allocator_set(const struct qkv_allocator *a);

enum { QKV_THREADS_MAX = 256 };
/** Sets the number of threads for parallel work, 1..QKV_THREADS_MAX; 0 restores the default: the
 *  environment variable QKV_THREADS if it is set, otherwise the number of CPUs that this process
 *  may use (affinity and cgroup quota).
 *  Results are bit-identical for any number of threads.  An n out of range is QKV_ERR_USAGE and
 *  changes nothing.
 *  A call computes on the thread that made it and on up to n - 1 workers.  The workers are POSIX
 *  threads that the first parallel work starts and that all calls of the process share; they sleep
 *  when idle, have the CPU affinity of the thread that made that call, and end at exit or dlclose.
 *  A thread that calls the library needs a stack of 1 MiB; workers have 2 MiB.
 *  If the system refuses a thread, calls run on fewer.  A child process after fork starts workers
 *  of its own.
 *  Do not call it while another call of the library runs, on any thread.  A plan and scratch of the
 *  planned size are valid only for the number of threads and the instruction set at the time of
 *  planning: plan again after a change, because more threads would write past the end of
 *  scratch. */
QKV_API QKV_MUST_CHECK qkv_status qkv_threads_set(int n);
/** Returns the current number of threads; 1 in work that the library runs on one of several. */
QKV_API int qkv_threads(void);

/** Runs parallel work on the thread pool of the host program; qkv_host_pool_set(NULL) restores the
 *  workers of qkv.  The function run must call work(ctx, i) once for each i in 0..n-1, on at
 *  most n threads, and return after all these calls have returned.  Set the pool before any other
 *  call of the library. */
struct qkv_host_pool {
    void (*run)(void *user, int n, void (*work)(void *ctx, int i), void *ctx);
    void *user;
};
QKV_API void qkv_host_pool_set(const struct qkv_host_pool *p);

/** Returns the path of the file that qkv has mapped at this address, or NULL if no file is mapped
 *  there.  Async-signal-safe, so that a SIGBUS handler can report which file was truncated while it
 *  was read. */
QKV_API const char *qkv_mapped_file(const void *address);

/** A callback that reports the progress of a long call: `what` names the current work, of which
 *  `done` of `total` steps are complete; a total < 0 means that the total is unknown.  A result
 *  other than 0 stops the call with QKV_ERR_INTERRUPTED.  The callback runs on the thread that
 *  called the library, never concurrently. */
struct qkv_progress {
    int (*step)(void *user, const char *what, int64_t done, int64_t total);
    void *user;
};

/** The element type of an array. */
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
QKV_API size_t qkv_dtype_size(qkv_dtype d); /**< Returns the bytes of one element. */
/** Returns the name of an element type as in safetensors, such as "F32". */
QKV_API const char *qkv_dtype_name(qkv_dtype d);

/** Each of these functions converts one number.  The conversion from f16 and bf16 is exact; the
 *  conversion to them rounds to nearest even and keeps NaN. */
QKV_API float qkv_f16_to_f32(uint16_t h);
QKV_API float qkv_bf16_to_f32(uint16_t h);
QKV_API uint16_t qkv_f32_to_f16(float x);
QKV_API uint16_t qkv_f32_to_bf16(float x);

/** Converts n numbers between arrays that do not overlap, of any alignment.  n <= 0: nothing to do.
 *  to_f32    from every type: F64 and integers are rounded to nearest, F16 and BF16 are exact, BOOL
 *            becomes 0 or 1
 *  from_f32  to F32 and F64, both exact, and to F16 and BF16, rounded to nearest even
 *  Returns:  true; false, with nothing written, if there is no such conversion or an argument is
 *            NULL */
QKV_API bool qkv_to_f32(float *to, const void *from, qkv_dtype type, int64_t n);
QKV_API bool qkv_from_f32(void *to, qkv_dtype type, const float *from, int64_t n);

/** The precision of a computation; all sums are float.  The words "stored float" and so on name the
 *  type of q, k, v and out of attention and KV cache, and of the activations of a model between its
 *  matrix products; arrays of a linear layer have their own types.  A CPU that cannot multiply a
 *  type converts its numbers to float (the member `arithmetic` of plans and infos reports this).
 *  An unsupported precision returns QKV_ERR_UNSUPPORTED and is never lowered silently: additive
 *  scores (layer.h) support only F32, F32_STRICT and F32_FAST.  docs/numerics.md has the error
 *  bounds of each precision. */
typedef enum qkv_precision {
    /** Stored float.  The fastest arithmetic that is as exact as plain sums of floats; a product
     *  may be computed as a sum of products of fewer bits. */
    QKV_PRECISION_F32 = 0,
    /** Stored float.  Every product is a product of two floats. */
    QKV_PRECISION_F32_STRICT,
    /** Stored float.  Products may drop the last 8 bits of their operands where that is faster. */
    QKV_PRECISION_F32_FAST,
    /** Stored bfloat16.  Attention and cache round the result, and on a CPU with bfloat16
     *  instructions also the exponentials of the softmax; linear layers round weights and input
     *  rows. */
    QKV_PRECISION_BF16,
    /** Stored IEEE half.  Attention and cache round the result; linear layers round weights and
     *  input rows. */
    QKV_PRECISION_F16,
    /** Stored float; operands are integers -127 .. 127 times a scale.  In attention and cache, keys
     *  and values have a scale per token and head, the cache stores only the integers and scales,
     *  and q stays float.  In linear layers, each row of the weights w has a scale, and so has each
     *  row of the input x, which the product quantises.  Models compute linear layers in INT8 and
     *  attention in F32. */
    QKV_PRECISION_INT8
} qkv_precision;
/** Parses the name of a precision.  Returns false if there is no such name or an argument is
 *  NULL. */
QKV_API bool qkv_precision_parse(qkv_precision *out, const char *name);
/** Returns the name of a precision: "f32", "f32-strict", "f32-fast", "bf16", "f16" or "int8"; NULL
 *  if there is no such precision. */
QKV_API const char *qkv_precision_name(qkv_precision p);
/** Returns the type in which a precision stores numbers: F32, BF16 or F16; QKV_DTYPE_COUNT if there
 *  is no such precision. */
QKV_API qkv_dtype qkv_precision_type(qkv_precision p);

/** Returns the instruction set of the kernels in use: "scalar", "avx2", "avx512", ...  The
 *  environment variable QKV_ISA selects a weaker set by its name; a value that names no set, or a
 *  set that the machine does not support, is ignored, and qkv_isa_note() reports it. */
QKV_API const char *qkv_isa(void);
/** Returns the n-th instruction set that this machine supports, weakest first, or NULL if n is past
 *  the last. */
QKV_API const char *qkv_isa_supported(int n);
/** Selects the instruction set by a name of qkv_isa_supported(); NULL restores the initial set.  Do
 *  not call it while another call of the library runs on any thread.  Models and plans made before
 *  the call are not valid after it: open the models and plan the calls again.
 *  Returns: QKV_OK; QKV_ERR_USAGE: no such name; QKV_ERR_UNSUPPORTED: this machine lacks it.  After
 *  an error nothing is changed. */
QKV_API QKV_MUST_CHECK qkv_status qkv_isa_set(const char *name);
/** Returns the reason why QKV_ISA was ignored, in one line that lists its valid values; "" if it
 *  was not ignored.
 *  Out: *status (may be NULL) is QKV_OK, QKV_ERR_USAGE or QKV_ERR_UNSUPPORTED, as in
 *  qkv_isa_set. */
QKV_API const char *qkv_isa_note(qkv_status *status);
/** Returns the name that the processor reports, such as "AMD EPYC 9R14"; "" if it reports no
 *  name. */
QKV_API const char *qkv_cpu_name(void);
/** Returns whether this CPU has AMX tiles: "present", "not present", or "present, but the system
 *  refuses it (WHY)".  Linux requires a permission before the first use of tiles, which qkv
 *  requests once. */
QKV_API const char *qkv_cpu_amx(void);

QKV_END_DECLS
#endif
