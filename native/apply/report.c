/* What was shared and what was left alone: one JSON line at the end of the process. */
#include "plan.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Names with numbers, in the order in which they came. */
struct counts {
    struct {
        const char *name;
        unsigned count;
    } rows[16];
};

/* A model that the program has loaded, and the sum of the digests of its outputs. */
struct model_record {
    struct model_record *next;
    struct model model;
    unsigned runs;
    struct outputs_digest sum;
};

static struct {
    unsigned contexts, models, shared_weights, shared_internal, runs_now, most_at_once;
    /* At the last moment at which the program would have used most. */
    uint64_t most_bytes_as_is, saved_weight_bytes, saved_internal_bytes;
    bool is_exact; /* the bytes of the weights */
    struct counts left_alone, failures;
    struct model_record *records;
} total;
static char version[64];

static void count_name(struct counts *counts, const char *name)
{
    for (size_t index = 0; index < LENGTH(counts->rows); index++) {
        if (counts->rows[index].name && strcmp(counts->rows[index].name, name))
            continue;
        counts->rows[index].name = name;
        counts->rows[index].count++;
        return;
    }
}

static struct model_record *record_of(const struct model *model)
{
    struct model_record *record = total.records;
    while (record && memcmp(record->model.digest, model->digest, sizeof model->digest))
        record = record->next;
    if (record)
        return record;
    record = calloc(1, sizeof *record);
    if (!record)
        return NULL;
    record->model = *model;
    record->next = total.records;
    total.records = record;
    total.models++;
    return record;
}

void note_model(const struct model *model)
{
    total.contexts++;
    if (model)
        record_of(model);
}

void note_version(rknn_context handle)
{
    rknn_sdk_version answer = {{0}, {0}};
    if (version[0] || REAL(rknn_query)(handle, QUERY_SDK_VERSION, &answer, sizeof answer) != SUCCEEDED)
        return;
    sscanf(answer.api_version, "%63[0-9A-Za-z.]", version);
}

void note_shared_weights(struct context *context)
{
    total.shared_weights += !context->shares_weights;
    context->shares_weights = true;
}

void note_shared_internal(struct context *context)
{
    total.shared_internal += !context->shares_internal;
    context->shares_internal = true;
}

void note_bytes(void)
{
    uint64_t as_is = 0, weights = 0, internal = 0;
    bool is_exact = true;
    for (const struct context *context = contexts; context; context = context->next) {
        if (!context->memory && !context->mini)
            continue;
        uint64_t bytes = whole_pages(context->internal_bytes);
        as_is += context->alone_bytes + bytes;
        internal += bytes;
        weights += context->alone_bytes - context->made_bytes;
        is_exact = is_exact && context->made_bytes;
    }
    if (as_is < total.most_bytes_as_is)
        return;
    uint64_t shared = memory_bytes() + region_bytes(false), in_regions = region_bytes(true);
    /* A context of librknnmrt alone has all in one buffer: two take some bytes more, up to whole pages. */
    uint64_t more = in_regions > weights ? in_regions - weights : 0;
    shared += more;
    total.most_bytes_as_is = as_is;
    total.saved_weight_bytes = weights + more - in_regions;
    total.saved_internal_bytes = internal > shared ? internal - shared : 0;
    total.is_exact = is_exact;
}

void note_left_alone(const char *reason)
{
    count_name(&total.left_alone, reason);
}

void note_failure(const char *call)
{
    count_name(&total.failures, call);
}

void note_run(int change)
{
    total.runs_now += (unsigned)change;
    if (total.runs_now > total.most_at_once)
        total.most_at_once = total.runs_now;
}

void note_outputs(const struct model *model, struct outputs_digest digest)
{
    struct model_record *record = record_of(model);
    if (!record)
        return;
    record->runs++;
    record->sum.words[0] += digest.words[0];
    record->sum.words[1] += digest.words[1] + (record->sum.words[0] < digest.words[0]);
}

/* A forked process reports what it does itself. */
void forget_report(void)
{
    struct model_record *record;
    while ((record = total.records)) {
        total.records = record->next;
        free(record);
    }
    memset(&total, 0, sizeof total);
    forget_plan_counts();
}

/* ---- The line ---- */

struct line {
    char *text;
    size_t length, room;
};

__attribute__((format(printf, 2, 3))) static void append(struct line *line, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    int length = vsnprintf(line->text + line->length, line->room - line->length, format, values);
    va_end(values);
    line->length += (size_t)length;
}

static void append_counts(struct line *line, const char *key, const struct counts *counts)
{
    append(line, ", \"%s\": {", key);
    for (size_t index = 0; index < LENGTH(counts->rows) && counts->rows[index].name; index++)
        append(line, "%s\"%s\": %u", index ? ", " : "", counts->rows[index].name, counts->rows[index].count);
    append(line, "}");
}

static void append_sharing(struct line *line)
{
    append(line, ", \"shared\": {\"weights\": %u, \"internal\": %u}", total.shared_weights, total.shared_internal);
    append(line, ", \"saved_bytes\": {");
    if (total.is_exact)
        append(line, "\"weights\": %llu, ", (unsigned long long)total.saved_weight_bytes);
    append(line, "\"internal\": %llu}", (unsigned long long)total.saved_internal_bytes);
}

static void append_digests(struct line *line)
{
    const char *separator = "";
    append(line, ", \"digests\": {");
    for (const struct model_record *record = total.records; record; record = record->next) {
        if (!record->runs)
            continue;
        append(line, "%s\"%016llx%016llx\": {\"runs\": %u, \"sum\": \"%016llx%016llx\"}", separator,
               (unsigned long long)record->model.digest[0], (unsigned long long)record->model.digest[1], record->runs,
               (unsigned long long)record->sum.words[1], (unsigned long long)record->sum.words[0]);
        separator = ", ";
    }
    append(line, "}");
}

static void write_line(const char *path, const struct line *line)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd < 0)
        return;
    ssize_t written = write(fd, line->text, line->length);
    (void)written; /* a report that cannot be written is none */
    close(fd);
}

__attribute__((destructor)) static void write_report(void)
{
    const char *path = getenv("REUSEBENCH_APPLY_REPORT");
    if (!path || !total.contexts)
        return;
    struct line line = {.room = 4096 + 128 * (size_t)total.models + plan_report(NULL, 0)};
    line.text = malloc(line.room);
    if (!line.text)
        return;
    append(&line, "{\"runtime\": \"rknn\", \"version\": ");
    append(&line, version[0] ? "\"%s\"" : "null", version);
    append(&line, ", \"process\": %d, \"contexts\": %u, \"models\": %u", (int)getpid(), total.contexts, total.models);
    append_sharing(&line);
    append(&line, ", \"most_at_once\": %u", total.most_at_once);
    append_counts(&line, "left_alone", &total.left_alone);
    append_counts(&line, "failures", &total.failures);
    append_digests(&line);
    append(&line, ", \"plan\": ");
    line.length += plan_report(line.text + line.length, line.room - line.length);
    append(&line, "}\n");
    write_line(path, &line);
    free(line.text);
}
