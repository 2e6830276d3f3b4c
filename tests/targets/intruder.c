/* Tries what a sandboxed program must not do, by system calls, which no preload library sees. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

static void tell(const char *attempt, const char *subject, long result)
{
    printf("%s %s %s\n", attempt, subject, result < 0 ? strerror(errno) : "done");
}

static long connect_to(const char *subject)
{
    if (*subject == '@') {
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        strncpy(address.sun_path + 1, subject + 1, sizeof address.sun_path - 2);
        socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(subject));
        return syscall(SYS_connect, syscall(SYS_socket, AF_UNIX, SOCK_STREAM, 0), &address, length);
    }
    struct sockaddr_in address = {AF_INET, htons((unsigned short)atoi(subject)), {htonl(INADDR_LOOPBACK)}, {0}};
    return syscall(SYS_connect, syscall(SYS_socket, AF_INET, SOCK_STREAM, 0), &address, sizeof address);
}

static long limit(int process)
{
    struct rlimit limit;
    return syscall(SYS_prlimit64, process, RLIMIT_CORE, NULL, &limit);
}

int main(int count, char **words)
{
    for (int word = 1; word + 1 < count; word += 2) {
        const char *attempt = words[word], *subject = words[word + 1];
        long result = -1;
        errno = EINVAL;
        if (strcmp(attempt, "read") == 0)
            result = syscall(SYS_openat, AT_FDCWD, subject, O_RDONLY | O_NONBLOCK);
        else if (strcmp(attempt, "write") == 0)
            result = syscall(SYS_openat, AT_FDCWD, subject, O_WRONLY | O_CREAT, 0600);
        else if (strcmp(attempt, "node") == 0)
            result = syscall(SYS_mknodat, AT_FDCWD, subject, S_IFCHR | 0600, makedev(1, 5));
        else if (strcmp(attempt, "connect") == 0)
            result = connect_to(subject);
        else if (strcmp(attempt, "signal") == 0)
            result = syscall(SYS_kill, atoi(subject), 0);
        else if (strcmp(attempt, "limit") == 0)
            result = limit(atoi(subject));
        else if (strcmp(attempt, "trace") == 0)
            result = syscall(SYS_ptrace, 16 /* PTRACE_ATTACH */, atoi(subject), 0, 0);
        else if (strcmp(attempt, "namespace") == 0)
            result = *subject == 'u' ? syscall(SYS_unshare, CLONE_NEWUSER)
                                     : syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
        else if (strcmp(attempt, "abort") == 0)
            abort();
        tell(attempt, subject, result);
    }
    return 0;
}
