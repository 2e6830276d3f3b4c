/* Cheap readings of one process at a steady rate. They are gathered, and sent before any other frame. */
#include "reader.h"

/* /proc/meminfo costs ten times as much as statm, and changes slowly. */
enum { SYSTEM_EVERY = 10, GATHERED = 64 };

/* Time of the next sample; NEVER if nothing is sampled. */
uint64_t next_sample_ns = NEVER;
static uint64_t interval_ns;
static long statm_file = -1, meminfo_file = -1;
static unsigned taken;
static uint64_t system_bytes;
static struct Sample samples[GATHERED];
static size_t gathered;

static long read_again(long file, char *text, size_t bytes)
{
    /* 32-bit ARM has the offset in the fifth and sixth argument, the others in the fourth; it is 0. */
    long count = CALL(pread64, file, text, bytes - 1);
    text[count > 0 ? count : 0] = 0;
    return count;
}

/* Returns MemTotal - MemAvailable. */
static uint64_t used_bytes(void)
{
    char text[512]; /* both are in the first three lines */
    read_again(meminfo_file, text, sizeof text);
    uint64_t total = 0, available = 0;
    for (const char *line = text; *line;) {
        const char *value;
        if ((value = after(line, "MemTotal:")))
            total = number_at(&value);
        else if ((value = after(line, "MemAvailable:")))
            available = number_at(&value);
        while (*line && *line++ != '\n')
            ;
    }
    return (total - available) * 1024;
}

static void stop(void)
{
    send_samples();
    CALL(close, statm_file);
    CALL(close, meminfo_file);
    next_sample_ns = NEVER;
}

static long begin(uint32_t pid)
{
    statm_file = open_of_process(pid, "/statm");
    if (statm_file < 0)
        return statm_file;
    meminfo_file = open_file("/proc/meminfo", O_RDONLY, 0);
    if (meminfo_file < 0) {
        CALL(close, statm_file);
        return meminfo_file;
    }
    taken = 0;
    next_sample_ns = now_ns();
    return 0;
}

/* Answers a request about sampling; false if it is not one. */
bool answer_sampling(const struct Header *header, const char *data)
{
    if (header->kind != REQUEST_SAMPLE)
        return false;
    struct Sampling sampling;
    memcpy(&sampling, data, sizeof sampling);
    if (next_sample_ns != NEVER)
        stop();
    interval_ns = sampling.interval_ns;
    reply_result(header->number, interval_ns ? begin(sampling.pid) : 0);
    return true;
}

void take_sample(void)
{
    char text[128];
    uint64_t time_ns = now_ns();
    long count = read_again(statm_file, text, sizeof text);
    const char *field = text;
    number_at(&field); /* the size of its address space */
    uint64_t resident_pages = number_at(&field);
    if (count <= 0 || !resident_pages) { /* it has gone, or has ended and was not waited for yet */
        stop();
        return;
    }
    if (taken++ % SYSTEM_EVERY == 0)
        system_bytes = used_bytes();
    samples[gathered++] = (struct Sample){time_ns, resident_pages * page_bytes, system_bytes};
    if (gathered == GATHERED)
        send_samples();
    /*
     * Based on the due time, not on the time of the sample, so that the rate does not drift. Missed samples are
     * skipped.
     */
    do
        next_sample_ns += interval_ns;
    while (next_sample_ns <= time_ns);
}

void send_samples(void)
{
    size_t bytes = gathered * sizeof *samples;
    gathered = 0;
    if (bytes)
        send(0, EVENT_SAMPLES, samples, bytes);
}
