// SPDX-License-Identifier: MIT
// base.h: declares the interface of module base: errors, memory, threads, files and JSON for all
// other modules.
#ifndef QKV_BASE_BASE_H
#define QKV_BASE_BASE_H

#include <dirent.h>
#include <jansson.h>
#include <pthread.h>
#include <qkv/base.h>
#include <qkv/output.h>
#include <qkv/tensor.h>
#include <qkv/utf8.h>
#include <stdarg.h>
#include <stdatomic.h>

// ---- precisions (dtype.c, precision.def) ------------------------------------------------------
enum {
    QKV_PRECISIONS = 0 // number of rows of precision.def
#define QKV_PRECISION_ROW(ID, NAME, TYPE, ATTENTION) +1
#include "base/precision.def"
#undef QKV_PRECISION_ROW
};
// Returns the precision in which a model computes attention if its linear layers have precision p.
qkv_precision qkv_precision_attention(qkv_precision p);

// ---- sizes: qkv_mul_size and qkv_add_size return false if the result overflows ----------------
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

// QKV_WRITTEN(p, n) tells MemorySanitizer that n bytes at p were written, where it does not know
// the instruction or the system call that wrote them.
#ifdef __has_feature
#if __has_feature(memory_sanitizer)
#include <sanitizer/msan_interface.h>
#define QKV_WRITTEN(p, n) __msan_unpoison(p, n)
#endif
#endif
#ifndef QKV_WRITTEN
#define QKV_WRITTEN(p, n) (void)(n)
#endif

// ---- errors (error.c) -------------------------------------------------------------------------
// The location of an error.  Members that are 0 are not part of the message.
struct qkv_location {
    const char *file;
    bool has_offset;
    int64_t offset;
    const char *path; // "$.a.b" or "line:column"
};
// Writes the error to *err, unless err is NULL or already contains an error; control bytes are
// escaped.  Returns status.
qkv_status qkv_fail(qkv_error *err, qkv_status status, const struct qkv_location *at,
                    const char *format, ...) __attribute__((format(printf, 4, 5)));
// Reports a failed allocation: QKV_ERR_LIMIT, "out of memory".
qkv_status qkv_fail_memory(qkv_error *err, const char *file);
// Reports an errno value as QKV_ERR_IO, or ENOMEM as QKV_ERR_LIMIT: "WHAT: No such file or
// directory".
qkv_status qkv_fail_errno(qkv_error *err, const char *file, const char *what, int code);

// ---- time (clock.c) ----------------------------------------------------------------------------
double qkv_seconds(void); // of a clock that is never set

// ---- libraries that are opened when needed (library.c) -----------------------------------------
struct qkv_library {
    const char *name; // file name
    const char *what; // what needs it, and a hint for the message if it is missing
    const char *hint; // "" or "; ..."
    const char *none; // message of a program that cannot open libraries
    bool global;      // its symbols are visible to libraries that it opens
};
// Opens a library that belongs to libqkv; it stays open. Returns QKV_ERR_UNSUPPORTED if it is
// missing.
qkv_status qkv_library_open(void **library, const struct qkv_library *x, qkv_error *err);
// Returns the address of a function of an open library, or NULL.
void *qkv_library_function(void *library, const char *name);

// ---- memory (memory.c): the one place that allocates ------------------------------------------
// Both functions return a block of count * size bytes, 64-byte aligned, or NULL if memory is
// exhausted or the product overflows; qkv_alloc_zero also zeroes the block.
void *qkv_alloc(size_t count, size_t size);
void *qkv_alloc_zero(size_t count, size_t size);
void qkv_free(void *p); // p may be NULL
// Ensures that the array *p has space for `need` items of `size` bytes; if it must grow, *capacity
// at least doubles.  Returns false if memory is exhausted: *p and *capacity are then unchanged.
bool qkv_reserve(void **p, int64_t *capacity, int64_t need, size_t size);
// Returns a NUL-terminated copy of text[bytes], or NULL if memory is exhausted.
char *qkv_copy_text(const char *text, size_t bytes);

// An arena: one block of memory, of a size that is computed in advance, from which 64-byte aligned
// pieces are allocated.
struct qkv_arena {
    char *base;
    size_t size, used;
};
// Returns the next count * size bytes of the arena, or NULL if the arena is full.  An arena with
// base NULL and size SIZE_MAX only counts: the function returns NULL and adds to `used`, which
// becomes the size of the block to allocate.
void *qkv_arena_alloc(struct qkv_arena *a, size_t count, size_t size);
// Returns the memory of an array of `rows` rows, each of `width` elements of `size` bytes, as
// qkv_arena_alloc does; a product that overflows fills the arena.
void *qkv_arena_rows(struct qkv_arena *a, int64_t rows, int64_t width, size_t size);
// Returns true if an allocation from the arena failed because the arena was full.
bool qkv_arena_full(const struct qkv_arena *a);
// Allocates one block for all arrays that lay_out(ctx, a) allocates from arena a.  lay_out runs
// twice: with an arena that only counts, then with the arena of the block.  Returns the block,
// which the caller frees with qkv_free, or NULL if memory is exhausted (lay_out may then have run
// once).
void *qkv_arena_twice(void (*lay_out)(void *ctx, struct qkv_arena *a), void *ctx, bool zeroed);

// ---- work memory of concurrent calls (workspace_pool.c) ---------------------------------------
// A work buffer of one call.  The pool keeps it for later calls, which then need no new memory
// pages.
struct qkv_workspace {
    void *bytes; // [size], contents undefined
    size_t size;
    struct qkv_workspace *next; // used by the pool
};
struct qkv_workspace_pool {
    pthread_mutex_t lock;
    struct qkv_workspace *idle;
};
void qkv_workspace_pool_init(struct qkv_workspace_pool *pool);
// Frees the idle buffers; every acquired buffer must have been released.
void qkv_workspace_pool_free(struct qkv_workspace_pool *pool);
// Returns a buffer of at least `size` bytes, which no other call uses until the caller releases it,
// or NULL if memory is exhausted.
struct qkv_workspace *qkv_workspace_acquire(struct qkv_workspace_pool *pool, size_t size);
void qkv_workspace_release(struct qkv_workspace_pool *pool, struct qkv_workspace *w); // NULL: no-op

// ---- sorting (sort.c) -------------------------------------------------------------------------
// Compares two items.  Returns a negative number if *a comes before *b, 0 if they are equal, and a
// positive number if *a comes after *b.
typedef int qkv_compare_fn(const void *ctx, const void *a, const void *b);
// Sorts items[count] of `size` bytes each; equal items keep their order.  It makes at most about
// count * log2(count) comparisons.  Returns false if memory is exhausted: the items are then
// unchanged.
bool qkv_sort(void *items, int64_t count, size_t size, qkv_compare_fn *compare, const void *ctx);
// Compares two texts, each a char *, as strcmp does; for qsort().
int qkv_compare_texts(const void *a, const void *b);

// ---- growing text (text_buffer.c) -------------------------------------------------------------
// A text that grows; a zeroed struct is an empty text.  After a failed allocation `failed` stays
// true and appending has no effect, so that the caller checks `failed` once, at the end.
struct qkv_text_buffer {
    char *bytes;             // NUL-terminated; NULL before the first append
    int64_t count, capacity; // count: bytes without the NUL
    bool failed;
};
void qkv_text_buffer_free(struct qkv_text_buffer *b); // a zeroed struct is allowed
void qkv_text_append(struct qkv_text_buffer *b, const char *text, size_t bytes);
void qkv_text_append_string(struct qkv_text_buffer *b, const char *text);
void qkv_text_append_format(struct qkv_text_buffer *b, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void qkv_text_append_integer(struct qkv_text_buffer *b, int64_t n);
// Appends x with 8 decimals and a decimal point that is "." in every locale.
void qkv_text_append_real(struct qkv_text_buffer *b, double x);
enum qkv_json_escapes {
    QKV_JSON_PLAIN, // escapes quotes, backslashes and control characters; copies bytes >= 0x80
    // for a script element: also escapes < > & U+2028 U+2029; invalid UTF-8 becomes U+FFFD
    QKV_JSON_HTML
};
// Appends text[bytes] as a JSON string with its quotes.
void qkv_text_append_json(struct qkv_text_buffer *b, const char *text, size_t bytes,
                          enum qkv_json_escapes escapes);

// ---- counter-based random numbers (philox.c) --------------------------------------------------
// Writes the four random words of block `block` of the stream (seed, site) by Philox4x32-10; a pure
// function.  Random number n of a stream is word n % 4 of block n / 4.
void qkv_philox(uint32_t out[4], uint64_t seed, uint64_t site, uint64_t block);
// Returns the threshold of dropout with probability p, 0 <= p < 1: an element is dropped if its
// random word is below the threshold.
uint32_t qkv_dropout_threshold(double p);

// ---- threads (threads.c) ----------------------------------------------------------------------
// Calls body(ctx, i, thread) once for each i in 0..n-1, in any order and in parallel.  `thread`, in
// 0..qkv_threads()-1, is the index of the calling thread; results must not depend on it.  The
// calling thread is thread 0; the others are workers, which all callers of the process share.  If
// no worker is free, or the system refuses to start one, the calling thread processes all indices,
// as it does inside the body of another parallel loop of more than one index.
void qkv_parallel_for(int64_t n, void (*body)(void *ctx, int64_t i, int thread), void *ctx);
// Runs qkv_parallel_for on at most `threads` threads, with thread in 0..threads-1.  A caller that
// allocates memory per thread reads qkv_threads() once and passes that number here, because the
// setting may change between the two calls.
void qkv_parallel_for_most(int64_t n, int threads, void (*body)(void *ctx, int64_t i, int thread),
                           void *ctx);

// ---- the next item made in advance (prefetch.c) -----------------------------------------------
struct qkv_prefetch {
    bool (*make)(void *ctx, int slot);
    void *ctx;
    pthread_t thread; // thread, lock and changed are initialized only when threaded
    pthread_mutex_t lock;
    pthread_cond_t changed;
    atomic_bool stop;
    bool threaded;
    bool full[2]; // the slot contains an item that the caller has not released
    int slot;     // the slot that the caller uses; -1 before the first item
    int last;     // slot of the last item; -1 until the last item is made
};
// The function make(ctx, slot) makes the next item in memory slot 0, 1, 0, 1, ... and returns false
// when it has made the last item.  It runs on the caller's thread, or on a second thread if
// qkv_threads_second() permits; two calls of make never overlap.  The caller calls
// qkv_prefetch_begin, then qkv_prefetch_next until it returns -1, then qkv_prefetch_end.
void qkv_prefetch_begin(struct qkv_prefetch *p, bool (*make)(void *ctx, int slot), void *ctx);
// Returns the slot of the next item, valid until the following call, or -1 if no item is left.
int qkv_prefetch_next(struct qkv_prefetch *p);
// For make: returns true if make may return early, because the caller will not use its item.
bool qkv_prefetch_stopped(struct qkv_prefetch *p);
void qkv_prefetch_end(struct qkv_prefetch *p); // allowed at any time; waits for an item being made

// ---- CPU (cpu.c) ------------------------------------------------------------------------------
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
// Returns the QKV_CPU_* bits of the features that the CPU has and the operating system permits.
// The first call requests AMX (Linux requires arch_prctl once per process before the first tile
// instruction); if Linux refuses, the AMX bits are 0.
unsigned qkv_cpu_features(void);

// ---- files (map.c, output.c) ------------------------------------------------------------------
// The contents of a file that is mapped or read into memory.  Directories, FIFOs and devices are
// refused with QKV_ERR_IO.
struct qkv_map {
    const uint8_t *data; // NULL for an empty file
    size_t size;
    bool mapped;
    char *path; // as passed by the caller
    int slot;   // index in the table of mapped files
};
qkv_status qkv_map_open(struct qkv_map *m, const char *path, bool no_mmap, qkv_error *err);
// Reads a small file into memory; a file of more than max bytes is QKV_ERR_LIMIT.
qkv_status qkv_map_read(struct qkv_map *m, const char *path, size_t max, qkv_error *err);
void qkv_map_close(struct qkv_map *m); // a zeroed struct is allowed
// Appends the path of each file that this thread opens by the two functions, with its NUL, to
// *paths, until the next call of this function; paths NULL: ends.
void qkv_map_record(struct qkv_text_buffer *paths);
enum { QKV_PATH = 4096 }; // bytes of a path with its NUL
// Writes dir/name to out; a path that is too long is QKV_ERR_IO with the message of the system.
qkv_status qkv_path_join(char out[QKV_PATH], const char *dir, const char *name, qkv_error *err);
// Writes the folder that contains path to above; returns the name of path in it, or NULL if the
// path is too long.
const char *qkv_path_above(char above[QKV_PATH], const char *path);
bool qkv_path_exists(const char *path); // follows links
bool qkv_ends_with(const char *text, const char *end);
// For an optional input: returns false only if the system says that nothing has this name.  After
// another error returns true, so that the caller opens the file and reports the error.
bool qkv_path_may_exist(const char *path);
// For a choice between files: *there is whether something has this name.  An answer of the system
// that does not tell is QKV_ERR_IO.
qkv_status qkv_path_find(bool *there, const char *path, qkv_error *err);

// Wrappers of the system calls that change the disk (disk.c), with the same results and errno.
// Code that writes checkpoints and other files of a run uses only these, so that a test can
// interrupt it before each call (qkv_disk_hook).
int qkv_disk_open(const char *path, int flags, unsigned mode); // with O_CLOEXEC
ptrdiff_t qkv_disk_write(int fd, const char *path, const void *data, size_t bytes);
int qkv_disk_sync(int fd, const char *path);
int qkv_disk_truncate(int fd, const char *path, int64_t bytes);
int qkv_disk_rename(const char *from, const char *to);
int qkv_disk_symlink(const char *target, const char *path);
int qkv_disk_unlink(const char *path);
int qkv_disk_mkdir(const char *path, unsigned mode);
int qkv_disk_rmdir(const char *path);
// Exchanges the names of two files or folders at once; fails with ENOSYS or EINVAL if the system or
// the file system cannot do this.
int qkv_disk_exchange(const char *a, const char *b);
int qkv_disk_sync_folder(const char *dir); // syncs the names in dir
int qkv_disk_sync_above(const char *path); // syncs the names in the folder that contains path
// Returns the next entry of the open folder d, or NULL at its end.  If the system cannot read the
// folder, sets *status to the error and returns NULL.
const struct dirent *qkv_disk_entry(DIR *d, const char *dir, qkv_status *status, qkv_error *err);
// Removes dir and the files in it.  Returns true if dir does not exist afterwards.  Allocates
// nothing, and may be called in a signal handler.
bool qkv_disk_remove_folder(const char *dir);
// Removes a file, or a folder with the folders in it; links are removed, not followed.  Otherwise
// as qkv_disk_remove_folder.
bool qkv_disk_remove_tree(const char *path);

// Temporary files and folders (temporary.c), which qkv_temporaries_remove() removes if the process
// ends before their owner has removed or renamed them.
// Removes the files and folders TARGET.tmp.PID.N of this user that no process has locked, because
// their process was killed.  No effect if TARGET is in a temporary folder itself.
void qkv_temporaries_clear(const char *target);
// Calls found(path, target) for each file or folder TARGET kind PID.N, such as kind ".old.", that
// belongs to this user and that no process has locked; it is locked during the call.
void qkv_temporaries_find(const char *target, const char *kind,
                          void (*found)(const char *path, const char *target));
// Opens a file or folder, not through a link, and locks it until the descriptor is closed (flock).
// Returns -1 if that fails, as it does while another process has locked it.
int qkv_temporary_lock(const char *path);
// Makes a folder TARGET.tmp.PID.N, writes its name to dir, locks it and adds it to the table.
// Returns false with errno set if that fails.  The caller keeps `dir` unchanged until
// qkv_temporary_drop(*slot), and closes the lock.
// Out: *slot, its index in the table; *lock, a descriptor, or -1 if the file system has no locks.
bool qkv_temporary_folder(char dir[QKV_PATH], int *slot, int *lock, const char *target,
                          unsigned mode);
// Removes a path from the table; slot -1: nothing.
void qkv_temporary_drop(int slot);

// A file that is written completely or not at all: the bytes are written to NAME.tmp.PID.N, which
// commit syncs and renames.  Links are followed; a pipe or a device is written directly.
struct qkv_output {
    int fd;       // -1: closed
    char *path;   // as passed by the caller
    char *target; // path with its links resolved
    char *temp;   // path of the temporary file; NULL: target is written directly
    int slot;     // index of temp in the table of temporary files
    bool force;
    char *buffer;
    size_t used;
    int64_t written;
};
// Opens the output for path.  Returns QKV_ERR_USAGE if path exists and force is false.
qkv_status qkv_output_open(struct qkv_output *o, const char *path, bool force, qkv_error *err);
qkv_status qkv_output_write(struct qkv_output *o, const void *data, size_t bytes, qkv_error *err);
// Closes the temporary file and renames it to the target; on error the target is unchanged.
qkv_status qkv_output_commit(struct qkv_output *o, qkv_error *err);
// Removes the temporary file; no effect after commit or on a zeroed struct.
void qkv_output_abort(struct qkv_output *o);

// ---- SHA-256 (digest/) -------------------------------------------------------------------------
struct qkv_sha256 {
    uint32_t state[8];
    uint64_t bytes;
    uint8_t part[64]; // the incomplete block
};
enum { QKV_SHA256_TEXT = 65 }; // 64 hexadecimal digits, terminated
void qkv_sha256_begin(struct qkv_sha256 *h);
void qkv_sha256_add(struct qkv_sha256 *h, const void *data, size_t bytes);
void qkv_sha256_end(struct qkv_sha256 *h, char hex[QKV_SHA256_TEXT]);
void qkv_sha256(char hex[QKV_SHA256_TEXT], const void *data, size_t bytes);

// ---- JSON's grammar (scan.c): no allocation, no recursion, the exact byte of an error ----------
enum { QKV_JSON_DEPTH = 64 };
// A cursor over data[size] that scans JSON.  Each function skips white space first; if it returns
// false, `want` names the syntax that was expected at byte `at`.
struct qkv_scan {
    const char *data;
    size_t size, at;
    const char *want; // NULL: no error so far
};
#define QKV_SCAN_TOO_DEEP "at most 64 levels"
// The bytes between the quotes of a JSON string; `escaped` is true if they contain backslashes.
struct qkv_span {
    const char *at;
    size_t bytes;
    bool escaped;
};
void qkv_scan_space(struct qkv_scan *s);
// Skips white space and the byte c.  Returns false, without setting `want`, if the byte after the
// white space is not c.
bool qkv_scan_take(struct qkv_scan *s, char c);
bool qkv_scan_need(struct qkv_scan *s, char c, const char *want); // false: error
bool qkv_scan_string(struct qkv_scan *s, struct qkv_span *raw); // UTF-8, no NUL, paired surrogates
// Scans a non-negative integer that consists of digits only and fits into 64 bits.
bool qkv_scan_size(struct qkv_scan *s, uint64_t *out, const char *want);
bool qkv_scan_value(struct qkv_scan *s); // skips any value with at most QKV_JSON_DEPTH levels
// Describes the next byte for a message: "'x'", "byte 0x00", "the end".
void qkv_scan_found(char out[16], const struct qkv_scan *s);
// Decodes the escapes of a string and writes its text to `out`, which has space for raw->bytes
// bytes; returns the number of bytes written.
size_t qkv_span_decode(char *out, const struct qkv_span *raw);
bool qkv_span_is(const struct qkv_span *raw, const char *text);

// ---- JSON (json.c): parsed strictly into a tree of jansson ------------------------------------
// Parses the object in data[size].  Returns QKV_ERR_FORMAT with the byte offset if the syntax is
// wrong, the first byte is not '{' (as in a BOM, a space, [] or null), the depth is over 64, a key
// occurs twice, UTF-8 is invalid, a string contains NUL, a number is out of range, or anything but
// white space follows the object.
// base is added to the byte offsets in messages.
qkv_status qkv_json_parse(json_t **out, const char *data, size_t size, const char *file,
                          int64_t base, qkv_error *err);
// Reads and parses a file whose root is an object.  A file of more than max_bytes is QKV_ERR_LIMIT;
// other errors have the location line:column.
qkv_status qkv_json_file(json_t **out, const char *path, size_t max_bytes, qkv_error *err);
// As qkv_json_file, but an integer of more than 64 bits is read as a real: for the
// tokenizer_config.json of transformers, whose model_max_length is 10^30 for "no limit".
qkv_status qkv_json_wide_file(json_t **out, const char *path, size_t max_bytes, qkv_error *err);
// Reads and parses a file whose root is an array, with the limit and the errors of qkv_json_file.
qkv_status qkv_json_list_file(json_t **out, const char *path, size_t max_bytes, qkv_error *err);
// Writes root to a file (json_write.c), indented, each real with the fewest digits that parse to
// the same value: .8 is 0.8.  A NULL root is reported as out of memory.
qkv_status qkv_json_write(const char *path, json_t *root, bool force, qkv_error *err);

// The object of a JSON file from which qkv_json_int, _real, _bool and _text read members.  path is
// the path of the object in the file ("$" or "$.model"); error messages append the key.  Each
// function reads one member into *out and returns false if err contains an error.  A member that is
// missing or null is QKV_ERR_FORMAT if `need` is true; otherwise *out keeps its value.  A text is
// valid as long as the object.
struct qkv_json_at {
    const json_t *object;
    const char *file, *path;
    qkv_error *err;
};
// An integer outside of min .. max is QKV_ERR_FORMAT.
bool qkv_json_int(const struct qkv_json_at *at, const char *key, bool need, int64_t *out,
                  int64_t min, int64_t max);
// An integer above `limit`, a limit of qkv, is QKV_ERR_LIMIT.
bool qkv_json_limited(const struct qkv_json_at *at, const char *key, bool need, int64_t *out,
                      int64_t min, int64_t limit);
bool qkv_json_real(const struct qkv_json_at *at, const char *key, bool need, double *out);
bool qkv_json_bool(const struct qkv_json_at *at, const char *key, bool need, bool *out);
bool qkv_json_text(const struct qkv_json_at *at, const char *key, bool need, const char **out);
#endif
