// SPDX-License-Identifier: MIT
// attention_names.h: defines macros for names in templates. A template is a file that is included
// several times, each time with another type STORED, which becomes part of the names.
#ifndef QKV_ATTENTION_NAMES_H
#define QKV_ATTENTION_NAMES_H
#define QKV_JOIN2_(A, B)    A##_##B
#define QKV_JOIN3_(A, B, C) A##_##B##_##C
#define QKV_JOIN2(A, B)     QKV_JOIN2_(A, B)
#define QKV_JOIN3(A, B, C)  QKV_JOIN3_(A, B, C)
// NAME(pack_keys) becomes pack_keys_bf16 if STORED is bf16
#define NAME(X) QKV_JOIN2(X, STORED)
// NAME_N(vf_load) becomes vf_load_bf16_n if STORED is bf16
#define NAME_N(X) QKV_JOIN3(X, STORED, n)
#define ELEMENT   NAME(element)
#endif
