// SPDX-License-Identifier: MIT
// word_vectors.h: declares the training of word vectors from the words that occur near each other.
//
//   skip-gram   each context word predicts the word in the middle    h = in[context word]
//   CBOW        all context words together predict it                h = mean of in[context words]
//   L = -log s(h . out[word]) - sum over `negative` noise words of log s(-h . out[noise])
// where s is the logistic function. Noise is drawn in proportion to counts^.75. The context extends
// 1 .. window words to each side (drawn). Frequent words are left out with probability 1 -
// sqrt(sample / f) - sample / f.
// Sources: Mikolov, Chen, Corrado, Dean 2013 (arXiv 1301.3781); Mikolov, Sutskever, Chen, Corrado,
// Dean 2013 (arXiv 1310.4546); the gradient of CBOW's mean with its factor 1/n: Irsoy, Benton,
// Stratos 2021 (arXiv 2012.15332).
#ifndef QKV_TASK_WORDS_H
#define QKV_TASK_WORDS_H

#include "base/base.h"
#include <qkv/train.h>

struct qkv_words_options {
    bool skip_gram;   // true: skip-gram; false: CBOW
    int64_t width;    // dimensions of a vector; 0: 100
    int64_t window;   // maximum words on each side; 0: 5
    int64_t negative; // noise words per example; 0: 5
    int64_t least;    // a word that occurs less often has no vector; 0: 5
    int64_t most;     // maximum number of words with a vector, most frequent first; 0: all
    int64_t epochs;   // number of passes over the text; 0: 5
    // learning rate, decreased linearly to a ten-thousandth; 0: .025 for skip-gram, .1 for CBOW
    double rate;
    double sample; // subsampling threshold; 0: 1e-3; negative: no word is left out
    uint64_t seed;
    bool force; // overwrite an existing model
    struct qkv_progress progress;
};
struct qkv_words_report {
    int64_t words, vocab; // words in the text; words with a vector
    double loss;          // mean loss per predicted word in the last epoch
};
// Learns from the first text of each example of the corpus: words are runs of letters, digits,
// marks and underscores in lower case; a context does not cross documents. Writes a model folder
// (created if missing) of family "qkv-words": config.json, model.safetensors
// (embeddings.weight[vocab][width]), tokenizer.json (WordLevel; id 0 is [UNK], the others ordered
// by count). Returns QKV_OK; QKV_ERR_USAGE (options; a model exists); QKV_ERR_FORMAT (corpus; fewer
// than two words that are frequent enough); QKV_ERR_LIMIT; QKV_ERR_IO; QKV_ERR_INTERRUPTED.
// Repeats: the vectors are bit-identical for any number of threads.
qkv_status qkv_words_train(const char *dir, const qkv_corpus *corpus,
                           const struct qkv_words_options *o, struct qkv_words_report *report,
                           qkv_error *err);
#endif
