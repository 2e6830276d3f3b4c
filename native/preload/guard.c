/*
 * Keeps a virtual board away from the host's own devices. If no NPU device opens, Rockchip's runtime looks for one
 * under /dev/dri and, as root, makes and changes device nodes there; it also takes memory from dma-heaps. Every call
 * that would reach these paths is answered as if they did not exist. The devices that the virtual board simulates are
 * opened in descriptors.c.
 */
#include "preload.h"

static const char *const guarded[] = {"/dev/dri", "/dev/rknpu", "/dev/dma_heap", "/dev/rk_dma_heap", "/dev/accel"};

static bool is_guarded(const char *path)
{
    for (size_t index = 0; index < LENGTH(guarded); index++) {
        size_t length = strlen(guarded[index]);
        if (strncmp(path, guarded[index], length) == 0 && (!path[length] || path[length] == '/'))
            return true;
    }
    return false;
}

/* Removes ".", ".." and repeated slashes from an absolute path, in place. */
static void normalise(char *path)
{
    char *end = path, *part, *rest = path;
    while ((part = strsep(&rest, "/"))) {
        if (!*part || strcmp(part, ".") == 0)
            continue;
        if (strcmp(part, "..") == 0) {
            while (end > path && *--end != '/')
                ;
            continue;
        }
        size_t length = strlen(part);
        memmove(end + 1, part, length);
        *end = '/';
        end += length + 1;
    }
    *end = '\0';
}

/* Prefixes a relative path with its folder; false if the result is too long or the folder is unknown. */
static bool make_absolute(int folder, const char *path, char space[PATH_MAX])
{
    char base[PATH_MAX] = "", link[64];
    if (*path != '/' && folder == AT_FDCWD) {
        if (!getcwd(base, sizeof base))
            return false;
    } else if (*path != '/') {
        snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
        ssize_t length = NEXT(readlink)(link, base, sizeof base - 1);
        if (length < 0)
            return false;
        base[length] = '\0';
    }
    return snprintf(space, PATH_MAX, "%s/%s", base, path) < PATH_MAX;
}

/* Follows the links in the path, or in the path of its folder if the path does not exist. */
static bool follow_links(char *absolute, char space[PATH_MAX])
{
    char folder[PATH_MAX];
    if (realpath(absolute, space))
        return true;
    normalise(absolute);
    char *last = strrchr(absolute, '/');
    if (!last)
        return false;
    *last = '\0';
    bool followed = realpath(*absolute ? absolute : "/", folder) &&
                    snprintf(space, PATH_MAX, "%s/%s", strcmp(folder, "/") ? folder : "", last + 1) < PATH_MAX;
    *last = '/';
    return followed;
}

const char *resolved(int folder, const char *path, char space[PATH_MAX])
{
    char absolute[PATH_MAX];
    int saved = errno;
    space[0] = '\0';
    if (path && make_absolute(folder, path, absolute) && !follow_links(absolute, space))
        memcpy(space, absolute, strlen(absolute) + 1);
    errno = saved;
    return space;
}

/* Replaces anything that is not printable ASCII: it would need escapes in JSON and helps no reader of a report. */
static void make_printable(char *text)
{
    for (; *text; text++)
        if (*text < ' ' || *text > '~' || *text == '"' || *text == '\\')
            *text = '?';
}

static void write_refused(const char *call, const char *resolved_path)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s", resolved_path);
    make_printable(path);
    write_event("refused", ",\"call\":\"%s\",\"path\":\"%s\"", call, path);
}

bool is_refused_path(const char *call, const char *resolved_path)
{
    if (!is_guarded(resolved_path))
        return false;
    /* Teflon tries all names that nodes of /dev/dri and /dev/accel may have, each time: 320 lines that tell nothing. */
    if (settings.chip->device != ROCKET_DEVICE)
        write_refused(call, resolved_path);
    errno = ENOENT;
    return true;
}

bool is_refused(const char *call, int folder, const char *path)
{
    char space[PATH_MAX];
    return is_virtual() && is_refused_path(call, resolved(folder, path, space));
}

/* ---- Every function of the C library that takes a path; those that open a file are in descriptors.c ---- */

#define GUARD(type, failure, name, parameters, arguments, refusal)                                                     \
    HOOK(type, name, parameters)                                                                                       \
    {                                                                                                                  \
        static const char call[] = #name;                                                                              \
        static type(*next) parameters;                                                                                 \
        if (!next)                                                                                                     \
            next = (type(*) parameters)next_function(call);                                                            \
        if (!next || (refusal))                                                                                        \
            return failure;                                                                                            \
        return next arguments;                                                                                         \
    }

#define HERE(path) is_refused(call, AT_FDCWD, path)
#define AT(folder, path) is_refused(call, folder, path)

/* The types of the structures that `out` points to do not matter here. */
typedef const char *path_t;
typedef void *out_t;

GUARD(int, -1, access, (path_t path, int mode), (path, mode), HERE(path))
GUARD(int, -1, eaccess, (path_t path, int mode), (path, mode), HERE(path))
GUARD(int, -1, euidaccess, (path_t path, int mode), (path, mode), HERE(path))
GUARD(int, -1, faccessat, (int at, path_t path, int mode, int flags), (at, path, mode, flags), AT(at, path))
GUARD(int, -1, chdir, (path_t path), (path), HERE(path))
GUARD(ssize_t, -1, readlink, (path_t path, out_t out, size_t size), (path, out, size), HERE(path))
GUARD(ssize_t, -1, readlinkat, (int at, path_t path, out_t out, size_t size), (at, path, out, size), AT(at, path))
GUARD(out_t, NULL, opendir, (path_t path), (path), HERE(path))
GUARD(int, -1, scandir, (path_t path, out_t list, out_t filter, out_t order), (path, list, filter, order), HERE(path))
GUARD(int, -1, scandir64, (path_t path, out_t list, out_t filter, out_t order), (path, list, filter, order), HERE(path))

GUARD(int, -1, stat, (path_t path, out_t out), (path, out), HERE(path))
GUARD(int, -1, stat64, (path_t path, out_t out), (path, out), HERE(path))
GUARD(int, -1, lstat, (path_t path, out_t out), (path, out), HERE(path))
GUARD(int, -1, lstat64, (path_t path, out_t out), (path, out), HERE(path))
GUARD(int, -1, fstatat, (int at, path_t path, out_t out, int flags), (at, path, out, flags), AT(at, path))
GUARD(int, -1, fstatat64, (int at, path_t path, out_t out, int flags), (at, path, out, flags), AT(at, path))
GUARD(int, -1, statx, (int at, path_t path, int flags, unsigned mask, out_t out), (at, path, flags, mask, out),
      AT(at, path))
/* For programs that were linked before glibc 2.33. */
GUARD(int, -1, __xstat, (int version, path_t path, out_t out), (version, path, out), HERE(path))
GUARD(int, -1, __xstat64, (int version, path_t path, out_t out), (version, path, out), HERE(path))
GUARD(int, -1, __lxstat, (int version, path_t path, out_t out), (version, path, out), HERE(path))
GUARD(int, -1, __lxstat64, (int version, path_t path, out_t out), (version, path, out), HERE(path))
GUARD(int, -1, __fxstatat, (int version, int at, path_t path, out_t out, int flags), (version, at, path, out, flags),
      AT(at, path))
GUARD(int, -1, __fxstatat64, (int version, int at, path_t path, out_t out, int flags), (version, at, path, out, flags),
      AT(at, path))
/* Names on 32-bit systems with 64-bit time. */
GUARD(int, -1, __stat64_time64, (path_t path, out_t out), (path, out), HERE(path))
GUARD(int, -1, __lstat64_time64, (path_t path, out_t out), (path, out), HERE(path))
GUARD(int, -1, __fstatat64_time64, (int at, path_t path, out_t out, int flags), (at, path, out, flags), AT(at, path))

GUARD(int, -1, mkdir, (path_t path, mode_t mode), (path, mode), HERE(path))
GUARD(int, -1, mkdirat, (int at, path_t path, mode_t mode), (at, path, mode), AT(at, path))
GUARD(int, -1, mkfifo, (path_t path, mode_t mode), (path, mode), HERE(path))
GUARD(int, -1, mkfifoat, (int at, path_t path, mode_t mode), (at, path, mode), AT(at, path))
GUARD(int, -1, mknod, (path_t path, mode_t mode, dev_t device), (path, mode, device), HERE(path))
GUARD(int, -1, mknodat, (int at, path_t path, mode_t mode, dev_t device), (at, path, mode, device), AT(at, path))
GUARD(int, -1, __xmknod, (int version, path_t path, mode_t mode, out_t device), (version, path, mode, device),
      HERE(path))
GUARD(int, -1, __xmknodat, (int version, int at, path_t path, mode_t mode, out_t device),
      (version, at, path, mode, device), AT(at, path))
GUARD(int, -1, chmod, (path_t path, mode_t mode), (path, mode), HERE(path))
GUARD(int, -1, lchmod, (path_t path, mode_t mode), (path, mode), HERE(path))
GUARD(int, -1, fchmodat, (int at, path_t path, mode_t mode, int flags), (at, path, mode, flags), AT(at, path))
GUARD(int, -1, chown, (path_t path, uid_t user, gid_t group), (path, user, group), HERE(path))
GUARD(int, -1, lchown, (path_t path, uid_t user, gid_t group), (path, user, group), HERE(path))
GUARD(int, -1, fchownat, (int at, path_t path, uid_t user, gid_t group, int flags), (at, path, user, group, flags),
      AT(at, path))
GUARD(int, -1, truncate, (path_t path, long length), (path, length), HERE(path))
GUARD(int, -1, truncate64, (path_t path, int64_t length), (path, length), HERE(path))
GUARD(int, -1, utimes, (path_t path, out_t times), (path, times), HERE(path))
GUARD(int, -1, utimensat, (int at, path_t path, out_t times, int flags), (at, path, times, flags), AT(at, path))

GUARD(int, -1, unlink, (path_t path), (path), HERE(path))
GUARD(int, -1, unlinkat, (int at, path_t path, int flags), (at, path, flags), AT(at, path))
GUARD(int, -1, remove, (path_t path), (path), HERE(path))
GUARD(int, -1, rmdir, (path_t path), (path), HERE(path))
GUARD(int, -1, rename, (path_t path, path_t other), (path, other), HERE(path) || HERE(other))
GUARD(int, -1, renameat, (int at, path_t path, int to, path_t other), (at, path, to, other),
      AT(at, path) || AT(to, other))
GUARD(int, -1, renameat2, (int at, path_t path, int to, path_t other, unsigned flags), (at, path, to, other, flags),
      AT(at, path) || AT(to, other))
GUARD(int, -1, link, (path_t path, path_t other), (path, other), HERE(path) || HERE(other))
GUARD(int, -1, linkat, (int at, path_t path, int to, path_t other, int flags), (at, path, to, other, flags),
      AT(at, path) || AT(to, other))
GUARD(int, -1, symlink, (path_t target, path_t path), (target, path), HERE(path))
GUARD(int, -1, symlinkat, (path_t target, int at, path_t path), (target, at, path), AT(at, path))

/* ---- The same without the C library: syscall() by number ---- */

#define NO_FOLDER -1

/* The arguments of a system call that are a path and the folder it starts from. A call with two paths has two rows. */
static const struct {
    long number;
    int folder, path;
} system_calls[] = {
    {SYS_openat, 0, 1},     {SYS_faccessat, 0, 1},  {SYS_mkdirat, 0, 1},   {SYS_mknodat, 0, 1},  {SYS_fchmodat, 0, 1},
    {SYS_fchownat, 0, 1},   {SYS_unlinkat, 0, 1},   {SYS_readlinkat, 0, 1}, {SYS_utimensat, 0, 1}, {SYS_symlinkat, 1, 2},
    {SYS_linkat, 0, 1},     {SYS_linkat, 2, 3},     {SYS_chdir, NO_FOLDER, 0}, {SYS_truncate, NO_FOLDER, 0},
#ifdef SYS_renameat
    {SYS_renameat, 0, 1},   {SYS_renameat, 2, 3},
#endif
#ifdef SYS_renameat2
    {SYS_renameat2, 0, 1},  {SYS_renameat2, 2, 3},
#endif
#ifdef SYS_statx
    {SYS_statx, 0, 1},
#endif
#ifdef SYS_openat2
    {SYS_openat2, 0, 1},
#endif
#ifdef SYS_faccessat2
    {SYS_faccessat2, 0, 1},
#endif
#ifdef SYS_newfstatat
    {SYS_newfstatat, 0, 1},
#endif
#ifdef SYS_fstatat64
    {SYS_fstatat64, 0, 1},
#endif
#ifdef SYS_stat64
    {SYS_stat64, NO_FOLDER, 0}, {SYS_lstat64, NO_FOLDER, 0},
#endif
#ifdef SYS_chown32
    {SYS_chown32, NO_FOLDER, 0}, {SYS_lchown32, NO_FOLDER, 0},
#endif
#ifdef SYS_open /* architectures that have one of the older calls have all of them */
    {SYS_open, NO_FOLDER, 0},   {SYS_creat, NO_FOLDER, 0},  {SYS_access, NO_FOLDER, 0}, {SYS_stat, NO_FOLDER, 0},
    {SYS_lstat, NO_FOLDER, 0},  {SYS_mkdir, NO_FOLDER, 0},  {SYS_mknod, NO_FOLDER, 0},  {SYS_chmod, NO_FOLDER, 0},
    {SYS_chown, NO_FOLDER, 0},  {SYS_lchown, NO_FOLDER, 0}, {SYS_unlink, NO_FOLDER, 0}, {SYS_rmdir, NO_FOLDER, 0},
    {SYS_rename, NO_FOLDER, 0}, {SYS_rename, NO_FOLDER, 1}, {SYS_link, NO_FOLDER, 0},   {SYS_link, NO_FOLDER, 1},
    {SYS_symlink, NO_FOLDER, 1}, {SYS_readlink, NO_FOLDER, 0},
#endif
};

static bool is_refused_system_call(long number, const long arguments[])
{
    for (size_t index = 0; index < LENGTH(system_calls); index++) {
        int folder = system_calls[index].folder;
        if (system_calls[index].number == number &&
            is_refused("syscall", folder == NO_FOLDER ? AT_FDCWD : (int)arguments[folder],
                       (const char *)arguments[system_calls[index].path]))
            return true;
    }
    return false;
}

HOOK(long, syscall, (long number, long a, long b, long c, long d, long e, long f))
{
    if (is_virtual() && is_refused_system_call(number, (long[]){a, b, c, d, e, f}))
        return -1;
    return NEXT(syscall)(number, a, b, c, d, e, f);
}
