// SPDX-License-Identifier: MIT
// word_vectors.h: declares the training of word vectors (word2vec): words that occur in similar
// contexts get similar vectors. The context of a word are the words near it.
//
//   skip-gram   each context word predicts the word in the middle    h = in[context word]
//   CBOW        all context words together predict it                h = mean of in[context words]
//   L = -log s(h . out[word]) - sum over `negative` noise words of log s(-h . out[noise])
// where s is the logistic function. A noise word is drawn with a probability proportional to
// count^.75. For each word, the context size is drawn from 1 .. window words on each side. A
// frequent word, with the fraction f of all words, is left out with probability 1 - sqrt(sample /
// f) - sample / f. Sources: Mikolov, Chen, Corrado, Dean 2013 (arXiv 1301.3781); Mikolov,
// Sutskever, Chen, Corrado, Dean 2013 (arXiv 1310.4546); for the factor 1/n in the gradient of
// CBOW's mean: Irsoy, Benton, Stratos 2021 (arXiv 2012.15332).
#ifndef QKV_TASK_WORD_VECTORS_H
#define QKV_TASK_WORD_VECTORS_H

#include "base/base.h"
#include <qkv/train.h>

struct qkv_words_options {
    bool skip_gram;   // true: skip-gram; false: CBOW
    int64_t width;    // dimensions of a vector; 0: 100
    int64_t window;   // maximum context words on each side; 0: 5
    int64_t negative; // noise words per example; 0: 5
    int64_t least;    // words that occur less often than this have no vector; 0: 5
    int64_t most;     // maximum number of words with a vector, the most frequent ones; 0: all
    int64_t epochs;   // number of passes over the text; 0: 5
    // learning rate, which decreases linearly to 1/10000 of this; 0: .025 for skip-gram, .1 for
    // CBOW
    double rate;
    double sample; // `sample` in the formula above; 0: 1e-3; negative: no word is left out
    uint64_t seed;
    bool force; // overwrite an existing model
    struct qkv_progress progress;
};
struct qkv_words_report {
    // words: number of words in the text; vocab: number of words with a vector
    int64_t words, vocab;
    double loss; // mean loss per predicted word in the last epoch
};
// Learns word vectors from a corpus; of each example only the first text is used. A word is a run
// of letters, digits, marks and underscores, in lower case. A context does not cross documents.
// Writes a model folder (created if missing) of family "qkv-words": config.json, model.safetensors
// (embeddings.weight[vocab][width]), tokenizer.json (WordLevel; id 0 is [UNK], the others are
// ordered by count).
// Returns QKV_OK; QKV_ERR_USAGE (an invalid option, or a model exists); QKV_ERR_FORMAT (an invalid
// corpus, or fewer than two words that are frequent enough); QKV_ERR_LIMIT; QKV_ERR_IO;
// QKV_ERR_INTERRUPTED.
// Repeats: the vectors are bit-identical for any number of threads.
qkv_status qkv_words_train(const char *dir, const qkv_corpus *corpus,
                           const struct qkv_words_options *o, struct qkv_words_report *report,
                           qkv_error *err);
#endif
