// SPDX-License-Identifier: MIT
// hub.c: downloads a model from the Hugging Face Hub into the cache: the list of files of a commit,
// then each file that qkv reads.  The revision is stored last, so that a name always means a
// complete model.
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include "pull/pull.h"

#define HUB "https://huggingface.co"
enum { INFO_BYTES = 16 << 20, PAGE_BYTES = 64 << 20, PAGES = 1000, TOKEN_BYTES = 1024 };

struct hub {
    struct http http;
    struct pull_model model;
    struct pull_listing list;
    char endpoint[1024];
    char shown[ADDRESS_SHOWN];                       // the endpoint, for messages
    char label[QKV_HUB_REPO + QKV_HUB_REVISION + 2]; // org/name@revision, for messages
};

// ---- settings ----------------------------------------------------------------------------------
static bool is_true(const char *variable)
{
    static const char *const words[] = { "1", "ON", "YES", "TRUE" };
    const char *const value = getenv(variable);
    for (size_t i = 0; value && i < sizeof words / sizeof *words; i++)
        if (!strcasecmp(value, words[i])) return true;
    return false;
}

static qkv_status set_endpoint(struct hub *h, qkv_error *err)
{
    const char *const value = getenv("HF_ENDPOINT");
    struct address a;
    const int n = snprintf(h->endpoint, sizeof h->endpoint, "%s", value && *value ? value : HUB);
    for (char *end = h->endpoint + strlen(h->endpoint); end > h->endpoint && end[-1] == '/';)
        *--end = 0;
    (void)address_show(h->shown, h->endpoint);
    if (n < (int)sizeof h->endpoint && address_parse(&a, h->endpoint) && !strpbrk(a.path, "?#"))
        return QKV_OK;
    return cmd_error(err, QKV_ERR_USAGE, NULL,
                     "HF_ENDPOINT: expected an address such as " HUB ", found '%s'", h->shown);
}

// Copies a token without white space around it.  Returns false if it cannot be a header's value.
static bool clean_token(char out[TOKEN_BYTES], const char *text)
{
    text += strspn(text, " \t\r\n");
    size_t n = strlen(text);
    while (n && strchr(" \t\r\n", text[n - 1])) n--;
    if (n >= TOKEN_BYTES) return false;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)text[i] <= ' ' || (unsigned char)text[i] >= 127) return false;
    memcpy(out, text, n);
    out[n] = 0;
    return true;
}

// Finds the token: HF_TOKEN, or the file in which `hf auth login` stores it.
static qkv_status set_token(struct hub *h, qkv_error *err)
{
    static const char *const variables[] = { "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN" };
    char token[TOKEN_BYTES] = "", path[CMD_PATH];
    const char *source = NULL, *const file = getenv("HF_TOKEN_PATH"), *const hf = getenv("HF_HOME"),
               *const xdg = getenv("XDG_CACHE_HOME"), *const home = getenv("HOME");
    for (size_t i = 0; i < 2 && !source; i++) {
        const char *const value = getenv(variables[i]);
        if (!value || !*value) continue;
        source = variables[i];
        if (!clean_token(token, value))
            return cmd_error(err, QKV_ERR_USAGE, NULL,
                             "%s: expected a token, printable characters without spaces", source);
    }
    if (!source) {
        const int n = file && *file ? snprintf(path, sizeof path, "%s", file)
                      : hf && *hf   ? snprintf(path, sizeof path, "%s/token", hf)
                      : xdg && *xdg ? snprintf(path, sizeof path, "%s/huggingface/token", xdg)
                      : home ? snprintf(path, sizeof path, "%s/.cache/huggingface/token", home)
                             : 0;
        struct stat st;
        if (n <= 0 || n >= (int)sizeof path || stat(path, &st) != 0 || !S_ISREG(st.st_mode) ||
            st.st_size > TOKEN_BYTES)
            return QKV_OK;
        char *text;
        size_t bytes;
        if (cmd_read_file(&text, &bytes, path, err)) return err->status;
        const bool clean = strlen(text) == bytes && clean_token(token, text);
        free(text);
        if (!clean)
            return cmd_error(err, QKV_ERR_FORMAT, path,
                             "expected a token, printable characters without spaces");
    }
    if (token[0])
        snprintf(h->http.authorization, sizeof h->http.authorization, "Authorization: Bearer %s",
                 token);
    return QKV_OK;
}

// ---- requests ----------------------------------------------------------------------------------
// Writes ENDPOINT/PREFIX/org/name/MIDDLE/REVISION + rest.
static qkv_status hub_address(char out[ADDRESS_BYTES], const struct hub *h, const char *prefix,
                              const char *middle, const char *revision, const char *rest,
                              qkv_error *err)
{
    snprintf(out, ADDRESS_BYTES, "%s%s/%s/%s/", h->endpoint, prefix, h->model.name.repo, middle);
    if (address_quote(out, ADDRESS_BYTES, revision, "") &&
        address_quote(out, ADDRESS_BYTES, rest, "/?=&"))
        return QKV_OK;
    return cmd_error(err, QKV_ERR_LIMIT, NULL, "%s: the address of a file is too long", h->label);
}

// Says why the hub refuses a model or a file.
static qkv_status refused(const struct hub *h, const struct http_result *r, const char *what,
                          qkv_error *err)
{
    const char *const code = r->headers.error_code, *const repo = h->model.name.repo;
    const bool token = h->http.authorization[0] != 0;
    if (r->broken || !r->status) return http_failed(r, what, err);
    if (!strcmp(code, "GatedRepo") || (r->status == 403 && !*code))
        return cmd_error(err, QKV_ERR_IO, NULL, "%s is gated: accept its terms at %s/%s, then %s",
                         repo, h->shown, repo,
                         token
                             ? "use a token of that account: the token that was sent has no access"
                             : "set HF_TOKEN to a token of that account");
    if (!strcmp(code, "RevisionNotFound"))
        return cmd_error(err, QKV_ERR_IO, NULL, "%s exists on %s, but has no revision %s", repo,
                         h->shown, h->model.name.revision);
    if (r->status == 401 && token)
        return cmd_error(err, QKV_ERR_IO, NULL,
                         "%s: %s does not accept the token, or there is no such model", repo,
                         h->shown);
    if (!strcmp(code, "RepoNotFound") || r->status == 401 || r->status == 404)
        return cmd_error(err, QKV_ERR_IO, NULL,
                         "%s is not a model of %s, or it is private%s (status %ld)", what, h->shown,
                         token ? "" : ": set HF_TOKEN to a token with access", r->status);
    if (r->status == 429)
        return cmd_error(err, QKV_ERR_IO, NULL,
                         "%s: %s refuses more requests for now (status 429); try again later%s",
                         repo, h->shown, token ? "" : ", or set HF_TOKEN");
    return http_failed(r, what, err);
}

// Names the address in an error about the text of a response.  Returns its status.
static qkv_status at_address(qkv_error *err, const char *address)
{
    char shown[ADDRESS_SHOWN];
    if (err->status && !err->file[0])
        qkv_escape(err->file, sizeof err->file, address_show(shown, address));
    return err->status;
}

// Asks for the commit of the revision.
static qkv_status find_commit(struct hub *h, qkv_error *err)
{
    char address[ADDRESS_BYTES], *text;
    size_t bytes;
    struct http_result r;
    struct pull_model *const m = &h->model;
    if (qkv_hub_is_commit(m->name.revision)) {
        memcpy(m->commit, m->name.revision, QKV_HUB_COMMIT);
        return QKV_OK;
    }
    if (hub_address(address, h, "/api/models", "revision", m->name.revision, "", err) ||
        http_text(&h->http, address, "application/json", INFO_BYTES, &text, &bytes, &r, err))
        return err->status;
    if (!text) return refused(h, &r, m->name.repo, err);
    qkv_json *root;
    if (!qkv_json_read(&root, text, bytes, err)) {
        const char *const sha = qkv_json_get_string(qkv_json_lookup(root, "sha"), NULL);
        if (qkv_hub_is_commit(sha))
            memcpy(m->commit, sha, QKV_HUB_COMMIT);
        else
            cmd_error(err, QKV_ERR_FORMAT, NULL, "expected a commit as the member sha");
    }
    qkv_json_free(root);
    free(text);
    return at_address(err, address);
}

// Notes that a page is asked for.  A page that was asked for before is an error: the list has no
// end.
static qkv_status note_page(struct cmd_texts *pages, const struct hub *h, const char *address,
                            qkv_error *err)
{
    for (int64_t i = 0; i < pages->count; i++)
        if (!strcmp(pages->text[i], address)) {
            cmd_error(err, QKV_ERR_FORMAT, NULL,
                      "%s: the list of files leads to this page a second time", h->label);
            return at_address(err, address);
        }
    if (pages->count == PAGES)
        return cmd_error(err, QKV_ERR_LIMIT, NULL, "%s: the list of files has more than %d pages",
                         h->label, PAGES);
    cmd_texts_add(pages, address, strlen(address));
    return QKV_OK;
}

// Asks for the files of the commit, page by page.
static qkv_status find_pages(struct hub *h, struct cmd_texts *pages, qkv_error *err)
{
    char address[ADDRESS_BYTES], next[ADDRESS_BYTES];
    struct http_result r;
    if (hub_address(address, h, "/api/models", "tree", h->model.commit,
                    "?recursive=true&expand=false", err))
        return err->status;
    for (;;) {
        char *text;
        size_t bytes;
        if (note_page(pages, h, address, err)) return err->status;
        if (http_text(&h->http, address, "application/json", PAGE_BYTES, &text, &bytes, &r, err))
            return err->status;
        if (!text) return refused(h, &r, h->model.name.repo, err);
        (void)listing_add(&h->list, text, bytes, err);
        free(text);
        if (at_address(err, address)) return err->status;
        if (!r.headers.next[0]) return listing_finish(&h->list, h->label, err);
        if (address_redirect(next, r.address, r.headers.next, err)) return err->status;
        memcpy(address, next, sizeof next);
    }
}

static qkv_status find_files(struct hub *h, qkv_error *err)
{
    struct cmd_texts pages = { 0 };
    const qkv_status status = find_pages(h, &pages, err);
    cmd_texts_free(&pages);
    return status;
}

// ---- one file ----------------------------------------------------------------------------------
// Copies the digest of an ETag, "DIGEST" or W/"DIGEST".
static void read_etag(char out[PULL_DIGEST], const char *etag)
{
    if (!strncmp(etag, "W/", 2)) etag += 2;
    const bool quoted = *etag == '"';
    const size_t n = strcspn(etag + quoted, "\"");
    snprintf(out, PULL_DIGEST, "%.*s", (int)n, etag + quoted);
}

// Remembers that the commit has no such file, as huggingface_hub does.
static void note_absent(const struct hub *h, const struct pull_file *f)
{
    char path[CMD_PATH];
    qkv_error ignored = { 0 };
    if (!cache_path(path, &ignored, "%s/.no_exist/%s/%s", h->model.folder, h->model.commit,
                    f->path))
        (void)cache_write(path, "", &ignored);
}

// Asks for the digest, the size and the address of a file, and compares them with the list.
static qkv_status find_blob(struct hub *h, const struct pull_file *f, char digest[PULL_DIGEST],
                            char address[ADDRESS_BYTES], qkv_error *err)
{
    char first[ADDRESS_BYTES], shown[ADDRESS_SHOWN];
    struct http_result r;
    const char *const expected = f->sha256[0] ? f->sha256 : f->blob;
    char rest[PULL_NAME + 2];
    snprintf(rest, sizeof rest, "/%s", f->path);
    if (hub_address(first, h, "", "resolve", h->model.commit, rest, err)) return err->status;
    const struct http_call call = { .address = first, .head = true, .only_home = true };
    for (int n = 1;; n++) {
        if (http_call(&h->http, &call, &r, err)) return err->status;
        if (!http_may_retry(&r) || n == HTTP_ATTEMPTS) break;
        if (http_wait(&r, n, err)) return err->status;
    }
    if (r.broken || (r.status != 200 && !r.moved)) {
        if (r.status == 404 && !strcmp(r.headers.commit, h->model.commit)) note_absent(h, f);
        return r.status == 404
                   ? cmd_error(err, QKV_ERR_IO, NULL, "%s: the hub lists %s but has no such file",
                               h->label, f->path)
                   : refused(h, &r, f->path, err);
    }
    if (strcmp(r.headers.commit, h->model.commit) != 0)
        return cmd_error(err, QKV_ERR_FORMAT, NULL,
                         "%s: %s answers for commit '%s', expected %s; expected a Hugging Face "
                         "Hub as HF_ENDPOINT",
                         f->path, address_show(shown, r.address), r.headers.commit,
                         h->model.commit);
    read_etag(digest, r.headers.linked_etag[0] ? r.headers.linked_etag : r.headers.etag);
    const int64_t size = r.headers.linked_size >= 0 ? r.headers.linked_size
                         : r.moved                  ? -1
                                                    : r.headers.length;
    if (strcmp(digest, expected) != 0)
        return cmd_error(err, QKV_ERR_FORMAT, NULL,
                         "%s: digest differs from the list of files, expected %s, found '%s'",
                         f->path, expected, digest);
    if (size >= 0 && size != f->size)
        return cmd_error(err, QKV_ERR_FORMAT, NULL,
                         "%s: size differs from the list of files, expected %lld, found %lld",
                         f->path, (long long)f->size, (long long)size);
    memcpy(address, r.moved ? r.headers.location : r.address, ADDRESS_BYTES);
    return QKV_OK;
}

static qkv_status pull_file(struct hub *h, const struct pull_file *f, struct pull_progress *p,
                            qkv_error *err)
{
    char digest[PULL_DIGEST], address[ADDRESS_BYTES], path[CMD_PATH], lock_path[CMD_PATH];
    int lock;
    if (find_blob(h, f, digest, address, err) ||
        cache_path(path, err, "%s/blobs/%s", h->model.folder, digest) ||
        cache_path(lock_path, err, "%s/.locks/%s/%s.lock", h->model.cache,
                   strrchr(h->model.folder, '/') + 1, digest) ||
        cache_make_above(path, err) || cache_lock(&lock, lock_path, err))
        return err->status;
    const struct blob_request b = { .address = address,
                                    .path = path,
                                    .name = f->path,
                                    .size = f->size,
                                    .digest = digest,
                                    .most = PULL_WEIGHTS_BYTES };
    if (blob_has(&b, err))
        p->done += f->size; // another revision has the same file
    else if (!err->status)
        (void)blob_fetch(&h->http, &b, p, err);
    if (!err->status) (void)cache_link(&h->model, f->path, digest, err);
    cache_unlock(lock);
    return err->status;
}

// ---- the model ---------------------------------------------------------------------------------
// Returns the number of wanted files that the snapshot does not have, and their bytes in *bytes.
static int64_t missing(const struct hub *h, int64_t *bytes)
{
    int64_t n = 0;
    *bytes = 0;
    for (int64_t i = 0; i < h->list.count; i++) {
        const struct pull_file *const f = &h->list.file[i];
        if (!f->wanted || cache_has(&h->model, f)) continue;
        *bytes += f->size;
        n++;
    }
    return n;
}

// Returns the bytes of a path up to the name of its file.
static size_t folder_bytes(const char *path)
{
    const char *const slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) + 1 : 0;
}

static qkv_status pull_files(struct hub *h, struct pull_report *r, qkv_error *err)
{
    static const char tag[] = "Signature: 8a477f597d28d172789f06886806bc55\n"
                              "# This file is a cache directory tag created by huggingface_hub.\n"
                              "# For information about cache directory tags, see:\n"
                              "#\thttps://bford.info/cachedir/\n";
    struct pull_model *const m = &h->model;
    struct pull_progress p = { .start = cmd_seconds() };
    struct pull_listing kept;
    qkv_error unread = { 0 };
    char path[CMD_PATH];
    struct stat st;
    const int64_t left = missing(h, &p.total);
    if (cache_make_folder(m->folder, err) || (left && cache_space(m->folder, p.total, err)) ||
        cache_path(path, err, "%s/CACHEDIR.TAG", m->cache))
        return err->status;
    if (stat(path, &st) != 0 && cache_write(path, tag, err)) return err->status;
    if (cache_path(path, err, "%s/trees/%s.json", m->folder, m->commit)) return err->status;
    if (listing_read(&kept, path, &unread)) // one that cannot be read is written again
        listing_free(&kept);
    else if (listing_write(&h->list, path, err))
        return err->status;
    for (int64_t i = 0; i < h->list.count && !err->status; i++) {
        const struct pull_file *const f = &h->list.file[i];
        if (f->wanted && !cache_has(m, f)) (void)pull_file(h, f, &p, err);
    }
    r->received = p.received;
    // A name must not become durable before the files to which it leads; each folder once.
    const char *last = NULL;
    for (int64_t i = 0; i < h->list.count && !err->status; i++) {
        const char *const name = h->list.file[i].path;
        const size_t n = folder_bytes(name);
        if (!h->list.file[i].wanted) continue;
        const bool same = last && folder_bytes(last) == n && !memcmp(last, name, n);
        last = name;
        if (!same && !cache_path(path, err, "snapshots/%s/%s", m->commit, name))
            (void)cache_sync(m, path, err);
    }
    if (err->status || cache_sync(m, "blobs/", err)) return err->status;
    return cache_set_commit(m, err);
}

// Reads from the cache what is known without network.  Returns true if the snapshot is complete.
// Fills err if the cache cannot be read; offline, the list of files too.
static bool in_cache(struct hub *h, bool offline, qkv_error *err)
{
    qkv_error unread = { 0 };
    char path[CMD_PATH];
    int64_t bytes;
    struct pull_model *const m = &h->model;
    if (qkv_hub_commit(m->commit, &m->name, err) || !m->commit[0] ||
        cache_path(path, err, "%s/trees/%s.json", m->folder, m->commit))
        return false;
    if (!listing_read(&h->list, path, offline ? err : &unread)) return false;
    return !missing(h, &bytes);
}

static qkv_status not_offline(const struct hub *h, qkv_error *err)
{
    int64_t bytes;
    if (!h->model.commit[0])
        return cmd_error(err, QKV_ERR_IO, NULL,
                         "%s is not in the cache %s, and HF_HUB_OFFLINE forbids the network",
                         h->label, h->model.cache);
    if (!h->list.count)
        return cmd_error(err, QKV_ERR_IO, NULL,
                         "%s: the cache has the commit %s without the list of its files, and "
                         "HF_HUB_OFFLINE forbids the network",
                         h->label, h->model.commit);
    const int64_t n = missing(h, &bytes);
    return cmd_error(err, QKV_ERR_IO, NULL,
                     "%s: %lld file%s of the commit %s %s missing, and HF_HUB_OFFLINE forbids the "
                     "network",
                     h->label, (long long)n, n == 1 ? "" : "s", h->model.commit,
                     n == 1 ? "is" : "are");
}

static qkv_status finish(struct hub *h, struct pull_report *r, qkv_error *err)
{
    memcpy(r->commit, h->model.commit, QKV_HUB_COMMIT);
    for (int64_t i = 0; i < h->list.count; i++) {
        if (!h->list.file[i].wanted) continue;
        r->files++;
        r->bytes += h->list.file[i].size;
    }
    return cache_path(r->folder, err, "%s/snapshots/%s", h->model.folder, h->model.commit);
}

bool hub_offline(void)
{
    return is_true("HF_HUB_OFFLINE") || is_true("TRANSFORMERS_OFFLINE");
}

qkv_status hub_pull(struct pull_report *r, const char *name, bool update, qkv_error *err)
{
    struct hub h = { 0 };
    struct pull_model *const m = &h.model;
    const bool offline = hub_offline();
    if (!qkv_hub_name_parse(&m->name, name))
        return cmd_error(err, QKV_ERR_USAGE, NULL,
                         "expected a name such as org/name or org/name@revision, found '%.200s'",
                         name);
    snprintf(h.label, sizeof h.label, "%s%s%s", m->name.repo,
             strcmp(m->name.revision, "main") ? "@" : "",
             strcmp(m->name.revision, "main") ? m->name.revision : "");
    if (qkv_hub_cache(m->cache, sizeof m->cache, err) ||
        qkv_hub_folder(m->folder, sizeof m->folder, &m->name, err))
        return err->status;
    if (in_cache(&h, offline, err) && (!update || offline)) {
        r->offline = true;
    } else if (!err->status && offline) {
        (void)not_offline(&h, err);
    } else if (!err->status && !set_endpoint(&h, err) && !set_token(&h, err)) {
        listing_free(&h.list);
        h.http.home = h.endpoint;
        if (!http_open(&h.http, err) && !find_commit(&h, err) && !find_files(&h, err))
            (void)pull_files(&h, r, err);
        http_close(&h.http);
    }
    if (!err->status) (void)finish(&h, r, err);
    listing_free(&h.list);
    return err->status;
}
