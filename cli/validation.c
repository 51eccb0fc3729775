/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/validation.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* Digits only. */
static bool read_rank(const char **text, int32_t *rank)
{
    char *end;
    long value;

    if (**text < '0' || **text > '9')
        return false;
    errno = 0;
    value = strtol(*text, &end, 10);
    *text = end;
    *rank = (int32_t)value;
    return errno == 0 && value < DETOUR_RANKS_MAX;
}

/* The number of links; -1: it is no list. */
static int32_t read_list(const char *text, struct detour_rank_pair links[DT_VALIDATION_LINKS_MAX])
{
    int32_t count = 0;

    for (;;) {
        struct detour_rank_pair link;

        if (count == DT_VALIDATION_LINKS_MAX || !read_rank(&text, &link.from) || *text++ != '-' ||
            !read_rank(&text, &link.to))
            return -1;
        links[count++] = link;
        if (*text == '\0')
            return count;
        if (*text++ != ',')
            return -1;
    }
}

bool dt_validation_is_known(const char *name)
{
    struct detour_rank_pair links[DT_VALIDATION_LINKS_MAX];

    return !strcmp(name, "ring") || !strcmp(name, "tree") || read_list(name, links) > 0;
}

enum detour_status dt_validation_make(struct detour_arena *arena, const char *name, int32_t ranks,
                                      const struct detour_validation **validation, struct detour_error *error)
{
    struct detour_rank_pair links[DT_VALIDATION_LINKS_MAX];

    if (!strcmp(name, "ring"))
        return detour_validation_ring(arena, ranks, validation, error);
    if (!strcmp(name, "tree"))
        return detour_validation_double_tree(arena, ranks, validation, error);
    return detour_validation_links(arena, ranks, links, read_list(name, links), validation, error);
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
