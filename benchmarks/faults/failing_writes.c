/* Lets the n-th change of files in a folder fail, and perhaps all later ones: a disk that is full, or breaks.
 *
 * Preloaded (LD_PRELOAD) into a process and its children, which count together:
 *   FAULTS_FOLDER   absolute path; only changes in this folder count
 *   FAULTS_COUNTER  a file of 16 bytes, mapped by all processes: the number of changes, and the size of FAULTS_OUTPUT
 *                   when the first one failed
 *   FAULTS_OUTPUT   the file with the printed output
 *   FAULTS_AT       number of the change that fails, from 1; 0: none
 *   FAULTS_ERRNO    its error
 *   FAULTS_ONCE     1: only this change fails; 0: all later ones too
 *
 * Changes are: opening a file to write or make it, writing, truncating, syncing, renaming, linking, making a folder.
 * Removing counts only with FAULTS_REMOVING=1: it does not fail on a full disk.
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static const char *folder;
static size_t folder_length;
static _Atomic long *counter, *printed;
static const char *output;
static long fails_at;
static int error_number, is_once, counts_removing;

static long number(const char *name)
{
    const char *text = getenv(name);
    return text ? atol(text) : 0;
}

__attribute__((constructor)) static void start(void)
{
    const char *path = getenv("FAULTS_COUNTER");
    int descriptor = path ? NEXT(openat)(AT_FDCWD, path, O_RDWR | O_CLOEXEC) : -1;
    if (descriptor < 0)
        return;
    void *map = mmap(NULL, 2 * sizeof(long), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    close(descriptor);
    if (map == MAP_FAILED)
        return;
    fails_at = number("FAULTS_AT");
    error_number = (int)number("FAULTS_ERRNO");
    is_once = (int)number("FAULTS_ONCE");
    counts_removing = (int)number("FAULTS_REMOVING");
    folder = getenv("FAULTS_FOLDER");
    folder_length = folder ? strlen(folder) : 0;
    output = getenv("FAULTS_OUTPUT");
    counter = map;
    printed = counter + 1;
}

/* Count this change; return whether it fails, with errno set. */
static int fails(void)
{
    long at = atomic_fetch_add(counter, 1) + 1;
    if (!fails_at || at < fails_at || (is_once && at > fails_at))
        return 0;
    struct stat status;
    if (at == fails_at && output && !stat(output, &status))
        *printed = status.st_size;
    errno = error_number;
    return 1;
}

static int is_inside(const char *path)
{
    return folder_length && !strncmp(path, folder, folder_length);
}

/* Whether changes of the path, relative to the descriptor's folder, count. */
static int counts_at(int at, const char *path)
{
    char link[40], parent[PATH_MAX];
    if (!counter || !path)
        return 0;
    if (path[0] == '/')
        return is_inside(path);
    if (at == AT_FDCWD)
        return getcwd(parent, sizeof parent) && is_inside(parent);
    snprintf(link, sizeof link, "/proc/self/fd/%d", at);
    ssize_t length = readlink(link, parent, sizeof parent - 1);
    parent[length < 0 ? 0 : length] = 0;
    return is_inside(parent);
}

static int counts(int descriptor)
{
    return counts_at(descriptor, "");
}

#define OPENING(name, at_parameter, at)                                                      \
    int name(at_parameter const char *path, int flags, ...)                                  \
    {                                                                                        \
        va_list rest;                                                                        \
        va_start(rest, flags);                                                               \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;              \
        va_end(rest);                                                                        \
        int changes = (flags & O_ACCMODE) != O_RDONLY || flags & O_CREAT;                    \
        if (changes && counts_at(at, path) && fails())                                       \
            return -1;                                                                       \
        return NEXT(openat)(at, path, flags, mode);                                          \
    }
#define AT int at,

OPENING(open, , AT_FDCWD)
OPENING(open64, , AT_FDCWD)
OPENING(openat, AT, at)
OPENING(openat64, AT, at)

/* A function that changes files; it counts if `is_ours`. */
#define CHANGE(result, name, parameters, arguments, is_ours) \
    result name parameters                                   \
    {                                                        \
        if (is_ours && fails())                              \
            return -1;                                       \
        return NEXT(name) arguments;                         \
    }

CHANGE(ssize_t, write, (int file, const void *data, size_t size), (file, data, size), counts(file))
CHANGE(ssize_t, writev, (int file, const struct iovec *data, int count), (file, data, count), counts(file))
CHANGE(ssize_t, pwrite, (int file, const void *data, size_t size, off_t at), (file, data, size, at), counts(file))
CHANGE(ssize_t, pwrite64, (int file, const void *data, size_t size, off64_t at), (file, data, size, at), counts(file))
CHANGE(int, ftruncate, (int file, off_t size), (file, size), counts(file))
CHANGE(int, ftruncate64, (int file, off64_t size), (file, size), counts(file))
CHANGE(int, fsync, (int file), (file), counts(file))
CHANGE(int, fdatasync, (int file), (file), counts(file))
CHANGE(int, mkdir, (const char *path, mode_t mode), (path, mode), counts_at(AT_FDCWD, path))
CHANGE(int, mkdirat, (int at, const char *path, mode_t mode), (at, path, mode), counts_at(at, path))
CHANGE(int, symlink, (const char *target, const char *path), (target, path), counts_at(AT_FDCWD, path))
CHANGE(int, link, (const char *from, const char *to), (from, to), counts_at(AT_FDCWD, to))
CHANGE(int, rename, (const char *from, const char *to), (from, to), counts_at(AT_FDCWD, to))
CHANGE(int, renameat, (int from_at, const char *from, int to_at, const char *to), (from_at, from, to_at, to), counts_at(to_at, to))
CHANGE(int, unlink, (const char *path), (path), counts_removing && counts_at(AT_FDCWD, path))
CHANGE(int, unlinkat, (int at, const char *path, int flags), (at, path, flags), counts_removing && counts_at(at, path))
CHANGE(int, rmdir, (const char *path), (path), counts_removing && counts_at(AT_FDCWD, path))
