/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/metrics_output.h"

#include <stdio.h>

#include "cli/arg.h"

error_t dt_metrics_output_parse(const char *command, const char *text, struct dt_metrics_output *output)
{
    return dt_metrics_server_parse(text, &output->listen)
               ? 0
               : dt_arg_refuse(command, "--listen %s: expected PORT or an IPv4 ADDRESS:PORT", text);
}

bool dt_metrics_output_start(const char *command, struct dt_metrics_output *output)
{
    char reason[256];

    if (!output->listen.port)
        return true;
    output->server = dt_metrics_server_start(&output->listen, reason, sizeof reason);
    if (!output->server)
        dt_arg_refuse(command, "--listen: %s", reason);
    return output->server != NULL;
}

void dt_metrics_output_step(struct dt_metrics_output *output, const struct dt_rounds *rounds, uint64_t now_ns)
{
    char reason[160], line[320];
    bool is_written;

    if (!output->textfile || (output->written_ns && now_ns < output->written_ns + DT_METRICS_TEXTFILE_NS))
        return;
    output->written_ns = now_ns;
    is_written = dt_metrics_save(output->textfile, output->listen.write_metrics, output->listen.arg, reason,
                                 sizeof reason);
    if (!is_written && !output->has_failed) {
        snprintf(line, sizeof line, "--textfile %.120s: %s", output->textfile, reason);
        dt_rounds_line(rounds, true, line);
    }
    output->has_failed = !is_written;
}

void dt_metrics_output_stop(struct dt_metrics_output *output)
{
    dt_metrics_server_stop(output->server);
    output->server = NULL;
}
