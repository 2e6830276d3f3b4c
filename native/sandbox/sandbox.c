/*
 * sandbox ROOT [-r PATH]... [-w PATH]... [-e NAME=VALUE]... -- [COMMAND...]
 *
 * Becomes the command, which reaches only the named paths, to read (-r) or to write (-w), the system's own programs and
 * libraries, a few devices without hardware, and an empty /tmp: no network, no other processes, no capabilities. To its
 * parent the process stays the same, with its id, session and pipes, and nothing of this program remains in its memory.
 * ROOT is an empty folder over which the new root is mounted; nobody else sees it there. Variables (-e) are set for the
 * command only, as needed for the name of a preload library. If the ledger has a name, its folder is writable. Without
 * a command it only tries whether all that is permitted.
 *
 * A PID namespace would need another process as its init, and the command would see another id as its own. Instead
 * /proc has only this process, and calls that name another process are refused.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LENGTH(array) (sizeof(array) / sizeof *(array))

enum { FAILED = 125 };

static const char *root;

static _Noreturn void fail(const char *step, const char *subject)
{
    dprintf(STDERR_FILENO, "sandbox: %s %s: %s\n", step, subject, strerror(errno));
    exit(FAILED);
}

__attribute__((format(printf, 2, 3))) static const char *text(char space[PATH_MAX], const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(space, PATH_MAX, format, arguments);
    va_end(arguments);
    if (length >= PATH_MAX) {
        errno = ENAMETOOLONG;
        fail("naming", space);
    }
    return space;
}

static void write_file(const char *path, const char *content)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, content, strlen(content)) < 0)
        fail("writing", path);
    close(fd);
}

/* ---- Namespaces ---- */

static void unshare_or_fail(int namespaces)
{
    if (unshare(namespaces) < 0)
        fail("making", "namespaces");
}

/* The user keeps its id, and has rights over these namespaces only. */
static void enter_user_namespace(int namespaces)
{
    char map[PATH_MAX];
    uid_t user = geteuid();
    gid_t group = getegid();
    unshare_or_fail(CLONE_NEWUSER | namespaces);
    write_file("/proc/self/setgroups", "deny");
    write_file("/proc/self/uid_map", text(map, "%u %u 1", user, user));
    write_file("/proc/self/gid_map", text(map, "%u %u 1", group, group));
}

/* ---- The new root ---- */

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

/* Shows a file or folder at the same path in the new root. A missing one is for the command to report. */
static void show(const char *path, unsigned long flags)
{
    char source[PATH_MAX], place[PATH_MAX];
    struct stat status;
    int fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR || errno == EACCES))
        return;
    if (fd < 0 || fstat(fd, &status) < 0)
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

static void show_own_process(void)
{
    char path[PATH_MAX], id[PATH_MAX];
    show(text(path, "/proc/%s", text(id, "%d", getpid())), MS_NODEV);
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

static void show_ledger(void)
{
    char path[PATH_MAX];
    const char *ledger = getenv("REUSEBENCH_LEDGER");
    if (!ledger || *ledger != '/')
        return;
    text(path, "%s", ledger);
    *strrchr(path, '/') = '\0';
    show(path, MS_NODEV);
}

static void enter_root(const char *folder)
{
    if (mount(NULL, root, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV, NULL) < 0)
        fail("closing", root);
    /* Both are the same folder: the old root is then mounted over the new one and unmounted from there. */
    if (chdir(root) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0)
        fail("entering", root);
    if (chdir(folder) < 0)
        fail("entering", folder);
}

/* ---- Rights ---- */

/* Calls with a process as the argument of this number; only this process is allowed, and 0 if that means it too. */
static const struct {
    unsigned number, argument;
    bool takes_zero;
} process_calls[] = {
    {SYS_kill, 0, false},          {SYS_tkill, 0, false},
    {SYS_tgkill, 0, false},        {SYS_rt_sigqueueinfo, 0, false},
    {SYS_rt_tgsigqueueinfo, 0, false},
    {SYS_getpgid, 0, true},        {SYS_setpgid, 0, true},
    {SYS_getsid, 0, true},         {SYS_prlimit64, 0, true},
    {SYS_getpriority, 1, true},    {SYS_setpriority, 1, true},
    {SYS_ioprio_get, 1, true},     {SYS_ioprio_set, 1, true},
    {SYS_move_pages, 0, true},     {SYS_migrate_pages, 0, true},
#ifdef SYS_pidfd_open
    {SYS_pidfd_open, 0, false},
#endif
};

/* The last two: in a user namespace of its own, the command would have capabilities again. */
static const unsigned refused_calls[] = {
    SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_kcmp, SYS_perf_event_open, SYS_unshare, SYS_setns,
#ifdef SYS_process_madvise
    SYS_process_madvise,
#endif
};

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#define ARCHITECTURE AUDIT_ARCH_ARM
#endif
/* Calls of x86-64 under other numbers (x32). No other architecture has this many calls. */
#define X32_CALLS 0x40000000

static struct sock_filter filter[256];
static unsigned short filter_length;

static void add(unsigned short code, unsigned value, unsigned char if_true, unsigned char if_false)
{
    filter[filter_length++] = (struct sock_filter)BPF_JUMP(code, value, if_true, if_false);
}

static void add_load(size_t offset)
{
    add(BPF_LD | BPF_W | BPF_ABS, (unsigned)offset, 0, 0);
}

static void add_refusal(int error)
{
    add(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error, 0, 0);
}

static void build_filter(void)
{
    const unsigned short equal = BPF_JMP | BPF_JEQ | BPF_K;
    add_load(offsetof(struct seccomp_data, arch));
    add(equal, ARCHITECTURE, 1, 0);
    add_refusal(EPERM);
    add_load(offsetof(struct seccomp_data, nr));
    add(BPF_JMP | BPF_JGE | BPF_K, X32_CALLS, 0, 1);
    add_refusal(EPERM);
    for (size_t index = 0; index < LENGTH(refused_calls); index++) {
        add(equal, refused_calls[index], 0, 1);
        add_refusal(EPERM);
    }
    /*
     * clone must not make a user namespace either. A filter cannot see the arguments of clone3: C libraries then use
     * clone.
     */
    add(equal, SYS_clone, 0, 4);
    add_load(offsetof(struct seccomp_data, args));
    add(BPF_JMP | BPF_JSET | BPF_K, CLONE_NEWUSER, 0, 1);
    add_refusal(EPERM);
    add(BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
#ifdef SYS_clone3
    add(equal, SYS_clone3, 0, 1);
    add_refusal(ENOSYS);
#endif
    for (size_t index = 0; index < LENGTH(process_calls); index++) {
        add(equal, process_calls[index].number, 0, 5);
        /* A process id is an int, in the lower half of the argument, which comes first on all these architectures. */
        add_load(offsetof(struct seccomp_data, args) + 8 * process_calls[index].argument);
        add(equal, (unsigned)getpid(), 2, 0);
        add(equal, process_calls[index].takes_zero ? 0 : (unsigned)getpid(), 1, 0);
        add_refusal(ESRCH);
        add(BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
    }
    add(BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
}

static void give_up_rights(void)
{
    for (unsigned long capability = 0; prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) == 0; capability++)
        ;
    build_filter();
    struct sock_fprog program = {filter_length, filter};
    /* Without this flag older kernels would slow the processor down for the filter. */
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, &program) < 0)
        fail("filtering", "system calls");
}

int main(int count, char **words)
{
    char folder[PATH_MAX];
    int word = 2;
    if (count < 3 || !getcwd(folder, sizeof folder)) {
        dprintf(STDERR_FILENO, "usage: sandbox ROOT [-r PATH]... [-w PATH]... [-e NAME=VALUE]... -- [COMMAND...]\n");
        return FAILED;
    }
    root = words[1];
    /*
     * Root keeps its rights while it opens files that only root may reach, such as a checkout in another user's home.
     */
    bool is_root = unshare(CLONE_NEWNS) == 0;
    if (!is_root)
        enter_user_namespace(CLONE_NEWNS);
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        fail("separating", "mounts");
    if (mount("tmpfs", root, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755") < 0)
        fail("making", root);
    show_system();
    show_own_process();
    make_empty("/tmp");
    make_empty("/dev/shm");
    for (; word + 1 < count && strcmp(words[word], "--") != 0; word += 2) {
        if (strcmp(words[word], "-e") == 0)
            putenv(words[word + 1]);
        else
            show(words[word + 1], MS_NODEV | (strcmp(words[word], "-w") == 0 ? 0 : MS_RDONLY));
    }
    show_ledger();
    enter_root(folder);
    if (is_root)
        enter_user_namespace(0);
    unshare_or_fail(CLONE_NEWNET | CLONE_NEWIPC);
    give_up_rights();
    if (++word >= count)
        return 0;
    execvp(words[word], words + word);
    fail("starting", words[word]);
}
