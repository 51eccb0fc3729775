/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/nccl/kernels/layout.h"

#include <stddef.h>

/* clang-format off */
static const struct nh_layout rows[] = {
    /*          comm        channel            coll                fifo       functions       parts    average
     * release  abort chans bytes index count  bytes recv send cbd bytes at size bits types ag agv reversed packed */
    {22203,     48,   64,   368,  24,   -1,    64,   8,   16,  24, 24,   4, 8,   15,  10,   3, 0,  1,  0},
    {22304,     56,   80,   368,  24,   -1,    96,   8,   16,  56, 24,   4, 8,   15,  10,   4, 0,  1,  0},
    {22403,     56,   80,   368,  24,   -1,    96,   8,   16,  56, 24,   4, 8,   15,  12,   4, 0,  1,  1},
    {22501,     56,   80,   352,  24,   -1,    96,   8,   16,  56, 24,   4, 8,   15,  12,   4, 0,  1,  1},
    {22602,     56,   96,   368,  24,   352,   96,   8,   16,  56, 24,   4, 8,   15,  12,   4, 0,  1,  1},
    {22705,     48,   96,   368,  24,   352,   96,   8,   16,  56, 24,   4, 8,   15,  12,   4, 0,  1,  1},
    {22707,     48,   96,   368,  24,   352,   96,   8,   16,  56, 24,   4, 8,   15,  12,   4, 0,  1,  1},
    {22809,     48,   96,   368,  24,   352,   96,   8,   16,  56, 24,   4, 8,   15,  12,   4, 0,  0,  1},
    {22907,     48,   96,   368,  32,   360,   96,   8,   16,  56, 24,   4, 8,   15,  12,   4, 3,  0,  1},
    {23007,     48,   96,   368,  32,   360,   128,  24,  32,  80, 24,   4, 8,   15,  12,   4, 3,  0,  1},
    {23203,     48,   96,   368,  32,   360,   96,   8,   16,  56, 32,   8, 16,  11,  12,   4, 3,  0,  1},
};
/* clang-format on */

enum { ROWS = sizeof rows / sizeof *rows };

const struct nh_layout *nh_layout_of(int version)
{
    for (int i = 0; i < ROWS; i++)
        if (rows[i].version == version)
            return &rows[i];
    return NULL;
}

const struct nh_layout *nh_layout_row(int index)
{
    return index >= 0 && index < ROWS ? &rows[index] : NULL;
}
