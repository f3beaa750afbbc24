// SPDX-License-Identifier: MIT
// test_cpu.c: compares the CPU features that qkv reports with /proc/cpuinfo.
#include "check.h"
#include "base/base.h"

#if defined(__x86_64__)
static char flags[8192], model[256];

static bool has(const char *flag)
{
    const size_t n = strlen(flag);
    for (const char *p = flags; (p = strstr(p, flag)) != NULL; p++)
        if ((p == flags || p[-1] == ' ') && (p[n] == ' ' || p[n] == '\n' || p[n] == 0)) return true;
    return false;
}
static bool read_cpuinfo(void)
{
    char line[8192];
    FILE *f = fopen("/proc/cpuinfo", "r");
    if (!f) return false;
    while (fgets(line, sizeof line, f)) {
        const char *colon = strchr(line, ':');
        if (!colon) continue;
        if (strncmp(line, "flags\t", 6) == 0 && !flags[0])
            snprintf(flags, sizeof flags, "%s", colon + 1);
        if (strncmp(line, "model name", 10) == 0 && !model[0])
            snprintf(model, sizeof model, "%.250s", colon + 2);
    }
    fclose(f);
    model[strcspn(model, "\n")] = 0;
    return flags[0] != 0;
}

TEST(features_equal_cpuinfo)
{
    if (!read_cpuinfo()) skip();
    static const struct {
        unsigned bit;
        const char *flags[4];
    } all[] = {
        { QKV_CPU_AVX2, { "avx2" } },
        { QKV_CPU_FMA, { "fma" } },
        { QKV_CPU_F16C, { "f16c" } },
        { QKV_CPU_AVX512, { "avx512f", "avx512bw", "avx512dq", "avx512vl" } },
        { QKV_CPU_AVX512_VNNI, { "avx512_vnni" } },
        { QKV_CPU_AVX512_BF16, { "avx512_bf16" } },
        { QKV_CPU_AVX512_FP16, { "avx512_fp16" } },
        { QKV_CPU_AMX_BF16, { "amx_tile", "amx_bf16" } },
        { QKV_CPU_AMX_INT8, { "amx_tile", "amx_int8" } },
    };
    const unsigned features = qkv_cpu_features();
    EACH(a, all)
    {
        bool want = true;
        for (int i = 0; i < 4 && a->flags[i]; i++) want = want && has(a->flags[i]);
        if (a->bit & (QKV_CPU_AMX_BF16 | QKV_CPU_AMX_INT8) && strstr(qkv_cpu_amx(), "refuses"))
            want = false; // the CPU has it, the system disables it
        if (((features & a->bit) != 0) != want)
            fail_msg("%s: qkv says %s, /proc/cpuinfo says %s", a->flags[0],
                     features & a->bit ? "yes" : "no", want ? "yes" : "no");
    }
    CHECK(!(features & QKV_CPU_NEON));
    CHECK_EQ(qkv_cpu_features(), features);
}

TEST(the_name_equals_cpuinfo)
{
    if (!model[0]) skip();
    CHECK_TEXT(qkv_cpu_name(), model);
}
#else
TEST(features_equal_cpuinfo)
{
#if defined(__aarch64__)
    CHECK(qkv_cpu_features() & QKV_CPU_NEON);
#else
    CHECK_EQ(qkv_cpu_features(), 0);
#endif
}
TEST(the_name_equals_cpuinfo)
{
    CHECK(qkv_cpu_name() != NULL);
}
#endif

TEST(precisions_have_names)
{
    qkv_precision p = QKV_PRECISION_INT8;
    CHECK(qkv_precision_parse(&p, "f32") && p == QKV_PRECISION_F32);
    CHECK(qkv_precision_parse(&p, "bf16") && p == QKV_PRECISION_BF16);
    CHECK(qkv_precision_parse(&p, "f32-strict") && p == QKV_PRECISION_F32_STRICT);
    CHECK(qkv_precision_parse(&p, "f32-fast") && p == QKV_PRECISION_F32_FAST);
    CHECK(!qkv_precision_parse(&p, "F32") && !qkv_precision_parse(&p, "") &&
          !qkv_precision_parse(&p, NULL));
    CHECK_EQ(p, QKV_PRECISION_F32_FAST);
}

CHECK_MAIN(CASE(features_equal_cpuinfo), CASE(the_name_equals_cpuinfo), CASE(precisions_have_names))
