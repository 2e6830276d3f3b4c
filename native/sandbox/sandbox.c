/*
 * sandbox ROOT [-c FD]... [-r PATH]... [-w PATH]... [-e NAME=VALUE]... -- [COMMAND...]
 *
 * Runs the command, which reaches only the named paths, to read (-r) or to write (-w), the system's own programs and
 * libraries, a few devices without hardware, and an empty /tmp: no network, no other processes, no capabilities, no
 * system calls but those of the list in calls.h. Nothing of this program remains in the memory of the command's process.
 * This process stays beside it, and ends in the same way: with its exit code, or by the signal that ended it. All that
 * the command has started ends with it.
 *
 * ROOT is an empty folder over which the new root is mounted; nobody else sees it there. Variables (-e) are set for the
 * command only, as needed for the name of a preload library. FD (-c) is a socket to the harness, which learns the id
 * of the command's process. The ledger is writable if it has a name. Without a command it only tries whether all that
 * is permitted.
 */
#include "sandbox.h"

#include <sched.h>
#include <stdarg.h>
#include <sys/mount.h>

_Noreturn void fail(const char *step, const char *subject)
{
    dprintf(STDERR_FILENO, "sandbox: %s %s: %s\n", step, subject, strerror(errno));
    exit(FAILED);
}

const char *text(char space[PATH_MAX], const char *format, ...)
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

int main(int count, char **words)
{
    const int namespaces = CLONE_NEWNS | CLONE_NEWPID;
    char folder[PATH_MAX];
    int harness = -1, word = 2;
    if (count < 3 || !getcwd(folder, sizeof folder)) {
        dprintf(STDERR_FILENO,
                "usage: sandbox ROOT [-c FD] [-r PATH]... [-w PATH]... [-e NAME=VALUE]... -- [COMMAND...]\n");
        return FAILED;
    }
    if (word + 1 < count && strcmp(words[word], "-c") == 0) {
        harness = atoi(words[word + 1]);
        word += 2;
    }
    /*
     * Root keeps its rights while it opens files that only root may reach, such as a checkout in another user's home.
     */
    bool is_root = unshare(namespaces) == 0;
    if (!is_root)
        enter_user_namespace(namespaces);
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        fail("separating", "mounts");
    fork_command(harness);

    make_root(words[1]);
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
