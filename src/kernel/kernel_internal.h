// SPDX-License-Identifier: MIT
// kernel_internal.h: declares functions of module kernel that only tests call.
#ifndef QKV_KERNEL_INTERNAL_H
#define QKV_KERNEL_INTERNAL_H

#include "kernel/kernel.h"

// For tests: sets the table that qkv_kernel() returns until the next call of this function; NULL
// restores the table of this CPU.
void qkv_kernel_use(const struct qkv_kernels *k);
#endif
