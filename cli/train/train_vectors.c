// SPDX-License-Identifier: MIT
// train_vectors.c: implements `qkv train --objective words`: trains word vectors, which `qkv
// analogy` and `qkv similar` can read.
#include "train/train_vectors.h"
#include "frame/cmd.h"
#include <math.h>

qkv_status train_vectors(const struct qkv_train_options *o, const struct train_vectors *v,
                         qkv_error *err)
{
    struct qkv_word_result r;
    char took[32];
    if (o->resume || o->from || o->arch || o->steps || o->tokenizer)
        return cmd_error(
            err, QKV_ERR_USAGE, NULL,
            "--objective words cannot be combined with --resume, --from, --arch, --steps, "
            "--tokenizer");
    if (o->epochs > 0 && (o->epochs < 1 || o->epochs > 1 << 20 || floor(o->epochs) != o->epochs))
        return cmd_error(err, QKV_ERR_USAGE, NULL,
                         "--epochs: expected an integer of at least 1 for word vectors, found %g",
                         o->epochs);
    const struct qkv_word_options how = { .cbow = v->cbow,
                                          .width = o->width,
                                          .window = v->window,
                                          .negative = v->negative,
                                          .least = v->least,
                                          .most = o->vocab,
                                          .epochs = (int64_t)o->epochs,
                                          .rate = o->rate,
                                          .seed = o->seed,
                                          .force = common.force,
                                          .progress = cmd_progress_begin("words") };
    const qkv_status status = qkv_train_words(o->run, &o->train, &how, &r, err);
    cmd_progress_end();
    if (status) return status;
    if (common.json) {
        printf("{\"words\":%lld,\"vocab\":%lld,\"loss\":%.9g,\"seconds\":%.3f}\n",
               (long long)r.words, (long long)r.vocab, r.loss, r.seconds);
        return QKV_OK;
    }
    cmd_duration(took, sizeof took, r.seconds);
    printf("%lld words, %lld of them with a vector, loss %.4f, %s\n", (long long)r.words,
           (long long)r.vocab, r.loss, took);
    cmd_print_name(stdout, o->run);
    putchar('\n');
    return QKV_OK;
}
