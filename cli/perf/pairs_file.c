/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/perf/pairs_file.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/arg.h"
#include "cli/validation.h"

#define ENDING     ".json"
#define PAIR_BYTES 24 /* two ranks of at most ten digits, '-', ',' and the end */

bool dt_perf_pairs_is_file(const char *plan)
{
    size_t length = strlen(plan);

    return length > strlen(ENDING) && !strcmp(plan + length - strlen(ENDING), ENDING);
}

static bool refuse(const char *path, const char *reason)
{
    dt_arg_refuse("detour perf", "--pairs %s: %s", path, reason);
    return false;
}

static bool is_rank(const json_t *value)
{
    return json_is_integer(value) && json_integer_value(value) >= 0 &&
           json_integer_value(value) < DETOUR_RANKS_MAX;
}

/* Behind the links that are in *list, which has room for another one. */
static bool add_pair(const json_t *pair, char **end)
{
    const json_t *from = json_array_get(pair, 0), *to = json_array_get(pair, 1);

    if (json_array_size(pair) != 2 || !is_rank(from) || !is_rank(to))
        return false;
    *end += snprintf(*end, PAIR_BYTES, "%d-%d,", (int)json_integer_value(from), (int)json_integer_value(to));
    return true;
}

static bool add_pairs(const char *path, const json_t *document, char *list)
{
    const json_t *passes = json_object_get(document, "passes"), *pass, *pair;
    size_t count = 0, i, k;
    char *end = list;

    if (json_integer_value(json_object_get(document, "version")) != 1)
        return refuse(path, "version: expected 1");
    json_array_foreach((json_t *)passes, i, pass)
    {
        json_array_foreach((json_t *)pass, k, pair)
        {
            if (count++ == DT_VALIDATION_LINKS_MAX)
                return refuse(path, "passes: too many pairs");
            if (!add_pair(pair, &end))
                return refuse(path, "passes: expected pairs of ranks such as [0, 1]");
        }
    }
    if (!count)
        return refuse(path,
                      "passes: expected a list of lists of pairs, as `detour mitigate --validation ring "
                      "--ranks N --json` prints it");
    end[-1] = '\0';
    return true;
}

char *dt_perf_pairs_read_file(const char *path)
{
    json_error_t error;
    json_t *document = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    char *list = malloc(DT_VALIDATION_LINKS_MAX * PAIR_BYTES);

    if (!document || !list)
        refuse(path, document ? "out of memory" : error.text);
    if (!document || !list || !add_pairs(path, document, list)) {
        free(list);
        list = NULL;
    }
    json_decref(document);
    return list;
}
