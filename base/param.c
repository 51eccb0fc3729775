/* SPDX-License-Identifier: Apache-2.0 */
#include "base/param.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/util.h"

static const struct dt_param_info param_table[] = {
#define DT_PARAM_NUMBER_ROW(field, name, alias, unit, value, min, max, help) \
    {name, alias, unit, help, value, min, max, NULL, offsetof(struct dt_params, field)},
    DT_PARAM_NUMBERS(DT_PARAM_NUMBER_ROW)
#define DT_PARAM_TEXT_ROW(field, name, alias, value, help) \
    {name, alias, NULL, help, 0, 0, 0, value, offsetof(struct dt_params, field)},
        DT_PARAM_TEXTS(DT_PARAM_TEXT_ROW)};

const struct dt_param_info *dt_param_table(size_t *count)
{
    *count = DT_COUNT_OF(param_table);
    return param_table;
}

const char *dt_getenv_process(void *arg, const char *name)
{
    (void)arg;
    return getenv(name);
}

static unsigned suffix_shift(char suffix)
{
    switch (suffix) {
    case 'k':
    case 'K':
        return 10;
    case 'm':
    case 'M':
        return 20;
    case 'g':
    case 'G':
        return 30;
    default:
        return 0;
    }
}

enum dt_status dt_parse_number(const char *text, bool suffixes, uint64_t *value)
{
    char *end;
    unsigned shift = 0;

    if (!isdigit((unsigned char)text[0]))
        return DT_INVALID;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (errno)
        return DT_INVALID;
    if (*end && suffixes) {
        shift = suffix_shift(*end);
        if (shift)
            end++;
    }
    if (*end || number > UINT64_MAX >> shift)
        return DT_INVALID;
    *value = (uint64_t)number << shift;
    return DT_OK;
}

/* A unit in which users expect to write 256M. */
static bool unit_takes_suffixes(const char *unit)
{
    return strcmp(unit, "bytes") == 0 || strcmp(unit, "bytes/s") == 0;
}

/* Keys are written in hexadecimal by custom. */
static bool unit_is_key(const char *unit)
{
    return strcmp(unit, "key") == 0;
}

/* 0 or 1: NCCL takes any number but 0 for 1. */
static bool unit_is_flag(const char *unit)
{
    return strcmp(unit, "0|1") == 0;
}

/* As C reads a number, including 0x1f, with blanks around it. */
static bool parse_c_number(const char *text, long long *number)
{
    char *end;

    errno = 0;
    *number = strtoll(text, &end, 0);
    while (isspace((unsigned char)*end))
        end++;
    return errno == 0 && end != text && *end == '\0';
}

/*
 * NCCL parses numbers as C does, and a negative number means the default. Its counts may exceed Detour's
 * maximum; a job that works with NCCL's own plugin must start with Detour as well. NCCL reads 8K as 8: such a
 * value is refused, since it is a mistake.
 */
static enum dt_status parse_nccl_number(const struct dt_param_info *info, const char *text, uint64_t *value)
{
    long long number;

    if (!parse_c_number(text, &number))
        return DT_INVALID;
    *value = number < 0 ? info->number_default : (uint64_t)number;
    if (unit_is_flag(info->unit))
        *value = *value != 0;
    if (*value > info->number_max && strcmp(info->unit, "count") == 0) {
        dt_warn("setting-max", "%s=%s: the maximum of Detour is %" PRIu64 "; using %" PRIu64, info->alias,
                text, info->number_max, info->number_max);
        *value = info->number_max;
    }
    return DT_OK;
}

static enum dt_status load_number(const struct dt_param_info *info, const char *name, const char *text,
                                  uint64_t *field, char *error, size_t error_bytes)
{
    uint64_t value;
    bool suffixes = unit_takes_suffixes(info->unit) && name != info->alias;
    enum dt_status status = name == info->alias || unit_is_key(info->unit)
                                ? parse_nccl_number(info, text, &value)
                                : dt_parse_number(text, suffixes, &value);

    if (status != DT_OK || value < info->number_min || value > info->number_max) {
        snprintf(error, error_bytes, "%s=%s: expected a number from %" PRIu64 " to %" PRIu64 " (%s%s)", name,
                 text, info->number_min, info->number_max, info->unit,
                 suffixes ? "; K, M, G are powers of 1024" : "");
        return DT_INVALID;
    }
    *field = value;
    return DT_OK;
}

static enum dt_status load_text(const char *name, const char *text, char *field, char *error,
                                size_t error_bytes)
{
    size_t bytes_max = DT_PARAM_TEXT_BYTES;

    if (strlen(text) >= bytes_max) {
        snprintf(error, error_bytes, "%s: value is %zu characters long, at most %zu fit", name, strlen(text),
                 bytes_max - 1);
        return DT_INVALID;
    }
    strcpy(field, text);
    return DT_OK;
}

const char *dt_param_source(const struct dt_param_info *info, dt_getenv_func *get, void *arg)
{
    const char *text;

    if (get(arg, info->name))
        return info->name;
    text = info->alias ? get(arg, info->alias) : NULL;
    return text && *text ? info->alias : NULL;
}

static enum dt_status load_one(struct dt_params *params, const struct dt_param_info *info,
                               dt_getenv_func *get, void *arg, char *error, size_t error_bytes)
{
    void *field = (char *)params + info->offset;
    const char *name = dt_param_source(info, get, arg);
    const char *text = name ? get(arg, name) : NULL;

    if (info->unit) {
        *(uint64_t *)field = info->number_default;
        return text ? load_number(info, name, text, field, error, error_bytes) : DT_OK;
    }
    return load_text(name, text ? text : info->text_default, field, error, error_bytes);
}

/* The plugin and the command check DETOUR_VERBS, since `auto` differs between them. */
static enum dt_status check_posting(const struct dt_params *params, char *error, size_t error_bytes)
{
    if (strcmp(params->posting, "auto") == 0 || strcmp(params->posting, "std") == 0 ||
        strcmp(params->posting, "dv") == 0)
        return DT_OK;
    snprintf(error, error_bytes, "DETOUR_POSTING=%s: expected std, dv or auto", params->posting);
    return DT_INVALID;
}

static enum dt_status check_hostpath(const struct dt_params *params, char *error, size_t error_bytes)
{
    if (strcmp(params->hostpath, "off") == 0 || strcmp(params->hostpath, "on") == 0 ||
        strcmp(params->hostpath, "auto") == 0)
        return DT_OK;
    snprintf(error, error_bytes, "DETOUR_HOSTPATH=%s: expected off, on or auto", params->hostpath);
    return DT_INVALID;
}

static bool parse_gid_index(const char *text, bool *is_auto, uint32_t *index)
{
    long long number = -1;

    if (strcmp(text, "auto") != 0 && (!parse_c_number(text, &number) || number > UINT8_MAX))
        return false;
    *is_auto = number < 0;
    *index = *is_auto ? 0 : (uint32_t)number;
    return true;
}

static enum dt_status check_gid_index(const struct dt_params *params, char *error, size_t error_bytes)
{
    bool is_auto;
    uint32_t index;

    if (parse_gid_index(params->gid_index, &is_auto, &index))
        return DT_OK;
    snprintf(error, error_bytes,
             "DETOUR_GID_INDEX or NCCL_IB_GID_INDEX=%s: expected a number from 0 to 255, or auto (-1)",
             params->gid_index);
    return DT_INVALID;
}

bool dt_params_gid_index(const struct dt_params *params, uint32_t *index)
{
    bool is_auto;

    return parse_gid_index(params->gid_index, &is_auto, index) && !is_auto;
}

enum dt_status dt_params_load(struct dt_params *params, dt_getenv_func *get, void *arg, char *error,
                              size_t error_bytes)
{
    for (size_t i = 0; i < DT_COUNT_OF(param_table); i++) {
        enum dt_status status = load_one(params, &param_table[i], get, arg, error, error_bytes);

        if (status != DT_OK)
            return status;
    }
    params->verbs_library_or_default = !get(arg, "DETOUR_IBV_LIB");
    enum dt_status status = check_gid_index(params, error, error_bytes);
    if (status == DT_OK)
        status = check_hostpath(params, error, error_bytes);
    return status == DT_OK ? check_posting(params, error, error_bytes) : status;
}
