/*
 * The system calls that a command may make: those of a program that computes, has threads and files, and starts other
 * programs of its own. A call that is not here names another process, another namespace, a device or the machine, keeps
 * something in the kernel when the process has gone, or is one that no library on the virtual board needs.
 */
#include <linux/prctl.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/* Calls that the headers of an older system lack. They have the same number on every processor. */
#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#ifndef SYS_faccessat2
#define SYS_faccessat2 439
#endif
#ifndef SYS_epoll_pwait2
#define SYS_epoll_pwait2 441
#endif
#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif
/* Calls above this are answered as by a kernel that lacks them, as C libraries expect. */
#define NEWEST_CALL 449

static const unsigned allowed_calls[] = {
    /* Files. There are no locks and leases, for which another process could have to wait. */
    SYS_read, SYS_readv, SYS_pread64, SYS_preadv, SYS_preadv2, SYS_write, SYS_writev, SYS_pwrite64, SYS_pwritev,
    SYS_pwritev2, SYS_lseek, SYS_close, SYS_close_range, SYS_dup, SYS_dup3, SYS_pipe2, SYS_statx, SYS_getdents64,
    SYS_getcwd, SYS_chdir, SYS_fchdir, SYS_faccessat, SYS_faccessat2, SYS_readlinkat, SYS_mkdirat, SYS_unlinkat,
    SYS_renameat2, SYS_linkat, SYS_symlinkat, SYS_utimensat, SYS_umask, SYS_ftruncate, SYS_truncate, SYS_fallocate,
    SYS_fsync, SYS_fdatasync, SYS_sendfile, SYS_copy_file_range, SYS_memfd_create, SYS_readahead,
    /* Memory */
    SYS_brk, SYS_munmap, SYS_mremap, SYS_mprotect, SYS_madvise, SYS_msync, SYS_mincore, SYS_mlock, SYS_mlock2,
    SYS_munlock, SYS_mlockall, SYS_munlockall, SYS_membarrier, SYS_mbind, SYS_get_mempolicy, SYS_set_mempolicy,
    /* Waiting */
    SYS_ppoll, SYS_pselect6, SYS_epoll_create1, SYS_epoll_ctl, SYS_epoll_pwait, SYS_epoll_pwait2, SYS_eventfd2,
    SYS_signalfd4, SYS_timerfd_create, SYS_timerfd_settime, SYS_timerfd_gettime, SYS_futex, SYS_futex_waitv,
    /* Time */
    SYS_clock_gettime, SYS_clock_getres, SYS_clock_nanosleep, SYS_nanosleep, SYS_gettimeofday, SYS_times,
    SYS_timer_create, SYS_timer_settime, SYS_timer_gettime, SYS_timer_getoverrun, SYS_timer_delete, SYS_getitimer,
    SYS_setitimer,
    /* Signals; ids of processes mean those of the PID namespace. */
    SYS_kill, SYS_tkill, SYS_tgkill, SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_rt_sigsuspend,
    SYS_rt_sigpending, SYS_rt_sigtimedwait, SYS_sigaltstack, SYS_restart_syscall,
    /* Threads and processes */
    SYS_execve, SYS_exit, SYS_exit_group, SYS_wait4, SYS_waitid, SYS_set_tid_address, SYS_set_robust_list, SYS_rseq,
    SYS_gettid, SYS_getpid, SYS_getppid, SYS_getpgid, SYS_setpgid, SYS_getsid, SYS_setsid, SYS_getuid, SYS_geteuid,
    SYS_getgid, SYS_getegid, SYS_getresuid, SYS_getresgid, SYS_getgroups, SYS_capget, SYS_prlimit64, SYS_getrusage,
    SYS_getpriority, SYS_setpriority, SYS_getcpu, SYS_sched_yield, SYS_sched_getaffinity, SYS_sched_setaffinity,
    SYS_sched_getscheduler, SYS_sched_setscheduler, SYS_sched_getparam, SYS_sched_setparam,
    SYS_sched_get_priority_max, SYS_sched_get_priority_min, SYS_sched_rr_get_interval,
    /* The machine */
    SYS_uname, SYS_sysinfo, SYS_getrandom,
    /* Sockets, to be used within the namespace */
    SYS_connect, SYS_bind, SYS_listen, SYS_accept4, SYS_sendto, SYS_sendmsg, SYS_sendmmsg, SYS_recvfrom, SYS_recvmsg,
    SYS_recvmmsg, SYS_shutdown, SYS_getsockname, SYS_getpeername, SYS_getsockopt, SYS_setsockopt,
#ifdef SYS_accept
    SYS_accept,
#endif
#ifdef SYS_renameat
    SYS_renameat,
#endif
#ifdef SYS_getrlimit
    SYS_getrlimit, SYS_setrlimit,
#endif
#ifdef SYS_fadvise64
    SYS_fadvise64,
#endif
#ifdef SYS_mmap
    SYS_mmap,
#endif
#ifdef SYS_fstat
    SYS_fstat,
#endif
#ifdef SYS_newfstatat
    SYS_newfstatat, SYS_statfs, SYS_fstatfs,
#endif
#ifdef SYS_arch_prctl
    SYS_arch_prctl,
#endif
#ifdef SYS_fork /* architectures that have one of the older calls have all of them */
    SYS_fork, SYS_vfork, SYS_access, SYS_stat, SYS_lstat, SYS_mkdir, SYS_rmdir, SYS_unlink, SYS_rename, SYS_link,
    SYS_symlink, SYS_readlink, SYS_pipe, SYS_dup2, SYS_poll, SYS_epoll_create, SYS_epoll_wait, SYS_eventfd,
    SYS_signalfd, SYS_getdents, SYS_getpgrp, SYS_pause,
#ifdef SYS_select
    SYS_select,
#endif
#ifdef SYS_alarm
    SYS_alarm, SYS_time, SYS_utime,
#endif
#ifdef SYS_utimes
    SYS_utimes,
#endif
#endif
#ifdef SYS_mmap2 /* 32 bits */
    SYS_mmap2, SYS__llseek, SYS__newselect, SYS_fstat64, SYS_stat64, SYS_lstat64, SYS_fstatat64, SYS_statfs64,
    SYS_fstatfs64, SYS_ftruncate64, SYS_truncate64, SYS_sendfile64, SYS_ugetrlimit, SYS_getuid32, SYS_geteuid32,
    SYS_getgid32, SYS_getegid32, SYS_getresuid32, SYS_getresgid32, SYS_getgroups32, SYS_sigreturn,
    SYS_arm_fadvise64_64,
#endif
#ifdef SYS_clock_gettime64
    SYS_clock_gettime64, SYS_clock_getres_time64, SYS_clock_nanosleep_time64, SYS_timer_gettime64,
    SYS_timer_settime64, SYS_timerfd_gettime64, SYS_timerfd_settime64, SYS_utimensat_time64, SYS_pselect6_time64,
    SYS_ppoll_time64, SYS_recvmmsg_time64, SYS_rt_sigtimedwait_time64, SYS_futex_time64,
    SYS_sched_rr_get_interval_time64,
#endif
#ifdef __ARM_NR_set_tls
    __ARM_NR_set_tls, __ARM_NR_cacheflush,
#endif
};

#ifdef SYS_fcntl64
#define FCNTL SYS_fcntl64
#else
#define FCNTL SYS_fcntl
#endif

/* No new namespace, and no child of the command's own parent. */
#define CLONE_REFUSED                                                                                                  \
    (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET |       \
     CLONE_PARENT | CLONE_PTRACE)
#define SET_ID_BITS (S_ISUID | S_ISGID)
/* Flags with which opening makes a file, and takes a mode. */
#define CREATING (O_CREAT | (O_TMPFILE & ~O_DIRECTORY))

/* Calls that are allowed unless an argument has one of the bits, while another has one of the bits `when`. */
static const struct bit_limit {
    unsigned number, argument, bits, other_argument, when;
} bit_limits[] = {
    {SYS_clone, 0, CLONE_REFUSED, 0, CLONE_REFUSED},
    {SYS_openat, 3, SET_ID_BITS, 2, CREATING},
    {SYS_fchmod, 1, SET_ID_BITS, 1, SET_ID_BITS},
    {SYS_fchmodat, 2, SET_ID_BITS, 2, SET_ID_BITS},
#ifdef SYS_open
    {SYS_open, 2, SET_ID_BITS, 1, CREATING},
    {SYS_creat, 1, SET_ID_BITS, 1, SET_ID_BITS},
    {SYS_chmod, 1, SET_ID_BITS, 1, SET_ID_BITS},
#endif
};

/* Values that an argument may have; the answer to any other is `error`. */
static const struct value_limit {
    unsigned number, argument;
    int error;
    unsigned values[24];
    unsigned count;
} value_limits[] = {
#define VALUES(...) {__VA_ARGS__}, LENGTH(((unsigned[]){__VA_ARGS__}))
    /* Not those that have the kernel send signals, lock files, or wake others. */
    {FCNTL, 1, EPERM,
     VALUES(F_DUPFD, F_DUPFD_CLOEXEC, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_GETPIPE_SZ, F_ADD_SEALS, F_GET_SEALS)},
    /* Those of any file; a terminal or a device has none of its own here. */
    {SYS_ioctl, 1, ENOTTY, VALUES(TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIOCLEX, FIONCLEX)},
    {SYS_socket, 0, EAFNOSUPPORT, VALUES(AF_UNIX, AF_INET, AF_INET6)},
    {SYS_socketpair, 0, EAFNOSUPPORT, VALUES(AF_UNIX)},
    /* A process that cannot be dumped could not be read by the harness. */
    {SYS_prctl, 0, EPERM,
     VALUES(PR_SET_NAME, PR_GET_NAME, PR_GET_DUMPABLE, PR_SET_PDEATHSIG, PR_GET_PDEATHSIG, PR_GET_TIMERSLACK,
            PR_SET_TIMERSLACK, PR_GET_NO_NEW_PRIVS, PR_SET_NO_NEW_PRIVS, PR_CAPBSET_READ, PR_GET_SECCOMP,
            PR_SET_THP_DISABLE, PR_GET_THP_DISABLE, PR_GET_CHILD_SUBREAPER, PR_SET_CHILD_SUBREAPER,
            0x53564d41 /* PR_SET_VMA */, 51 /* PR_SVE_GET_VL */, 55 /* PR_SET_TAGGED_ADDR_CTRL */,
            56 /* PR_GET_TAGGED_ADDR_CTRL */)},
#undef VALUES
};
