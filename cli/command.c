/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/command.h"

#include <stddef.h>

const struct dt_command dt_commands[] = {
    {NULL, NULL, NULL},
};
