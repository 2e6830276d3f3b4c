/*
 * attacks NAME [PROCESS]
 *
 * Tries one thing that a library in the sandbox must not do, by system calls, and prints "done" or the number of the error.
 * PROCESS is the id of a process outside.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <linux/sched.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#ifndef F_SETSIG
#define F_SETSIG 10
#endif
#ifndef FIOSETOWN
#define FIOSETOWN 0x8901
#endif
#ifndef SIOCSPGRP
#define SIOCSPGRP 0x8902
#endif

static int other;

/* A socket pair that sends SIGKILL to its owner when something arrives, if `own` succeeds. */
static long signal_by_socket(long (*own)(int fd))
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) < 0)
        return -1;
    long result = own(ends[0]);
    if (result < 0)
        return result;
    fcntl(ends[0], F_SETSIG, SIGKILL);
    fcntl(ends[0], F_SETFL, O_ASYNC | O_NONBLOCK);
    ssize_t written = write(ends[1], "", 1);
    return written < 0 ? written : result;
}

static long own_process(int fd)
{
    return fcntl(fd, F_SETOWN, other);
}

static long own_group(int fd)
{
    return fcntl(fd, F_SETOWN, -other);
}

static long own_process_extended(int fd)
{
    return fcntl(fd, F_SETOWN_EX, &(struct f_owner_ex){F_OWNER_PID, other});
}

static long own_thread_extended(int fd)
{
    return fcntl(fd, F_SETOWN_EX, &(struct f_owner_ex){F_OWNER_TID, other});
}

static long own_group_extended(int fd)
{
    return fcntl(fd, F_SETOWN_EX, &(struct f_owner_ex){F_OWNER_PGRP, other});
}

static long own_by_file_call(int fd)
{
    return ioctl(fd, FIOSETOWN, &other);
}

static long own_by_socket_call(int fd)
{
    return ioctl(fd, SIOCSPGRP, &other);
}

static long set_signal(int fd)
{
    return fcntl(fd, F_SETSIG, SIGKILL);
}

static long signal_by_pidfd(void)
{
    int fd = (int)syscall(SYS_pidfd_open, other, 0);
    return fd < 0 ? fd : syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
}

static long signal_by_timer(void)
{
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGKILL};
    event._sigev_un._tid = other;
    if (syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &timer) < 0)
        return -1;
    return syscall(SYS_timer_settime, timer, 0, &(struct itimerspec){{0, 0}, {0, 1}}, NULL);
}

static long signal_queued(long call)
{
    siginfo_t info = {.si_code = SI_QUEUE, .si_signo = SIGKILL};
    return call == SYS_rt_sigqueueinfo ? syscall(call, other, SIGKILL, &info)
                                       : syscall(call, other, other, SIGKILL, &info);
}

static long copy_memory(long call)
{
    char byte = 0;
    struct iovec here = {&byte, 1}, there = {(void *)0x400000, 1};
    return syscall(call, other, &here, 1, &there, 1, 0);
}

static long limit_other(void)
{
    struct rlimit none = {1, 1};
    return syscall(SYS_prlimit64, other, RLIMIT_CPU, &none, NULL);
}

static long bind_other(void)
{
    uint64_t processors = 1;
    return syscall(SYS_sched_setaffinity, other, sizeof processors, &processors);
}

static long schedule_other(void)
{
    return syscall(SYS_sched_setscheduler, other, SCHED_IDLE, &(struct sched_param){0});
}

static long move_pages_of_other(void)
{
    void *page = (void *)0x400000;
    int status;
    return syscall(SYS_move_pages, other, 1, &page, NULL, &status, 0);
}

static long new_child(unsigned long flags)
{
    long process = syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0);
    if (process == 0)
        _exit(0);
    return process;
}

static long new_child_3(void)
{
    struct clone_args arguments = {.flags = CLONE_NEWUSER, .exit_signal = SIGCHLD};
    long process = syscall(SYS_clone3, &arguments, sizeof arguments);
    if (process == 0)
        _exit(0);
    return process;
}

static long of_file(const char *name)
{
    int fd = open("/tmp/file", O_RDWR | O_CREAT, 0600);
    if (strcmp(name, "lease") == 0)
        return fcntl(fd, F_SETLEASE, F_WRLCK);
    if (strcmp(name, "notify") == 0)
        return fcntl(open("/tmp", O_RDONLY), F_NOTIFY, 1);
    if (strcmp(name, "lock") == 0)
        return flock(fd, LOCK_EX | LOCK_NB);
    if (strcmp(name, "record_lock") == 0)
        return fcntl(fd, F_SETLK, &(struct flock){.l_type = F_WRLCK});
    if (strcmp(name, "set_user_id") == 0)
        return fchmod(fd, 04755);
    if (strcmp(name, "made_set_user_id") == 0)
        return open("/tmp/other", O_RDWR | O_CREAT, 04755);
    if (strcmp(name, "handle") == 0)
        return syscall(SYS_open_by_handle_at, AT_FDCWD, (unsigned[4]){8, 1}, O_RDONLY);
    return -2;
}

static long of_machine(const char *name)
{
    if (strcmp(name, "shared_memory") == 0)
        return syscall(SYS_shmget, 1234, 4096, IPC_CREAT | 0600);
    if (strcmp(name, "semaphore") == 0)
        return syscall(SYS_semget, 1234, 1, IPC_CREAT | 0600);
    if (strcmp(name, "message_queue") == 0)
        return syscall(SYS_msgget, 1234, IPC_CREAT | 0600);
    if (strcmp(name, "posix_queue") == 0)
        return syscall(SYS_mq_open, "queue", O_RDWR | O_CREAT, 0600, NULL);
    if (strcmp(name, "keyring") == 0)
        return syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_USER_KEYRING, 1);
    if (strcmp(name, "key") == 0)
        return syscall(SYS_add_key, "user", "reusebench", "x", 1, KEY_SPEC_USER_KEYRING);
    if (strcmp(name, "io_uring") == 0)
        return syscall(425 /* io_uring_setup */, 1, (char[256]){0});
    if (strcmp(name, "aio") == 0)
        return syscall(SYS_io_setup, 1, &(unsigned long){0});
    if (strcmp(name, "userfaultfd") == 0)
        return syscall(SYS_userfaultfd, 1);
    if (strcmp(name, "bpf") == 0)
        return syscall(SYS_bpf, 0, (unsigned[16]){1, 4, 4, 1}, 64);
    if (strcmp(name, "perf") == 0)
        return syscall(SYS_perf_event_open, (unsigned[32]){1, 128}, 0, -1, -1, 0);
    if (strcmp(name, "fanotify") == 0)
        return syscall(SYS_fanotify_init, 0, 0);
    if (strcmp(name, "inotify") == 0)
        return syscall(SYS_inotify_init1, 0);
    if (strcmp(name, "secret_memory") == 0)
        return syscall(447 /* memfd_secret */, 0);
    if (strcmp(name, "system_log") == 0)
        return syscall(SYS_syslog, 10, NULL, 0);
    if (strcmp(name, "seccomp_listener") == 0)
        return syscall(SYS_seccomp, 1, 8, NULL) < 0 && errno == EFAULT ? 0 : -1;
    return -2;
}

static long of_namespace(const char *name)
{
    if (strcmp(name, "user_namespace") == 0)
        return syscall(SYS_unshare, CLONE_NEWUSER);
    if (strcmp(name, "user_namespace_of_child") == 0)
        return new_child(CLONE_NEWUSER);
    if (strcmp(name, "user_namespace_of_child_3") == 0)
        return new_child_3();
    if (strcmp(name, "sibling") == 0)
        return new_child(CLONE_PARENT);
    if (strcmp(name, "join") == 0)
        return syscall(SYS_setns, open("/proc/self/ns/net", O_RDONLY), 0);
    if (strcmp(name, "mount") == 0)
        return syscall(SYS_mount, "none", "/tmp", "tmpfs", 0, NULL);
    if (strcmp(name, "chroot") == 0)
        return syscall(SYS_chroot, "/tmp");
    if (strcmp(name, "hidden") == 0)
        return prctl(PR_SET_DUMPABLE, 0);
    return -2;
}

static long of_socket(const char *name)
{
    static const struct {
        const char *name;
        int family, type;
    } sockets[] = {
        {"vsock", AF_VSOCK, SOCK_STREAM}, {"netlink", AF_NETLINK, SOCK_RAW}, {"packet", AF_PACKET, SOCK_DGRAM},
        {"alg", AF_ALG, SOCK_SEQPACKET},  {"bluetooth", AF_BLUETOOTH, SOCK_RAW}, {"can", AF_CAN, SOCK_RAW},
        {"tipc", AF_TIPC, SOCK_DGRAM},    {"key_socket", AF_KEY, SOCK_RAW},      {"raw", AF_INET, SOCK_RAW},
        {"xdp", 44, SOCK_RAW},
    };
    for (size_t index = 0; index < sizeof sockets / sizeof *sockets; index++)
        if (strcmp(name, sockets[index].name) == 0)
            return syscall(SYS_socket, sockets[index].family, sockets[index].type, 0);
    return -2;
}

static long of_process(const char *name)
{
    static const struct {
        const char *name;
        long (*own)(int fd);
    } owners[] = {
        {"owner", own_process},
        {"owner_group", own_group},
        {"owner_extended", own_process_extended},
        {"owner_thread", own_thread_extended},
        {"owner_group_extended", own_group_extended},
        {"owner_by_file_call", own_by_file_call},
        {"owner_by_socket_call", own_by_socket_call},
        {"owner_signal", set_signal},
    };
    for (size_t index = 0; index < sizeof owners / sizeof *owners; index++)
        if (strcmp(name, owners[index].name) == 0)
            return signal_by_socket(owners[index].own);
    if (strcmp(name, "kill") == 0)
        return syscall(SYS_kill, other, SIGKILL);
    if (strcmp(name, "kill_group") == 0)
        return syscall(SYS_kill, -other, SIGKILL);
    if (strcmp(name, "tkill") == 0)
        return syscall(SYS_tkill, other, SIGKILL);
    if (strcmp(name, "tgkill") == 0)
        return syscall(SYS_tgkill, other, other, SIGKILL);
    if (strcmp(name, "queue") == 0)
        return signal_queued(SYS_rt_sigqueueinfo);
    if (strcmp(name, "queue_to_thread") == 0)
        return signal_queued(SYS_rt_tgsigqueueinfo);
    if (strcmp(name, "pidfd") == 0)
        return signal_by_pidfd();
    if (strcmp(name, "timer") == 0)
        return signal_by_timer();
    if (strcmp(name, "limit") == 0)
        return limit_other();
    if (strcmp(name, "attach") == 0)
        return syscall(SYS_ptrace, 16, other, 0, 0);
    if (strcmp(name, "seize") == 0)
        return syscall(SYS_ptrace, 0x4206, other, 0, 0);
    if (strcmp(name, "read_memory") == 0)
        return copy_memory(SYS_process_vm_readv);
    if (strcmp(name, "write_memory") == 0)
        return copy_memory(SYS_process_vm_writev);
    if (strcmp(name, "affinity") == 0)
        return bind_other();
    if (strcmp(name, "scheduler") == 0)
        return schedule_other();
    if (strcmp(name, "priority") == 0)
        return syscall(SYS_setpriority, PRIO_PROCESS, other, 19);
    if (strcmp(name, "io_priority") == 0)
        return syscall(SYS_ioprio_set, 1, other, 3 << 13);
    if (strcmp(name, "compare") == 0)
        return syscall(SYS_kcmp, getpid(), other, 2, 0, 0);
    if (strcmp(name, "pages") == 0)
        return move_pages_of_other();
    if (strcmp(name, "robust_list") == 0)
        return syscall(SYS_get_robust_list, other, &(void *){0}, &(size_t){0});
    if (strcmp(name, "session") == 0)
        return syscall(SYS_getsid, other);
    return -2;
}

int main(int count, char **words)
{
    static long (*const kinds[])(const char *) = {of_process, of_socket, of_machine, of_namespace, of_file};
    other = count > 2 ? atoi(words[2]) : 0;
    signal(SIGIO, SIG_IGN);
    for (size_t index = 0; index < sizeof kinds / sizeof *kinds; index++) {
        long result = kinds[index](words[1]);
        if (result == -2)
            continue;
        if (result < 0)
            printf("%d\n", errno);
        else
            puts("done");
        return 0;
    }
    puts("unknown");
    return 1;
}
