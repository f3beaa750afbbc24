// SPDX-License-Identifier: MIT
// long_tokens.c: finds the long tokens that end at a byte of a text by the automaton of Aho and
// Corasick (1975), in time that does not depend on the length of the tokens.
//
// A walk through a trie from every character of a text takes text x longest token steps.  Models
// that do so walk QKV_SHORT_TOKEN bytes at most and use this automaton for longer tokens.  It takes
// one step per byte of the text, amortized, and one per long token found.  A vocabulary in which
// more than QKV_LONG_ENDS of them can end at one byte is refused.
#include "text/text_internal.h"
#include <math.h>
#include <string.h>

// A long token while the links are made: the node of the part of its text that was read.
struct path {
    const char *text;
    uint32_t bytes, node;
};

// Sets the links of `node`, the child of `parent` for `byte`.  Nodes with shorter texts have links.
static void link_node(struct qkv_long_tokens *l, uint32_t parent, uint8_t byte, uint32_t node)
{
    uint32_t from = l->shorter[parent], to = 0;
    while (from && !(to = qkv_trie_step(&l->trie, from, byte))) from = l->shorter[from];
    l->shorter[node] = to ? to : QKV_TRIE_ROOT;
    l->found[node] = l->trie.value[node] >= 0 ? node : l->found[l->shorter[node]];
}

// Makes the links by increasing length of the texts of nodes.
static void link_nodes(struct qkv_long_tokens *l, struct path *paths, int64_t count)
{
    for (uint32_t depth = 0; count; depth++) {
        int64_t kept = 0;
        for (int64_t i = 0; i < count; i++) {
            struct path p = paths[i];
            const uint8_t byte = (uint8_t)p.text[depth];
            const uint32_t node = qkv_trie_step(&l->trie, p.node, byte);
            if (!l->shorter[node]) link_node(l, p.node, byte, node);
            p.node = node;
            if (depth + 1 < p.bytes) paths[kept++] = p;
        }
        count = kept;
    }
}

bool qkv_long_tokens_init(struct qkv_long_tokens *l, const struct qkv_vocab *v,
                          const double *scores)
{
    int64_t count = 0, n = 0;
    memset(l, 0, sizeof *l);
    for (int64_t i = 0; i < v->count; i++)
        count += v->tokens[i].bytes > QKV_SHORT_TOKEN && scores[v->tokens[i].id] > -INFINITY;
    if (!count) return true;
    struct path *paths = qkv_alloc((size_t)count, sizeof *paths);
    bool ok = paths && qkv_trie_init(&l->trie, (size_t)count);
    for (int64_t i = 0; i < v->count && ok; i++) {
        const struct qkv_token *t = &v->tokens[i];
        const char *text = v->pool + t->text;
        int32_t got;
        if (t->bytes <= QKV_SHORT_TOKEN || !(scores[t->id] > -INFINITY)) continue;
        paths[n++] = (struct path){ text, t->bytes, QKV_TRIE_ROOT };
        ok = qkv_trie_add(&l->trie, text, t->bytes, t->id, &got);
    }
    l->shorter = ok ? qkv_alloc_zero((size_t)l->trie.nodes, sizeof *l->shorter) : NULL;
    l->found = ok ? qkv_alloc_zero((size_t)l->trie.nodes, sizeof *l->found) : NULL;
    l->any = ok = l->shorter && l->found;
    if (ok) link_nodes(l, paths, n);
    qkv_free(paths);
    return ok;
}

int32_t qkv_long_tokens_crowded(const struct qkv_long_tokens *l)
{
    if (!l->any) return -1;
    for (uint32_t node = QKV_TRIE_ROOT; node < l->trie.nodes; node++) {
        int count = 0;
        if (l->trie.value[node] < 0) continue;
        for (uint32_t k = node; k && count <= QKV_LONG_ENDS; k = l->found[l->shorter[k]]) count++;
        if (count > QKV_LONG_ENDS) return l->trie.value[node];
    }
    return -1;
}

void qkv_long_tokens_free(struct qkv_long_tokens *l)
{
    qkv_trie_free(&l->trie);
    qkv_free(l->shorter);
    qkv_free(l->found);
    memset(l, 0, sizeof *l);
}

uint32_t qkv_long_tokens_step(const struct qkv_long_tokens *l, uint32_t node, uint8_t byte)
{
    uint32_t to = 0;
    while (node && !(to = qkv_trie_step(&l->trie, node, byte))) node = l->shorter[node];
    return to ? to : QKV_TRIE_ROOT;
}
