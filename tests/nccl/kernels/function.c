/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/nccl/kernels/function.h"

#include "tests/nccl/kernels/reduce.h"

enum { PROTOCOLS = 3, ALL_REDUCE_ALGORITHMS = 6 };

/* A part of the table: for each operation, type, algorithm and protocol, in this order, one row. */
struct part {
    enum nh_collective collective;
    int operations, types, algorithms;
    int ring; /* which of the algorithms is the ring */
};

enum { PARTS = 6 };

static void parts_of(const struct nh_layout *layout, struct part parts[PARTS])
{
    const int gather = layout->gather_algorithms, types = layout->types;

    parts[0] = (struct part){NH_ALL_GATHER, 1, 1, gather, 0};
    parts[1] = (struct part){NH_BROADCAST, 1, 1, 1, 0};
    parts[2] = (struct part){NH_COLLECTIVE_UNKNOWN, 1, 1, layout->gather_v_rows / PROTOCOLS, 0};
    parts[3] = (struct part){NH_ALL_REDUCE, NH_OPERATIONS, types, ALL_REDUCE_ALGORITHMS, 1};
    parts[4] = (struct part){NH_REDUCE, NH_OPERATIONS, types, 1, 0};
    parts[5] = (struct part){NH_REDUCE_SCATTER, NH_OPERATIONS, types, gather, 0};
}

static int rows_of(const struct part *part)
{
    return part->operations * part->types * part->algorithms * PROTOCOLS;
}

static struct nh_function decode(const struct nh_layout *layout, int row)
{
    struct part parts[PARTS];

    if (row == 0)
        return (struct nh_function){.collective = NH_SEND_RECV, .algorithm = NH_ALGORITHM_RING};
    row--;
    parts_of(layout, parts);
    for (int i = 0; i < PARTS; i++) {
        const struct part *part = &parts[i];
        int per_type = part->algorithms * PROTOCOLS;

        if (row >= rows_of(part)) {
            row -= rows_of(part);
            continue;
        }
        return (struct nh_function){
            .collective = part->collective,
            .operation = row / (part->types * per_type),
            .type = part->types == 1 ? NH_UINT8 : row / per_type % part->types,
            .algorithm =
                row / PROTOCOLS % part->algorithms == part->ring ? NH_ALGORITHM_RING : NH_ALGORITHM_OTHER,
            .protocol = row % PROTOCOLS,
        };
    }
    return (struct nh_function){.collective = NH_COLLECTIVE_UNKNOWN};
}

size_t nh_function_rows(const struct nh_layout *layout)
{
    struct part parts[PARTS];
    size_t rows = 1;

    parts_of(layout, parts);
    for (int i = 0; i < PARTS; i++)
        rows += (size_t)rows_of(&parts[i]);
    return rows + 1;
}

struct nh_function nh_function_of(const struct nh_layout *layout, const int *table, size_t rows, int id)
{
    for (size_t row = 0; row < rows; row++)
        if (table[row] == id)
            return decode(layout, (int)row);
    return (struct nh_function){.collective = NH_COLLECTIVE_UNKNOWN};
}
