/*
 * The reader, which reusebench runs on a remote board beside the measured process. It speaks in frames over its
 * standard input and output, reads files for the harness, samples, and starts and ends the measured process.
 *
 * A frame is a header and `bytes` bytes; all numbers are little-endian. targets/far/frames.py and
 * targets/far/connection.py are the other side.
 *
 * A frame that was damaged on the way ends the connection: its header or its content has another checksum (the CRC-32
 * of zlib), it is too long, its number is not the next one of its direction, or it stays incomplete. The reader says so
 * by EVENT_BROKEN before it ends all. Pings, which both directions have every few seconds, make a loss at the end seen.
 */
#pragma once
#include "system.h"

/* Raised with every change of frames, requests or events. The reader is replaced if any of its sources has changed. */
enum { PROTOCOL_VERSION = 2 };

struct Header {
    uint32_t bytes;            /* length of the content after the header, at most MOST_ bytes of its direction */
    uint32_t number;           /* number of the request; 0: an event */
    uint32_t frame;            /* number of the frame in its direction, from 0 */
    uint32_t content_checksum; /* CRC-32 of the content */
    uint8_t kind;
    uint32_t checksum; /* CRC-32 of the header before it */
} __attribute__((packed));

enum RequestKind {
    REQUEST_READ = 'r',     /* u32 limit of bytes, path: the content */
    REQUEST_NAMES = 'n',    /* path of a folder: names, each ended by 0 */
    REQUEST_LINK = 'k',     /* path: the target of the link */
    REQUEST_STATUS = 's',   /* path: struct Status of the file, after links */
    REQUEST_PAGES = 'u',    /* struct Pages: a byte for each page, the highest of its entry in pagemap */
    REQUEST_SPACE = 'f',    /* path: struct Space */
    REQUEST_WRITE = 'w',    /* u32 WRITE_ flags, u32 mode, path, 0, data: written at once */
    REQUEST_FOLDER = 'm',   /* path of a folder to make */
    REQUEST_RENAME = 'v',   /* path, 0, path */
    REQUEST_REMOVE = 'd',   /* path of a file or an empty folder */
    REQUEST_LOCK = 'l',     /* path of a file, which is made, and locked until the reader ends */
    REQUEST_WATCH = 'j',    /* path of a file: an event after each write, instead of the file watched before */
    REQUEST_CLOCK = 't',    /* struct Clocks */
    REQUEST_CPUS = 'c',     /* u32: number of processors that this process may use */
    REQUEST_START = 'p',    /* struct Start, strings: struct Started */
    REQUEST_INPUT = 'i',    /* data for the process; none ends its input: struct Written */
    REQUEST_ANSWER = 'y',   /* data for the process through the socket of its marks, or none: u32 ANSWERS_ */
    REQUEST_SIGNAL = 'g',   /* u32 signal for the process and its group, like a terminal's */
    REQUEST_END = 'e',      /* kill the process and its descendants */
    REQUEST_SAMPLE = 'a',   /* struct Sampling; interval 0 stops */
    REQUEST_PATIENCE = 'q', /* u64 nanoseconds of the harness's silence after which all ends */
    REQUEST_PING = '.',
    REQUEST_LEAVE = 'x', /* end as at the end of input, which adb does not pass on */
};

enum ReplyKind {
    REPLY_PART = '+', /* more follows */
    REPLY_DONE = '=',
    REPLY_ERROR = '!',  /* u32 error number */
    EVENT_HELLO = 'h',  /* struct Hello */
    EVENT_OUTPUT = 'o', /* output of the process, no bytes at its end; the next two likewise */
    EVENT_ERRORS = 'u',
    EVENT_LEDGER = 'y', /* or marks */
    EVENT_ENDED = 'z',  /* struct Ended */
    EVENT_CHANGED = 'm', /* the watched file has changed */
    EVENT_SAMPLES = 'b', /* several struct Sample */
    EVENT_BROKEN = 'w' /* u32 of enum Damage: the reader has got a damaged frame, and ends */
};

enum Damage { DAMAGE_HEADER = 1, DAMAGE_LENGTH, DAMAGE_ORDER, DAMAGE_CONTENT, DAMAGE_INCOMPLETE };

/*
 * Flags of struct Start. Ledger: a pipe for the ledger. Marks: a socket for marks and their answers, instead of the
 * ledger. Words: standard error is a file that the process can read again. Victim: the process is the first to be
 * killed when memory runs out; otherwise it has the score that the reader was started with.
 */
enum { START_HAS_LEDGER = 1, START_HAS_MARKS = 2, START_HAS_WORDS = 4, START_IS_VICTIM = 8 };
/* Left: the process has ended with answers unread, or takes no more. */
enum { ANSWERS_READ, ANSWERS_UNREAD, ANSWERS_LEFT };
enum { WRITE_CREATES = 1, WRITE_APPENDS = 2, WRITE_SYNCS = 4 };
enum { MOST_DATA_BYTES = 16384, MOST_REQUEST_BYTES = 65536 };

struct Hello {
    uint32_t version, page_bytes, user_id, reader_pid, keeper_pid;
};
struct Status {
    uint64_t inode, size_bytes;
    uint32_t mode;
    uint32_t device_major, device_minor;
    uint64_t stored_bytes; /* what the file takes on its file system */
} __attribute__((packed));
struct Pages {
    uint32_t pid;
    uint64_t first, count;
} __attribute__((packed));
struct Space {
    uint64_t kind, free_bytes;
};
struct Clocks {
    uint64_t monotonic_ns, cpu_ns; /* CPU time of this process */
};
/* Followed by strings, each ended by 0: the folder (empty: the reader's), the arguments, additional variables. */
struct Start {
    uint32_t flags; /* of the START_ flags */
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
    uint32_t status; /* as wait4 returns it */
    uint64_t peak_rss_bytes; /* highest RSS of the process and of those that ended before it */
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
void end_if_incomplete(void);
void answer(const struct Header *header, char *data);

/* files.c */
bool answer_file(const struct Header *header, char *data);
long open_file(const char *path, int flags, int mode);
long open_of_process(uint32_t pid, const char *name);
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
