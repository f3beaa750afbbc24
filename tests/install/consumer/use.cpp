// SPDX-License-Identifier: MIT
#include <cstdio>
#include <qkv/qkv.h>
int main()
{
    float x[2] = { 0, 0 };
    qkv_softmax_rows(x, x, 1, 2, 2, 2);
    return std::printf("%s %g\n", qkv_version(), double(x[0])) < 0;
}
