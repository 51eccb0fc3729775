/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "base/atomics.h"
#include "base/clock.h"
#include "softrnic/front.h"

#define PPM_PER_PERCENT 10000u

static int add_rule(struct dt_soft_device *device, const struct dt_fault_rule *rule)
{
    return dt_faults_add(device->faults, rule) ? 0 : ENOMEM;
}

static int drop_percent(struct dt_soft_device *device, uint64_t percent)
{
    struct dt_fault_rule rule = {.action = DT_FAULT_DROP, .chance_ppm = (uint32_t)percent * PPM_PER_PERCENT};

    if (percent > 100)
        return EINVAL;
    dt_faults_clear(device->faults);
    return percent ? add_rule(device, &rule) : 0;
}

static int drop_next(struct dt_soft_device *device, uint64_t count)
{
    struct dt_fault_rule rule = {.action = DT_FAULT_DROP, .count = count};

    return count ? add_rule(device, &rule) : EINVAL;
}

int dt_soft_device_control(const char *name, enum dt_soft_control control, uint64_t argument)
{
    uint64_t now_ns;
    struct dt_soft_device *device = dt_driver_find(name, &now_ns);
    int error = 0;

    if (!device)
        return ENODEV;
    switch (control) {
    case DT_SOFT_CONTROL_DOWN:
        dt_rnic_set_link(device->rnic, false);
        break;
    case DT_SOFT_CONTROL_UP:
        dt_rnic_set_link(device->rnic, true);
        break;
    case DT_SOFT_CONTROL_FATAL:
        dt_rnic_set_fatal(device->rnic);
        break;
    case DT_SOFT_CONTROL_PLUG:
        device->is_back = dt_rnic_is_fatal(device->rnic);
        error = device->is_back ? 0 : EEXIST;
        break;
    case DT_SOFT_CONTROL_DROP_NEXT:
        error = drop_next(device, argument);
        break;
    case DT_SOFT_CONTROL_DROP_PERCENT:
        error = drop_percent(device, argument);
        break;
    case DT_SOFT_CONTROL_RATE:
        dt_rnic_set_rate(device->rnic, argument);
        break;
    case DT_SOFT_CONTROL_VERBS_US:
        error = argument > DT_SOFT_VERBS_US_MAX ? EINVAL : 0;
        if (!error)
            dt_store_relaxed(&device->verbs_ns, argument * DT_NS_PER_US);
        break;
    default:
        error = EINVAL;
    }
    dt_driver_unlock(device);
    return error;
}
