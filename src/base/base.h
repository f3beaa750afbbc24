// SPDX-License-Identifier: MIT
// base.h: the door of room base: what every room may lean on.  Knows nothing above it.
#ifndef QKV_ROOM_BASE_H
#define QKV_ROOM_BASE_H

#include <jansson.h>
#include <pthread.h>
#include <qkv/base.h>
#include <qkv/tensor.h>
#include <stdarg.h>

// ---- precisions (dtype.c, precision.def) -------------------------------------------------------
enum {
    QKV_PRECISIONS = 0 // how many there are
#define QKV_PRECISION_ROW(ID, NAME, TYPE, ATTENTION) +1
#include "base/precision.def"
#undef QKV_PRECISION_ROW
};
// What attention between linear layers of precision p is computed in.
qkv_precision qkv_precision_attention(qkv_precision p);

// ---- sizes: false when the result does not fit -------------------------------------------------
static inline bool qkv_mul_size(size_t *out, size_t a, size_t b)
{
    return !__builtin_mul_overflow(a, b, out);
}
static inline bool qkv_add_size(size_t *out, size_t a, size_t b)
{
    return !__builtin_add_overflow(a, b, out);
}
static inline int64_t qkv_min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}
static inline int64_t qkv_max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}
static inline int64_t qkv_ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}
static inline size_t qkv_round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

// ---- errors (error.c) --------------------------------------------------------------------------
// Where it went wrong; members left 0 say nothing.
struct qkv_place {
    const char *file;
    bool has_offset;
    int64_t offset;
    const char *path; // "$.a.b" or "line:column"
};
// Fills err (NULL is fine) unless it holds an error already;
// control bytes are escaped.  Returns status.
qkv_status qkv_fail(qkv_error *err, qkv_status status, const struct qkv_place *at,
                    const char *format, ...) __attribute__((format(printf, 4, 5)));
// QKV_ERR_LIMIT "out of memory": for a failed allocation.
qkv_status qkv_fail_memory(qkv_error *err, const char *file);
// QKV_ERR_IO from an errno value: "WHAT: No such file or directory".
qkv_status qkv_fail_errno(qkv_error *err, const char *file, const char *what, int code);

// ---- memory (memory.c): the one place that allocates -------------------------------------------
// 64-byte aligned.  NULL: no memory, or the product overflows.
void *qkv_alloc(size_t count, size_t size);
void *qkv_alloc_zero(size_t count, size_t size);
void qkv_free(void *p); // NULL is fine
// Room for `need` items: *p and *capacity grow by doubling; false: no memory, *p as it was.
bool qkv_reserve(void **p, int64_t *capacity, int64_t need, size_t size);
char *qkv_copy_text(const char *text, size_t bytes); // terminated copy, NULL: no memory

// An arena: one block whose size was planned, taken piece by piece (each 64-byte aligned).
struct qkv_arena {
    char *base;
    size_t size, used;
};
// A first pass with base NULL and size SIZE_MAX only counts: used is then the size to allocate.
// take: NULL when only counting, or full.  full: something did not fit.
void *qkv_arena_take(struct qkv_arena *a, size_t count, size_t size);
bool qkv_arena_full(const struct qkv_arena *a);

// ---- random numbers by place (philox.c) --------------------------------------------------------
// Philox4x32-10: the four words of block `block` of stream (seed, site), the same anywhere.  Number
// n of a stream is word n % 4 of block n / 4.
void qkv_philox(uint32_t out[4], uint64_t seed, uint64_t site, uint64_t block);
// A number below it is dropped: share p of all, 0 <= p < 1.
uint32_t qkv_dropout_threshold(double p);

// ---- threads (threads.c): the only place that knows OpenMP -------------------------------------
// body(ctx, i, thread) once for each i in 0..n-1, in any order; thread in 0..qkv_threads()-1 is
// this call's own.  Results must not depend on thread.  Inside a parallel region (a loop of one
// index is none), and in a child forked after OpenMP's threads were started: serial.
void qkv_parallel_for(int64_t n, void (*body)(void *ctx, int64_t i, int thread), void *ctx);
// The same on at most `threads`, thread in 0..threads-1: for a body that has memory for so many.
// Whoever sizes memory by qkv_threads() asks it once and loops here, for it may be changed in
// between.
void qkv_parallel_for_most(int64_t n, int threads, void (*body)(void *ctx, int64_t i, int thread),
                           void *ctx);
// Whether a thread of our own may work beside the caller's: more than one is wanted, no host lends
// a pool, and this is neither a body of a loop nor a child that runs serial.
bool qkv_threads_beside(void);
// Starts one, which takes no signal but those of its own faults; false: there is none to be had.
// Its loops share out their work as the caller's do.  Whoever starts it joins it (pthread_join).
bool qkv_thread_start(pthread_t *thread, void *(*body)(void *ctx), void *ctx);

bool qkv_threads_parse(int *out, const char *text); // digits alone, 1..QKV_THREADS_MAX
// CPUs that cgroups grant (quota.c), 0: no limit.  cgroup_file
// as /proc/self/cgroup, root as /sys/fs/cgroup.
int qkv_quota_cpus(const char *cgroup_file, const char *root);
int qkv_quota_parse(const char *text); // "QUOTA PERIOD", "max PERIOD": rounded up, 0: none

// ---- CPU (cpu.c) -------------------------------------------------------------------------------
enum {
    QKV_CPU_AVX2 = 1 << 0,
    QKV_CPU_FMA = 1 << 1,
    QKV_CPU_F16C = 1 << 2,
    QKV_CPU_AVX512 = 1 << 3, // F, BW, DQ, VL
    QKV_CPU_AVX512_VNNI = 1 << 4,
    QKV_CPU_AVX512_BF16 = 1 << 5,
    QKV_CPU_AVX512_FP16 = 1 << 6,
    QKV_CPU_AMX_BF16 = 1 << 7,
    QKV_CPU_AMX_INT8 = 1 << 8,
    QKV_CPU_NEON = 1 << 9
};
// Bits of the CPU that the operating system lets us use.  Of AMX the first call asks it (Linux
// wants arch_prctl before the first tile instruction, once a process): what is refused is not among
// them.
unsigned qkv_cpu_features(void);
// For tests, before the first other call: `present` bits are taken for bits of the CPU as well, and
// those `granted` need no leave of the system.
void qkv_cpu_pretend(unsigned present, unsigned granted);

// ---- files (map.c, output.c) -------------------------------------------------------------------
// A whole file, mapped or read.  Directories, FIFOs and
// devices are refused at once with QKV_ERR_IO.
struct qkv_map {
    const uint8_t *data; // NULL for an empty file
    size_t size;
    bool mapped;
    char *path; // as given
    int slot;   // in the table of mapped files
};
qkv_status qkv_map_open(struct qkv_map *m, const char *path, bool no_mmap, qkv_error *err);
// Read into memory, QKV_ERR_LIMIT when it has more than max bytes: for small files.
qkv_status qkv_map_read(struct qkv_map *m, const char *path, size_t max, qkv_error *err);
void qkv_map_close(struct qkv_map *m); // zeroed struct is fine
enum { QKV_PATH = 4096 };              // bytes of a path with its NUL
// out = dir/name; too long: QKV_ERR_IO, as the system calls it.
qkv_status qkv_path_join(char out[QKV_PATH], const char *dir, const char *name, qkv_error *err);
bool qkv_path_exists(const char *path); // follows links

// What changes a disk (disk.c): the system calls of these names, with what they return and set.
// Whoever keeps what must not be lost writes through these alone, so that a test can stop before
// each call.
struct qkv_disk_call {
    const char *name;      // "write", "rename", ...
    const char *path, *to; // to: the new name (rename, link), what is pointed at (symlink)
    size_t bytes;          // of a write
};
// For tests: asked before each call; a result other than 0 is the errno it fails with, undone; a
// write may be cut short (call->bytes).  NULL: none.
void qkv_disk_watch(int (*before)(void *ctx, struct qkv_disk_call *call), void *ctx);
int qkv_disk_open(const char *path, int flags, unsigned mode); // with O_CLOEXEC
ptrdiff_t qkv_disk_write(int fd, const char *path, const void *data, size_t bytes);
int qkv_disk_sync(int fd, const char *path);
int qkv_disk_truncate(int fd, const char *path, int64_t bytes);
int qkv_disk_rename(const char *from, const char *to);
int qkv_disk_link(const char *from, const char *to);
int qkv_disk_symlink(const char *target, const char *path);
int qkv_disk_unlink(const char *path);
int qkv_disk_mkdir(const char *path);
int qkv_disk_rmdir(const char *path);
int qkv_disk_sync_folder(const char *dir);    // the names in it
bool qkv_disk_remove_folder(const char *dir); // with the files in it; true too when there is none

// A file written whole or not at all: NAME.tmp.PID, fsync, rename.  A link is followed; a pipe or a
// device is written to as it is.
struct qkv_output {
    int fd;                     // -1: closed
    char *path, *target, *temp; // as given; what it stands for; NULL: written as it is
    bool force;
    char *buffer;
    size_t used;
    int64_t written;
};
// QKV_ERR_USAGE when path exists and not force.
qkv_status qkv_output_open(struct qkv_output *o, const char *path, bool force, qkv_error *err);
qkv_status qkv_output_write(struct qkv_output *o, const void *data, size_t bytes, qkv_error *err);
// Closes; on error the target is untouched.
qkv_status qkv_output_commit(struct qkv_output *o, qkv_error *err);
// Removes what was written; after commit, or on a zeroed struct: nothing.
void qkv_output_abort(struct qkv_output *o);

// ---- SHA-256 (sha256.c) ------------------------------------------------------------------------
struct qkv_sha256 {
    uint32_t state[8];
    uint64_t bytes;
    uint8_t part[64]; // of a block that is not full
};
enum { QKV_SHA256_TEXT = 65 }; // 64 hexadecimal digits, terminated
void qkv_sha256_begin(struct qkv_sha256 *h);
void qkv_sha256_add(struct qkv_sha256 *h, const void *data, size_t bytes);
void qkv_sha256_end(struct qkv_sha256 *h, char hex[QKV_SHA256_TEXT]);
void qkv_sha256(char hex[QKV_SHA256_TEXT], const void *data, size_t bytes);

// ---- JSON's grammar (scan.c): no memory, no recursion, the exact byte of a mistake --------------
enum { QKV_JSON_DEPTH = 64 };
// A cursor over data[size].  Each call skips white space first; false: `want` was expected at `at`.
struct qkv_scan {
    const char *data;
    size_t size, at;
    const char *want; // NULL: nothing wrong so far
};
#define QKV_SCAN_TOO_DEEP "at most 64 levels"
// A text between its quotes, as written; escaped: it has backslashes.
struct qkv_span {
    const char *at;
    size_t bytes;
    bool escaped;
};
size_t qkv_utf8_bytes(const char *text, size_t left); // bytes of the character there; 0: not UTF-8
void qkv_scan_space(struct qkv_scan *s);
bool qkv_scan_take(struct qkv_scan *s, char c); // false: something else is there, no mistake
bool qkv_scan_need(struct qkv_scan *s, char c, const char *want);
bool qkv_scan_string(struct qkv_scan *s, struct qkv_span *raw); // UTF-8, no NUL, paired surrogates
bool qkv_scan_number(struct qkv_scan *s, bool *integer);
// Digits only, fits 64 bits.
bool qkv_scan_size(struct qkv_scan *s, uint64_t *out, const char *want);
bool qkv_scan_value(struct qkv_scan *s); // any value, at most QKV_JSON_DEPTH levels
// What is there: "'x'", "byte 0x00", "the end".
void qkv_scan_found(char out[16], const struct qkv_scan *s);
size_t qkv_span_decode(char *out, const struct qkv_span *raw); // out[raw->bytes]; returns bytes
bool qkv_span_is(const struct qkv_span *raw, const char *text);

// ---- JSON (json.c): read strictly into a tree of jansson ---------------------------------------
// The object in data[size].  Refused with QKV_ERR_FORMAT and the byte: no '{' first (BOM, space,
// [], null), depth over 64, duplicate keys, bad UTF-8, NUL in a string, numbers that do not fit,
// anything but white space behind.
// base: added to byte offsets in messages.
qkv_status qkv_json_parse(json_t **out, const char *data, size_t size, const char *file,
                          int64_t base, qkv_error *err);
// A file read whole (max_bytes; QKV_ERR_LIMIT past it) and parsed; places are line:column.
qkv_status qkv_json_file(json_t **out, const char *path, size_t max_bytes, qkv_error *err);
// The same for a file whose root is an array.
qkv_status qkv_json_list_file(json_t **out, const char *path, size_t max_bytes, qkv_error *err);
// root to a file (json_write.c), indented, reals so that they read back the same; NULL: no memory.
qkv_status qkv_json_write(const char *path, const json_t *root, bool force, qkv_error *err);

// Typed members of an object; false: err is filled.  path is the object's own ("$" or "$.model"),
// key is added to it in errors.  need: a missing key is QKV_ERR_FORMAT; else *out keeps its value.
// null counts as missing.  A text is borrowed.
struct qkv_json_at {
    const json_t *object;
    const char *file, *path;
    qkv_error *err;
};
bool qkv_json_int(const struct qkv_json_at *at, const char *key, bool need, int64_t *out,
                  int64_t min, int64_t max);
bool qkv_json_real(const struct qkv_json_at *at, const char *key, bool need, double *out);
bool qkv_json_bool(const struct qkv_json_at *at, const char *key, bool need, bool *out);
bool qkv_json_text(const struct qkv_json_at *at, const char *key, bool need, const char **out);
#endif
