/* The measured process: one at a time, in a session of its own, the first to be killed when memory runs out. */
#include <asm/ioctls.h>
#include <linux/prctl.h>

#include "reader.h"

/* The files of the process. LEDGER is 3; the harness names it in the preload library's variable. */
enum { STDIN, STDOUT, STDERR, LEDGER, PIPES };
enum { MOST_STRINGS = 1024, END_LIMIT_MS = 5000, END_PAUSE_MS = 5 };

/* Per stream of the process (its file - 1): the event that passes its data on. */
static const uint8_t events[STREAMS] = {EVENT_OUTPUT, EVENT_ERRORS, EVENT_LEDGER};

char **environment;
static long measured_pid; /* 0: none */
static long input = -1, outputs[STREAMS] = {-1, -1, -1};
static long words = -1; /* standard error if it is a file */
/* Highest RSS of the processes that have ended since the measured one was started. */
static uint64_t peak_rss_bytes;

static const char oom_score_file[] = "/proc/self/oom_score_adj";
/* The reader's score before it became the last to be killed. */
static char first_oom_score[12];

static void set_oom_score(const char *score)
{
    long file = open_file(oom_score_file, O_WRONLY, 0);
    if (file < 0)
        return;
    CALL(write, file, score, text_length(score));
    CALL(close, file);
}

/* Only root may do this. */
void be_last_victim(void)
{
    if (read_small(oom_score_file, first_oom_score, sizeof first_oom_score) > 0)
        set_oom_score("-1000");
}

/* An additional variable replaces one of the same name. */
static bool is_same_variable(const char *one, const char *other)
{
    while (*one == *other && *one && *one != '=')
        one++, other++;
    return *one == '=' && *other == '=';
}

static const char *variable(char **variables, const char *start)
{
    for (; *variables; variables++) {
        const char *value = after(*variables, start);
        if (value)
            return value;
    }
    return "";
}

/*
 * Runs the program, which is searched for in PATH if its name has no slash; returns the negative error if that fails.
 */
static long execute(char **arguments, char **variables)
{
    const char *name = arguments[0];
    size_t length = text_length(name);
    bool has_slash = false;
    for (size_t index = 0; index < length; index++)
        has_slash |= name[index] == '/';
    if (has_slash)
        return CALL(execve, name, arguments, variables);
    static char path[4096];
    /* A program that may not be run is skipped, as shells do; it is the error if there is no other. */
    long error = -ENOENT;
    for (const char *part = variable(variables, "PATH="); *part;) {
        size_t end = 0;
        while (part[end] && part[end] != ':')
            end++;
        if (end + 1 + length < sizeof path) {
            memcpy(path, part, end);
            path[end] = '/';
            memcpy(path + end + 1, name, length + 1);
            long result = CALL(execve, path, arguments, variables);
            if (result == -EACCES)
                error = result;
            else if (result != -ENOENT && result != -ENOTDIR)
                return result;
        }
        part += end + (part[end] == ':');
    }
    return error;
}

/* Called in the new process. Returns the error if the program cannot be run. */
static long become(const char *folder, char **arguments, char **variables, const long ends[PIPES], long parent,
                   bool is_victim)
{
    SignalSet none = 0;
    CALL(prctl, PR_SET_PDEATHSIG, SIGNAL_KILL);
    if (CALL(getppid) != parent)
        return -ECANCELED; /* the reader has already gone */
    CALL(setsid);
    CALL(rt_sigprocmask, MASK_SET, &none, 0, sizeof none);
    set_oom_score(is_victim ? "1000" : first_oom_score);
    for (int pipe = 0; pipe < PIPES; pipe++)
        if (ends[pipe] >= 0)
            CALL(dup3, ends[pipe], pipe, 0);
    long result = *folder ? CALL(chdir, folder) : 0;
    return result < 0 ? result : execute(arguments, variables);
}

/* Splits strings that each end with 0; returns the text after them, or NULL if there are fewer. */
static char *split(char *text, const char *end, char **strings, uint32_t count)
{
    for (uint32_t index = 0; index < count; index++) {
        if (text >= end)
            return NULL;
        strings[index] = text;
        text += text_length(text) + 1;
    }
    strings[count] = NULL;
    return text;
}

static void close_all(const long *files, size_t count)
{
    for (size_t index = 0; index < count; index++)
        if (files[index] >= 0)
            CALL(close, files[index]);
}

/*
 * Makes a file in memory for standard error, in which a driver finds a library's output. It is opened twice, so that
 * the reader has its own position. False if the kernel has no such files (before 3.17).
 */
static bool make_words(long *end)
{
    enum { CLOSE_ON_EXEC = 1 };
    char path[] = "/proc/self/fd/\0\0\0\0\0\0\0\0\0\0", digits[11];
    long file = CALL(memfd_create, "words", CLOSE_ON_EXEC);
    if (file < 0)
        return false;
    size_t length = 0;
    for (long rest = file; length == 0 || rest; rest /= 10)
        digits[length++] = (char)('0' + rest % 10);
    for (size_t index = 0; index < length; index++)
        path[sizeof "/proc/self/fd/" - 1 + index] = digits[length - 1 - index];
    long own = open_file(path, O_RDONLY, 0);
    if (own < 0) {
        CALL(close, file);
        return false;
    }
    *end = file;
    words = own;
    return true;
}

/* Connects the reader and the process in both directions. */
static long make_sockets(int both[2])
{
    enum { LOCAL = 1, STREAM = 1 }; /* AF_UNIX, SOCK_STREAM */
    return CALL(socketpair, LOCAL, STREAM | O_CLOEXEC, 0, both);
}

/* Makes the pipes: ends[] for the process, and `input`, `outputs` and `words` for the reader. */
static long make_pipes(long ends[PIPES], uint32_t flags)
{
    for (int pipe = 0; pipe < PIPES; pipe++)
        ends[pipe] = -1;
    for (int pipe = 0; pipe < (flags & (START_HAS_LEDGER | START_HAS_MARKS) ? PIPES : LEDGER); pipe++) {
        if (pipe == STDERR && flags & START_HAS_WORDS && make_words(&ends[pipe]))
            continue;
        int both[2];
        bool has_answers = pipe == LEDGER && flags & START_HAS_MARKS;
        long result = has_answers ? make_sockets(both) : CALL(pipe2, both, O_CLOEXEC);
        if (result < 0)
            return result;
        bool is_input = pipe == STDIN;
        long own = both[is_input];
        ends[pipe] = both[!is_input];
        *(is_input ? &input : &outputs[pipe - 1]) = own;
        CALL(fcntl, own, F_SETFL, (is_input ? O_WRONLY : O_RDONLY) | O_NONBLOCK);
    }
    return 0;
}

static void close_own_ends(void)
{
    close_all(&input, 1);
    close_all(outputs, STREAMS);
    close_all(&words, 1);
    input = words = outputs[0] = outputs[1] = outputs[2] = -1;
}

/* Returns the number of the process, or the negative error if its program could not be run; that process is gone. */
static long spawn(const char *folder, char **arguments, char **variables, const long ends[PIPES], bool is_victim)
{
    int verdict[2]; /* closed when the program begins */
    long result = CALL(pipe2, verdict, O_CLOEXEC);
    if (result < 0)
        return result;
    long parent = CALL(getpid), pid = CALL(clone, SIGNAL_CHILD);
    if (pid == 0) {
        result = become(folder, arguments, variables, ends, parent, is_victim);
        CALL(write, verdict[1], &result, sizeof result);
        leave(127);
    }
    CALL(close, verdict[1]);
    long error = pid;
    if (pid > 0 && CALL(read, verdict[0], &error, sizeof error) == sizeof error)
        CALL(wait4, pid);
    else
        error = pid;
    CALL(close, verdict[0]);
    return error;
}

/* Whether the process has left answers to its marks unread: it has ended, or takes no more. */
static bool has_left_answers;

static void start(uint32_t number, char *data, uint32_t bytes)
{
    static char *arguments[MOST_STRINGS + 1], *variables[2 * MOST_STRINGS + 1];
    struct Start request;
    memcpy(&request, data, sizeof request);
    char *folder = data + sizeof request, *end = data + bytes;
    if (measured_pid) {
        reply_result(number, -EBUSY);
        return;
    }
    char *text = folder + text_length(folder) + 1;
    if (request.arguments > MOST_STRINGS || request.variables > MOST_STRINGS ||
        !(text = split(text, end, arguments, request.arguments)) ||
        !split(text, end, variables, request.variables)) {
        reply_result(number, -E2BIG);
        return;
    }
    uint32_t count = request.variables;
    for (char **own = environment; *own && count < 2 * MOST_STRINGS; own++) {
        bool is_replaced = false;
        for (uint32_t index = 0; index < request.variables; index++)
            is_replaced |= is_same_variable(*own, variables[index]);
        if (!is_replaced)
            variables[count++] = *own;
    }
    variables[count] = NULL;

    long ends[PIPES], result = make_pipes(ends, request.flags);
    struct Started started = {.time_ns = now_ns()};
    if (result >= 0)
        result = spawn(folder, arguments, variables, ends, request.flags & START_IS_VICTIM);
    close_all(ends, PIPES);
    if (result < 0) {
        close_own_ends();
        reply_result(number, result);
        return;
    }
    measured_pid = result;
    peak_rss_bytes = 0;
    has_left_answers = false;
    started.pid = (uint32_t)result;
    reply(number, &started, sizeof started);
}

/* Writes as much data as the pipe takes; no data ends the input. */
static void write_input(uint32_t number, const char *data, uint32_t bytes)
{
    struct Written written = {.time_ns = now_ns()};
    long count = input < 0 ? -EPIPE : CALL(write, input, data, bytes);
    written.bytes = count < 0 ? 0 : (uint32_t)count;
    if (!bytes) {
        close_all(&input, 1);
        input = -1;
    }
    if (count < 0 && count != -EAGAIN)
        reply_result(number, count);
    else
        reply(number, &written, sizeof written);
}

void poll_streams(struct Poll polls[STREAMS])
{
    for (int stream = 0; stream < STREAMS; stream++)
        polls[stream] = (struct Poll){.fd = (int)outputs[stream], .events = POLL_IN}; /* below 0: skipped */
}

/* Sends what a stream has now, a buffer at most; false if it has nothing. */
static bool pass_on(int stream)
{
    static char text[MOST_DATA_BYTES];
    if (outputs[stream] < 0)
        return false;
    long count = CALL(read, outputs[stream], text, sizeof text);
    if (count == -ECONNRESET) { /* comes once, before the last marks */
        has_left_answers = true;
        count = CALL(read, outputs[stream], text, sizeof text);
    }
    if (count == -EAGAIN || count == -EINTR)
        return false;
    if (count <= 0) {
        CALL(close, outputs[stream]);
        outputs[stream] = -1;
        count = 0;
    }
    send(0, events[stream], text, (size_t)count);
    return count > 0;
}

/*
 * Answers marks, without waiting for a program that reads no answers, and tells whether they were read. No data only
 * asks.
 */
static void answer_marks(uint32_t number, const char *data, uint32_t bytes)
{
    uint32_t state = ANSWERS_READ;
    int unread = 0;
    if (bytes && (outputs[LEDGER - 1] < 0 || CALL(write, outputs[LEDGER - 1], data, bytes) < 0))
        has_left_answers = true;
    if (outputs[LEDGER - 1] >= 0)
        CALL(ioctl, outputs[LEDGER - 1], TIOCOUTQ, &unread);
    if (unread)
        state = ANSWERS_UNREAD;
    else
        pass_on(LEDGER - 1); /* If its end was closed with unread answers, this tells. */
    if (has_left_answers)
        state = ANSWERS_LEFT;
    reply(number, &state, sizeof state);
}

/*
 * The same for standard error if it is a file. If there is more than a buffer, only the end: the harness keeps no more.
 */
static void pass_words_on(void)
{
    enum { FROM_START, FROM_HERE, FROM_END };
    static char text[MOST_DATA_BYTES];
    if (words < 0)
        return;
    long at = CALL(lseek, words, 0, FROM_HERE), end = CALL(lseek, words, 0, FROM_END);
    CALL(lseek, words, end - at > MOST_DATA_BYTES ? end - MOST_DATA_BYTES : at, FROM_START);
    long count = CALL(read, words, text, sizeof text);
    if (count > 0)
        send(0, EVENT_ERRORS, text, (size_t)count);
}

/*
 * Sends the process's streams. Output that was there before the call is sent last: a reader of a line then has all that
 * was written earlier to the other streams.
 */
void pass_streams_on(bool has_output)
{
    /* More than a pipe holds, but limited: a process that never stops writing must not block the reader. */
    enum { ROUNDS = 8 };
    pass_words_on();
    for (int stream = STREAMS; stream-- > !has_output;)
        for (int round = 0; round < ROUNDS && pass_on(stream); round++)
            ;
}

/* Notes processes that have ended, after sending what they wrote. */
void note_ended(void)
{
    enum { PEAK_KIB_AT = 4, USAGE_LONGS = 18 }; /* in a struct rusage: behind two times, of two numbers each */
    int status;
    long pid, usage[USAGE_LONGS];
    while ((pid = CALL(wait4, -1, &status, WAIT_NO_HANG, usage)) > 0) {
        uint64_t peak_bytes = (uint64_t)usage[PEAK_KIB_AT] * 1024;
        if (peak_bytes > peak_rss_bytes)
            peak_rss_bytes = peak_bytes;
        if (pid != measured_pid)
            continue;
        pass_streams_on(true);
        struct Ended ended = {.status = (uint32_t)status, .peak_rss_bytes = peak_rss_bytes};
        send(0, EVENT_ENDED, &ended, sizeof ended);
        measured_pid = 0;
    }
}

/* Returns the number of a process's parent; 0 if the process has gone. */
static uint64_t parent_of(const char *pid)
{
    char path[32] = "/proc/", text[512];
    size_t length = text_length(pid);
    if (length > 10)
        return 0;
    memcpy(path + 6, pid, length);
    memcpy(path + 6 + length, "/stat", 6);
    if (read_small(path, text, sizeof text) <= 0)
        return 0;
    const char *name_end = text;
    for (const char *at = text; *at; at++)
        if (*at == ')')
            name_end = at; /* the name may have a bracket too */
    if (text_length(name_end) < 5)
        return 0;
    const char *field = name_end + 4; /* ") S ": its state */
    return number_at(&field);
}

/* Kills all children. Orphans below them become children, by PR_SET_CHILD_SUBREAPER. */
static void kill_children(void)
{
    static char entries[4096];
    long folder = open_file("/proc", O_RDONLY | O_DIRECTORY, 0), count;
    uint64_t own = (uint64_t)CALL(getpid);
    while (folder >= 0 && (count = CALL(getdents64, folder, entries, sizeof entries)) > 0) {
        for (long at = 0; at < count;) {
            enum { BYTES_AT = 16, NAME_AT = 19 }; /* in a struct linux_dirent64 */
            const char *name = entries + at + NAME_AT, *digits = name;
            uint16_t bytes;
            memcpy(&bytes, entries + at + BYTES_AT, sizeof bytes);
            at += bytes;
            uint64_t pid = number_at(&digits);
            if (pid && parent_of(name) == own)
                CALL(kill, pid, SIGNAL_KILL);
        }
    }
    CALL(close, folder);
}

/* Kills and reaps until no descendant is left; -ETIMEDOUT if one does not die, for example in a driver that hangs. */
long end_descendants(void)
{
    if (measured_pid)
        CALL(kill, -measured_pid, SIGNAL_KILL);
    for (unsigned waited_ms = 0; waited_ms < END_LIMIT_MS; waited_ms += END_PAUSE_MS) {
        kill_children();
        note_ended();
        if (CALL(wait4, -1, 0, WAIT_NO_HANG) == -ECHILD)
            return 0;
        pause_ms(END_PAUSE_MS);
    }
    return -ETIMEDOUT;
}

static void end(uint32_t number)
{
    long result = end_descendants();
    pass_streams_on(true);
    if (result >= 0)
        close_own_ends();
    reply_result(number, result);
}

/* Answers a request about the process; false if it is not one. */
bool answer_process(const struct Header *header, char *data)
{
    uint32_t signal;
    switch (header->kind) {
    case REQUEST_START:
        start(header->number, data, header->bytes);
        break;
    case REQUEST_INPUT:
        write_input(header->number, data, header->bytes);
        break;
    case REQUEST_ANSWER:
        answer_marks(header->number, data, header->bytes);
        break;
    case REQUEST_SIGNAL:
        memcpy(&signal, data, sizeof signal);
        reply_result(header->number, measured_pid ? CALL(kill, -measured_pid, signal) : -ESRCH);
        break;
    case REQUEST_END:
        end(header->number);
        break;
    default:
        return false;
    }
    return true;
}
