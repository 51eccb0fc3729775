/* SPDX-License-Identifier: Apache-2.0 */
/* Actions on a software RNIC of this process, as text. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/param.h"
#include "base/util.h"
#include "verbs/object.h"

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
        const char *name;
        enum dt_control control;
    } actions[] = {{"down", DT_CONTROL_DOWN},
                   {"up", DT_CONTROL_UP},
                   {"fatal", DT_CONTROL_FATAL},
                   {"plug", DT_CONTROL_PLUG}};

    *argument = 0;
    for (size_t i = 0; i < DT_COUNT_OF(actions); i++) {
        if (!strcmp(action, actions[i].name)) {
            *control = actions[i].control;
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
    case EEXIST:
        snprintf(answer, answer_bytes, "%s: %s: the device has not left the system; `fatal` removes it",
                 device, action);
        return DT_INVALID;
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
                 "'%s' is no action: down, up, fatal, plug, drop N, drop P%%, rate R or verbs N", action);
        return DT_INVALID;
    }
    if (control == DT_CONTROL_VERBS_US && argument > DT_CONTROL_VERBS_US_MAX) {
        snprintf(answer, answer_bytes, "%s: expected 0 to %u microseconds", action, DT_CONTROL_VERBS_US_MAX);
        return DT_INVALID;
    }
    return control_status(verbs->table.control(device, control, argument), device, action, answer,
                          answer_bytes);
}
