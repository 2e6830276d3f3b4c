/*
 * Facts by which the harness explains a failed call: memory, the NPU's nodes and their permissions
 * (measured/runtimes/rknn/device.py).
 */
#include "native.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/stat.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TEXT_BYTES 8192
#define PATH_BYTES 512
#define DRIVER_FOLDER "/sys/bus/platform/drivers/RKNPU"
#define CHARACTER_DEVICE "/dev/rknpu"
#define MAY_READ_AND_WRITE 0060 /* permissions of the group */

/* Finds the name of a group; false if /etc/group does not have its number. */
static bool find_group(unsigned number, char *name, size_t space)
{
    char *text = allocate_bytes(TEXT_BYTES);
    bool is_known = false;
    if (read_file("/etc/group", text, TEXT_BYTES) > 0)
        for (char *rest = text, *line; !is_known && (line = strsep(&rest, "\n"));) {
            char *group = strsep(&line, ":");
            strsep(&line, ":");
            is_known = line && (unsigned)number_of(line) == number;
            if (is_known)
                snprintf(name, space, "%s", group);
        }
    free(text);
    return is_known;
}

/* Appends the error of opening a node, and the group that may open it. */
static void append_node(struct text *fields, const char *kind, const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC), error = fd < 0 ? errno : 0;
    if (fd >= 0)
        close(fd);
    append_field(fields, kind, path);
    append(fields, "\terror=%d", error);
    if (error != EACCES && error != EPERM)
        return;
    append(fields, "\tallowed=%d", access(path, R_OK | W_OK) == 0);
    struct statx status;
    char group[64];
    if (syscall(SYS_statx, AT_FDCWD, path, 0, STATX_BASIC_STATS, &status) == 0 && status.stx_gid &&
        (status.stx_mode & MAY_READ_AND_WRITE) == MAY_READ_AND_WRITE && find_group(status.stx_gid, group, sizeof group))
        append_field(fields, "group", group);
}

static void append_drm_node(const char *name, void *fields)
{
    char path[PATH_BYTES];
    if (strncmp(name, "card", 4) && strncmp(name, "rend", 4))
        return;
    snprintf(path, sizeof path, "/dev/dri/%s", name);
    append_node(fields, "node", path);
}

static void append_drm_nodes(const char *device, void *fields)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, DRIVER_FOLDER "/%s/drm", device);
    for_each_entry(path, append_drm_node, fields);
}

static void append_file(struct text *fields, const char *name, const char *path)
{
    char *text = allocate_bytes(TEXT_BYTES);
    long length = read_file(path, text, TEXT_BYTES);
    /* Strings in the device tree end with a zero. */
    for (long index = 0; index < length; index++)
        text[index] = text[index] ? text[index] : '\n';
    append_field(fields, name, text);
    free(text);
}

void append_facts(struct text *fields, const char *words)
{
    static const char heap[] = "Failed to open DMA heap: ";
    int fd = open("/proc/meminfo", O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == EMFILE) {
        append_field(fields, "descriptors", "used up");
        return;
    }
    close(fd);
    append_file(fields, "meminfo", "/proc/meminfo");
    append_file(fields, "compatible", "/proc/device-tree/compatible");
    append(fields, "\thas_driver=%d", access(DRIVER_FOLDER, F_OK) == 0);
    append_node(fields, "node", CHARACTER_DEVICE);
    for_each_entry(DRIVER_FOLDER, append_drm_nodes, fields);
    const char *named = strstr(words, heap);
    if (named) {
        char path[PATH_BYTES];
        named += strlen(heap);
        snprintf(path, sizeof path, "%.*s", (int)strcspn(named, " \t\r\n"), named);
        append_node(fields, "heap", path);
    }
}
