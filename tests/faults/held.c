// SPDX-License-Identifier: MIT
// held.c: counts the blocks of memory that qkv has allocated and not yet freed.  A block counts if
// the code that called the allocator is in the command, in libqkv, in one of its engines or in
// jansson, whose values belong to libqkv.
#define _GNU_SOURCE
#include "shim.h"
#include <execinfo.h>
#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SLOTS = 1 << 18, SEGMENTS = 256, FRAMES = 12 };

static atomic_llong *held; // NULL: nothing is counted
static bool traced;
static atomic_flag lock = ATOMIC_FLAG_INIT;

// The held blocks: a hash table by address, with linear probing
static struct slot {
    uintptr_t block;
    void **frames; // the callers, if they are traced
} slots[SLOTS];
static int used;

// Code of the process, in loaded objects
static struct segment {
    uintptr_t begin, end;
    bool ours;
} segments[SEGMENTS];
static int segment_count;

static int add_object(struct dl_phdr_info *info, size_t size, void *ctx)
{
    const char *name = strrchr(info->dlpi_name, '/');
    (void)size, (void)ctx;
    name = name ? name + 1 : info->dlpi_name;
    // the command is the object without a name
    const bool ours = !*name ||
                      (!strncmp(name, "libqkv", 6) && strncmp(name, "libqkv_faults", 13)) ||
                      !strncmp(name, "libjansson", 10);
    for (int i = 0; i < info->dlpi_phnum && segment_count < SEGMENTS; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        const uintptr_t begin = info->dlpi_addr + p->p_vaddr;
        if (p->p_type == PT_LOAD && p->p_flags & PF_X)
            segments[segment_count++] = (struct segment){ begin, begin + p->p_memsz, ours };
    }
    return 0;
}

static const struct segment *segment_of(uintptr_t code)
{
    for (int i = 0; i < segment_count; i++)
        if (code >= segments[i].begin && code < segments[i].end) return &segments[i];
    return NULL;
}

// Returns true if the code is qkv's.  Objects that were loaded since the last call are added.
static bool is_ours(uintptr_t code)
{
    const struct segment *s = segment_of(code);
    if (!s) {
        segment_count = 0;
        dl_iterate_phdr(add_object, NULL);
        s = segment_of(code);
    }
    return s && s->ours;
}

static unsigned slot_of(uintptr_t block)
{
    return (unsigned)((block >> 4) * 0x9e3779b1u) % SLOTS;
}

static void begin(void)
{
    while (atomic_flag_test_and_set(&lock)) continue;
}
static void end(void)
{
    atomic_flag_clear(&lock);
}

void *shim_hold(void *block, const void *caller)
{
    void **frames = NULL;
    if (!held || !block) return block;
    begin();
    const bool ours = is_ours((uintptr_t)caller);
    end();
    if (!ours) return block;
    if (traced) {
        frames = __libc_calloc(FRAMES, sizeof *frames);
        if (frames) backtrace(frames, FRAMES);
    }
    begin();
    if (used < SLOTS / 2) {
        unsigned i = slot_of((uintptr_t)block);
        while (slots[i].block) i = (i + 1) % SLOTS;
        slots[i] = (struct slot){ (uintptr_t)block, frames };
        used++;
    }
    atomic_fetch_add(held, 1); // without a slot it stays held, which a run without a fault shows
    end();
    return block;
}

void shim_release(const void *block)
{
    if (!held || !block) return;
    begin();
    unsigned i = slot_of((uintptr_t)block);
    while (slots[i].block && slots[i].block != (uintptr_t)block) i = (i + 1) % SLOTS;
    if (slots[i].block) {
        __libc_free(slots[i].frames);
        used--;
        atomic_fetch_sub(held, 1);
        // Moves later blocks to the empty slot, so that a search finds them.
        for (unsigned j = (i + 1) % SLOTS; slots[j].block; j = (j + 1) % SLOTS) {
            const unsigned home = slot_of(slots[j].block);
            if ((j - home) % SLOTS < (j - i) % SLOTS) continue;
            slots[i] = slots[j];
            i = j;
        }
        slots[i] = (struct slot){ 0 };
    }
    end();
}

static void stop_counting(void)
{
    held = NULL;
}

void shim_hold_begin(atomic_llong *count, bool trace)
{
    void *frames[FRAMES];
    traced = trace;
    if (traced) backtrace(frames, FRAMES); // its first call loads a library
    dl_iterate_phdr(add_object, NULL);
    // a child of the command shares the count, and frees what its parent has allocated
    if (pthread_atfork(NULL, NULL, stop_counting) == 0) held = count;
}

// Prints the callers of each block that is still held, as OBJECT(+OFFSET), if they are traced.
__attribute__((destructor)) static void print_held(void)
{
    if (!held || !traced) return;
    stop_counting();
    for (int i = 0; i < SLOTS; i++) {
        int n = 0;
        if (!slots[i].block || !slots[i].frames) continue;
        while (n < FRAMES && slots[i].frames[n]) n++;
        if (write(2, "held:\n", 6) < 0) return;
        backtrace_symbols_fd(slots[i].frames + 1, n - 1, 2);
    }
}
