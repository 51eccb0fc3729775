/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/sched/optimize_slow.h"

#include <stdio.h>
#include <string.h>

#include "base/util.h"

#define DELAY_NS_MAX 100e9

/* No blanks and no signs, which sscanf() would skip. */
static bool is_plain(const char *text)
{
    return !strpbrk(text, " \t\n\v\f\r+") && text[0] != '-' && !strstr(text, "--") && !strstr(text, "=-");
}

static bool find_unit(const char *text, double *ns)
{
    static const struct {
        const char *name;
        double ns;
    } units[] = {{"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};

    for (size_t i = 0; i < DT_COUNT_OF(units); i++) {
        if (strcmp(text, units[i].name) != 0)
            continue;
        *ns = units[i].ns;
        return true;
    }
    return false;
}

bool dt_optimize_slow_add_link(struct dt_optimize_slow *slow, const char *text)
{
    int32_t a, b;
    double time, unit_ns;
    int length = 0;

    if (slow->link_count == DT_OPTIMIZE_SLOW_MAX || !is_plain(text) ||
        sscanf(text, "%5d-%5d=%lf%n", &a, &b, &time, &length) != 3 || !find_unit(text + length, &unit_ns) ||
        a == b || !(time >= 0 && time * unit_ns <= DELAY_NS_MAX))
        return false;
    slow->links[slow->link_count].a = a;
    slow->links[slow->link_count].b = b;
    slow->links[slow->link_count++].delay_ns = (int64_t)(time * unit_ns + 0.5);
    return true;
}

bool dt_optimize_slow_add_device(struct dt_optimize_slow *slow, const char *text)
{
    int32_t device;
    double factor;
    int length = 0;

    if (slow->device_count == DT_OPTIMIZE_SLOW_MAX || !is_plain(text) ||
        sscanf(text, "%5d=%lfx%n", &device, &factor, &length) != 2 || !length || text[length] ||
        !(factor >= 0.01 && factor <= 100))
        return false;
    slow->devices[slow->device_count].device = device;
    slow->devices[slow->device_count++].factor = factor;
    return true;
}

int32_t dt_optimize_slow_last(const struct dt_optimize_slow *slow)
{
    int32_t last = -1;

    for (int32_t i = 0; i < slow->link_count; i++) {
        int32_t larger = slow->links[i].a > slow->links[i].b ? slow->links[i].a : slow->links[i].b;
        last = larger > last ? larger : last;
    }
    for (int32_t i = 0; i < slow->device_count; i++)
        last = slow->devices[i].device > last ? slow->devices[i].device : last;
    return last;
}

void dt_optimize_slow_apply(const struct dt_optimize_slow *slow, const struct detour_model *model,
                            struct detour_model_link *links, struct detour_model_device *devices)
{
    size_t count = (size_t)model->device_count;

    if (model->links)
        memcpy(links, model->links, count * count * sizeof(*links));
    else
        memset(links, 0, count * count * sizeof(*links));
    memcpy(devices, model->devices, count * sizeof(*devices));
    for (int32_t i = 0; i < slow->link_count; i++) {
        size_t a = (size_t)slow->links[i].a, b = (size_t)slow->links[i].b;
        links[a * count + b].latency_ns += slow->links[i].delay_ns;
        links[b * count + a].latency_ns += slow->links[i].delay_ns;
    }
    for (int32_t i = 0; i < slow->device_count; i++) {
        int32_t *speed = &devices[slow->devices[i].device].speed_permille;
        double slower = *speed / slow->devices[i].factor + 0.5;
        *speed = slower < 1                           ? 1
                 : slower > DETOUR_SPEED_PERMILLE_MAX ? DETOUR_SPEED_PERMILLE_MAX
                                                      : (int32_t)slower;
    }
}
