/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/pace.h"

#include <stdlib.h>
#include <string.h>

#include "base/util.h"

void dt_pace_add(struct dt_pace *pace, int64_t iteration_ns)
{
    pace->iterations_ns[pace->count++ % DT_PACE_COUNT] = iteration_ns;
}

static int compare_ns(const void *left, const void *right)
{
    int64_t a_ns = *(const int64_t *)left, b_ns = *(const int64_t *)right;

    return (a_ns > b_ns) - (a_ns < b_ns);
}

int64_t dt_pace_ns(const struct dt_pace *pace)
{
    size_t count = dt_min_u64(pace->count, DT_PACE_COUNT);
    int64_t sorted[DT_PACE_COUNT];

    if (!count)
        return 0;
    memcpy(sorted, pace->iterations_ns, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, compare_ns);
    return sorted[count / 4];
}
