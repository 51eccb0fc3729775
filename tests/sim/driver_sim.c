/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/driver_sim.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "softrnic/driver.h"
#include "softrnic/gid.h"

static struct {
    struct dt_sim *sim;
    uint32_t device_count;
    struct dt_wire *ports[DT_SOFT_NAMES_MAX];
    struct dt_soft_device *devices[DT_SOFT_NAMES_MAX];
    void (*front_event)(void *device, const struct dt_rnic_event *event);
    void (*raised)(uint32_t device);
    uint64_t (*clock)(void);
    bool reuses_numbers;
    uint64_t rate_bytes_per_s;
} driver;

/* ---- the simulation's side ------------------------------------------------------------------------------
 */

bool dt_driver_sim_start(const struct dt_sim_options *options, uint32_t device_count)
{
    DT_CHECK(device_count <= DT_SOFT_NAMES_MAX && !driver.sim);
    driver.sim = dt_sim_create(options);
    driver.device_count = device_count;
    for (uint32_t i = 0; driver.sim && i < device_count; i++) {
        uint8_t gid[16];

        dt_gid_make(dt_driver_instance(), i, gid);
        driver.ports[i] = dt_sim_add_port(driver.sim, gid);
        if (!driver.ports[i])
            return false;
    }
    return driver.sim;
}

void dt_driver_sim_stop(void)
{
    for (uint32_t i = 0; i < DT_SOFT_NAMES_MAX; i++) {
        if (driver.devices[i])
            dt_driver_close(driver.devices[i]);
        DT_CHECK(!driver.devices[i]);
    }
    dt_sim_destroy(driver.sim);
    driver.sim = NULL;
}

uint32_t dt_driver_sim_device_count(void)
{
    return driver.device_count;
}

uint64_t dt_driver_sim_clock_ns(void)
{
    return driver.clock ? driver.clock() : dt_sim_now_ns(driver.sim);
}

void dt_driver_sim_set_clock(uint64_t (*now_ns)(void))
{
    driver.clock = now_ns;
}

void dt_driver_sim_reuse_numbers(bool reuses_numbers)
{
    driver.reuses_numbers = reuses_numbers;
}

void dt_driver_sim_set_rate(uint64_t rate_bytes_per_s)
{
    driver.rate_bytes_per_s = rate_bytes_per_s;
}

void dt_driver_sim_on_event(void (*raised)(uint32_t device))
{
    driver.raised = raised;
}

struct dt_sim *dt_driver_sim_network(void)
{
    return driver.sim;
}

struct dt_wire *dt_driver_sim_port(uint32_t device)
{
    return driver.ports[device];
}

struct dt_rnic *dt_driver_sim_rnic(uint32_t device)
{
    return driver.devices[device] ? driver.devices[device]->rnic : NULL;
}

bool dt_driver_sim_counters(uint32_t device, struct dt_rnic_counters *counters)
{
    if (!driver.devices[device])
        return false;
    dt_rnic_query_counters(driver.devices[device]->rnic, counters);
    return true;
}

/* ---- softrnic/driver.h ----------------------------------------------------------------------------------
 */

int dt_driver_configure(const struct dt_soft_options *options)
{
    (void)options; /* the simulation has decided what there is */
    return 0;
}

uint32_t dt_driver_device_count(void)
{
    return driver.device_count;
}

uint64_t dt_driver_rate_bytes_per_s(void)
{
    return 0;
}

bool dt_driver_is_present(uint32_t index)
{
    const struct dt_soft_device *device = driver.devices[index];

    return !device || device->is_back || !dt_rnic_is_fatal(device->rnic);
}

uint64_t dt_driver_instance(void)
{
    return 0x5eed;
}

static void pass_event(void *arg, const struct dt_rnic_event *event)
{
    struct dt_soft_device *device = arg;

    driver.front_event(device, event);
    if (driver.raised)
        driver.raised(device->index);
}

static struct dt_soft_device *make_device(uint32_t index, const struct dt_driver_callbacks *callbacks)
{
    struct dt_soft_device *device = calloc(1, sizeof *device);
    struct dt_rnic_options options = {.wire = driver.ports[index],
                                      .number_seed = index * 1000,
                                      .reuses_numbers = driver.reuses_numbers,
                                      .rate_bytes_per_s = driver.rate_bytes_per_s,
                                      .context = device,
                                      .event = pass_event,
                                      .notify = callbacks->notify};

    if (!device)
        return NULL;
    driver.front_event = callbacks->event;
    device->index = index;
    device->open_count =
        1; /* the driver's own: a device lives until the network ends or another takes its place */
    snprintf(device->name, sizeof device->name, "soft%u", index);
    pthread_mutex_init(&device->lock, NULL);
    dt_list_init(&device->contexts);
    device->faults = dt_sim_faults(driver.ports[index]);
    dt_gid_make(dt_driver_instance(), index, options.gid);
    device->rnic = dt_rnic_create(&options);
    if (!device->rnic) {
        free(device);
        return NULL;
    }
    dt_sim_attach(driver.ports[index], device->rnic);
    return device;
}

/* A dead device that was plugged in again: its users keep it, and the next one takes its end of the cable. */
static void make_way(uint32_t index)
{
    struct dt_soft_device *device = driver.devices[index];

    if (!device || !device->is_back)
        return;
    driver.devices[index] = NULL;
    dt_driver_close(device); /* the driver's own reference */
}

int dt_driver_open(uint32_t index, const struct dt_driver_callbacks *callbacks,
                   struct dt_soft_device **device)
{
    if (index >= driver.device_count)
        return ENODEV;
    make_way(index);
    if (!driver.devices[index])
        driver.devices[index] = make_device(index, callbacks);
    if (!driver.devices[index])
        return ENOMEM;
    driver.devices[index]->open_count++;
    *device = driver.devices[index];
    return 0;
}

void dt_driver_close(struct dt_soft_device *device)
{
    if (--device->open_count)
        return;
    if (driver.devices[device->index] == device) {
        driver.devices[device->index] = NULL;
        dt_sim_attach(driver.ports[device->index], NULL);
    }
    dt_rnic_destroy(device->rnic);
    pthread_mutex_destroy(&device->lock);
    free(device);
}

struct dt_soft_device *dt_driver_find(const char *name, uint64_t *now_ns)
{
    for (uint32_t i = 0; i < driver.device_count; i++) {
        if (driver.devices[i] && !strcmp(driver.devices[i]->name, name)) {
            *now_ns = dt_driver_lock(driver.devices[i]);
            return driver.devices[i];
        }
    }
    return NULL;
}

uint64_t dt_driver_lock(struct dt_soft_device *device)
{
    pthread_mutex_lock(&device->lock);
    return dt_sim_now_ns(driver.sim);
}

void dt_driver_unlock(struct dt_soft_device *device)
{
    pthread_mutex_unlock(&device->lock);
}

void dt_driver_charge(struct dt_soft_device *device)
{
    (void)device; /* the control threads here have their own time (executor_sim.c) */
}

void dt_driver_ring(struct dt_soft_device *device, struct dt_rnic_qp *qp)
{
    dt_rnic_doorbell(qp, dt_driver_lock(device));
    dt_driver_unlock(device);
}

/* The network steps all RNICs; a poll sees what is there. */
void dt_driver_poll(struct dt_soft_device *device, bool will_go_on)
{
    (void)device;
    (void)will_go_on;
}

void dt_driver_leave(struct dt_soft_device *device)
{
    (void)device;
}
