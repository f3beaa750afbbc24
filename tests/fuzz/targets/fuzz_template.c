// SPDX-License-Identifier: MIT
// fuzz_template.c: renders any bytes as a chat template with messages: the input is the template, a
// zero byte, and the messages as JSON.  The prompt is valid UTF-8, and of bounded size; otherwise
// the error is one line.
// Inputs have up to 2048 bytes.
#include "fuzz/fuzz.h"
#include "serve/template/template_value.h"

const struct cmd *const cmd_table[] = { NULL };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_part part[2];
    qkv_json *messages = NULL;
    qkv_error err = { 0 };
    char *out = NULL;
    fuzz_split(part, 2, data, size);
    if (part[1].bytes && qkv_json_read(&messages, part[1].at, part[1].bytes, &err)) {
        fuzz_refusal(err.status, &err);
        return 0;
    }
    char *source = fuzz_string(&part[0]); // AddressSanitizer sees where it ends
    const struct template_input in = { messages, "<s>", "</s>" };
    const qkv_status status = template_render(&out, source, part[0].bytes, &in, &err);
    FUZZ_CHECK((status == QKV_OK) == (out != NULL) && status == err.status);
    if (status) {
        fuzz_refusal(status, &err);
    } else {
        const size_t bytes = strlen(out);
        FUZZ_CHECK(bytes <= 2 * (size_t)TEMPLATE_OUT);
        for (size_t n, i = 0; i < bytes; i += n)
            FUZZ_CHECK((n = qkv_utf8_bytes(out + i, bytes - i)));
    }
    free(out);
    free(source);
    qkv_json_free(messages);
    return 0;
}
