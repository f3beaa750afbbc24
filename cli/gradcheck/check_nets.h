// SPDX-License-Identifier: MIT
// check_nets.h: declares the check of a whole model that check_nets.c and check_families.c share.
#ifndef QKV_GRADCHECK_NETS_H
#define QKV_GRADCHECK_NETS_H
#include "gradcheck.h"
#include "model/model.h"

enum { GRADCHECK_VOCAB = 11 }; // ids of the models that are checked
// Checks every parameter of model n over one batch of an objective. drops: the model has dropout.
void gradcheck_net(struct gradcheck *g, qkv_net *n, enum qkv_objective objective, bool drops);
#endif
