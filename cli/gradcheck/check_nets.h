// SPDX-License-Identifier: MIT
// check_nets.h: declares the check of a whole model, which check_nets.c and check_families.c call.
#ifndef QKV_GRADCHECK_NETS_H
#define QKV_GRADCHECK_NETS_H
#include "gradcheck.h"
#include "model/model.h"

enum { GRADCHECK_VOCAB = 11 }; // vocabulary of the models that are checked
// Checks the gradients of all parameters of n, for one batch of an objective. drops: the model has
// dropout.
void gradcheck_net(struct gradcheck *g, qkv_net *n, enum qkv_objective objective, bool drops);
#endif
