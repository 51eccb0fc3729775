/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/pipeline/digest.h"

#include <string.h>

#include "base/digest.h"

uint64_t dt_pipeline_digest(const struct dt_pipeline_options *options, uint64_t trace_digest)
{
    const int64_t numbers[] = {options->devices,
                               options->microbatches,
                               options->replicas,
                               (int64_t)options->gradient_bytes,
                               options->algorithm,
                               options->mode,
                               options->adapt,
                               options->iterations,
                               (int64_t)options->payload_bytes,
                               options->f_ns,
                               options->b_ns,
                               options->w_ns,
                               (int64_t)options->slice_bytes,
                               options->input ? (int64_t)options->input->digest : 0,
                               dt_pipeline_options_has_timeline(options),
                               options->timeline_iteration,
                               (int64_t)trace_digest,
                               (int64_t)options->slow.link_count,
                               (int64_t)options->slow.device_count,
                               (int64_t)options->shares.set_count,
                               (int64_t)options->exchanges.count,
                               options->checkpoints.directory != NULL,
                               options->checkpoints.every,
                               options->checkpoints.resumes};
    uint64_t hash = dt_digest_add(DT_DIGEST_EMPTY, numbers, sizeof numbers);

    hash = dt_digest_add(hash, options->launch->name, strlen(options->launch->name));
    for (size_t i = 0; i < options->slow.link_count; i++) {
        const struct dt_pipeline_slow_link *link = &options->slow.links[i];
        const int64_t fields[] = {link->a.device, link->a.replica, link->b.device,    link->b.replica,
                                  link->delay_ns, link->serial,    link->period.from, link->period.to};
        hash = dt_digest_add(hash, fields, sizeof fields);
    }
    for (size_t i = 0; i < options->slow.device_count; i++) {
        const struct dt_pipeline_slow_device *device = &options->slow.devices[i];
        const int64_t fields[] = {device->position.device, device->position.replica, device->permille,
                                  device->period.from, device->period.to};
        hash = dt_digest_add(hash, fields, sizeof fields);
    }
    for (size_t i = 0; i < options->shares.set_count; i++) {
        const struct dt_pipeline_share_set *set = &options->shares.sets[i];
        hash = dt_digest_add(hash, &set->from, sizeof set->from);
        hash = dt_digest_add(hash, set->counts, (size_t)set->replicas * sizeof *set->counts);
    }
    for (size_t i = 0; i < options->exchanges.count; i++) {
        const struct dt_pipeline_exchange *exchange = &options->exchanges.list[i];
        const int64_t fields[] = {exchange->a, exchange->b, exchange->before};
        hash = dt_digest_add(hash, fields, sizeof fields);
    }
    hash = dt_digest_add(hash, options->exchanges.directory, strlen(options->exchanges.directory));
    hash = dt_digest_add(hash, options->slow.kill.nic, strlen(options->slow.kill.nic));
    return dt_digest_add(hash, &options->slow.kill.period, sizeof options->slow.kill.period);
}
