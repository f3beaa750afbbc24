// SPDX-License-Identifier: MIT
// terminal.c: written next
#include "view/view.h"
void qkv_view_text_free(char *text)
{
    qkv_free(text);
}
