/* The root of the command: the files that it reaches, mounted one by one. */
#include "sandbox.h"

#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>

static const char *root;

static void make_folders(char *path)
{
    for (char *slash = path + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        mkdir(path, 0755); /* a failure here shows again when the path is mounted on */
        *slash = '/';
    }
}

/* The flags of a mount that a namespace with fewer rights must keep. */
static unsigned long kept_flags(int fd)
{
    struct statvfs system;
    if (fstatvfs(fd, &system) < 0)
        return 0;
    unsigned long had = system.f_flag, kept = 0;
    kept |= had & ST_RDONLY ? MS_RDONLY : 0;
    kept |= had & ST_NOSUID ? MS_NOSUID : 0;
    kept |= had & ST_NODEV ? MS_NODEV : 0;
    kept |= had & ST_NOEXEC ? MS_NOEXEC : 0;
    kept |= had & ST_NOATIME ? MS_NOATIME : 0;
    kept |= had & ST_NODIRATIME ? MS_NODIRATIME : 0;
    kept |= had & ST_RELATIME ? MS_RELATIME : 0;
    return kept;
}

/* Shows an open file or folder at `path` in the new root, and closes it. */
static void show_open(int fd, const char *path, unsigned long flags)
{
    char source[PATH_MAX], place[PATH_MAX];
    struct stat status;
    if (fstat(fd, &status) < 0)
        fail("opening", path);
    text(place, "%s%s", root, path);
    make_folders(place);
    if (S_ISDIR(status.st_mode))
        mkdir(place, 0755);
    else
        close(open(place, O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
    text(source, "/proc/self/fd/%d", fd);
    if (mount(source, place, NULL, MS_BIND, NULL) < 0 ||
        mount(NULL, place, NULL, MS_REMOUNT | MS_BIND | MS_NOSUID | kept_flags(fd) | flags, NULL) < 0)
        fail("showing", path);
    close(fd);
}

void show(const char *path, unsigned long flags)
{
    int fd = open(path, O_PATH | O_CLOEXEC);
    if (fd >= 0)
        show_open(fd, path, flags);
    else if (errno != ENOENT && errno != ENOTDIR && errno != EACCES)
        fail("opening", path); /* a missing one is for the command to report */
}

static void show_system(void)
{
    static const char *const folders[] = {"/usr", "/lib", "/lib32", "/lib64", "/bin"};
    static const char *const devices[] = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"};
    /* Files that C libraries and Python read at their start. */
    static const char *const files[] = {
        "/etc/ld.so.cache", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat",
        "/proc/sys/vm/mmap_min_addr", "/proc/sys/vm/overcommit_memory",
        "/sys/devices/system/cpu/online", "/sys/devices/system/cpu/possible",
    };
    char link[PATH_MAX], place[PATH_MAX];
    for (size_t index = 0; index < LENGTH(folders); index++) {
        ssize_t length = readlink(folders[index], link, sizeof link - 1);
        if (length < 0) {
            show(folders[index], MS_RDONLY | MS_NODEV);
            continue;
        }
        link[length] = '\0';
        if (symlink(link, text(place, "%s%s", root, folders[index])) < 0)
            fail("linking", folders[index]);
    }
    for (size_t index = 0; index < LENGTH(devices); index++)
        show(devices[index], 0);
    for (size_t index = 0; index < LENGTH(files); index++)
        show(files[index], MS_RDONLY | MS_NODEV);
}

/*
 * Shows the folder of this process under the id that it has in its PID namespace. A /proc of that namespace could not
 * be mounted in a container that covers parts of its own /proc.
 */
static void show_own_process(void)
{
    char path[PATH_MAX], id[PATH_MAX];
    int fd = open("/proc/self/", O_PATH | O_CLOEXEC);
    if (fd < 0)
        fail("opening", "/proc/self");
    show_open(fd, text(path, "/proc/%s", text(id, "%d", getpid())), MS_NODEV);
    if (symlink(id, text(path, "%s/proc/self", root)) < 0)
        fail("linking", "/proc/self");
}

static void make_empty(const char *folder)
{
    char place[PATH_MAX];
    text(place, "%s%s", root, folder);
    make_folders(place);
    mkdir(place, 0755);
    if (mount("tmpfs", place, "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777") < 0)
        fail("making", folder);
}

void make_root(const char *folder)
{
    root = folder;
    if (mount("tmpfs", root, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755") < 0)
        fail("making", root);
    show_system();
    show_own_process();
    make_empty("/tmp");
    make_empty("/dev/shm");
}

void show_ledger(void)
{
    struct stat status;
    const char *ledger = getenv("REUSEBENCH_LEDGER");
    if (!ledger || *ledger != '/')
        return;
    close(open(ledger, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600));
    int fd = open(ledger, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status) < 0)
        fail("opening", ledger);
    errno = EINVAL;
    if (!S_ISREG(status.st_mode))
        fail("opening", ledger);
    show_open(fd, ledger, MS_NODEV | MS_NOEXEC);
}

void enter_root(const char *folder)
{
    if (mount(NULL, root, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV, NULL) < 0)
        fail("closing", root);
    /* Both are the same folder: the old root is then mounted over the new one and unmounted from there. */
    if (chdir(root) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0)
        fail("entering", root);
    if (chdir(folder) < 0)
        fail("entering", folder);
}
