/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/validation.h"

#include <jansson.h>
#include <string.h>

bool dt_validation_is_known(const char *name)
{
    return !strcmp(name, "ring") || !strcmp(name, "tree");
}

enum detour_status dt_validation_make(struct detour_arena *arena, const char *name, int32_t ranks,
                                      const struct detour_validation **validation, struct detour_error *error)
{
    return strcmp(name, "ring") == 0 ? detour_validation_ring(arena, ranks, validation, error)
                                     : detour_validation_double_tree(arena, ranks, validation, error);
}

void dt_validation_print(FILE *out, const struct detour_validation *validation)
{
    for (int32_t pass = 0; pass < validation->pass_count; pass++) {
        fprintf(out, "pass %d:", (int)pass);
        for (int32_t i = validation->first_pair[pass]; i < validation->first_pair[pass + 1]; i++)
            fprintf(out, " %d-%d", (int)validation->pairs[i].from, (int)validation->pairs[i].to);
        fputc('\n', out);
    }
}

bool dt_validation_print_json(FILE *out, const struct detour_validation *validation)
{
    json_t *passes = json_array();
    json_t *document;
    bool is_written;

    for (int32_t pass = 0; pass < validation->pass_count; pass++) {
        json_t *pairs = json_array();

        for (int32_t i = validation->first_pair[pass]; i < validation->first_pair[pass + 1]; i++)
            json_array_append_new(
                pairs, json_pack("[i, i]", (int)validation->pairs[i].from, (int)validation->pairs[i].to));
        json_array_append_new(passes, pairs);
    }
    document =
        json_pack("{s:i, s:i, s:o}", "version", 1, "ranks", (int)validation->rank_count, "passes", passes);
    is_written = document && json_dumpf(document, out, 0) == 0 && fputc('\n', out) != EOF;
    json_decref(document);
    return is_written;
}

const char *dt_validation_kind_name(enum detour_slow_kind kind)
{
    return kind == DETOUR_SLOW_LINK ? "link" : kind == DETOUR_SLOW_NETWORK ? "network" : "compute";
}
