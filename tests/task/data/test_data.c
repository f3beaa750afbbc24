// SPDX-License-Identifier: MIT
// test_data.c: checks laws of datasets: cutting, splitting and drawing.
#include "task/data/data_case.h"

enum { WORDS = 7 };

// Writes `documents` texts of a few words, each of its own letters, separated by blank lines.
static void write_documents(const char *name, int documents)
{
    FILE *f = fopen(folder_name(name), "w");
    if (!f) fail_msg("no file");
    for (int i = 0; i < documents; i++) {
        for (int w = 0; w < WORDS + i % 5; w++)
            fprintf(f, "%c%c%c%c", 'a' + i % 26, 'a' + i / 26 % 26, 'a' + w, w % 3 ? ' ' : '\n');
        fputs("\n\n", f);
    }
    fclose(f);
}

static struct qkv_data_options causal(const char *name, int64_t context)
{
    return (struct qkv_data_options){ .objective = QKV_OBJECTIVE_CAUSAL,
                                      .train = case_source(name),
                                      .valid_share = .2,
                                      .context = context,
                                      .seed = 3 };
}

TEST(the_shuffle_gives_each_number_one_place)
{
    static const int64_t sizes[] = { 1, 2, 3, 4, 5, 16, 17, 100, 1000, 4097 };
    EACH(n, sizes)
    {
        bool *seen = calloc((size_t)*n, sizeof *seen);
        int64_t moved = 0;
        for (int64_t i = 0; i < *n; i++) {
            const int64_t to = qkv_shuffle(i, *n, 42);
            if (to < 0 || to >= *n || seen[to])
                fail_msg("%lld goes to %lld", (long long)i, (long long)to);
            seen[to] = true;
            moved += to != i;
        }
        CHECK(*n < 100 || moved > *n / 2);
        free(seen);
    }
    // A huge n needs no list, and neighbors are moved apart.
    const int64_t huge = (int64_t)1 << 45;
    const int64_t a = qkv_shuffle(0, huge, 1), b = qkv_shuffle(1, huge, 1);
    CHECK(a != b && llabs(a - b) > 1);
}

TEST(other_keys_are_other_orders)
{
    int64_t same = 0;
    for (int64_t i = 0; i < 1000; i++) same += qkv_shuffle(i, 1000, 1) == qkv_shuffle(i, 1000, 2);
    CHECK(same < 20); // one is expected; 20 has a probability of 1e-18
}

// Returns a hash of the tokens of sequence i.
static int64_t sum_ids(const struct qkv_sequences *s, int64_t i)
{
    uint64_t sum = 0;
    for (int64_t r = s->offsets[i]; r < s->offsets[i + 1]; r++)
        sum = sum * 131 + (uint64_t)s->ids[r];
    return (int64_t)(sum >> 1);
}
static int by_value(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

TEST(every_sequence_comes_once_in_each_epoch)
{
    folder_new();
    write_documents("t.txt", 90);
    const struct qkv_data_options o = causal("t.txt", 8);
    qkv_data *d = case_data(&o, false);
    const struct qkv_data_info info = qkv_data_info(d);
    const int64_t n = info.sequences[0];
    const struct qkv_draw how = { .tokens = 32, .seed = 9 };
    int64_t *epoch[2];
    for (int e = 0; e < 2; e++) {
        epoch[e] = malloc((size_t)n * sizeof **epoch);
        struct qkv_drawn b = { 0 };
        qkv_error err = { 0 };
        int64_t at = e * n, got = 0;
        while (got < n) {
            CHECK_EQ(qkv_data_draw(d, &b, at, &how, &err), QKV_OK);
            CHECK(b.sequences >= 1 && b.next == at + b.sequences);
            CHECK(b.batch.in.offsets[b.batch.in.n] <= how.tokens);
            for (int64_t i = 0; i < b.sequences && got < n; i++)
                epoch[e][got++] = sum_ids(&b.batch.in, i);
            at = b.next;
        }
        qkv_drawn_free(&b);
    }
    CHECK(memcmp(epoch[0], epoch[1], (size_t)n * sizeof **epoch) != 0);
    for (int e = 0; e < 2; e++) qsort(epoch[e], (size_t)n, sizeof **epoch, by_value);
    CHECK_BITS(epoch[0], epoch[1], (size_t)n * sizeof **epoch);
    free(epoch[0]);
    free(epoch[1]);
    qkv_data_close(d);
}

TEST(a_batch_depends_on_its_position_alone)
{
    folder_new();
    write_documents("t.txt", 60);
    struct qkv_data_options o = causal("t.txt", 12);
    o.objective = QKV_OBJECTIVE_MASKED;
    qkv_data *d = case_data(&o, true);
    const struct qkv_draw how = { .tokens = 64, .seed = 5, .mask = CASE_MASK, .vocab = CASE_VOCAB };
    struct qkv_drawn a = { 0 }, b = { 0 };
    qkv_error err = { 0 };
    for (int64_t at = 0; at < 200; at += 13) {
        CHECK_EQ(qkv_data_draw(d, &a, at, &how, &err), QKV_OK);
        CHECK_EQ(qkv_data_draw(d, &b, 3 * at + 1, &how, &err), QKV_OK); // another draw in between
        CHECK_EQ(qkv_data_draw(d, &b, at, &how, &err), QKV_OK);
        const int64_t rows = a.batch.in.offsets[a.batch.in.n];
        CHECK_EQ(b.batch.in.n, a.batch.in.n);
        CHECK_BITS(a.batch.in.ids, b.batch.in.ids, (size_t)rows * sizeof(int32_t));
        CHECK_BITS(a.batch.targets, b.batch.targets, (size_t)rows * sizeof(int32_t));
    }
    qkv_drawn_free(&a);
    qkv_drawn_free(&b);
    qkv_data_close(d);
}

TEST(each_token_but_a_documents_first_is_a_target_once)
{
    folder_new();
    write_documents("t.txt", 40);
    write_documents("v.txt", 3);
    struct qkv_data_options o = causal("t.txt", 9);
    o.valid = case_source("v.txt");
    qkv_data *d = case_data(&o, false);
    qkv_tokenizer *t = case_tokenizer(false);
    size_t bytes;
    char *text = folder_load(folder_name("t.txt"), &bytes);
    int64_t tokens = 0, targets = 0, stood = 0, documents = 0;
    for (char *p = text; *p;) { // split the text into documents independently
        char *end = strstr(p, "\n\n");
        while (end && end > p && end[-1] == '\n') end--;
        const size_t n = end ? (size_t)(end - p) : strlen(p);
        qkv_encoding e = { 0 };
        CHECK_EQ(qkv_tokenizer_encode(t, &e, p, n, NULL, 0, NULL, NULL), QKV_OK);
        tokens += e.count;
        documents++;
        stood += (int64_t)n - e.end[0];
        qkv_encoding_free(&e);
        p += n;
        while (*p == '\n') p++;
    }
    const struct qkv_draw how = { .tokens = 1000, .seed = 1 };
    struct qkv_drawn b = { 0 };
    int64_t text_bytes = 0;
    for (int64_t at = 0; at < qkv_data_info(d).sequences[0]; at = b.next) {
        CHECK_EQ(qkv_data_draw(d, &b, at, &how, NULL), QKV_OK);
        if (b.next > qkv_data_info(d).sequences[0]) break;
        for (int64_t i = 0; i < b.batch.in.n; i++)
            for (int64_t r = b.batch.in.offsets[i]; r + 1 < b.batch.in.offsets[i + 1]; r++)
                CHECK_EQ(b.batch.targets[r], b.batch.in.ids[r + 1]);
    }
    const struct qkv_draw one = { .tokens = 1, .seed = 1 };
    for (int64_t at = 0; at < qkv_data_info(d).sequences[0]; at = b.next) {
        CHECK_EQ(qkv_data_draw(d, &b, at, &one, NULL), QKV_OK);
        CHECK_EQ(b.sequences, 1);
        targets += b.targets;
        text_bytes += b.bytes;
    }
    CHECK_EQ(documents, 40);
    CHECK_EQ(targets, tokens - documents);
    CHECK_EQ(text_bytes, qkv_data_info(d).bytes[0]);
    CHECK_EQ(text_bytes, stood);
    qkv_drawn_free(&b);
    free(text);
    qkv_tokenizer_close(t);
    qkv_data_close(d);
}

TEST(no_sequence_crosses_a_document)
{
    folder_new();
    write_documents("t.txt", 80);
    const struct qkv_data_options o = causal("t.txt", 6);
    qkv_data *d = case_data(&o, false);
    const struct qkv_draw how = { .tokens = 500, .seed = 1 };
    struct qkv_drawn b = { 0 };
    for (int split = 0; split < 2; split++)
        for (int64_t at = 0; at < qkv_data_info(d).sequences[split]; at = b.next) {
            CHECK_EQ(split ? qkv_data_valid(d, &b, at, &how, NULL)
                           : qkv_data_draw(d, &b, at, &how, NULL),
                     QKV_OK);
            // Every word of document i begins with letter i % 26: within a sequence all first
            // letters are equal.
            for (int64_t i = 0; i < b.batch.in.n; i++) {
                int32_t letter = -1;
                for (int64_t r = b.batch.in.offsets[i]; r < b.batch.in.offsets[i + 1]; r++) {
                    const int32_t id = b.batch.in.ids[r];
                    if (id >= CASE_MORE) continue;
                    if (letter < 0) letter = id;
                    CHECK_EQ(id, letter);
                }
            }
        }
    qkv_drawn_free(&b);
    qkv_data_close(d);
}

// Returns the contents of all files of a dataset, concatenated.
static char *whole(const char *dir, size_t *bytes)
{
    static const char *const names[] = { "index.json",  "train.tokens", "train.offsets",
                                         "train.bytes", "valid.tokens", "valid.offsets",
                                         "valid.bytes" };
    char *all = NULL;
    *bytes = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[1100];
        size_t n;
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        char *one = folder_load(path, &n);
        all = realloc(all, *bytes + n + 1);
        memcpy(all + *bytes, one, n);
        *bytes += n;
        free(one);
    }
    return all;
}

TEST(any_number_of_threads_makes_the_same_files)
{
    folder_new();
    write_documents("t.txt", 200);
    FILE *f = fopen(folder_name("t.txt"), "a"); // a document of several pieces
    if (!f) fail_msg("no file");
    for (int i = 0; i < 600000; i++) fputs(i % 17 ? "abc " : "xyz\n", f);
    fclose(f);
    const struct qkv_data_options o = causal("t.txt", 64);
    char *first = NULL;
    size_t bytes = 0, again;
    const int before = qkv_threads();
    for (int threads = 1; threads <= 4; threads++) {
        CHECK_EQ(qkv_threads_set(threads), QKV_OK);
        qkv_data_close(case_data(&o, true));
        char *files = whole(case_dir("data"), &again);
        if (first) {
            CHECK_EQ(again, bytes);
            CHECK_BITS(first, files, bytes);
            free(files);
        } else {
            first = files;
            bytes = again;
        }
    }
    CHECK_EQ(qkv_threads_set(before), QKV_OK);
    free(first);
}

TEST(a_document_of_several_pieces_has_the_tokens_of_the_whole)
{
    folder_new();
    FILE *f = fopen(folder_name("t.txt"), "w");
    if (!f) fail_msg("no file");
    for (int i = 0; i < 900000; i++) fputs(i % 31 ? "abc " : "qrs\n", f);
    fputs("\n\nab cd\n", f);
    fclose(f);
    struct qkv_data_options o = causal("t.txt", 100000);
    write_documents("v.txt", 3);
    o.valid = case_source("v.txt");
    qkv_data *d = case_data(&o, false);
    // 900000 words of three letters in one document, four letters in another.
    CHECK_EQ(qkv_data_info(d).tokens[0], 900000 * 3 + 4 + (qkv_data_info(d).sequences[0] - 2));
    CHECK_EQ(qkv_data_info(d).bytes[0], 900000 * 4 - 1 + 5 - 1);
    qkv_data_close(d);
}

TEST(a_split_is_disjoint_and_takes_its_share)
{
    folder_new();
    write_documents("t.txt", 100);
    const struct qkv_data_options o = causal("t.txt", 60);
    qkv_data *d = case_data(&o, false);
    const struct qkv_data_info info = qkv_data_info(d);
    CHECK_EQ(info.sequences[0], 80); // each document is a sequence
    CHECK_EQ(info.sequences[1], 20);
    int64_t *sums = malloc(100 * sizeof *sums), n = 0;
    const struct qkv_draw how = { .tokens = 1, .seed = 1 };
    struct qkv_drawn b = { 0 };
    for (int split = 0; split < 2; split++)
        for (int64_t at = 0; at < info.sequences[split]; at = b.next) {
            CHECK_EQ(split ? qkv_data_valid(d, &b, at, &how, NULL)
                           : qkv_data_draw(d, &b, at, &how, NULL),
                     QKV_OK);
            sums[n++] = sum_ids(&b.batch.in, 0);
        }
    CHECK_EQ(n, 100);
    CHECK_EQ(qkv_data_valid(d, &b, info.sequences[1], &how, NULL), QKV_OK);
    CHECK_EQ(b.sequences, 0); // the end
    qsort(sums, 100, sizeof *sums, by_value);
    for (int i = 1; i < 100; i++) CHECK(sums[i] != sums[i - 1]);
    free(sums);
    qkv_drawn_free(&b);
    qkv_data_close(d);
}

TEST(of_one_document_the_end_is_left_for_validation)
{
    folder_new();
    FILE *f = fopen(folder_name("t.txt"), "w");
    if (!f) fail_msg("no file");
    for (int i = 0; i < 500; i++) fprintf(f, "%s", i % 9 ? "ab " : "cd\n");
    fclose(f);
    const struct qkv_data_options o = causal("t.txt", 16);
    qkv_data *d = case_data(&o, false);
    const struct qkv_data_info info = qkv_data_info(d);
    // a fifth of 1000, cut at the end of a line
    CHECK(info.tokens[1] > 150 && info.tokens[1] < 250);
    qkv_data_close(d);
}

TEST(masking_keeps_its_shares_and_spares_specials)
{
    folder_new();
    write_documents("t.txt", 300);
    struct qkv_data_options o = causal("t.txt", 40);
    o.objective = QKV_OBJECTIVE_MASKED;
    qkv_data *d = case_data(&o, true);
    const struct qkv_draw how = {
        .tokens = 4096, .seed = 2, .mask = CASE_MASK, .vocab = CASE_VOCAB
    };
    struct qkv_drawn b = { 0 };
    int64_t seen = 0, chosen = 0, masked = 0, kept = 0;
    for (int64_t at = 0; at < 3 * qkv_data_info(d).sequences[0]; at = b.next) {
        CHECK_EQ(qkv_data_draw(d, &b, at, &how, NULL), QKV_OK);
        int64_t targets = 0;
        for (int64_t i = 0; i < b.batch.in.n; i++) {
            const int64_t first = b.batch.in.offsets[i], last = b.batch.in.offsets[i + 1] - 1;
            CHECK_EQ(b.batch.in.ids[first], CASE_CLS); // the template's tokens stay unmasked
            CHECK_EQ(b.batch.in.ids[last], CASE_SEP);
            CHECK(last - first + 1 <= o.context);
            int64_t here = 0;
            for (int64_t r = first + 1; r < last; r++) {
                const int32_t id = b.batch.in.ids[r], target = b.batch.targets[r];
                seen++;
                if (target < 0) {
                    CHECK(id != CASE_MASK);
                    continue;
                }
                here++;
                masked += id == CASE_MASK;
                kept += id == target;
            }
            CHECK(here >= 1);
            targets += here;
        }
        CHECK_EQ(targets, b.targets);
        chosen += targets;
    }
    // within four standard deviations of a binomial of n
    const double n = (double)chosen;
    CHECK_NEAR((double)chosen / (double)seen, .15, .01); // the number per sequence is rounded
    CHECK_NEAR((double)masked / n, .8 + .1 / CASE_VOCAB, 4 * sqrt(.8 * .2 / n));
    CHECK_NEAR((double)kept / n, .1 + .1 / CASE_VOCAB, 4 * sqrt(.1 * .9 / n));
    qkv_drawn_free(&b);
    qkv_data_close(d);
}

TEST(a_target_stands_between_bos_and_eos)
{
    folder_new();
    folder_text("p.tsv", "ab\txyz\nc\tq\nd e\tr s\nlonger than the context takes here\tz\nf\tg\n");
    struct qkv_data_options o = causal("p.tsv", 6);
    o.objective = QKV_OBJECTIVE_SEQ2SEQ;
    folder_text("v.tsv", "x\ty");
    o.valid = case_source("v.tsv");
    qkv_data *d = case_data(&o, true);
    const struct qkv_data_info info = qkv_data_info(d);
    CHECK_EQ(info.sequences[0], 4);
    CHECK_EQ(info.sequences[1], 1);
    CHECK_EQ(info.skipped, 1);
    const struct qkv_draw how = {
        .tokens = 100, .seed = 1, .bos = 0, .eos = 3, .vocab = CASE_VOCAB
    };
    struct qkv_drawn b = { 0 };
    CHECK_EQ(qkv_data_draw(d, &b, 0, &how, NULL), QKV_OK);
    CHECK_EQ(b.batch.in.n, b.batch.source.n);
    for (int64_t i = 0; i < b.batch.in.n; i++) {
        const int64_t first = b.batch.in.offsets[i], last = b.batch.in.offsets[i + 1] - 1;
        const int64_t from = b.batch.source.offsets[i];
        CHECK_EQ(b.batch.in.ids[first], 0);
        CHECK_EQ(b.batch.targets[last], 3);
        CHECK_EQ(b.batch.source.ids[from], CASE_CLS); // the source has the template
        for (int64_t r = first; r < last; r++) CHECK_EQ(b.batch.targets[r], b.batch.in.ids[r + 1]);
    }
    // A forced token follows the first one, and is a target.
    struct qkv_draw forcing = how;
    struct qkv_drawn f = { 0 };
    forcing.forces = true;
    forcing.forced = 5;
    CHECK_EQ(qkv_data_valid(d, &b, 0, &how, NULL), QKV_OK);
    CHECK_EQ(qkv_data_valid(d, &f, 0, &forcing, NULL), QKV_OK);
    CHECK_EQ(f.batch.in.offsets[1], b.batch.in.offsets[1] + 1);
    CHECK_EQ(f.targets, b.targets + 1);
    CHECK_EQ(f.batch.in.ids[0], 0);
    CHECK_EQ(f.batch.in.ids[1], 5);
    CHECK_EQ(f.batch.targets[0], 5);
    CHECK_BITS(f.batch.targets + 1, b.batch.targets, (size_t)b.targets * sizeof(int32_t));
    forcing.forced = CASE_VOCAB;
    CHECK_EQ(qkv_data_valid(d, &f, 0, &forcing, NULL), QKV_ERR_USAGE);
    qkv_drawn_free(&f);
    qkv_drawn_free(&b);
    qkv_data_close(d);
}

TEST(pairs_stand_side_by_side)
{
    folder_new();
    folder_text("p.jsonl", "{\"text\": \"a b\", \"text_b\": \"c\"}\n\n"
                           "{\"text_b\": \"ef\", \"text\": \"d\"}\n{\"text\": \"g\", \"text_b\": "
                           "\"hijklmnopqrstuvw\"}");
    struct qkv_data_options o = causal("p.jsonl", 8);
    o.objective = QKV_OBJECTIVE_CONTRASTIVE;
    qkv_data *d = case_data(&o, true);
    CHECK_EQ(qkv_data_info(d).cut, 1);
    const struct qkv_draw how = { .tokens = 100, .sequences = 2, .seed = 1 };
    struct qkv_drawn b = { 0 };
    CHECK_EQ(qkv_data_draw(d, &b, 0, &how, NULL), QKV_OK);
    CHECK_EQ(b.sequences, 2);
    CHECK_EQ(b.batch.in.n, 4);
    CHECK_EQ(b.targets, 2);
    qkv_drawn_free(&b);
    qkv_data_close(d);
}

TEST(labels_are_numbered_as_they_appear)
{
    folder_new();
    folder_text("c.tsv", "ab\tgood\ncd\tbad\nef\tgood\ngh\tso so\n");
    folder_text("v.tsv", "xy\tbad\n");
    struct qkv_data_options o = causal("c.tsv", 8);
    o.objective = QKV_OBJECTIVE_CLASSIFY;
    o.valid = case_source("v.tsv");
    qkv_data *d = case_data(&o, true);
    CHECK_EQ(qkv_data_info(d).labels, 3);
    CHECK_TEXT(qkv_data_label(d, 0), "good");
    CHECK_TEXT(qkv_data_label(d, 1), "bad");
    CHECK_TEXT(qkv_data_label(d, 2), "so so");
    CHECK(qkv_data_label(d, 3) == NULL);
    const struct qkv_draw how = { .tokens = 100, .seed = 1 };
    struct qkv_drawn b = { 0 };
    CHECK_EQ(qkv_data_valid(d, &b, 0, &how, NULL), QKV_OK);
    CHECK_EQ(b.batch.targets[0], 1);
    qkv_drawn_free(&b);
    qkv_data_close(d);
}

CHECK_MAIN(CASE(the_shuffle_gives_each_number_one_place), CASE(other_keys_are_other_orders),
           CASE(every_sequence_comes_once_in_each_epoch),
           CASE(a_batch_depends_on_its_position_alone),
           CASE(each_token_but_a_documents_first_is_a_target_once),
           CASE(no_sequence_crosses_a_document), CASE(any_number_of_threads_makes_the_same_files),
           CASE(a_document_of_several_pieces_has_the_tokens_of_the_whole),
           CASE(a_split_is_disjoint_and_takes_its_share),
           CASE(of_one_document_the_end_is_left_for_validation),
           CASE(masking_keeps_its_shares_and_spares_specials),
           CASE(a_target_stands_between_bos_and_eos), CASE(pairs_stand_side_by_side),
           CASE(labels_are_numbered_as_they_appear))
