/* The kernel, by calls that are the same with every C library, and memory. */
#include "native.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/stat.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Time as the kernel has it; timespec of a C library may have 64-bit seconds on 32-bit machines. */
struct kernel_time {
    long seconds, ns;
};

#define CLOCK_MONOTONIC_NUMBER 1

int64_t now_ns(void)
{
    struct kernel_time time;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC_NUMBER, &time);
    return time.seconds * NS_PER_S + time.ns;
}

void sleep_ns(int64_t ns)
{
    struct kernel_time time = {(long)(ns / NS_PER_S), (long)(ns % NS_PER_S)};
    syscall(SYS_nanosleep, &time, NULL);
}

/* Asks the kernel, since struct stat differs between C libraries. */
static bool describe(int folder, const char *path, struct statx *status)
{
    return syscall(SYS_statx, folder, path, *path ? 0 : AT_EMPTY_PATH, STATX_BASIC_STATS, status) == 0;
}

int64_t file_bytes(const char *path)
{
    struct statx status;
    return describe(AT_FDCWD, path, &status) ? (int64_t)status.stx_size : -1;
}

int64_t open_file_bytes(int fd)
{
    struct statx status;
    return describe(fd, "", &status) ? (int64_t)status.stx_size : -1;
}

uint64_t inode_of(int fd)
{
    struct statx status;
    return describe(fd, "", &status) ? status.stx_ino : 0;
}

bool is_regular_file(int fd)
{
    struct statx status;
    return describe(fd, "", &status) && (status.stx_mode & 0170000) == 0100000;
}

long read_file(const char *path, char *bytes, size_t space)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    size_t length = 0;
    ssize_t count;
    while (length + 1 < space && (count = read(fd, bytes + length, space - 1 - length)) > 0)
        length += (size_t)count;
    close(fd);
    bytes[length] = '\0';
    return (long)length;
}

/* linux/dirent.h: struct linux_dirent64. */
struct entry {
    uint64_t inode;
    int64_t offset;
    unsigned short length;
    unsigned char type;
    char name[];
};

bool for_each_entry(const char *folder, void (*take)(const char *name, void *argument), void *argument)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return false;
    _Alignas(struct entry) char space[4096];
    long count;
    while ((count = syscall(SYS_getdents64, fd, space, sizeof space)) > 0) {
        for (long start = 0; start < count;) {
            struct entry *entry = (struct entry *)(space + start);
            if (strcmp(entry->name, ".") && strcmp(entry->name, ".."))
                take(entry->name, argument);
            start += entry->length;
        }
    }
    close(fd);
    return true;
}

static void *checked(void *memory)
{
    static const char words[] = "reusebench: no memory for the driver itself\n";
    if (!memory) {
        if (write(2, words, sizeof words - 1) < 0)
            _exit(2);
        abort();
    }
    return memory;
}

void *allocate_bytes(size_t bytes)
{
    return checked(calloc(1, bytes ? bytes : 1));
}

void *with_space(void *array, size_t length, size_t item_bytes)
{
    if (length & (length - 1))
        return array;
    return checked(realloc(array, (length ? 2 * length : 1) * item_bytes));
}
