/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/pipeline/check.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "cli/arg.h"

#define PATH_BYTES_MAX (PATH_MAX - 64) /* of a folder; the names of its files follow */

static const char command[] = "detour pipeline";

/* Names the option and the position in its error. */
static error_t check_position(const struct dt_pipeline_options *options, const char *option,
                              struct dt_pipeline_position position)
{
    char text[DT_PIPELINE_POSITION_BYTES];

    if (position.device >= options->devices)
        return dt_arg_refuse(command, "%s %s: devices are 0 to %" PRId32, option,
                             dt_pipeline_position_text(position, text), options->devices - 1);
    if (position.replica >= options->replicas)
        return dt_arg_refuse(command, "%s %s: with --dp %" PRId32 " replicas are 0 to %" PRId32, option,
                             dt_pipeline_position_text(position, text), options->replicas,
                             options->replicas - 1);
    return 0;
}

static error_t check_link(const struct dt_pipeline_options *options, const struct dt_pipeline_slow_link *link)
{
    int32_t distance = abs(link->a.replica - link->b.replica);

    if (check_position(options, "--slow-link", link->a) || check_position(options, "--slow-link", link->b))
        return EINVAL;
    if (dt_pipeline_slow_link_is_dp(link) && distance != 1 && distance != options->replicas - 1)
        return dt_arg_refuse(command,
                             "--slow-link: the replicas %" PRId32 " and %" PRId32 " of device %" PRId32
                             " are no neighbors in their ring of %" PRId32,
                             link->a.replica, link->b.replica, link->a.device, options->replicas);
    return 0;
}

static error_t check_slow(const struct dt_pipeline_options *options)
{
    for (size_t i = 0; i < options->slow.link_count; i++) {
        if (check_link(options, &options->slow.links[i]))
            return EINVAL;
    }
    for (size_t i = 0; i < options->slow.device_count; i++) {
        if (check_position(options, "--slow-device", options->slow.devices[i].position))
            return EINVAL;
    }
    return 0;
}

static error_t check_shares(const struct dt_pipeline_options *options)
{
    char text[DT_PIPELINE_SHARES_TEXT_BYTES];

    if (options->shares.set_count == 0)
        return 0;
    if (options->replicas == 1)
        return dt_arg_refuse(command,
                             "--dp-microbatches belongs to --dp: there is one replica, with --microbatches");
    if (dt_pipeline_shares_find_wrong(&options->shares, options->replicas, options->microbatches,
                                      options->iterations, text))
        return dt_arg_refuse(command, "--dp-microbatches: %s", text);
    if (options->input && options->input->schedule)
        return dt_arg_refuse(command,
                             "--dp-microbatches: --plan is a schedule of %" PRId32
                             " microbatches for all replicas; use --schedule",
                             options->microbatches);
    if (options->adapt)
        return dt_arg_refuse(
            command, "--dp-microbatches needs --adapt off: the ranks agree on one schedule for all replicas");
    return 0;
}

static error_t check_exchanges(const struct dt_pipeline_options *options)
{
    char text[DT_PIPELINE_EXCHANGE_TEXT_BYTES];

    if (options->exchanges.count > 0 && (options->adapt || options->input || options->slow.kill.nic[0] ||
                                         dt_pipeline_options_has_timeline(options)))
        return dt_arg_refuse(command, "--exchange goes without --profile, --adapt, --kill and pictures");
    if (dt_pipeline_exchanges_find_wrong(&options->exchanges, options->devices, options->replicas,
                                         options->iterations, text))
        return dt_arg_refuse(command, "--exchange %s", text);
    return 0;
}

static error_t check_checkpoints(const struct dt_pipeline_options *options)
{
    const struct dt_pipeline_checkpoints *checkpoints = &options->checkpoints;

    if (!checkpoints->directory)
        return checkpoints->every || checkpoints->resumes
                   ? dt_arg_refuse(command, "%s needs --checkpoint DIR, the folder of the files",
                                   checkpoints->every ? "--every" : "--resume")
                   : 0;
    if (!checkpoints->directory[0] || strlen(checkpoints->directory) > PATH_BYTES_MAX)
        return dt_arg_refuse(command, "--checkpoint: expected a folder, of at most %d bytes", PATH_BYTES_MAX);
    if (options->replicas == 1)
        return dt_arg_refuse(command,
                             "--checkpoint belongs to --dp: without replicas there are no parameters");
    if (options->exchanges.count > 0)
        return dt_arg_refuse(command, "--checkpoint goes without --exchange: a file belongs to a rank");
    return 0;
}

error_t dt_pipeline_check(const struct dt_pipeline_options *options)
{
    error_t (*const checks[])(const struct dt_pipeline_options *) = {check_shares, check_exchanges,
                                                                     check_checkpoints, check_slow};
    error_t failed = 0;

    for (size_t i = 0; !failed && i < sizeof checks / sizeof checks[0]; i++)
        failed = checks[i](options);
    return failed;
}
