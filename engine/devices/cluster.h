/* cluster.h: files that describe the devices of machines that aren't there, for plans. docs/cluster.md has
 * the format. Files are hostile until they have been checked. */
#ifndef ENGINE_DEVICES_CLUSTER_H
#define ENGINE_DEVICES_CLUSTER_H

#include <stdio.h>

#include "devices/open.h"

/* Adds the devices of a file to a set that has the CPU, which becomes the first of them. */
int cluster_read(const char *path, struct device_set *set);

/* Writes the devices of a set, which have been measured, as such a file. ENGINE_ERROR: it can't be
 * written. */
int cluster_write(const struct device_set *set, const char *path);

#endif
