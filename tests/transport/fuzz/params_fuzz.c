/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/param.h"
#include "base/util.h"
#include "tests/transport/fuzz/door_fuzz.h"
#include "base/name_filter.h"

#define LINES_MAX 64

struct environment {
    size_t count;
    char *lines[LINES_MAX]; /* NAME=VALUE */
};

static const char *get(void *arg, const char *name)
{
    const struct environment *environment = arg;
    size_t length = strlen(name);

    for (size_t i = 0; i < environment->count; i++)
        if (strncmp(environment->lines[i], name, length) == 0 && environment->lines[i][length] == '=')
            return environment->lines[i] + length + 1;
    return NULL;
}

static const char *check(const struct dt_params *params)
{
    size_t count;
    const struct dt_param_info *table = dt_param_table(&count);

    for (size_t i = 0; i < count; i++) {
        const char *field = (const char *)params + table[i].offset;
        uint64_t number;

        if (!table[i].unit) {
            if (!memchr(field, '\0', sizeof params->verbs))
                return "params: a text does not end";
            continue;
        }
        memcpy(&number, field, sizeof number);
        if (number < table[i].number_min || number > table[i].number_max)
            return "params: a number outside its limits was accepted";
    }
    dt_name_filter_match(params->hca, "mlx5_0", 1);
    dt_name_filter_match(params->interface, "eth0", 0);
    return NULL;
}

const char *dt_fuzz_params(const uint8_t *data, size_t bytes)
{
    struct environment environment = {0};
    struct dt_params params;
    char error[512] = "";
    char *text = malloc(bytes + 1), *rest = text, *line;
    const char *problem;

    if (!text)
        return NULL;
    memcpy(text, data, bytes);
    text[bytes] = '\0';
    while (environment.count < LINES_MAX && (line = strsep(&rest, "\n")))
        environment.lines[environment.count++] = line;
    if (dt_params_load(&params, get, &environment, error, sizeof error) == DT_OK)
        problem = check(&params);
    else
        problem = !error[0] || strchr(error, '\n') ? "params: a refusal is not one line" : NULL;
    free(text);
    return problem;
}
