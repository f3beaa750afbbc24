// SPDX-License-Identifier: MIT
// run_files.c: copies the files of the tokenizer and of generation from the folder that training
// starts from to the run, and from the run to each folder that it writes, and describes a new
// tokenizer for transformers.
#include "task/train/train_internal.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

// Files that belong to a tokenizer and that qkv_tokenizer_file() does not name. The first one is a
// tokenizer, of the target side of Marian; the others describe a tokenizer, or how sentence vectors
// prepare texts: their length limit, lower case and prompts.
static const char *const own_files[] = {
    "target.spm",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
};
enum { OWN_FILES = sizeof own_files / sizeof own_files[0] };
static const char generation_file[] = "generation_config.json";
static const char description_file[] = "tokenizer_config.json";

// Returns the name of the second file of the reader of a tokenizer file, or NULL. *known: the name
// is one of qkv_tokenizer_file().
static const char *second_of(const char *name, bool *known)
{
    const char *first, *second = NULL;
    *known = false;
    for (int i = 0; !*known && (first = qkv_tokenizer_file(i, &second)) != NULL; i++)
        *known = strcmp(first, name) == 0;
    return second;
}

// Returns the name of the i-th file that belongs to a tokenizer, the first is tokenizer.json; NULL:
// i is past the last. *describes: the file describes a tokenizer and is none.
static const char *name_at(int i, bool *describes)
{
    const char *first, *second;
    *describes = false;
    for (int n = 0; (first = qkv_tokenizer_file(n, &second)) != NULL; n++) {
        bool twice = false; // a row of its own
        if (i-- == 0) return first;
        if (second) second_of(second, &twice);
        if (second && !twice && i-- == 0) return second;
    }
    *describes = i > 0;
    return i < OWN_FILES ? own_files[i] : NULL;
}

static bool is_name(const char *name, const char *text, size_t bytes)
{
    return strlen(name) == bytes && memcmp(name, text, bytes) == 0;
}

bool train_file_is_copied(const char *name, size_t bytes)
{
    const char *copied;
    bool is = is_name(generation_file, name, bytes), describes;
    for (int i = 0; !is && (copied = name_at(i, &describes)) != NULL; i++)
        is = is_name(copied, name, bytes);
    return is;
}

static bool has_file(const char *dir, const char *name)
{
    char path[QKV_PATH];
    return !qkv_path_join(path, dir, name, NULL) && qkv_path_may_exist(path);
}

// Copies dir/name to the folder `to`, if dir has this file.  A link out of dir is an error: the
// folders that training writes are passed on.
static qkv_status copy_named(const char *dir, const char *to, const char *name, qkv_error *err)
{
    char from[QKV_PATH], path[QKV_PATH];
    if (!has_file(dir, name)) return QKV_OK;
    qkv_status status = qkv_path_join(from, dir, name, err);
    if (!status) status = qkv_path_join(path, to, name, err);
    if (!status) status = qkv_folder_has(dir, from, err);
    return status ? status : train_copy(from, path, true, err);
}

void train_files_remove(const char *run)
{
    char path[QKV_PATH];
    const char *name;
    bool describes;
    for (int i = 0; (name = name_at(i, &describes)) != NULL; i++)
        if (!qkv_path_join(path, run, name, NULL)) qkv_disk_unlink(path);
    if (!qkv_path_join(path, run, generation_file, NULL)) qkv_disk_unlink(path);
}

// Copies the tokenizer of a folder and its descriptions. tokenizer.json, which qkv_tokenizer_open
// prefers, replaces all other formats.
static qkv_status copy_folder(const char *dir, const char *run, qkv_error *err)
{
    const char *name;
    bool describes;
    qkv_status status = QKV_OK;
    const bool first_only = has_file(dir, name_at(0, &describes));
    for (int i = 0; !status && (name = name_at(i, &describes)) != NULL; i++)
        if (i == 0 || describes || !first_only) status = copy_named(dir, run, name, err);
    return status;
}

// Copies a tokenizer file of any name, which is in the folder dir, and the files that its reader
// reads next to it.
static qkv_status copy_file(const char *file, const char *dir, const char *run, qkv_error *err)
{
    char path[QKV_PATH];
    bool known;
    const char *name = qkv_tokenizer_name_of_copy(file), *second = second_of(name, &known);
    qkv_status status = qkv_path_join(path, run, name, err);
    if (!status) status = train_copy(file, path, true, err);
    if (!status && second) status = copy_named(dir, run, second, err);
    if (!status && strcmp(name, "tokenizer.json") != 0)
        status = copy_named(dir, run, description_file, err);
    return status;
}

qkv_status train_files_gather(const struct qkv_train_options *o, qkv_error *err)
{
    char buffer[QKV_PATH], dir[QKV_PATH];
    const char *from = o->tokenizer ? o->tokenizer : o->from, *file = from;
    qkv_tokenizer *tried = NULL;
    qkv_status status = qkv_tokenizer_open(&tried, from, err);
    qkv_tokenizer_close(tried);
    if (!status) status = qkv_tokenizer_locate(&file, buffer, from, err);
    if (status) return status;
    if (!qkv_path_above(dir, file)) return qkv_fail_errno(err, file, "cannot open", ENAMETOOLONG);
    status = file == from ? copy_file(file, dir, o->run, err) : copy_folder(dir, o->run, err);
    if (!status && o->from && !o->tokenizer) status = copy_named(dir, o->run, generation_file, err);
    return status;
}

// ---- tokenizer_config.json ----------------------------------------------------------------------
// Sets key to the text of token id, if it is a special token.
static bool put_token(json_t *to, const char *key, const qkv_tokenizer *t, int32_t id)
{
    if (id < 0 || !qkv_tokenizer_token(t, id) || !qkv_tokenizer_special(t, id)) return true;
    return !json_object_set_new(to, key, json_string(qkv_tokenizer_token(t, id)));
}

// Without this file transformers builds the tokenizer that is usual for the family of the model,
// which gives other ids for any other tokenizer.json.
static json_t *describe_tokenizer(const struct train *t)
{
    const struct qkv_net_shape *s = qkv_net_shape(t->net);
    const qkv_tokenizer *k = t->tokenizer;
    int32_t unknown = qkv_tokenizer_id(k, "[UNK]");
    if (unknown < 0) unknown = qkv_tokenizer_id(k, "<unk>");
    json_t *root = json_object();
    json_t *inputs = s->types > 0
                         ? json_pack("[sss]", "input_ids", "token_type_ids", "attention_mask")
                         : json_pack("[ss]", "input_ids", "attention_mask");
    const bool ok =
        root && inputs &&
        !json_object_set_new(root, "tokenizer_class", json_string("PreTrainedTokenizerFast")) &&
        !json_object_set(root, "model_input_names", inputs) &&
        !json_object_set_new(root, "model_max_length", json_integer(s->positions)) &&
        !json_object_set_new(root, "clean_up_tokenization_spaces", json_false()) &&
        put_token(root, "bos_token", k, s->bos) && put_token(root, "eos_token", k, s->eos) &&
        put_token(root, "pad_token", k, s->pad) && put_token(root, "unk_token", k, unknown) &&
        put_token(root, "mask_token", k, t->ids.mask) &&
        put_token(root, "cls_token", k, qkv_tokenizer_id(k, "[CLS]")) &&
        put_token(root, "sep_token", k, qkv_tokenizer_id(k, "[SEP]"));
    json_decref(inputs);
    if (ok) return root;
    json_decref(root);
    return NULL;
}

// ---- generation_config.json ---------------------------------------------------------------------
// The most probable continuations of a small model repeat themselves, so a decoder that is trained
// from scratch names a temperature and a top_p.
static json_t *describe_generation(const struct train *t)
{
    const struct qkv_net_shape *s = qkv_net_shape(t->net);
    json_t *root =
        json_pack("{sb sf sf si}", "do_sample", 1, "temperature", .8, "top_p", .95, "top_k", 0);
    if (root && (s->bos < 0 || !json_object_set_new(root, "bos_token_id", json_integer(s->bos))) &&
        (s->eos < 0 || !json_object_set_new(root, "eos_token_id", json_integer(s->eos))))
        return root;
    json_decref(root);
    return NULL;
}

static qkv_status write_described(const char *dir, const char *name, json_t *root, qkv_error *err)
{
    char path[QKV_PATH];
    qkv_status status = qkv_path_join(path, dir, name, err);
    if (!status) status = root ? qkv_json_write(path, root, true, err) : qkv_fail_memory(err, path);
    json_decref(root);
    return status;
}

qkv_status train_files_write(const struct train *t, const char *dir, qkv_error *err)
{
    char path[QKV_PATH];
    const char *run = t->o->run;
    // a model that continues another one keeps the settings of that model, or has none
    const bool samples = t->objective == QKV_OBJECTIVE_CAUSAL && !t->o->from;
    qkv_status status = samples ? write_described(dir, generation_file, describe_generation(t), err)
                                : copy_named(run, dir, generation_file, err);
    const char *name;
    bool describes;
    for (int i = 0; !status && (name = name_at(i, &describes)) != NULL; i++)
        status = copy_named(run, dir, name, err);
    struct stat st;
    if (!status) status = qkv_path_join(path, dir, description_file, err);
    if (status || stat(path, &st) == 0) return status;
    if (errno != ENOENT) return qkv_fail_errno(err, path, "cannot stat", errno);
    if (!has_file(run, "tokenizer.json")) return QKV_OK;
    return write_described(dir, description_file, describe_tokenizer(t), err);
}
