/* SPDX-License-Identifier: Apache-2.0 */
#include "dropin/dropin.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "base/log.h"
#include "base/param.h"
#include "dropin/control.h"
#include "softrnic/softrnic.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int configure_error;

static void configure(void)
{
    struct dt_soft_options options = {0};
    struct dt_params params;
    char reason[512];

    /* INFO, so that the line appears that these are not real devices. */
    dt_log_set_sink(NULL, NULL, DT_LOG_INFO);
    if (dt_params_load(&params, dt_getenv_process, NULL, reason, sizeof reason) != DT_OK) {
        dt_warn("soft-setting", "software RNIC: %s; there are no devices", reason);
        configure_error = EINVAL;
        return;
    }
    options.device_count = (uint32_t)params.soft_devices;
    options.rate_bytes_per_s = params.soft_rate_bytes_per_s;
    configure_error = dt_soft_configure(&options);
    if (configure_error)
        dt_warn("soft-devices", "software RNIC: %u devices: %s", options.device_count,
                strerror(configure_error));
    else
        dt_dropin_control_start(&params);
}

int dt_dropin_configure(void)
{
    pthread_once(&once, configure);
    return configure_error;
}

int dt_dropin_no_int(void)
{
    return errno = EOPNOTSUPP;
}

void *dt_dropin_no_pointer(void)
{
    errno = EOPNOTSUPP;
    return NULL;
}
