// SPDX-License-Identifier: MIT
// bench_layout.c: prints sizes and member offsets of the structures that bench/peers/qkv_ctypes.py
// declares, as "Name size" and "Name.member offset".
#include <qkv/qkv.h>
#include <stdio.h>

#define SIZE(NAME, TYPE)          printf("%s %zu\n", NAME, sizeof(TYPE))
#define PLACE(NAME, TYPE, MEMBER) printf("%s.%s %zu\n", NAME, #MEMBER, offsetof(TYPE, MEMBER))

int main(void)
{
    SIZE("Strides", struct qkv_strides);
    SIZE("Attention", struct qkv_attention);
    PLACE("Attention", struct qkv_attention, precision);
    PLACE("Attention", struct qkv_attention, window);
    PLACE("Attention", struct qkv_attention, q_offsets);
    PLACE("Attention", struct qkv_attention, relative);
    PLACE("Attention", struct qkv_attention, dropout);
    PLACE("Attention", struct qkv_attention, q_strides);
    PLACE("Attention", struct qkv_attention, no_softmax);
    SIZE("Plan", struct qkv_attention_plan);
    PLACE("Plan", struct qkv_attention_plan, isa);
    PLACE("Plan", struct qkv_attention_plan, arithmetic);
    PLACE("Plan", struct qkv_attention_plan, scratch);
    PLACE("Plan", struct qkv_attention_plan, flops);
    SIZE("Error", qkv_error);
    SIZE("CacheShape", struct qkv_cache_shape);
    PLACE("CacheShape", struct qkv_cache_shape, precision);
    SIZE("PackedInfo", struct qkv_packed_info);
    PLACE("PackedInfo", struct qkv_packed_info, arithmetic);
    SIZE("PackedCall", struct qkv_packed_call);
    PLACE("PackedCall", struct qkv_packed_call, act);
    SIZE("ModelOptions", struct qkv_model_options);
    PLACE("ModelOptions", struct qkv_model_options, no_mmap);
    SIZE("DecoderOptions", struct qkv_decoder_options);
    PLACE("DecoderOptions", struct qkv_decoder_options, cache);
    PLACE("DecoderOptions", struct qkv_decoder_options, chunk);
    SIZE("DecoderTokens", struct qkv_decoder_tokens);
    PLACE("DecoderTokens", struct qkv_decoder_tokens, ids);
    PLACE("DecoderTokens", struct qkv_decoder_tokens, every);
    SIZE("EmbedReport", struct qkv_embed_report);
    SIZE("EmbedderOptions", struct qkv_embedder_options);
    PLACE("EmbedderOptions", struct qkv_embedder_options, truncate);
    SIZE("Encoding", qkv_encoding);
    return 0;
}
