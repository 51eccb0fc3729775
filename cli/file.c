/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/file.h"

#include <errno.h>
#include <stdlib.h>

char *dt_file_read(FILE *stream, size_t bytes_max, size_t *bytes)
{
    size_t capacity = 1 << 16, used = 0;
    char *data = malloc(capacity);

    while (data && used <= bytes_max) {
        used += fread(data + used, 1, capacity - used, stream);
        if (used < capacity)
            break;
        char *larger = realloc(data, 2 * capacity);
        if (!larger)
            free(data);
        data = larger;
        capacity *= 2;
    }
    if (data && ferror(stream)) {
        int error = errno;
        free(data);
        errno = error;
        return NULL;
    }
    *bytes = used;
    return data;
}
