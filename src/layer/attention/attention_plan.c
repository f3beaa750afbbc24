// SPDX-License-Identifier: MIT
// attention_plan.c: validates a request for attention, fills in defaults and computes units,
// scratch and tiles.
#include "layer/attention/attention_probe_work.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

// Limits. A size has at most SIZE_MAX_BITS bits, so that the product of two sizes fits into 64
// bits; a head has at most WIDTH_MAX numbers
enum { SIZE_MAX_BITS = 31, WIDTH_MAX = 1 << 20 };
// A distance that is larger than the distance of any query and key.
#define REACH_MAX (INT64_C(1) << (SIZE_MAX_BITS + 1))

qkv_status qkv_attention_refuse(const struct qkv_attention_reason *to, qkv_status status,
                                const char *format, ...)
{
    va_list more;
    va_start(more, format);
    vsnprintf(to->text, to->size, format, more);
    va_end(more);
    return status;
}
#define refuse qkv_attention_refuse

// Returns true if the distance of the first and the last element of an array with these strides and
// sizes, whose rows have n elements, stays within the address space.
static bool reach_fits(int64_t b, int64_t B, int64_t t, int64_t T, int64_t h, int64_t H, int64_t n)
{
    const int64_t stride[] = { b, t, h }, size[] = { B, T, H };
    int64_t sum = n, part;
    for (int i = 0; i < 3; i++) {
        if (size[i] < 2) continue;
        if (stride[i] == INT64_MIN ||
            __builtin_mul_overflow(llabs(stride[i]), size[i] - 1, &part) ||
            __builtin_add_overflow(sum, part, &sum))
            return false;
    }
    return sum <= PTRDIFF_MAX / (int64_t)sizeof(double);
}

static void default_strides(struct qkv_strides *s, int64_t T, int64_t H, int64_t E)
{
    if (!s->b && !s->t && !s->h) *s = (struct qkv_strides){ T * H * E, H * E, E };
}

static qkv_status check_sizes(const struct qkv_attention *a, const struct qkv_attention_reason *say)
{
    const struct {
        const char *name;
        int64_t value, least, most;
    } sizes[] = { { "B", a->B, 0, INT64_C(1) << SIZE_MAX_BITS },
                  { "T", a->T, 0, INT64_C(1) << SIZE_MAX_BITS },
                  { "S", a->S, 0, INT64_C(1) << SIZE_MAX_BITS },
                  { "H", a->H, 1, WIDTH_MAX },
                  { "G", a->G, 1, WIDTH_MAX },
                  { "E", a->E, 1, WIDTH_MAX },
                  { "F", a->F, 1, WIDTH_MAX } };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (sizes[i].value < sizes[i].least)
            return refuse(say, QKV_ERR_USAGE, "size %s is %lld, expected %lld or more",
                          sizes[i].name, (long long)sizes[i].value, (long long)sizes[i].least);
        if (sizes[i].value > sizes[i].most)
            return refuse(say, QKV_ERR_LIMIT, "size %s is %lld, expected at most %lld",
                          sizes[i].name, (long long)sizes[i].value, (long long)sizes[i].most);
    }
    if (a->first_row < 0 || a->all_rows < 0 || a->all_rows > INT64_C(1) << SIZE_MAX_BITS ||
        a->first_row > a->all_rows - a->T)
        return refuse(say, QKV_ERR_USAGE,
                      "first_row is %lld, expected 0 or more and at most all_rows - T, where "
                      "all_rows = %lld is at most 2^%d",
                      (long long)a->first_row, (long long)a->all_rows, SIZE_MAX_BITS);
    if (a->H % a->G)
        return refuse(say, QKV_ERR_USAGE,
                      "number of query heads is %lld, expected a multiple of the %lld key heads",
                      (long long)a->H, (long long)a->G);
    // The default strides are products of these sizes, so it is checked first that B*T*H*E does not
    // overflow.
    int64_t rows, all;
    const int64_t wide = qkv_max64(a->E, a->F), tokens = qkv_max64(a->T, a->S);
    if (__builtin_mul_overflow(qkv_max64(a->B, 1), qkv_max64(tokens, 1), &rows) ||
        __builtin_mul_overflow(rows, a->H, &rows) || __builtin_mul_overflow(rows, wide, &all) ||
        all > PTRDIFF_MAX / (int64_t)sizeof(double))
        return refuse(say, QKV_ERR_LIMIT,
                      "an array of B x T x H x E numbers does not fit into memory");
    return QKV_OK;
}

static qkv_status check_options(const struct qkv_attention *a,
                                const struct qkv_attention_reason *say)
{
    if (!isfinite(a->scale))
        return refuse(say, QKV_ERR_USAGE, "scale is not finite, expected a finite number");
    if (!isfinite(a->softcap) || a->softcap < 0)
        return refuse(say, QKV_ERR_USAGE, "softcap is %g, expected 0 (no cap) or more",
                      (double)a->softcap);
    if (a->diagonal != QKV_TOP_LEFT && a->diagonal != QKV_BOTTOM_RIGHT)
        return refuse(say, QKV_ERR_USAGE,
                      "diagonal is %d, expected QKV_TOP_LEFT or QKV_BOTTOM_RIGHT", a->diagonal);
    if (a->window.on && (a->window.left < -1 || a->window.right < -1))
        return refuse(say, QKV_ERR_USAGE,
                      "window is %lld, %lld, expected numbers of -1 (unlimited) or more",
                      (long long)a->window.left, (long long)a->window.right);
    if (!(a->dropout.p >= 0 && a->dropout.p < 1))
        return refuse(say, QKV_ERR_USAGE, "dropout is %g, expected 0 or more and less than 1",
                      (double)a->dropout.p);
    if (a->relative.at && (a->relative.reach < 0 || a->relative.reach > REACH_MAX))
        return refuse(say, QKV_ERR_USAGE,
                      "reach of the relative positions is %lld, expected 0 .. %lld",
                      (long long)a->relative.reach, (long long)REACH_MAX);
    if (a->no_softmax && a->sinks)
        return refuse(say, QKV_ERR_USAGE, "sinks cannot be combined with no_softmax");
    return QKV_OK;
}

static qkv_status check_offsets(const int64_t *offsets, const char *what, int64_t n, int64_t total,
                                const struct qkv_attention_reason *say)
{
    for (int64_t i = 0; i <= n; i++)
        if (offsets[i] < (i ? offsets[i - 1] : 0) || offsets[i] > total)
            return refuse(say, QKV_ERR_USAGE, "offset %s[%lld] is %lld, expected %lld .. %lld",
                          what, (long long)i, (long long)offsets[i],
                          (long long)(i ? offsets[i - 1] : 0), (long long)total);
    return QKV_OK;
}

static qkv_status check_sequences(const struct qkv_attention *a,
                                  const struct qkv_attention_reason *say)
{
    qkv_status status = QKV_OK;
    if (a->sequences < 0 || a->sequences > INT64_C(1) << SIZE_MAX_BITS)
        return refuse(say, QKV_ERR_USAGE, "the number of sequences is %lld, expected 0 .. %lld",
                      (long long)a->sequences, (long long)(INT64_C(1) << SIZE_MAX_BITS));
    if (a->sequences) {
        if (a->B != 1)
            return refuse(say, QKV_ERR_USAGE,
                          "batch size B is %lld, expected 1 with packed sequences",
                          (long long)a->B);
        if (!a->q_offsets)
            return refuse(say, QKV_ERR_USAGE, "packed sequences require the array q_offsets");
        status = check_offsets(a->q_offsets, "q_offsets", a->sequences, a->all_rows, say);
        if (!status) status = check_offsets(a->k_offsets, "k_offsets", a->sequences, a->S, say);
        if (status) return status;
    }
    for (int64_t n = 0; a->k_lengths && n < (a->sequences ? a->sequences : a->B); n++) {
        const int64_t most = a->sequences ? a->k_offsets[n + 1] - a->k_offsets[n] : a->S;
        if (a->k_lengths[n] < 0 || a->k_lengths[n] > most)
            return refuse(say, QKV_ERR_USAGE, "length k_lengths[%lld] is %lld, expected 0 .. %lld",
                          (long long)n, (long long)a->k_lengths[n], (long long)most);
    }
    return QKV_OK;
}

static qkv_status check_reach(const struct qkv_attention *a, const struct qkv_attention_reason *say)
{
    const struct qkv_strides *q = &a->q_strides, *k = &a->k_strides, *v = &a->v_strides,
                             *o = &a->out_strides;
    if (!reach_fits(q->b, a->B, q->t, a->T, q->h, a->H, a->E) ||
        !reach_fits(k->b, a->B, k->t, a->S, k->h, a->G, a->E) ||
        !reach_fits(v->b, a->B, v->t, a->S, v->h, a->G, a->F) ||
        !reach_fits(o->b, a->B, o->t, a->T, o->h, a->H, a->F) ||
        (a->bias.at && !reach_fits(a->bias.b, a->B, a->bias.t, a->T, a->bias.h, a->H, a->S)) ||
        (a->mask.at && !reach_fits(a->mask.b, a->B, a->mask.t, a->T, a->mask.h, a->H, a->S)))
        return refuse(say, QKV_ERR_USAGE, "strides reach past the end of the address space");
    if (qkv_attention_rows_meet(o, a->B, a->T, a->H, a->F))
        return refuse(say, QKV_ERR_USAGE, "out_strides let rows of out overlap");
    return QKV_OK;
}

// Returns the number of keys of a chunk. The packed keys of a chunk must fill only part of a
// second-level cache. The number depends only on E and F, because it determines the order of sums.
int64_t qkv_attention_chunk(const struct qkv_attention *a, int keys)
{
#ifdef QKV_TINY_TILES
    (void)a;
    return keys;
#else
    (void)keys;
    const int64_t wide = a->E + a->F;
    return wide <= 512 ? QKV_CHUNK : wide <= 1024 ? QKV_CHUNK / 2 : QKV_CHUNK / 4;
#endif
}

// Returns the largest number of rows of a block: their queries and sums must fit into a
// second-level cache together with the packed keys of a chunk.
int64_t qkv_attention_block_most(const struct qkv_attention *a)
{
    // NUMBERS: largest number of elements of queries and sums in a block; ROWS: larger blocks are
    // not faster
    enum { NUMBERS = 98304, ROWS = 384 };
    return qkv_min64(ROWS, NUMBERS / (a->E + a->F));
}

// Returns the number of rows of a block. The larger the blocks, the less often keys are packed; but
// blocks are smaller if there would otherwise be fewer blocks than the threads need.
static int64_t block_rows(const struct qkv_attention *a, const struct qkv_attention_kernels *k)
{
#ifdef QKV_TINY_TILES
    (void)a;
    return k->rows + 1;
#else
    const int64_t all = qkv_max64(a->B, 1) * a->T * a->H;
    const int64_t rows =
        qkv_min64(qkv_attention_block_most(a), qkv_max64(QKV_BLOCK_LEAST, all / 16));
    return qkv_max64(4, rows / k->rows) * k->rows;
#endif
}

// Computes the bytes of scratch of one thread, for the arrays that take_scratch in attention.c
// allocates.
static bool thread_bytes(size_t *out, const struct qkv_attention_work *w)
{
    const struct qkv_attention_kernels *k = w->kernel;
    const size_t width = (size_t)k->width(w->a.F), chunk = (size_t)w->chunk,
                 block = (size_t)w->block, line = 64, whole = sizeof(real);
    const size_t row = k->pack_query ? k->query_bytes(w->a.E) : (size_t)w->a.E * w->size;
    const size_t pieces[] = { chunk * k->key_bytes(w->a.E),        chunk * k->value_bytes(w->a.F),
                              (block + (size_t)k->rows) * row,     block * width * whole,
                              (size_t)k->rows * QKV_CHUNK * whole, 2 * block * whole };
    size_t sum = block + line; // for sums.begun, one byte per group, at most one per row
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++)
        if (!qkv_add_size(&sum, sum, qkv_round_up(pieces[i], line))) return false;
    *out = qkv_round_up(sum, line);
    return true;
}

int64_t qkv_attention_blocks(const struct qkv_attention_work *w, int64_t T)
{
    return qkv_ceil_div(T * w->heads, w->block);
}

struct qkv_attention_item qkv_attention_item(const struct qkv_attention_work *w, int64_t n)
{
    const struct qkv_attention *a = &w->a;
    struct qkv_attention_item m = { 0 };
    int64_t from = 0, end = a->all_rows; // rows of the longer call
    if (!a->sequences) {
        m = (struct qkv_attention_item){ .b = n, .S = a->S, .all = a->S };
        if (a->k_lengths) m.S = a->k_lengths[n];
    } else if (n < a->sequences) {
        from = a->q_offsets[n];
        end = a->q_offsets[n + 1];
        m.key = a->k_offsets[n];
        m.S = m.all = a->k_offsets[n + 1] - m.key;
        if (a->k_lengths) m.S = a->k_lengths[n];
    } else if (n == a->sequences) { // rows before the first sequence: no keys
        end = a->q_offsets[0];
    } else { // rows after the last sequence: no keys
        from = a->q_offsets[a->sequences];
    }
    m.row = qkv_min64(qkv_max64(from - a->first_row, 0), a->T);
    m.T = qkv_max64(qkv_min64(end - a->first_row, a->T) - m.row, 0);
    m.before = qkv_max64(a->first_row - from, 0);
    m.whole = end - from;
    m.shift = m.before + (a->diagonal == QKV_BOTTOM_RIGHT ? m.S - m.whole : 0);
    return m;
}

static qkv_status resolve_units(struct qkv_attention_work *w,
                                const struct qkv_attention_reason *say)
{
    const struct qkv_attention *a = &w->a;
    w->items = a->sequences ? a->sequences + 2 : a->B;
    int64_t blocks = 0;
    if (a->sequences)
        for (int64_t n = 0; n < w->items; n++)
            blocks += qkv_attention_blocks(w, qkv_attention_item(w, n).T);
    else if (__builtin_mul_overflow(a->B, qkv_attention_blocks(w, a->T), &blocks) ||
             blocks > INT64_MAX / WIDTH_MAX)
        return refuse(say, QKV_ERR_LIMIT,
                      "attention has too many blocks of rows, expected at most %lld, found more",
                      (long long)(INT64_MAX / WIDTH_MAX));
    // If there are many short items, a unit has several heads: it then runs long enough to prefetch
    // the next unit.
    w->span = qkv_max64(1, qkv_min64(a->G, blocks * a->G / 32));
    if (__builtin_mul_overflow(blocks, qkv_ceil_div(a->G, w->span), &w->units))
        return refuse(say, QKV_ERR_LIMIT,
                      "attention has too many blocks of rows times key heads, expected less than "
                      "2^63, found more");
    w->table = a->sequences ? qkv_round_up((size_t)(w->items + 1) * sizeof(int64_t), 64) : 0;
    const size_t threads = (size_t)qkv_min64(w->threads, w->units);
    if (!thread_bytes(&w->scratch_thread, w) ||
        !qkv_mul_size(&w->scratch, threads, w->scratch_thread) ||
        !qkv_add_size(&w->scratch, w->scratch, w->table))
        return refuse(say, QKV_ERR_LIMIT, "scratch does not fit into memory");
    return QKV_OK;
}

const struct qkv_attention_kernels *qkv_attention_kernel_table(const struct qkv_attention *a)
{
    const bool known = (unsigned)a->precision < QKV_PRECISIONS;
    return known ? qkv_kernel()->attention[a->precision] : NULL;
}

// Refuses a request with `native` in a precision whose numbers the kernels convert to float; the
// reason lists the precisions that have native products.
static qkv_status refuse_converted(qkv_precision precision, const struct qkv_attention_reason *say)
{
    char list[96] = "";
    for (int p = 0; p < QKV_PRECISIONS; p++) {
        const struct qkv_attention_kernels *k = qkv_kernel()->attention[p];
        const size_t used = strlen(list);
        if (k && k->native)
            snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "",
                     qkv_precision_name((qkv_precision)p));
    }
    return refuse(say, QKV_ERR_UNSUPPORTED,
                  "products in %s are not available in the %s kernels, which have %s",
                  qkv_precision_name(precision), qkv_isa(), list);
}

// Extends the scratch of a call with probes. Probes run after forward in the same scratch; lse is
// stored after the scratch of both.
static qkv_status add_probe(struct qkv_attention_work *w, const struct qkv_attention_reason *say)
{
    struct qkv_probe_work x;
    const qkv_status status = qkv_probe_resolve(&x, w, w->a.probe, say);
    if (status) return status;
    const size_t lse = (size_t)(w->a.B * w->a.H * w->a.T) * sizeof(real);
    w->lse = qkv_round_up(w->scratch > x.scratch ? w->scratch : x.scratch, 64);
    if (!qkv_add_size(&w->scratch, w->lse, qkv_round_up(lse, 64)))
        return refuse(say, QKV_ERR_LIMIT, "scratch does not fit into memory");
    return QKV_OK;
}

qkv_status qkv_attention_resolve(struct qkv_attention_work *w,
                                 const struct qkv_attention_kernels *kernel,
                                 const struct qkv_attention *given, char *reason, size_t size)
{
    const struct qkv_attention_reason say = { reason, size };
    *w = (struct qkv_attention_work){ .a = *given, .kernel = kernel, .threads = qkv_threads() };
    struct qkv_attention *a = &w->a;
    if (!a->G) a->G = a->H;
    if (!a->F) a->F = a->E;
    if (!a->all_rows && __builtin_add_overflow(a->first_row, a->T, &a->all_rows)) a->all_rows = -1;
    if (!kernel) {
        const char *name = qkv_precision_name(a->precision);
        if (!name)
            return refuse(&say, QKV_ERR_USAGE,
                          "unknown precision %d, expected a value of enum qkv_precision",
                          (int)a->precision);
        return refuse(&say, QKV_ERR_UNSUPPORTED, "attention is not supported in precision %s",
                      name);
    }
    if (a->native && !kernel->native) return refuse_converted(a->precision, &say);
    w->size = qkv_dtype_size(kernel->type);
    qkv_status status = check_sizes(a, &say);
    if (!status) status = check_options(a, &say);
    if (status) return status;
    if (a->scale == 0) a->scale = (float)(1 / sqrt((double)a->E));
    if (a->sequences && !a->k_offsets) a->k_offsets = a->q_offsets;
    default_strides(&a->q_strides, a->T, a->H, a->E);
    default_strides(&a->k_strides, a->S, a->G, a->E);
    default_strides(&a->v_strides, a->S, a->G, a->F);
    default_strides(&a->out_strides, a->T, a->H, a->F);
    status = check_sequences(a, &say);
    if (!status) status = check_reach(a, &say);
    if (status) return status;
    // Limits window sizes to a value that is larger than any distance of a query and a key, so that
    // sums with window sizes do not overflow.
    const int64_t far = INT64_C(1) << (SIZE_MAX_BITS + 2);
    a->window.left = qkv_min64(a->window.left, far);
    a->window.right = qkv_min64(a->window.right, far);
    w->heads = a->H / a->G;
    w->chunk = qkv_attention_chunk(a, w->kernel->keys);
    w->block = block_rows(a, w->kernel);
    status = resolve_units(w, &say);
    return status || !a->probe ? status : add_probe(w, &say);
}

// Returns the sum of t + k over t = 0 .. T-1, where each term is limited to the range 0 .. S.
static double sum_held(int64_t T, int64_t k, int64_t S)
{
    // begin: first t with t + k >= 0; end: first t with t + k >= S
    const int64_t begin = qkv_min64(qkv_max64(-k, 0), T);
    const int64_t end = qkv_max64(begin, qkv_min64(qkv_max64(S - k, 0), T));
    const double n = (double)(end - begin);
    return n * ((double)begin + (double)k) + n * (n - 1) / 2 + (double)(T - end) * (double)S;
}

// Returns the number of pairs of a query and a key that causal mask, window and length allow, for
// one head.
static double pairs(const struct qkv_attention_work *w, const struct qkv_attention_item *m)
{
    const struct qkv_attention *a = &w->a;
    int64_t right = INT64_MAX, left = INT64_MAX;
    if (a->causal) right = 0;
    if (a->window.on && a->window.right >= 0) right = qkv_min64(right, a->window.right);
    if (a->window.on && a->window.left >= 0) left = a->window.left;
    // A limit of T + S or more excludes no key.
    const int64_t all = m->T + m->S;
    const double hi =
        right < all ? sum_held(m->T, m->shift + right + 1, m->S) : (double)m->T * (double)m->S;
    const double lo = left < all ? sum_held(m->T, m->shift - left, m->S) : 0;
    return hi - lo;
}

// Sums of tiles may exceed 64 bits before they are limited to INT64_MAX.
__extension__ typedef __int128 wide;

// Returns the sum of floor((a i + b) / m) over i = 0 .. n-1, for a, b >= 0 and m > 0, in log(m)
// steps, as the number of lattice points below a line (Graham, Knuth & Patashnik 1994, 3.5).
static wide floor_sum(wide n, wide a, wide b, wide m)
{
    wide sum = 0;
    while (n > 0) {
        sum += n * (n - 1) / 2 * (a / m) + n * (b / m);
        a %= m;
        b %= m;
        const wide top = a * n + b;
        n = top / m;
        b = top % m;
        const wide swap = m;
        m = a;
        a = swap;
    }
    return sum;
}

// Groups of rows that have the same place in every one of `blocks` blocks of `block` rows.
struct row_groups {
    int64_t blocks, block, heads;
    int64_t first, last; // rows of the group in block 0
};

// Returns the first block in which query (row / heads) of this row is at least `query`.
static int64_t block_of(const struct row_groups *g, int64_t row, int64_t query)
{
    const int64_t ahead = query * g->heads - row;
    return ahead <= 0 ? 0 : qkv_min64(qkv_ceil_div(ahead, g->block), g->blocks);
}

// Returns the number of visited tiles of these groups.  The keys of a group begin at the first key
// of its first row and end at the last key of its last row; both grow by the same number from block
// to block.
static wide visited_tiles(const struct qkv_attention_work *w, const struct qkv_attention_item *m,
                          const struct row_groups *g, int64_t keys)
{
    const struct qkv_attention *a = &w->a;
    const bool left = a->window.on && a->window.left >= 0;
    int64_t after = INT64_MAX; // the keys of query t end before t + after; INT64_MAX: no limit
    if (a->causal) after = 1;
    if (a->window.on && a->window.right >= 0) after = qkv_min64(after, a->window.right + 1);
    const wide scale = (wide)g->heads * keys;
    int64_t from = 0, to = g->blocks, full = 0, late = g->blocks; // blocks
    if (after < INT64_MAX) { // the first block with a key, and the first that reaches the end
        after += m->shift;
        from = block_of(g, g->last, 1 - after);
        full = block_of(g, g->last, m->S - after);
    }
    if (left) { // the first block after which all keys are out of the window, and that loses keys
        to = block_of(g, g->first, m->S + a->window.left - m->shift);
        late = block_of(g, g->first, a->window.left - m->shift);
    }
    if (!m->S || from >= to) return 0;
    full = qkv_min64(qkv_max64(full, from), to);
    late = qkv_min64(qkv_max64(late, from), to);
    wide sum = (wide)(to - full) * qkv_ceil_div(m->S, keys);
    if (full > from)
        sum +=
            floor_sum(full - from, g->block,
                      (wide)from * g->block + g->last + (wide)g->heads * (after + keys - 1), scale);
    if (left)
        sum -= floor_sum(
            to - late, g->block,
            (wide)late * g->block + g->first + (wide)g->heads * (m->shift - a->window.left), scale);
    return sum;
}

static int64_t limited(wide n)
{
    return n > INT64_MAX ? INT64_MAX : (int64_t)n;
}

// Counts the tiles of one item and key/value head. *tiles: all tiles; *visited: tiles in which at
// least one row sees a key. Counts of more than INT64_MAX become INT64_MAX.
static void count_tiles(const struct qkv_attention_work *w, const struct qkv_attention_item *m,
                        const struct qkv_attention_tiling *tile, int64_t *tiles, int64_t *visited)
{
    const int64_t rows = m->T * w->heads, keys = tile->keys, across = qkv_ceil_div(m->all, keys);
    const int64_t whole = rows / tile->block, rest = rows % tile->block;
    wide all = 0, seen = 0;
    for (int part = 0; part < 2; part++) { // the whole blocks, and the rows after them
        const int64_t n = part ? rest : tile->block, blocks = part ? rest > 0 : whole;
        const int64_t groups = qkv_ceil_div(n, tile->rows);
        all += (wide)blocks * groups * across;
        for (int64_t i = 0; i < groups && blocks; i++) {
            const int64_t begin = part ? whole * tile->block : 0;
            const struct row_groups g = { .blocks = blocks,
                                          .block = tile->block,
                                          .heads = w->heads,
                                          .first = begin + qkv_attention_group(i, n, groups),
                                          .last =
                                              begin + qkv_attention_group(i + 1, n, groups) - 1 };
            seen += visited_tiles(w, m, &g, keys);
        }
    }
    *tiles = limited(all);
    *visited = limited(seen);
}

// Adds times * n to *count, which becomes INT64_MAX if the sum is larger.
static void add_product(int64_t *count, int64_t times, int64_t n)
{
    int64_t more;
    if (__builtin_mul_overflow(times, n, &more) || __builtin_add_overflow(*count, more, count))
        *count = INT64_MAX;
}

void qkv_attention_count(struct qkv_attention_plan *p, const struct qkv_attention_work *w,
                         const struct qkv_attention_tiling *tile)
{
    // Without sequences and lengths, all batch items have the same number of tiles.
    const bool alike = !w->a.sequences && !w->a.k_lengths;
    p->tile_rows = tile->rows;
    p->tile_keys = tile->keys;
    for (int64_t n = 0; n < (alike ? qkv_min64(w->items, 1) : w->items); n++) {
        const struct qkv_attention_item m = qkv_attention_item(w, n);
        const int64_t times = (alike ? w->items : 1) * w->a.G;
        int64_t tiles, visited;
        count_tiles(w, &m, tile, &tiles, &visited);
        add_product(&p->tiles, times, tiles);
        add_product(&p->visited, times, visited);
        p->flops += tile->flops * pairs(w, &m) * (double)(times * w->heads);
    }
    p->skipped = p->tiles - p->visited;
}

void qkv_attention_describe(struct qkv_attention_plan *p, const struct qkv_attention_work *w)
{
    const bool dot = w->kernel == qkv_attention_kernel_table(&w->a);
    *p = (struct qkv_attention_plan){ .kernel = dot ? "fused" : "fused additive",
                                      .isa = w->kernel->isa,
                                      .arithmetic = w->kernel->arithmetic,
                                      .scratch = w->scratch,
                                      .scratch_thread = w->scratch_thread };
    qkv_attention_count(p, w,
                        &(struct qkv_attention_tiling){
                            .block = w->block,
                            .rows = w->kernel->rows,
                            .keys = w->kernel->keys,
                            .flops = 2.0 * (double)(w->a.E + w->a.F),
                        });
}

QKV_API struct qkv_attention_plan qkv_attention_plan(const struct qkv_attention *a)
{
    struct qkv_attention_plan p = { .status = QKV_ERR_USAGE, .reason = "the attention is NULL" };
    struct qkv_attention_work w;
    if (!a) return p;
    p.reason[0] = 0;
    p.status =
        qkv_attention_resolve(&w, qkv_attention_kernel_table(a), a, p.reason, sizeof p.reason);
    if (!p.status) qkv_attention_describe(&p, &w);
    return p;
}
