// SPDX-License-Identifier: MIT
// update.h: computes optimizer steps with the vector functions; each number is read and written
// once. The last vector is masked and computed like the other vectors, so the bits of a number do
// not depend on its position.

static inline vf update_load(const float *p, int64_t n)
{
    return n >= VW ? vf_load(p) : vf_load_n(p, n);
}
static inline void update_store(float *p, vf a, int64_t n)
{
    if (n >= VW)
        vf_store(p, a);
    else
        vf_store_n(p, a, n);
}

static void adamw(real *w, real *m, real *v, const real *g, int64_t n, const struct qkv_update *how)
{
    const vf scale = vf_set1(how->scale), keep = vf_set1(how->keep), rate = vf_set1(how->rate);
    const vf by_m = vf_set1(how->m), by_v = vf_set1(how->v);
    const vf root = vf_set1(how->root), eps = vf_set1(how->eps);
    for (int64_t i = 0; i < n; i += VW) {
        const int64_t left = n - i;
        const vf a = vf_mul(scale, update_load(g + i, left));
        vf mi = update_load(m + i, left), vel = update_load(v + i, left);
        mi = vf_fma(by_m, vf_sub(a, mi), mi);
        vel = vf_fma(by_v, vf_fms(a, a, vel), vel);
        const vf under = vf_fma(vf_sqrt(vel), root, eps);
        const vf kept = vf_mul(keep, update_load(w + i, left));
        update_store(m + i, mi, left);
        update_store(v + i, vel, left);
        update_store(w + i, vf_fnma(rate, vf_div(mi, under), kept), left);
    }
}

static void sgd(real *w, real *m, const real *g, int64_t n, const struct qkv_update *how)
{
    const vf scale = vf_set1(how->scale), decay = vf_set1(how->decay), rate = vf_set1(how->rate);
    const vf momentum = vf_set1(how->momentum);
    for (int64_t i = 0; i < n; i += VW) {
        const int64_t left = n - i;
        const vf wi = update_load(w + i, left);
        vf a = vf_fma(decay, wi, vf_mul(scale, update_load(g + i, left)));
        if (m) {
            a = vf_fma(momentum, update_load(m + i, left), a);
            update_store(m + i, a, left);
        }
        update_store(w + i, vf_fnma(rate, a, wi), left);
    }
}
