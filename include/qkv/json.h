// SPDX-License-Identifier: MIT
/** json.h: reads JSON that comes from outside: strict, with the place of an error, and bounded in
 *  depth.
 *
 *      qkv_json *root;
 *      int64_t count = 1;
 *      if (!qkv_json_read(&root, text, bytes, &err)) {
 *          qkv_json_get_integer(qkv_json_lookup(root, "count"), &count);
 *          qkv_json_free(root);
 *      }
 */
#ifndef QKV_JSON_H
#define QKV_JSON_H

#include <qkv/base.h>

QKV_BEGIN_DECLS

/** A JSON value.  The values inside a root belong to it and are valid until it is freed.  A NULL
 *  value is valid for every function and counts as null, so that lookups can be chained. */
typedef struct qkv_json qkv_json;

enum qkv_json_kind {
    QKV_JSON_NULL = 0,
    QKV_JSON_BOOLEAN,
    QKV_JSON_INTEGER, /**< a number without fraction and exponent, of at most 64 bits */
    QKV_JSON_REAL,    /**< any other number */
    QKV_JSON_STRING,
    QKV_JSON_ARRAY,
    QKV_JSON_OBJECT
};

/** Parses text[bytes], an object or an array with optional white space around it (RFC 8259).
 *  Returns: QKV_OK; QKV_ERR_USAGE: an argument is NULL; QKV_ERR_FORMAT with the byte offset: wrong
 *           syntax, more than 64 levels, a key that occurs twice in an object, invalid UTF-8, a
 *           string with a NUL character, a number that is out of range; QKV_ERR_LIMIT.  After an
 *           error *out is NULL. */
QKV_API QKV_MUST_CHECK qkv_status qkv_json_read(qkv_json **out, const char *text, size_t bytes,
                                                qkv_error *err);
/** Reads a file whose root is an object, of at most max_bytes.  An integer of more than 64 bits
 *  becomes a real: transformers writes 10^30 for "no limit".
 *  Returns: as qkv_json_read, with line:column as the place; also QKV_ERR_IO; QKV_ERR_LIMIT for a
 *           larger file. */
QKV_API QKV_MUST_CHECK qkv_status qkv_json_read_file(qkv_json **out, const char *path,
                                                     size_t max_bytes, qkv_error *err);
QKV_API void qkv_json_free(qkv_json *root); /**< NULL is fine */

QKV_API enum qkv_json_kind qkv_json_kind_of(const qkv_json *v);
/** Returns the kind of a value for a message: "an object", "a text", ... */
QKV_API const char *qkv_json_kind_name(const qkv_json *v);
/** Returns the number of elements of an array or of members of an object; 0 for other values. */
QKV_API int64_t qkv_json_length(const qkv_json *v);
/** Returns element i of an array; NULL: v is no array, or has no such element. */
QKV_API const qkv_json *qkv_json_element(const qkv_json *v, int64_t i);
/** Returns the member `key` of an object; NULL: v is no object, or has no such member. */
QKV_API const qkv_json *qkv_json_lookup(const qkv_json *v, const char *key);
/** Returns the key that follows `key` in an object, in an arbitrary order; with key NULL the first
 *  key; NULL after the last. */
QKV_API const char *qkv_json_next_key(const qkv_json *v, const char *key);

/** Returns the text of a string, NUL-terminated valid UTF-8 without another NUL, and its length in
 *  *bytes (may be NULL); NULL: v is no string. */
QKV_API const char *qkv_json_get_string(const qkv_json *v, size_t *bytes);
/** Each function writes the value to *out and returns true; if v has another kind, it returns false
 *  and writes nothing.  get_number accepts integers and reals. */
QKV_API bool qkv_json_get_integer(const qkv_json *v, int64_t *out);
QKV_API bool qkv_json_get_number(const qkv_json *v, double *out);
QKV_API bool qkv_json_get_boolean(const qkv_json *v, bool *out);

QKV_END_DECLS
#endif
