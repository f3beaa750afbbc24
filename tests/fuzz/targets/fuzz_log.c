// SPDX-License-Identifier: MIT
// fuzz_log.c: reads any bytes as the log.jsonl or probes.jsonl of a run (by the first byte), and
// draws it: the SVG is well-formed, the sentence is UTF-8.
#include "fuzz/fuzz_outputs.h"
#include <qkv/plot.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const run[] = { MEMORY_FOLDER "/log.jsonl" };
    static const char svg[] = MEMORY_FOLDER "/plot.svg";
    qkv_plot *p = NULL;
    qkv_error err = { 0 };
    if (!size) return 0;
    fuzz_file("log.jsonl", data + 1, size - 1);
    const qkv_status status = qkv_plot_open(&p, run, 1, data[0] & 1, &err);
    FUZZ_CHECK((status == QKV_OK) == (p != NULL));
    if (status) {
        fuzz_refusal(status, &err);
        return 0;
    }
    char sentence[80];
    const struct qkv_plot_info info = qkv_plot_info(p, 0);
    FUZZ_CHECK(info.name && info.steps >= 0 && info.best_step <= info.steps);
    fuzz_utf8(qkv_plot_sentence(p, sentence, sizeof sentence));
    fuzz_success(qkv_plot_file(p, svg, true, NULL, &err), &err);
    fuzz_svg(svg);
    char *text = NULL;
    const struct qkv_chart_options o = { .columns = 60, .utf8 = data[0] & 2, .color = data[0] & 4 };
    fuzz_success(qkv_plot_terminal(p, &text, &o, &err), &err);
    fuzz_utf8(text);
    qkv_view_text_free(text);
    qkv_plot_close(p);
    return 0;
}
