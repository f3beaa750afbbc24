// SPDX-License-Identifier: MIT
// attention_names.h: names that end in the type that a template is laid in for: STORED.
#ifndef QKV_ATTENTION_NAMES_H
#define QKV_ATTENTION_NAMES_H
#define QKV_JOIN2_(A, B)    A##_##B
#define QKV_JOIN3_(A, B, C) A##_##B##_##C
#define QKV_JOIN2(A, B)     QKV_JOIN2_(A, B)
#define QKV_JOIN3(A, B, C)  QKV_JOIN3_(A, B, C)
#define NAME(X)             QKV_JOIN2(X, STORED)    // pack_keys_bf16
#define NAME_N(X)           QKV_JOIN3(X, STORED, n) // vf_load_bf16_n
#define ELEMENT             NAME(element)
#endif
