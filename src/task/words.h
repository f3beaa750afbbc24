// SPDX-License-Identifier: MIT
// words.h: vectors of words, learnt from which words stand near which.  Part of the door task.h.
//
//   skip-gram   each word near a place is asked for the word at it         h = in[near]
//   CBOW        all of them together                                       h = mean of in[near]
//   L = -log s(h . out[word]) - sum over `negative` noise words of log s(-h . out[noise]),   s the logistic
//
// Noise is drawn by counts^.75, near is up to 1 .. window places (drawn), frequent words are left
// out with probability 1 - sqrt(sample / f) - sample / f.
// Sources: Mikolov, Chen, Corrado, Dean 2013 (arXiv 1301.3781); Mikolov, Sutskever, Chen, Corrado,
// Dean 2013 (arXiv 1310.4546); the gradient of CBOW's mean with its 1/n, as Irsoy, Benton, Stratos
// 2021 (arXiv 2012.15332).
#ifndef QKV_TASK_WORDS_H
#define QKV_TASK_WORDS_H

struct qkv_words_options {
    bool skip_gram;   // else CBOW
    int64_t width;    // numbers of a vector; 0: 100
    int64_t window;   // words on each side at most; 0: 5
    int64_t negative; // noise words; 0: 5
    int64_t least;    // a word seen less often has no vector; 0: 5
    int64_t most;     // words with a vector, the most frequent; 0: all
    int64_t epochs;   // 0: 5
    double rate;      // falls linearly to a ten-thousandth; 0: .025 of skip-gram, .1 of CBOW
    double sample;    // 0: 1e-3; negative: no word is left out
    uint64_t seed;
    bool force; // over a model that is there
    struct qkv_progress progress;
};
struct qkv_words_report {
    int64_t words, vocab; // of the text; with a vector
    double loss;          // mean of the last epoch, of a word that was asked for
};
// Learns from the first text of each example of the corpus: words are runs of letters, digits,
// marks and underscores in lower case, near is within one document.  Writes a model folder (made
// when missing) of family "qkv-words": config.json, model.safetensors
// (embeddings.weight[vocab][width]), tokenizer.json (WordLevel; id 0 is [UNK], the others in the
// order of their counts).
// Returns QKV_OK; QKV_ERR_USAGE (options; a model is there); QKV_ERR_FORMAT (corpus; fewer than two
// words that are frequent enough); QKV_ERR_LIMIT; QKV_ERR_IO; QKV_ERR_INTERRUPTED
// Repeats: the same vectors, to the bit, for any number of threads.
qkv_status qkv_words_train(const char *dir, const qkv_corpus *corpus,
                           const struct qkv_words_options *o, struct qkv_words_report *report,
                           qkv_error *err);
#endif
