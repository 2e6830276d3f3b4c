/*
 * The reader: what reusebench runs on a board beside the measured process. It speaks frames over its standard input and
 * output, reads files for the harness, samples, and starts and ends the measured process.
 *
 * A frame is a header and so many bytes; all numbers are little-endian. targets/far/connection.py is the other side.
 */
#pragma once
#include "system.h"

struct Header {
    uint32_t bytes;  /* that follow the header */
    uint32_t number; /* of the request; 0 is an event */
    uint8_t kind;
} __attribute__((packed));

enum RequestKind {
    REQUEST_READ = 'r',     /* u32 most bytes, path: the content */
    REQUEST_NAMES = 'n',    /* path of a folder: names, each ended by 0 */
    REQUEST_LINK = 'k',     /* path: what the link holds */
    REQUEST_STATUS = 's',   /* path: struct Status of what it leads to */
    REQUEST_SPACE = 'f',    /* path: struct Space */
    REQUEST_WRITE = 'w',    /* u32 WRITE_ flags, u32 mode, path, 0, data: by one write */
    REQUEST_FOLDER = 'm',   /* path of a folder to make */
    REQUEST_RENAME = 'v',   /* path, 0, path */
    REQUEST_REMOVE = 'd',   /* path of a file or an empty folder */
    REQUEST_LOCK = 'l',     /* path of a file, which is made, and locked until the reader ends */
    REQUEST_WATCH = 'j',    /* path of a file: an event whenever it was written to, in place of the one before */
    REQUEST_CLOCK = 't',    /* struct Clocks */
    REQUEST_CPUS = 'c',     /* u32: how many this process may use */
    REQUEST_START = 'p',    /* struct Start, strings: struct Started */
    REQUEST_INPUT = 'i',    /* data for the process, none: its end: struct Written */
    REQUEST_ANSWER = 'y',   /* data for the process, by the socket of its marks */
    REQUEST_SIGNAL = 'g',   /* u32 signal for the process and its group, as a terminal sends it */
    REQUEST_END = 'e',      /* kill the process and its descendants */
    REQUEST_SAMPLE = 'a',   /* struct Sampling; its interval 0: stop */
    REQUEST_PATIENCE = 'q', /* u64 nanoseconds without a byte from the harness after which all ends */
    REQUEST_PING = '.',
    REQUEST_LEAVE = 'x', /* end as if the input had ended, which adb does not pass on */
};

enum ReplyKind {
    REPLY_PART = '+', /* more follows */
    REPLY_DONE = '=',
    REPLY_ERROR = '!',  /* u32 error number */
    EVENT_HELLO = 'h',  /* struct Hello */
    EVENT_OUTPUT = 'o', /* of the process; no bytes: its end. So are the next two. */
    EVENT_ERRORS = 'u',
    EVENT_LEDGER = 'y', /* or marks */
    EVENT_ENDED = 'z',  /* struct Ended */
    EVENT_CHANGED = 'm', /* of the file that is watched */
    EVENT_SAMPLES = 'b' /* struct Sample, several */
};

/*
 * Whether there is a pipe for the ledger, or in its place a socket for marks and their answers; whether standard error is
 * a file, which the process can read again; whether it is the first to be ended where memory runs out, else it has the
 * score that the reader was started with.
 */
enum { START_HAS_LEDGER = 1, START_HAS_MARKS = 2, START_HAS_WORDS = 4, START_IS_VICTIM = 8 };
enum { WRITE_CREATES = 1, WRITE_APPENDS = 2, WRITE_SYNCS = 4 };
enum { MOST_DATA_BYTES = 16384, MOST_REQUEST_BYTES = 65536 };

struct Hello {
    uint32_t page_bytes, user_id, reader_pid, keeper_pid;
};
struct Status {
    uint64_t inode, size_bytes;
    uint32_t mode;
} __attribute__((packed));
struct Space {
    uint64_t kind, free_bytes;
};
struct Clocks {
    uint64_t monotonic_ns, cpu_ns; /* CPU time of this process */
};
/* Then, each ended by 0: its folder (empty: the reader's), its arguments, its additions to the environment. */
struct Start {
    uint32_t flags; /* START_ */
    uint32_t arguments, variables;
};
struct Started {
    uint32_t pid;
    uint64_t time_ns;
} __attribute__((packed));
struct Written {
    uint32_t bytes;
    uint64_t time_ns;
} __attribute__((packed));
struct Ended {
    uint32_t status; /* as wait4 gives it */
    uint64_t peak_rss_bytes; /* of the process, and of those that have ended before it */
} __attribute__((packed));
struct Sampling {
    uint32_t pid;
    uint64_t interval_ns;
} __attribute__((packed));
struct Sample {
    uint64_t time_ns, rss_bytes, system_bytes;
};

#define SECOND_NS UINT64_C(1000000000)
#define NEVER UINT64_MAX

/* text.c */
size_t text_length(const char *text);
const char *after(const char *text, const char *start);
uint64_t number_at(const char **text);

/* clock.c */
uint64_t now_ns(void);
uint64_t clock_ns(int clock);
struct timespec time_until(uint64_t deadline_ns);
void pause_ms(unsigned milliseconds);

/* frames.c */
extern uint64_t heard_ns, patience_ns;
void send(uint32_t number, uint8_t kind, const void *data, size_t bytes);
void reply(uint32_t number, const void *data, size_t bytes);
void reply_result(uint32_t number, long result);
void flush(void);
void send_nothing_more(void);
void receive(void);
void answer(const struct Header *header, char *data);

/* files.c */
bool answer_file(const struct Header *header, char *data);
long open_file(const char *path, int flags, int mode);
extern long watch;
void note_changes(void);
long read_small(const char *path, char *space, size_t bytes);

/* process.c */
struct Poll {
    int fd;
    short events, returned;
};
enum { POLL_IN = 1, POLL_OUT = 4, STREAMS = 3 };
extern char **environment;
bool answer_process(const struct Header *header, char *data);
void poll_streams(struct Poll polls[STREAMS]);
void pass_streams_on(bool has_output);
void note_ended(void);
long end_descendants(void);
void be_last_victim(void);

/* sampling.c */
extern uint64_t next_sample_ns;
bool answer_sampling(const struct Header *header, const char *data);
void take_sample(void);
void send_samples(void);

/* main.c */
extern uint64_t page_bytes;
_Noreturn void leave(int code);
_Noreturn void end_all(void);
