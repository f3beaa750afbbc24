// SPDX-License-Identifier: MIT
#include <qkv/qkv.h>
#include <stdio.h>
int main(void)
{
    float x[2] = { 0, 0 };
    qkv_softmax_rows(x, x, 1, 2, 2, 2);
    return printf("%s %g\n", qkv_version(), (double)x[0]) < 0;
}
