// SPDX-License-Identifier: MIT
/** layout.h: sizes and layouts of the structures of the running library.
 *
 *  Structures may grow with every minor version before 1.0. A program that is linked with libqkv
 *  finds the right version by its soname. A program that loads the library at run time, and a
 *  binding for another language, must compare before the first call: a structure of another size
 *  would be read beyond its end.
 *
 *      if (!QKV_STRUCT_MATCHES(qkv_attention)) return "libqkv has another struct qkv_attention";
 */
#ifndef QKV_LAYOUT_H
#define QKV_LAYOUT_H
#include <qkv/base.h>

QKV_BEGIN_DECLS

/** Returns the size in bytes of a structure of the public headers as the running library was
 *  compiled, for a name such as "qkv_attention"; 0 if there is no such structure or name is
 *  NULL. */
QKV_API size_t qkv_struct_size(const char *name);

/** Returns a fingerprint of the names, offsets and sizes of all members of a structure: 64-bit
 *  FNV-1a of the bytes "NAME SIZE\n" and, for each member in the order of the header,
 *  "MEMBER OFFSET SIZE\n" in decimal. A member of an unnamed nested structure follows it as
 *  "OUTER.INNER". For example, struct qkv_progress of a 64-bit machine is
 *  "qkv_progress 16\nstep 0 8\nuser 8 8\n". 0 if there is no such structure or name is NULL. */
QKV_API uint64_t qkv_struct_layout(const char *name);

/** True if the running library and this header agree on the size of struct `name`. */
#define QKV_STRUCT_MATCHES(name) (qkv_struct_size(#name) == sizeof(struct name))

QKV_END_DECLS
#endif
