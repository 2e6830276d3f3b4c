/*
 * The processes of a sandbox: this one, which the harness has started, the command's, and the init of their PID
 * namespace. The namespace is empty but for the last two; when its init ends, the kernel kills all that is in it.
 *
 *     harness --- this process --- init (1 in the namespace)
 *                              \-- the command (2 in the namespace) --- all that it starts
 */
#include "sandbox.h"

#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* Signals that are passed on to the command. */
static const int passed_on[] = {SIGHUP, SIGINT, SIGTERM};

static void close_standard_files(void)
{
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        close(fd);
}

/* Ends when the other end of the pipe is closed, as it is when this program's first process has gone. */
static _Noreturn void be_init(int pipe)
{
    char nothing;
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0, 0, 0}};
    close_standard_files();
    signal(SIGCHLD, SIG_IGN); /* what the command leaves behind is not waited for */
    syscall(SYS_capset, &header, none);
    give_up_rights();
    while (read(pipe, &nothing, 1) < 0 && errno == EINTR)
        ;
    _exit(0);
}

/* Waits until the command has ended or the harness has gone, and passes signals on. */
static void wait_for(pid_t command, int *status, int signals, int harness)
{
    struct pollfd events[] = {{signals, POLLIN, 0}, {harness, POLLIN, 0}};
    struct signalfd_siginfo arrived;
    for (;;) {
        if (waitpid(command, status, WNOHANG) == command)
            return;
        if (poll(events, LENGTH(events), -1) < 0)
            continue;
        if (events[1].revents) {
            kill(command, SIGKILL);
            waitpid(command, status, 0);
            return;
        }
        if (read(signals, &arrived, sizeof arrived) == sizeof arrived && arrived.ssi_signo != SIGCHLD)
            kill(command, (int)arrived.ssi_signo);
    }
}

static _Noreturn void end_like(int status)
{
    sigset_t all;
    if (WIFEXITED(status))
        _exit(WEXITSTATUS(status));
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0}); /* the command has left its own */
    signal(WTERMSIG(status), SIG_DFL);
    sigfillset(&all);
    sigprocmask(SIG_UNBLOCK, &all, NULL);
    kill(getpid(), WTERMSIG(status));
    _exit(FAILED);
}

static pid_t fork_or_fail(void)
{
    pid_t process = fork();
    if (process < 0)
        fail("starting", "a process");
    return process;
}

void fork_command(int harness)
{
    int ends[2], status = 0;
    sigset_t watched, before;
    if (harness >= 0)
        fcntl(harness, F_SETFD, FD_CLOEXEC);
    sigemptyset(&watched);
    sigaddset(&watched, SIGCHLD);
    for (size_t index = 0; index < LENGTH(passed_on); index++)
        sigaddset(&watched, passed_on[index]);
    sigprocmask(SIG_BLOCK, &watched, &before);
    int signals = signalfd(-1, &watched, SFD_CLOEXEC);
    if (signals < 0 || pipe2(ends, O_CLOEXEC) < 0)
        fail("opening", "a pipe");

    pid_t init = fork_or_fail();
    if (init == 0) {
        close(ends[1]);
        close(harness);
        be_init(ends[0]);
    }
    close(ends[0]);
    pid_t command = fork_or_fail();
    if (command == 0) {
        close(ends[1]);
        close(harness);
        close(signals);
        /* Signals to its group reach nobody else. */
        setsid();
        sigprocmask(SIG_SETMASK, &before, NULL);
        return;
    }
    close_standard_files();
    if (harness >= 0)
        dprintf(harness, "%d\n", command);
    wait_for(command, &status, signals, harness);
    kill(init, SIGKILL);
    waitpid(init, NULL, 0); /* returns when all processes of the namespace have gone */
    end_like(status);
}
