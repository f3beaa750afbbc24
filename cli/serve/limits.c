// SPDX-License-Identifier: MIT
// limits.c: decides which connection or job ends when a limit of `qkv serve` is reached.
#include "serve/limits.h"
#include <string.h>

bool reads_fast_enough(size_t bytes, int64_t milliseconds)
{
    return bytes >= LIMIT_READ_BYTES || milliseconds < LIMIT_READ_MS;
}

static size_t kept_of(const struct kept_bytes *kept, int64_t n, const char *peer)
{
    size_t sum = 0;
    for (int64_t i = 0; i < n; i++)
        if (strcmp(kept[i].peer, peer) == 0) sum += kept[i].bytes;
    return sum;
}

static void *largest_of(const struct kept_bytes *kept, int64_t n, const char *peer)
{
    const struct kept_bytes *best = NULL;
    for (int64_t i = 0; i < n; i++)
        if (strcmp(kept[i].peer, peer) == 0 && (!best || kept[i].bytes > best->bytes))
            best = &kept[i];
    return best ? best->job : NULL;
}

void *kept_too_much(const struct kept_bytes *kept, int64_t n, int64_t grown)
{
    const char *most = kept[grown].peer;
    size_t of_all = 0, of_most = kept_of(kept, n, most);
    if (kept[grown].bytes > LIMIT_KEPT) return kept[grown].job;
    if (of_most > LIMIT_KEPT_OF_ONE) return largest_of(kept, n, most);
    for (int64_t i = 0; i < n; i++) {
        const size_t of_one = kept_of(kept, n, kept[i].peer);
        of_all += kept[i].bytes;
        if (of_one > of_most) {
            of_most = of_one;
            most = kept[i].peer;
        }
    }
    return of_all > LIMIT_KEPT_OF_ALL ? largest_of(kept, n, most) : NULL;
}
