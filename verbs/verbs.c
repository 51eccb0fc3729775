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
    snprintf(opened->mlx5_library, sizeof opened->mlx5_library, "libmlx5.so.1");
    *verbs = opened;
    return DT_OK;
}

void dt_verbs_close(struct dt_verbs *verbs)
{
    free(verbs);
}

/*
 * The member active_speed_ex came after the headers that this may be built with: a uint32_t behind
 * port_cap_flags2. A library fills as many bytes as it is told that there are, and zeroes what it does not
 * know.
 */
int dt_table_query_port(const struct dt_verbs_table *table, struct ibv_context *context, uint8_t port,
                        struct ibv_port_attr *attr, uint32_t *speed)
{
    enum { SPEED_EX_AT = (offsetof(struct ibv_port_attr, port_cap_flags2) + sizeof(uint16_t) + 3) & ~3u };
    union {
        struct ibv_port_attr attr;
        uint8_t bytes[SPEED_EX_AT + sizeof(uint32_t)];
    } whole;
    struct verbs_context *context_whole = verbs_get_ctx_op(context, query_port);
    uint32_t speed_ex;
    int error;

    memset(&whole, 0, sizeof whole);
    if (context_whole)
        error = context_whole->query_port(context, port, &whole.attr, sizeof whole);
    else
        error = table->query_port(context, port, (struct _compat_ibv_port_attr *)&whole.attr);
    memcpy(&speed_ex, whole.bytes + SPEED_EX_AT, sizeof speed_ex);
    *attr = whole.attr;
    if (speed)
        *speed = speed_ex ? speed_ex : whole.attr.active_speed;
    return error;
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
    if (!strncmp(action, "rate ", 5)) {
        *control = DT_CONTROL_RATE;
        return dt_parse_number(action + 5, true, argument);
    }
    if (!strncmp(action, "verbs ", 6)) {
        *control = DT_CONTROL_VERBS_US;
        return dt_parse_number(action + 6, false, argument);
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
        snprintf(answer, answer_bytes,
                 "'%s' is no action: down, up, fatal, drop N, drop P%%, rate R or verbs N", action);
        return DT_INVALID;
    }
    return control_status(verbs->table.control(device, control, argument), device, action, answer,
                          answer_bytes);
}
