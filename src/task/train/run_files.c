// SPDX-License-Identifier: MIT
// run_files.c: copies the files of the tokenizer and of generation from the folder that training
// starts from to the run, and from the run to each folder that it writes, and describes a new
// tokenizer for transformers.
#include "task/train/train_internal.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

// Files that belong to a tokenizer. The first ones are tokenizers, in any format that
// qkv_tokenizer_open reads; the others describe them.
static const char *const tokenizer_files[] = {
    "tokenizer.json",
    "source.spm",
    "target.spm",
    "tokenizer.model",
    "spiece.model",
    "spm.model",
    "sentencepiece.bpe.model",
    "vocab.json",
    "merges.txt",
    "vocab.txt",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
};
enum {
    TOKENIZER_FILES = sizeof tokenizer_files / sizeof tokenizer_files[0],
    FORMAT_FILES = 10 // the files up to vocab.txt are tokenizers
};
static const char generation_file[] = "generation_config.json";
static const char description_file[] = "tokenizer_config.json";

bool train_file_is_copied(const char *name, size_t bytes)
{
    bool is = strlen(generation_file) == bytes && !memcmp(name, generation_file, bytes);
    for (int i = 0; i < TOKENIZER_FILES; i++)
        is |= strlen(tokenizer_files[i]) == bytes && !memcmp(name, tokenizer_files[i], bytes);
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
    for (int i = 0; i < TOKENIZER_FILES; i++)
        if (!qkv_path_join(path, run, tokenizer_files[i], NULL)) qkv_disk_unlink(path);
    if (!qkv_path_join(path, run, generation_file, NULL)) qkv_disk_unlink(path);
}

qkv_status train_files_gather(const struct qkv_train_options *o, qkv_error *err)
{
    char path[QKV_PATH];
    const char *from = o->tokenizer ? o->tokenizer : o->from;
    qkv_tokenizer *tried = NULL;
    qkv_status status = qkv_tokenizer_open(&tried, from, err);
    qkv_tokenizer_close(tried);
    bool folder = false;
    for (int i = 0; i < TOKENIZER_FILES; i++) folder |= has_file(from, tokenizer_files[i]);
    if (!status && !folder) { // one file
        status = qkv_path_join(path, o->run, "tokenizer.json", err);
        return status ? status : train_copy(from, path, true, err);
    }
    // tokenizer.json, which qkv_tokenizer_open prefers, replaces all other formats
    const bool first_only = has_file(from, tokenizer_files[0]);
    for (int i = 0; !status && i < TOKENIZER_FILES; i++)
        if (i == 0 || i >= FORMAT_FILES || !first_only)
            status = copy_named(from, o->run, tokenizer_files[i], err);
    if (!status && o->from && !o->tokenizer)
        status = copy_named(o->from, o->run, generation_file, err);
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
    for (int i = 0; !status && i < TOKENIZER_FILES; i++)
        status = copy_named(run, dir, tokenizer_files[i], err);
    struct stat st;
    if (!status) status = qkv_path_join(path, dir, description_file, err);
    if (status || stat(path, &st) == 0) return status;
    if (errno != ENOENT) return qkv_fail_errno(err, path, "cannot stat", errno);
    if (!has_file(run, "tokenizer.json")) return QKV_OK;
    return write_described(dir, description_file, describe_tokenizer(t), err);
}
