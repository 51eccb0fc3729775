/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/netdev.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* VLAN over bond over interface; a loop of links ends here as well. */
#define DEPTH_MAX 4

static bool is_of(const char *root, const char *interface, const char *device, int depth)
{
    static const char lower[] = "lower_"; /* the kernel's links to the interfaces below */
    char path[PATH_MAX];
    bool found = false;
    DIR *folder;

    snprintf(path, sizeof path, "%s/sys/class/net/%s/device/infiniband/%s", root, interface, device);
    if (access(path, F_OK) == 0)
        return true;
    snprintf(path, sizeof path, "%s/sys/class/net/%s", root, interface);
    folder = depth < DEPTH_MAX ? opendir(path) : NULL;
    for (const struct dirent *entry; folder && !found && (entry = readdir(folder));)
        found = strncmp(entry->d_name, lower, sizeof lower - 1) == 0 &&
                is_of(root, entry->d_name + sizeof lower - 1, device, depth + 1);
    if (folder)
        closedir(folder);
    return found;
}

bool dt_netdev_is_of(const char *root, const char *interface, const char *device)
{
    return *interface && *device && is_of(root, interface, device, 0);
}
