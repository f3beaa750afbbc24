// SPDX-License-Identifier: MIT
// struct_layout.c: reports size and layout of each public structure, from struct_members.def.
#include <qkv/qkv.h>
#include "base/base.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static uint64_t fnv(uint64_t h, const char *text)
{
    for (; *text; text++) h = (h ^ (unsigned char)*text) * 0x100000001b3u;
    return h;
}

static uint64_t add_line(uint64_t h, const char *name, size_t a, size_t b, bool pair)
{
    char line[128];
    int n = snprintf(line, sizeof line, "%s %zu", name, a);
    if (pair) n += snprintf(line + n, sizeof line - (size_t)n, " %zu", b);
    snprintf(line + n, sizeof line - (size_t)n, "\n");
    return fnv(h, line);
}

// One function per structure.
#define MEMBER(member)                                                                             \
    h = add_line(h, #member, offsetof(type, member), sizeof(((type *)0)->member), true);
#define STRUCT(name, members)                                                                      \
    static uint64_t layout_of_##name(void)                                                         \
    {                                                                                              \
        typedef struct name type;                                                                  \
        uint64_t h = add_line(0xcbf29ce484222325u, #name, sizeof(type), 0, false);                 \
        members;                                                                                   \
        return h;                                                                                  \
    }
#include "base/layout/struct_members.def"
#undef STRUCT

static const struct row {
    const char *name;
    size_t size;
    uint64_t (*layout)(void);
} rows[] = {
#define STRUCT(name, members) { #name, sizeof(struct name), layout_of_##name },
#include "base/layout/struct_members.def"
};

static const struct row *find_row(const char *name)
{
    for (size_t i = 0; name && i < sizeof rows / sizeof rows[0]; i++)
        if (!strcmp(rows[i].name, name)) return &rows[i];
    return NULL;
}

size_t qkv_struct_size(const char *name)
{
    const struct row *r = find_row(name);
    return r ? r->size : 0;
}

uint64_t qkv_struct_layout(const char *name)
{
    const struct row *r = find_row(name);
    return r ? r->layout() : 0;
}
