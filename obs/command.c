/* SPDX-License-Identifier: Apache-2.0 */
#include "obs/command.h"

#include <ctype.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

#define COMMANDS_MAX 32
#define NAME_BYTES   32

struct command {
    char name[NAME_BYTES]; /* empty: a free entry */
    dt_command_func *func;
    void *arg;
};

/* The lock is held while a command runs. */
struct dt_command_table {
    pthread_mutex_t lock;
    struct command commands[COMMANDS_MAX];
};

enum dt_status dt_command_table_create(struct dt_command_table **table)
{
    struct dt_command_table *created = calloc(1, sizeof *created);

    if (!created)
        return DT_NO_MEMORY;
    pthread_mutex_init(&created->lock, NULL);
    *table = created;
    return DT_OK;
}

void dt_command_table_destroy(struct dt_command_table *table)
{
    pthread_mutex_destroy(&table->lock);
    free(table);
}

static bool is_name(const char *text)
{
    size_t length = strlen(text);

    for (size_t i = 0; i < length; i++) {
        if (!isalnum((unsigned char)text[i]) && text[i] != '-')
            return false;
    }
    return length > 0 && length < NAME_BYTES;
}

/* The entry of this name; the empty name finds a free entry. NULL: none. */
static struct command *find(struct dt_command_table *table, const char *name)
{
    for (size_t i = 0; i < COMMANDS_MAX; i++) {
        if (!strcmp(table->commands[i].name, name))
            return &table->commands[i];
    }
    return NULL;
}

enum dt_status dt_command_register(struct dt_command_table *table, const char *name, dt_command_func *func,
                                   void *arg)
{
    enum dt_status status = DT_INVALID;
    struct command *entry;

    if (!is_name(name))
        return DT_INVALID;
    pthread_mutex_lock(&table->lock);
    if (!find(table, name)) {
        entry = find(table, "");
        status = entry ? DT_OK : DT_FULL;
        if (entry) {
            strcpy(entry->name, name);
            entry->func = func;
            entry->arg = arg;
        }
    }
    pthread_mutex_unlock(&table->lock);
    return status;
}

static enum dt_status list_commands(const struct dt_command_table *table, char *answer, size_t answer_bytes)
{
    size_t used = 0;

    snprintf(answer, answer_bytes, "help");
    used = strlen(answer);
    for (size_t i = 0; i < COMMANDS_MAX && used < answer_bytes; i++) {
        if (table->commands[i].name[0])
            used += (size_t)snprintf(answer + used, answer_bytes - used, " %s", table->commands[i].name);
    }
    return DT_OK;
}

static enum dt_status run_named(struct dt_command_table *table, const char *name, const char *args,
                                char *answer, size_t answer_bytes)
{
    const struct command *entry = is_name(name) ? find(table, name) : NULL;

    if (entry)
        return entry->func(entry->arg, args, answer, answer_bytes);
    if (!strcmp(name, "help"))
        return list_commands(table, answer, answer_bytes);
    snprintf(answer, answer_bytes, "no such command; `help` lists them");
    return DT_NOT_FOUND;
}

/* Answers are one line of printable text, whatever a command wrote. */
static void make_printable(char *text)
{
    for (; *text; text++) {
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            *text = ' ';
    }
}

/* Splits "  name  args " in place. */
static char *split(char *line, char **args)
{
    char *name = line + strspn(line, " \t\r");
    char *end = line + strlen(line);

    while (end > name && strchr(" \t\r", end[-1]))
        *--end = '\0';
    *args = name + strcspn(name, " \t\r");
    if (**args)
        *(*args)++ = '\0';
    *args += strspn(*args, " \t\r");
    return name;
}

size_t dt_command_run(struct dt_command_table *table, const char *line,
                      char answer[DT_COMMAND_ANSWER_BYTES + 1])
{
    char text[DT_COMMAND_ANSWER_BYTES - 32] = "";
    char copy[DT_COMMAND_LINE_BYTES];
    char *args;
    char *name;
    enum dt_status status;

    snprintf(copy, sizeof copy, "%s", line);
    name = split(copy, &args);
    pthread_mutex_lock(&table->lock);
    status = run_named(table, name, args, text, sizeof text);
    pthread_mutex_unlock(&table->lock);
    make_printable(text);
    if (status == DT_OK)
        return (size_t)snprintf(answer, DT_COMMAND_ANSWER_BYTES + 1, "ok %s\n", text);
    return (size_t)snprintf(answer, DT_COMMAND_ANSWER_BYTES + 1, "error %d %s\n", (int)status, text);
}
