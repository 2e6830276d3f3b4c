/* What was shared and what was left alone: one JSON line at the end of the process. */
#include "apply.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_REASONS 16

static unsigned loaded, duplicates, most_memories, failures;
static uint64_t saved_bytes;
static struct {
    const char *reason;
    unsigned count;
} left_alone[MOST_REASONS];

void note_context(const struct context *context, bool is_dup)
{
    is_dup ? duplicates++ : loaded++;
    if (is_dup)
        saved_bytes += context->told.total_weight_size;
    unsigned count = memory_count();
    most_memories = count > most_memories ? count : most_memories;
}

void note_left_alone(const char *reason)
{
    for (size_t index = 0; index < MOST_REASONS; index++) {
        if (left_alone[index].reason && strcmp(left_alone[index].reason, reason))
            continue;
        left_alone[index].reason = reason;
        left_alone[index].count++;
        return;
    }
}

void note_failure(const char *call, int code)
{
    (void)code;
    failures++;
    note_left_alone(call);
}

__attribute__((destructor)) static void write_report(void)
{
    const char *path = getenv("REUSEBENCH_APPLY_REPORT");
    if (!path || !(loaded || left_alone[0].count))
        return;
    char line[2048];
    int length = snprintf(line, sizeof line,
                          "{\"runtime\": \"rknn\", \"process\": %d, \"loaded\": %u, \"duplicates\": %u,"
                          " \"internal_memories\": %u, \"shared_weight_bytes\": %llu, \"left_alone\": {",
                          (int)getpid(), loaded, duplicates, most_memories, (unsigned long long)saved_bytes);
    for (size_t index = 0; index < MOST_REASONS && left_alone[index].reason; index++)
        length += snprintf(line + length, sizeof line - (size_t)length, "%s\"%s\": %u", index ? ", " : "",
                           left_alone[index].reason, left_alone[index].count);
    length += snprintf(line + length, sizeof line - (size_t)length, "}}\n");
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd < 0)
        return;
    ssize_t written = write(fd, line, (size_t)length);
    (void)written;
    close(fd);
}
