/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The grammar:
 *
 *   file   = row { newline row } [ newline ]        one row per device
 *   row    = cell { "," cell }
 *   cell   = blanks [ action | group ] blanks       nothing: the device idles
 *   action = STAGE KIND [ MICROBATCH ]              both numbers in decimal digits
 *   group  = "(" action { ";" action } ")OVERLAP_F_B"
 *
 * PyTorch matches the front of a cell and ignores what follows; here a cell has to match as a whole.
 */
#include "sched/format/csv_fields.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *const dt_csv_names[DT_CSV_KIND_COUNT] = {
    [DT_CSV_F] = "F",
    [DT_CSV_I] = "I",
    [DT_CSV_W] = "W",
    [DT_CSV_B] = "B",
    [DT_CSV_SEND_F] = "SEND_F",
    [DT_CSV_RECV_F] = "RECV_F",
    [DT_CSV_SEND_B] = "SEND_B",
    [DT_CSV_RECV_B] = "RECV_B",
    [DT_CSV_WAIT_SEND_F] = "WAIT_SEND_F",
    [DT_CSV_WAIT_SEND_B] = "WAIT_SEND_B",
    [DT_CSV_UNSHARD] = "UNSHARD",
    [DT_CSV_RESHARD] = "RESHARD",
    [DT_CSV_REDUCE_GRAD] = "REDUCE_GRAD",
    [DT_CSV_WAIT_REDUCE_GRAD] = "WAIT_REDUCE_GRAD",
};

static const char overlap_name[] = ")OVERLAP_F_B";

/* The part of the text that is still to be read; `cell` is the one at hand, for error lines. */
struct scanner {
    const struct dt_csv_reader *reader;
    struct dt_csv_table *table;
    const char *at;
    const char *end;
    const char *cell;
    int32_t row;
    int32_t column;
    bool row_has_action;
    int32_t blank_row; /* the first blank cell, if blank_column >= 0 */
    int32_t blank_column;
};

static bool ends_cell(char c)
{
    return c == ',' || c == '\r' || c == '\n';
}

/* The cell at hand, cut and made printable, for an error line. */
static const char *show_cell(const struct scanner *scan, char shown[40])
{
    size_t i = 0;

    for (const char *c = scan->cell; c < scan->end && i < 32 && !ends_cell(*c); c++)
        shown[i++] = (char)(isprint((unsigned char)*c) ? *c : '?');
    shown[i] = '\0';
    return shown;
}

static enum detour_status fail_cell(const struct scanner *scan, enum detour_status status, const char *format,
                                    ...) __attribute__((format(printf, 3, 4)));

static enum detour_status fail_cell(const struct scanner *scan, enum detour_status status, const char *format,
                                    ...)
{
    char message[256];
    char shown[40];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(message, sizeof(message), format, arguments);
    va_end(arguments);
    return dt_error_set(scan->reader->error, status, "%s: row %" PRId32 ", column %" PRId32 ": \"%s\" %s",
                        scan->reader->name, scan->row + 1, scan->column + 1, show_cell(scan, shown), message);
}

enum detour_status dt_csv_fail(const struct dt_csv_reader *reader, const struct dt_csv_action *action,
                               enum detour_status status, const char *format, ...)
{
    char message[256];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(message, sizeof(message), format, arguments);
    va_end(arguments);
    return dt_error_set(reader->error, status, "%s: row %" PRId32 ", column %" PRId32 ": %d%s%" PRId32 " %s",
                        reader->name, action->row + 1, action->column + 1, action->stage,
                        dt_csv_names[action->kind], action->microbatch, message);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\v' || c == '\f';
}

static char peek(const struct scanner *scan)
{
    return scan->at < scan->end ? *scan->at : '\n';
}

static void skip_blanks(struct scanner *scan)
{
    while (scan->at < scan->end && is_blank(*scan->at))
        scan->at++;
}

/* Digits, if there are any; *count is their number. */
static enum detour_status read_number(struct scanner *scan, const char *what, int64_t max, int64_t *value,
                                      int *count)
{
    *value = 0;
    for (*count = 0; peek(scan) >= '0' && peek(scan) <= '9'; scan->at++, ++*count) {
        *value = 10 * *value + (*scan->at - '0');
        if (*value > max)
            return fail_cell(scan, DETOUR_LIMIT, "has a %s beyond %" PRId64, what, max);
    }
    return DETOUR_OK;
}

/* Letters and underscores, looked up as a whole: PyTorch reads 0FORWARD1 as 0F without a microbatch. */
static int read_kind(struct scanner *scan)
{
    const char *begin = scan->at;

    while (isupper((unsigned char)peek(scan)) || peek(scan) == '_')
        scan->at++;
    size_t length = (size_t)(scan->at - begin);
    for (int kind = 0; kind < DT_CSV_KIND_COUNT; kind++)
        if (strlen(dt_csv_names[kind]) == length && !memcmp(dt_csv_names[kind], begin, length))
            return kind;
    return -1;
}

static const char good_action[] =
    "STAGE KIND MICROBATCH, for example 0F0 (kinds: F, I, W, B, SEND_F, RECV_F, SEND_B, "
    "RECV_B, WAIT_SEND_F, WAIT_SEND_B and, without microbatch, UNSHARD, RESHARD, REDUCE_GRAD, "
    "WAIT_REDUCE_GRAD)";

static enum detour_status read_action(struct scanner *scan)
{
    int64_t stage, microbatch;
    int stage_digits, microbatch_digits;

    enum detour_status status = read_number(scan, "stage", DETOUR_STAGES_MAX - 1, &stage, &stage_digits);
    if (status)
        return status;
    int kind = stage_digits ? read_kind(scan) : -1;
    if (kind < 0)
        return fail_cell(scan, DETOUR_SYNTAX, "is not an action; write %s", good_action);
    status = read_number(scan, "microbatch", DETOUR_MICROBATCHES_MAX - 1, &microbatch, &microbatch_digits);
    if (status)
        return status;
    if ((microbatch_digits > 0) != (kind < DT_CSV_UNSHARD))
        return fail_cell(scan, DETOUR_SYNTAX, "%s microbatch; write %d%s%s",
                         microbatch_digits ? "must not have a" : "has no", (int)stage, dt_csv_names[kind],
                         microbatch_digits ? "" : "0");
    scan->table->actions[scan->table->action_count++] =
        (struct dt_csv_action){.row = scan->row,
                               .column = scan->column,
                               .microbatch = (int32_t)microbatch,
                               .stage = (int16_t)stage,
                               .kind = (uint8_t)kind};
    scan->table->has_comms = scan->table->has_comms || kind >= DT_CSV_SEND_F;
    scan->row_has_action = true;
    return DETOUR_OK;
}

/* "(0F7;7B3)OVERLAP_F_B": PyTorch does the parts one after the other. */
static enum detour_status read_group(struct scanner *scan)
{
    size_t name_length = sizeof(overlap_name) - 1;

    do {
        scan->at++; /* "(" or ";" */
        skip_blanks(scan);
        size_t count = scan->table->action_count;
        enum detour_status status = read_action(scan);
        if (status)
            return status;
        if (scan->table->actions[count].kind >= DT_CSV_SEND_F)
            return fail_cell(scan, DETOUR_SYNTAX, "overlaps something else than F, I, W and B");
        skip_blanks(scan);
    } while (peek(scan) == ';');
    if ((size_t)(scan->end - scan->at) < name_length || memcmp(scan->at, overlap_name, name_length) != 0)
        return fail_cell(scan, DETOUR_SYNTAX, "is not a group; write (ACTION;ACTION)OVERLAP_F_B");
    scan->at += name_length;
    return DETOUR_OK;
}

static enum detour_status read_cell(struct scanner *scan)
{
    enum detour_status status = DETOUR_OK;

    skip_blanks(scan);
    scan->cell = scan->at;
    if (peek(scan) == '(') {
        status = read_group(scan);
    } else if (!ends_cell(peek(scan))) {
        status = read_action(scan);
    } else if (scan->blank_column < 0) {
        scan->blank_row = scan->row;
        scan->blank_column = scan->column;
    }
    if (status)
        return status;
    skip_blanks(scan);
    if (!ends_cell(peek(scan)))
        return fail_cell(scan, DETOUR_SYNTAX,
                         "has text after the action, where PyTorch would stop reading; write %s",
                         good_action);
    return DETOUR_OK;
}

static enum detour_status read_row(struct scanner *scan)
{
    scan->row_has_action = false;
    for (scan->column = 0;; scan->column++) {
        enum detour_status status = read_cell(scan);
        if (status)
            return status;
        if (peek(scan) != ',')
            break;
        scan->at++;
    }
    if (!scan->row_has_action)
        return dt_error_set(scan->reader->error, DETOUR_SYNTAX,
                            "%s: row %" PRId32
                            " has no action, and PyTorch takes every line for a rank; remove it",
                            scan->reader->name, scan->row + 1);
    if (peek(scan) == '\r' && (scan->end - scan->at < 2 || scan->at[1] != '\n'))
        return fail_cell(scan, DETOUR_SYNTAX, "ends with a lone carriage return; end rows with a newline");
    scan->at += peek(scan) == '\r';
    scan->at += scan->at < scan->end; /* the newline */
    scan->row++;
    return DETOUR_OK;
}

/* Every action but the first of all has a comma, semicolon or newline before it. */
static size_t count_actions_max(const char *text, size_t bytes)
{
    size_t count = 1;

    for (size_t i = 0; i < bytes; i++)
        count += text[i] == ',' || text[i] == ';' || text[i] == '\n';
    return count;
}

static enum detour_status check_text(const struct dt_csv_reader *reader, const char *text, size_t bytes)
{
    if (bytes > DETOUR_INPUT_BYTES_MAX)
        return dt_error_set(reader->error, DETOUR_LIMIT, "%s: has %zu bytes; the limit is %d", reader->name,
                            bytes, DETOUR_INPUT_BYTES_MAX);
    if (bytes == 0)
        return dt_error_set(reader->error, DETOUR_SYNTAX, "%s: is empty; there must be one row per device",
                            reader->name);
    if (bytes >= 3 && !memcmp(text, "\xef\xbb\xbf", 3))
        return dt_error_set(reader->error, DETOUR_SYNTAX,
                            "%s: begins with a byte order mark, which PyTorch does not read; remove it",
                            reader->name);
    return DETOUR_OK;
}

enum detour_status dt_csv_parse(const struct dt_csv_reader *reader, const char *text, size_t bytes,
                                struct dt_csv_table *table)
{
    struct scanner scan = {.reader = reader, .table = table, .at = text, .blank_column = -1};

    enum detour_status status = check_text(reader, text, bytes);
    if (status)
        return status;
    scan.end = text + bytes;
    *table = (struct dt_csv_table){0};
    table->actions =
        dt_arena_alloc_raw(reader->arena, count_actions_max(text, bytes), sizeof(*table->actions));
    if (!table->actions)
        return dt_fail_memory(reader->error);
    while (!status && scan.at < scan.end)
        status = read_row(&scan);
    table->row_count = scan.row;
    if (!status && table->has_comms && scan.blank_column >= 0)
        status =
            dt_error_set(reader->error, DETOUR_SYNTAX,
                         "%s: row %" PRId32 ", column %" PRId32
                         " is blank, which PyTorch refuses in a schedule with sends and receives; remove it",
                         reader->name, scan.blank_row + 1, scan.blank_column + 1);
    return status;
}
