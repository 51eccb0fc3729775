/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/verbs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/param.h"
#include "base/util.h"
#include "verbs/object.h"

enum dt_status dt_verbs_open_table(const struct dt_verbs_table *table, struct dt_verbs **verbs)
{
    struct dt_verbs *opened = calloc(1, sizeof *opened);

    if (!opened)
        return DT_NO_MEMORY;
    opened->table = *table;
    *verbs = opened;
    return DT_OK;
}

void dt_verbs_close(struct dt_verbs *verbs)
{
    free(verbs);
}

int dt_table_query_port(const struct dt_verbs_table *table, struct ibv_context *context, uint8_t port,
                        struct ibv_port_attr *attr)
{
    struct verbs_context *whole = verbs_get_ctx_op(context, query_port);

    memset(attr, 0, sizeof *attr);
    if (whole)
        return whole->query_port(context, port, attr, sizeof *attr);
    return table->query_port(context, port, (struct _compat_ibv_port_attr *)attr);
}

/* "drop 5" or "drop 20%": what follows "drop ". */
static enum dt_status parse_drop(const char *text, enum dt_control *control, uint64_t *argument)
{
    char digits[24];
    size_t length = strlen(text);
    bool is_percent = length && text[length - 1] == '%';

    if (is_percent)
        length--;
    if (!length || length >= sizeof digits)
        return DT_INVALID;
    memcpy(digits, text, length);
    digits[length] = '\0';
    if (dt_parse_number(digits, false, argument) != DT_OK || (is_percent && *argument > 100))
        return DT_INVALID;
    *control = is_percent ? DT_CONTROL_DROP_PERCENT : DT_CONTROL_DROP_NEXT;
    return DT_OK;
}

static enum dt_status parse_action(const char *action, enum dt_control *control, uint64_t *argument)
{
    static const struct {
        const char *word;
        enum dt_control control;
    } words[] = {{"down", DT_CONTROL_DOWN}, {"up", DT_CONTROL_UP}, {"fatal", DT_CONTROL_FATAL}};

    *argument = 0;
    for (size_t i = 0; i < DT_COUNT_OF(words); i++) {
        if (!strcmp(action, words[i].word)) {
            *control = words[i].control;
            return DT_OK;
        }
    }
    return strncmp(action, "drop ", 5) ? DT_INVALID : parse_drop(action + 5, control, argument);
}

static enum dt_status control_status(int error, const char *device, const char *action, char *answer,
                                     size_t answer_bytes)
{
    switch (error) {
    case 0:
        snprintf(answer, answer_bytes, "%s: %s", device, action);
        return DT_OK;
    case ENODEV:
        snprintf(answer, answer_bytes, "no software RNIC named '%s' is open in this process", device);
        return DT_NOT_FOUND;
    default:
        snprintf(answer, answer_bytes, "%s: %s: %s", device, action, strerror(error));
        return DT_INVALID;
    }
}

enum dt_status dt_verbs_device_control(struct dt_verbs *verbs, const char *device, const char *action,
                                       char *answer, size_t answer_bytes)
{
    enum dt_control control;
    uint64_t argument;

    if (!verbs->table.control) {
        snprintf(answer, answer_bytes, "'%s' cannot be acted on: this process uses real RNICs", device);
        return DT_UNSUPPORTED;
    }
    if (parse_action(action, &control, &argument) != DT_OK) {
        snprintf(answer, answer_bytes, "'%s' is no action: down, up, fatal, drop N or drop P%%", action);
        return DT_INVALID;
    }
    return control_status(verbs->table.control(device, control, argument), device, action, answer,
                          answer_bytes);
}
