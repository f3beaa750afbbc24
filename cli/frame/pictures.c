// SPDX-License-Identifier: MIT
// pictures.c: writes picture files; PNG files in a child process.
#include "frame/charts.h"
#include "frame/child.h"
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

// One picture: the arguments of the library's function that `write` calls.
struct picture {
    qkv_status (*write)(const struct picture *p, qkv_error *err);
    const void *shown; // the chart, plot, view or structure
    const void *options;
    const char *path, *name;
    enum qkv_view_theme theme;
};

struct answer {
    qkv_status status;
    qkv_error err;
};

// Limits the processor time of the child process: fontconfig may try to load its settings again for
// ever if memory runs out.
enum { PAINT_SECONDS = 120 };

static void write_in_child(void *answer, void *ctx)
{
    const struct picture *p = ctx;
    struct answer *a = answer;
    struct rlimit limit;
    if (getrlimit(RLIMIT_CPU, &limit) == 0 && limit.rlim_cur > PAINT_SECONDS) {
        limit.rlim_cur = PAINT_SECONDS;
        (void)setrlimit(RLIMIT_CPU, &limit); // without the limit, only a hang is not ended
    }
    a->status = p->write(p, &a->err);
}

// Reports that a library, or a limit, ended the child process.
static qkv_status report_end(const char *path, int status, qkv_error *err)
{
    const bool killed = WIFSIGNALED(status);
    if (!status)
        return cmd_error(err, QKV_ERR_LIMIT, path,
                         "the process that paints the PNG file has ended without a result, as "
                         "without memory; SVG needs no painting");
    if (killed && WTERMSIG(status) == SIGXCPU)
        return cmd_error(err, QKV_ERR_LIMIT, path,
                         "the process that paints the PNG file needs more processor time than its "
                         "limit, %d seconds or that of the shell; SVG needs no painting",
                         PAINT_SECONDS);
    return cmd_error(err, QKV_ERR_LIMIT, path,
                     "the process that paints the PNG file was ended by %s %d, as cairo and "
                     "fontconfig do without memory; SVG needs neither",
                     killed ? "signal" : "exit code",
                     killed ? WTERMSIG(status) : WEXITSTATUS(status));
}

static qkv_status write_picture(struct picture *p, qkv_error *err)
{
    struct answer a;
    struct child_end end;
    if (!cmd_ends_with(p->path, ".png")) return p->write(p, err);
    const qkv_status status = child_try(&a, sizeof a, write_in_child, p, p->path, &end, err);
    if (end.ended && status != QKV_ERR_IO) return report_end(p->path, end.status, err);
    if (status || !a.status) return status;
    if (!err->status) *err = a.err;
    return a.status;
}

// ---- the pictures -------------------------------------------------------------------------------
static qkv_status write_chart(const struct picture *p, qkv_error *err)
{
    return qkv_chart_file(p->shown, p->path, common.force, p->options, err);
}

qkv_status cmd_chart_file(const struct qkv_chart *c, const char *path,
                          const struct qkv_chart_options *o, qkv_error *err)
{
    return write_picture(&(struct picture){ write_chart, c, o, path, NULL, QKV_THEME_AUTO }, err);
}

static qkv_status write_plot(const struct picture *p, qkv_error *err)
{
    return qkv_plot_file(p->shown, p->path, common.force, p->options, err);
}

qkv_status cmd_plot_file(const qkv_plot *p, const char *path, const struct qkv_chart_options *o,
                         qkv_error *err)
{
    return write_picture(&(struct picture){ write_plot, p, o, path, NULL, QKV_THEME_AUTO }, err);
}

static qkv_status write_view(const struct picture *p, qkv_error *err)
{
    return qkv_view_picture(p->shown, p->path, common.force, p->options, NULL, err);
}

qkv_status cmd_view_picture(const qkv_view *v, const char *path, const struct qkv_view_options *o,
                            qkv_error *err)
{
    return write_picture(&(struct picture){ write_view, v, o, path, NULL, QKV_THEME_AUTO }, err);
}

static qkv_status write_diagram(const struct picture *p, qkv_error *err)
{
    return qkv_diagram_file(p->shown, p->name, p->path, common.force, p->theme, err);
}

qkv_status cmd_diagram_file(const struct qkv_structure *m, const char *name, const char *path,
                            enum qkv_view_theme theme, qkv_error *err)
{
    return write_picture(&(struct picture){ write_diagram, m, NULL, path, name, theme }, err);
}
