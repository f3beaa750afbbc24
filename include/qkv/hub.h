// SPDX-License-Identifier: MIT
/** hub.h: models by name.  A model of the Hugging Face Hub has a name such as "org/name", and
 *  "org/name@revision" names a branch, a tag or a commit.  Models that were downloaded are in the
 *  cache of the Hub, a folder that the programs of a machine share
 *  (huggingface.co/docs/hub/local-cache):
 *
 *      models--org--name/refs/main                  the commit of the branch main
 *      models--org--name/snapshots/COMMIT/FILE      a link to ../../blobs/DIGEST
 *      models--org--name/blobs/DIGEST               the contents of a file
 *
 *  The functions read this cache and use no network; `qkv pull` downloads. */
#ifndef QKV_HUB_H
#define QKV_HUB_H

#include <qkv/base.h>

QKV_BEGIN_DECLS

enum {
    QKV_HUB_REPO = 97,      /**< bytes of a name such as "org/name", with its NUL */
    QKV_HUB_REVISION = 201, /**< bytes of a revision, with its NUL */
    QKV_HUB_COMMIT = 41     /**< 40 hexadecimal digits and a NUL */
};

/** A name in its parts. */
struct qkv_hub_name {
    char repo[QKV_HUB_REPO];         /**< "org/name", or "name" for a few old models */
    char revision[QKV_HUB_REVISION]; /**< "main" if the name has none */
};

/** Splits "org/name" or "org/name@revision".
 *  Returns false if the text has another form: a repository has at most 96 of the characters
 *  [A-Za-z0-9._-] and one '/'; neither part begins or ends with '-' or '.', and "--", ".." and an
 *  ending ".git" do not occur; a revision has at most 200 characters and is a valid name of a
 *  reference of Git. */
QKV_API bool qkv_hub_name_parse(struct qkv_hub_name *out, const char *text);
/** Returns true if the text is a commit: 40 digits 0-9, a-f. */
QKV_API bool qkv_hub_is_commit(const char *text);

/** Writes the path of the cache: $HF_HUB_CACHE, $HUGGINGFACE_HUB_CACHE (its older name),
 *  $HF_HOME/hub, $XDG_CACHE_HOME/huggingface/hub or $HOME/.cache/huggingface/hub, the first whose
 *  variable is set and not empty.  "~" or "~/" at the start of a value is $HOME, if HOME is set.
 *  Returns: QKV_OK; QKV_ERR_USAGE: no variable is set, also not HOME, or the path is too long. */
QKV_API QKV_MUST_CHECK qkv_status qkv_hub_cache(char *out, size_t size, qkv_error *err);
/** Writes the folder of a repository in the cache: CACHE/models--org--name.
 *  Returns: as qkv_hub_cache. */
QKV_API QKV_MUST_CHECK qkv_status qkv_hub_folder(char *out, size_t size,
                                                 const struct qkv_hub_name *name, qkv_error *err);
/** Writes the commit that the cache has for the revision of a name; "" if it has none.
 *  Returns: QKV_OK; QKV_ERR_USAGE as qkv_hub_cache; QKV_ERR_FORMAT: the file of the revision holds
 *           no commit; QKV_ERR_IO: it cannot be read. */
QKV_API QKV_MUST_CHECK qkv_status qkv_hub_commit(char out[QKV_HUB_COMMIT],
                                                 const struct qkv_hub_name *name, qkv_error *err);
/** Finds the folder of a model in the cache: the snapshot of its revision.
 *  Out: out[size] the folder.
 *  Returns: QKV_OK; QKV_ERR_USAGE; QKV_ERR_FORMAT as qkv_hub_commit; QKV_ERR_IO: the cache has no
 *           snapshot of the revision, or its files cannot be read. */
QKV_API QKV_MUST_CHECK qkv_status qkv_hub_find(char *out, size_t size, const char *name,
                                               qkv_error *err);
/** Finds the folder of a model in the cache at the path `cache`; NULL: as qkv_hub_find.
 *  Out, Returns: as qkv_hub_find. */
QKV_API QKV_MUST_CHECK qkv_status qkv_hub_find_in(char *out, size_t size, const char *cache,
                                                  const char *name, qkv_error *err);

QKV_END_DECLS
#endif
