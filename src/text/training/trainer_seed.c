// SPDX-License-Identifier: MIT
// trainer_seed.c: finds the repeated strings of a text from its sorted suffixes (Manber, Myers
// 1990).
//
// Neighbors in the sorted order have common prefixes.  A longest common prefix of a range of
// neighbors is a repeated string that continues in more than one way (an inner node of the suffix
// tree).  Equal words are one segment with a count.  A string that occurs in only one word is no
// seed, even if that word is frequent, because otherwise whole words would leave no counts for
// their parts.
#include "text/training/trainer_unigram.h"
#include <string.h>

struct suffix {
    const uint8_t *text;
    int64_t count;
};
enum { DEPTH = 4 * QKV_PIECE_CHARS };

static void swap_suffixes(struct suffix *a, struct suffix *b)
{
    const struct suffix x = *a;
    *a = *b;
    *b = x;
}

static uint8_t middle(uint8_t a, uint8_t b, uint8_t c)
{
    return a < b ? (b < c ? b : a < c ? c : a) : (a < c ? a : b < c ? c : b);
}

// Sorts suffixes by quicksort on one byte at a time (Bentley, Sedgewick 1997).  The loop processes
// the larger of the two outer parts, so that the recursion stays shallow.
static void sort_suffixes(struct suffix *s, int64_t n, int depth)
{
    while (n > 1) {
        const uint8_t pivot = middle(s[0].text[depth], s[n / 2].text[depth], s[n - 1].text[depth]);
        int64_t less = 0, more = n;
        for (int64_t i = 0; i < more;) {
            const uint8_t c = s[i].text[depth];
            if (c < pivot)
                swap_suffixes(&s[i++], &s[less++]);
            else if (c > pivot)
                swap_suffixes(&s[i], &s[--more]);
            else
                i++;
        }
        if (pivot && depth + 1 < DEPTH) sort_suffixes(s + less, more - less, depth + 1);
        const int64_t right = n - more;
        if (less < right) {
            sort_suffixes(s, less, depth);
            s += more;
            n = right;
        } else {
            sort_suffixes(s + more, right, depth);
            n = less;
        }
    }
}

// Returns the number of bytes of the first characters of a suffix; *chars is the number of these
// characters, at most QKV_PIECE_CHARS.
static int32_t head(const uint8_t *text, int32_t most, int32_t *chars)
{
    int32_t n = 0;
    for (*chars = 0; *chars < QKV_PIECE_CHARS && n < most && text[n]; ++*chars) {
        int32_t next = n + 1;
        while (qkv_utf8_continues(text[next])) next++;
        if (next > most) break;
        n = next;
    }
    return n;
}

// Returns the number of bytes of the common prefix of two suffixes; only complete characters count.
static int32_t common(const uint8_t *a, const uint8_t *b)
{
    int32_t n = 0, chars;
    while (n < DEPTH && a[n] && a[n] == b[n]) n++;
    return head(a, n, &chars);
}

bool qkv_pieces_add(struct qkv_pieces *p, struct qkv_piece unit)
{
    void *at = p->at;
    const bool ok = qkv_reserve(&at, &p->capacity, p->count + 1, sizeof *p->at);
    p->at = at;
    if (ok) p->at[p->count++] = unit;
    return ok;
}

static bool offer(struct qkv_pieces *p, const uint8_t *text, int32_t bytes, int64_t count,
                  int64_t least)
{
    int32_t chars;
    if (count < least) return true;
    bytes = head(text, bytes, &chars);
    if (chars < 2) return true;
    return qkv_pieces_add(p,
                          (struct qkv_piece){ text, bytes, chars, (double)count * (double)chars });
}

// A stack of common prefixes whose range has not ended; each prefix is longer than the prefix below
// it.
struct open {
    int32_t bytes;
    int64_t from; // sum of the counts before it
};

static bool find_repeats(struct qkv_pieces *p, const struct suffix *s, int64_t n, int64_t least)
{
    struct open stack[DEPTH + 1];
    int depth = 0;
    int64_t sum = 0;
    for (int64_t i = 0; i < n; i++) {
        const int32_t shared = i + 1 < n ? common(s[i].text, s[i + 1].text) : 0;
        int64_t from = sum;
        sum += s[i].count;
        while (depth && stack[depth - 1].bytes > shared) {
            const struct open x = stack[--depth];
            if (!offer(p, s[i].text, x.bytes, sum - x.from, least)) return false;
            from = x.from;
        }
        if (shared && (!depth || stack[depth - 1].bytes < shared))
            stack[depth++] = (struct open){ shared, from };
    }
    return true;
}

// Keeps the `most` seeds with the greatest scores; of seeds with equal scores, it keeps the first.
static void keep_best(struct qkv_pieces *p, int64_t from, int64_t most)
{
    double low = 0, high = 0;
    if (p->count - from <= most) return;
    for (int64_t i = from; i < p->count; i++) high = p->at[i].score > high ? p->at[i].score : high;
    for (int step = 0; step < 64; step++) { // scores are integers
        const double mid = low + (high - low) / 2;
        int64_t over = 0;
        for (int64_t i = from; i < p->count; i++) over += p->at[i].score > mid;
        if (over <= most)
            high = mid;
        else
            low = mid;
        if (high - low < 0.5) break;
    }
    int64_t kept = from, left = most;
    for (int64_t i = from; i < p->count; i++) left -= p->at[i].score > high;
    for (int64_t i = from; i < p->count; i++) {
        const double score = p->at[i].score;
        const bool equal = score <= high && score > low && left > 0;
        left -= equal;
        if (score > high || equal) p->at[kept++] = p->at[i];
    }
    p->count = kept;
}

bool qkv_pieces_seed(struct qkv_pieces *p, const struct qkv_segments *g, int64_t most,
                     int64_t least)
{
    int64_t n = 0;
    for (int64_t i = 0; i < g->pool_count; i++) n += g->pool[i] && !qkv_utf8_continues(g->pool[i]);
    struct suffix *s = qkv_alloc((size_t)n + 1, sizeof *s);
    if (!s) return false;
    n = 0;
    for (int64_t i = 0; i < g->count; i++)
        for (int32_t k = 0; k < g->at[i].bytes; k++)
            if (!qkv_utf8_continues(g->at[i].text[k]))
                s[n++] = (struct suffix){ g->at[i].text + k, g->at[i].count };
    sort_suffixes(s, n, 0);
    const int64_t from = p->count;
    const bool ok = find_repeats(p, s, n, least);
    qkv_free(s);
    if (ok) keep_best(p, from, most);
    return ok;
}
