/* The reader's two processes, and the main loop. */
#include <asm/ioctls.h>
#include <asm/termbits.h>
#include <linux/auxvec.h>
#include <linux/prctl.h>

#include "reader.h"

enum { INPUT_POLL = STREAMS, SIGNAL_POLL, WATCH_POLL, POLLS };

/* Frames follow it; the shell's output comes before it. No echo of the commands that sent the program contains it. */
static const char marker[] = "\1\2reusebench reader\2\1\n";

uint64_t page_bytes = 4096;

_Noreturn void leave(int code)
{
    for (;;)
        CALL(exit_group, code);
}

/* Ends all descendants and the reader. */
_Noreturn void end_all(void)
{
    send_nothing_more();
    end_descendants();
    leave(0);
}

static void tell_clock(uint32_t number)
{
    enum { CLOCK_OF_PROCESS = 2 };
    struct Clocks clocks = {.monotonic_ns = now_ns(), .cpu_ns = clock_ns(CLOCK_OF_PROCESS)};
    reply(number, &clocks, sizeof clocks);
}

static void tell_cpus(uint32_t number)
{
    uint8_t mask[1024]; /* for 8192 processors */
    long bytes = CALL(sched_getaffinity, 0, sizeof mask, mask);
    uint32_t count = 0;
    for (long index = 0; index < bytes; index++)
        for (unsigned bits = mask[index]; bits; bits >>= 1)
            count += bits & 1;
    if (bytes < 0)
        reply_result(number, bytes);
    else
        reply(number, &count, sizeof count);
}

void answer(const struct Header *header, char *data)
{
    if (answer_file(header, data) || answer_process(header, data) || answer_sampling(header, data))
        return;
    switch (header->kind) {
    case REQUEST_CLOCK:
        tell_clock(header->number);
        break;
    case REQUEST_CPUS:
        tell_cpus(header->number);
        break;
    case REQUEST_PATIENCE:
        memcpy(&patience_ns, data, sizeof patience_ns);
        reply_result(header->number, 0);
        break;
    case REQUEST_PING:
        reply_result(header->number, 0);
        break;
    case REQUEST_LEAVE:
        end_all();
    default:
        reply_result(header->number, -ENOSYS);
    }
}

/* Makes a terminal, which old adbd gives instead of a pipe, pass every byte unchanged. */
static void make_raw(int file)
{
    struct termios terminal;
    if (CALL(ioctl, file, TCGETS, &terminal) < 0)
        return;
    terminal.c_iflag = 0;
    terminal.c_oflag = 0;
    terminal.c_lflag = 0;
    terminal.c_cflag = (terminal.c_cflag & ~(tcflag_t)(CSIZE | PARENB)) | CS8;
    terminal.c_cc[VMIN] = 1;
    terminal.c_cc[VTIME] = 0;
    CALL(ioctl, file, TCSETS, &terminal);
}

/*
 * Divides into two processes, each of which ends everything if the other is killed: the keeper, which orphans of the
 * reader fall to, and the reader, which a signal tells. Returns in the reader.
 */
static void divide(void)
{
    CALL(prctl, PR_SET_CHILD_SUBREAPER, 1);
    long keeper = CALL(getpid), reader = CALL(clone, SIGNAL_CHILD);
    if (reader < 0)
        leave(1);
    if (reader > 0) {
        int status = 0;
        while (CALL(wait4, -1, &status) != reader)
            ;
        send_nothing_more();
        end_descendants();
        int signal = status & 0x7f;
        leave(signal ? 128 + signal : 0); /* like a shell's exit code */
    }
    CALL(prctl, PR_SET_PDEATHSIG, SIGNAL_TERMINATE);
    CALL(prctl, PR_SET_CHILD_SUBREAPER, 1);
    CALL(prctl, PR_SET_TIMERSLACK, 1);
    if (CALL(getppid) != keeper)
        leave(1);
}

/* Returns a file that is readable once a child has ended or the reader is to end. */
static long take_signals(void)
{
    SignalSet ending = SIGNAL_BIT(SIGNAL_HANGUP) | SIGNAL_BIT(SIGNAL_INTERRUPT) | SIGNAL_BIT(SIGNAL_TERMINATE);
    SignalSet taken = ending | SIGNAL_BIT(SIGNAL_CHILD), blocked = taken | SIGNAL_BIT(SIGNAL_PIPE);
    CALL(rt_sigprocmask, MASK_SET, &blocked, 0, sizeof blocked);
    return CALL(signalfd4, -1, &taken, sizeof taken, O_CLOEXEC | O_NONBLOCK);
}

static void note_signals(long signals)
{
    uint32_t entry[32]; /* struct signalfd_siginfo, whose first field is the signal */
    while (CALL(read, signals, entry, sizeof entry) == sizeof entry)
        if (entry[0] != SIGNAL_CHILD)
            end_all();
    note_ended();
}

static void greet(void)
{
    CALL(write, 1, marker, sizeof marker - 1);
    struct Hello hello = {
        .version = PROTOCOL_VERSION,
        .page_bytes = (uint32_t)page_bytes,
        .user_id = (uint32_t)CALL(geteuid),
        .reader_pid = (uint32_t)CALL(getpid),
        .keeper_pid = (uint32_t)CALL(getppid),
    };
    send(0, EVENT_HELLO, &hello, sizeof hello);
}

/* `stack` is as the kernel has laid it out: arguments, environment and the auxiliary vector. */
void run(long *stack)
{
    environment = (char **)stack + stack[0] + 2;
    char **end = environment;
    while (*end)
        end++;
    for (unsigned long *entry = (unsigned long *)(end + 1); *entry != AT_NULL; entry += 2)
        if (*entry == AT_PAGESZ)
            page_bytes = entry[1];

    make_raw(0);
    be_last_victim();
    divide();
    long signals = take_signals();
    CALL(fcntl, 1, F_SETFL, O_RDWR | O_NONBLOCK);
    heard_ns = now_ns();
    greet();
    for (;;) {
        flush();
        end_if_incomplete();
        struct Poll polls[POLLS];
        poll_streams(polls);
        polls[INPUT_POLL] = (struct Poll){.fd = 0, .events = POLL_IN};
        polls[SIGNAL_POLL] = (struct Poll){.fd = (int)signals, .events = POLL_IN};
        polls[WATCH_POLL] = (struct Poll){.fd = (int)watch, .events = POLL_IN};
        uint64_t deadline_ns = heard_ns + patience_ns;
        struct timespec wait = time_until(next_sample_ns < deadline_ns ? next_sample_ns : deadline_ns);
        long count = CALL(ppoll, polls, POLLS, &wait);
        uint64_t now = now_ns();
        if (now >= next_sample_ns)
            take_sample();
        if (now >= deadline_ns && !(count > 0 && polls[INPUT_POLL].returned))
            end_all();
        if (count <= 0)
            continue;
        pass_streams_on(polls[0].returned);
        if (polls[SIGNAL_POLL].returned)
            note_signals(signals);
        if (polls[WATCH_POLL].returned)
            note_changes();
        if (polls[INPUT_POLL].returned)
            receive();
    }
}
