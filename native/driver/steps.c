/* The steps of a plan: each ends at its barrier and reports its data there (measured/driver.py). */
#include "native.h"

#include <stdlib.h>
#include <string.h>

static struct context **contexts;
static struct worker **workers; /* thread of each context, by its index */
static size_t context_count;
/* The thread of all cycles: threads that come and go would spread the heap over arenas. */
static struct worker *cycling;
static bool has_small_stacks;

static void append_versions(struct text *data)
{
    append_field(data, "runtime_version", library.version);
    if (*driver_version)
        append_field(data, "driver_version", driver_version);
}

static bool take_import(const struct line *line, struct text *data, struct failure *failure)
{
    has_small_stacks = field(line, "small_stacks");
    if (field(line, "cycles"))
        cycling = start_worker(false);
    if (!open_library(&library, failure))
        return false;
    set_library_folder(library.folder);
    append_versions(data);
    return true;
}

static bool append_memory(struct context *context, struct text *data, struct failure *failure)
{
    if (!append_account(context, data, failure))
        return false;
    append_allocations(context, data);
    return true;
}

/* Returns the thread of the context's chain, which exists as soon as one of its contexts does. */
static struct worker *worker_of(const struct line *line)
{
    const char *other = field(line, "worker");
    if (cycling)
        return cycling;
    return other ? workers[number_of(other)] : start_worker(has_small_stacks);
}

static bool take_context(const struct line *line, struct text *data, struct failure *failure)
{
    int64_t started_ns = now_ns();
    struct context *context = make_context(line, contexts, failure);
    int64_t load_ns = now_ns() - started_ns;
    if (!context)
        return false;
    workers = with_space(workers, context_count, sizeof *workers);
    contexts = with_space(contexts, context_count, sizeof *contexts);
    contexts[context_count] = context;
    workers[context_count] = worker_of(line);
    context_count++;
    append(data, "\tload_ns=%lld", (long long)load_ns);
    append_versions(data);
    return append_memory(context, data, failure);
}

static bool take_internal_memory(const struct line *line, struct text *data, struct failure *failure)
{
    const char *joined = field(line, "join");
    size_t index = (size_t)number_field(line, "context", 0), count = 0;
    struct context **members = allocate_bytes(line->count * sizeof *members);
    for (size_t number = 1; number < line->count; number++) {
        const char *member = value_of(line->fields[number], "member");
        if (member)
            members[count++] = contexts[number_of(member)];
    }
    bool is_well = joined ? join_internal(contexts[index], contexts[number_of(joined)], failure)
                          : share_internal(members, count, failure);
    free(members);
    struct text account = {0};
    is_well = is_well && append_account(contexts[index], &account, failure);
    clear(&account);
    if (is_well)
        append_allocations(contexts[index], data);
    return is_well;
}

struct warm_up {
    struct context *context;
    int64_t latency_ns;
};

/* A context costs the second inference, too: runtimes allocate then by what they planned in the first. */
static bool warm_up(void *argument, struct failure *failure)
{
    struct warm_up *task = argument;
    int64_t started_ns = now_ns();
    if (!infer(task->context, failure))
        return false;
    task->latency_ns = now_ns() - started_ns;
    return infer(task->context, failure);
}

static bool infer_first(size_t index, int64_t *latency_ns, struct failure *failure)
{
    struct warm_up task = {.context = contexts[index]};
    start_task(workers[index], warm_up, &task);
    bool is_well = finish_task(workers[index], failure);
    *latency_ns = task.latency_ns;
    return is_well;
}

static bool take_first_inference(const struct line *line, struct text *data, struct failure *failure)
{
    size_t index = (size_t)number_field(line, "context", 0);
    struct context *context = contexts[index];
    int64_t latency_ns;
    if (!infer_first(index, &latency_ns, failure))
        return false;
    append(data, "\tlatency_ns=%lld\tdigest=%08x\tcopies=%zu,%zu", (long long)latency_ns,
           checksum_of(&context->outputs), copied_bytes(&context->inputs), copied_bytes(&context->outputs));
    if (field(line, "samples"))
        append(data, "\tsamples=%zu", context->outputs.count);
    return append_memory(context, data, failure);
}

static bool take_steady(const struct line *line, struct text *data, struct failure *failure)
{
    struct schedule schedule = read_schedule(line, contexts, workers, context_count);
    bool is_well = (field(line, "streams") ? run_streams : run_rounds)(line, &schedule, data, failure);
    free_schedule(&schedule);
    for (size_t index = 0; is_well && !field(line, "streams") && index < context_count; index++)
        append(data, "\tdigests=%08x", checksum_of(&contexts[index]->outputs));
    return is_well;
}

static bool destroy(size_t index, struct failure *failure)
{
    struct context *context = contexts[index];
    struct worker *worker = workers[index];
    bool is_used = worker == cycling;
    context_count--;
    for (size_t next = index; next < context_count; next++) {
        contexts[next] = contexts[next + 1];
        workers[next] = workers[next + 1];
    }
    for (size_t other = 0; other < context_count; other++)
        is_used |= workers[other] == worker;
    if (!is_used)
        stop_worker(worker);
    return destroy_context(context, failure);
}

static bool take_destroy(const struct line *line, struct text *data, struct failure *failure)
{
    (void)data;
    return destroy((size_t)number_field(line, "context", 0), failure);
}

struct inferences {
    struct context *context;
    int64_t count;
};

static bool infer_often(void *argument, struct failure *failure)
{
    const struct inferences *task = argument;
    for (int64_t number = 0; number < task->count; number++)
        if (!infer(task->context, failure))
            return false;
    return true;
}

/* Infers for the first time with a context or memory that the cycle has made, as in any other first inference. */
static bool infer_anew(struct text *data, struct failure *failure)
{
    struct text unused = {0};
    struct context *last = contexts[context_count - 1];
    int64_t latency_ns;
    if (!infer_first(context_count - 1, &latency_ns, failure))
        return false;
    append(data, "\tdigest=%08x", checksum_of(&last->outputs));
    bool is_well = append_memory(last, &unused, failure);
    clear(&unused);
    return is_well;
}

/* Makes a context, infers and destroys it, or destroys the oldest one if contexts replace each other. */
static bool cycle_context(const struct line *line, struct text *data, struct failure *failure)
{
    struct text unused = {0};
    bool is_well = take_context(line, &unused, failure) && infer_anew(data, failure) &&
                   destroy(field(line, "destroy_first") ? 0 : context_count - 1, failure);
    clear(&unused);
    return is_well;
}

static bool cycle_tensors(struct text *data, struct failure *failure)
{
    return renew_tensors(contexts[0], failure) && infer_anew(data, failure);
}

static bool take_cycle(const struct line *line, struct text *data, struct failure *failure)
{
    struct inferences task = {contexts ? contexts[0] : NULL, number_field(line, "inferences", 0)};
    if (task.count) {
        start_task(workers[0], infer_often, &task);
        return finish_task(workers[0], failure);
    }
    return field(line, "mechanism") ? cycle_context(line, data, failure) : cycle_tensors(data, failure);
}

/* Refuses plans with a video: no decoder runs on the board, so they need the Python driver. */
static bool refuse_decoders(const struct line *line, struct text *data, struct failure *failure)
{
    (void)line, (void)data;
    return not_supported(failure, "native_no_video");
}

static const struct {
    const char *phase;
    bool (*take)(const struct line *line, struct text *data, struct failure *failure);
} steps[] = {
    {"imported", take_import},
    {"decoders", refuse_decoders},
    {"context", take_context},
    {"internal_memory", take_internal_memory},
    {"first_inference", take_first_inference},
    {"steady", take_steady},
    {"cycle", take_cycle},
    {"destroy", take_destroy},
};

static void send_message(const char *event, const char *phase, const char *context, const struct text *data)
{
    struct text message = {0};
    append(&message, "%s\tphase=%s\tat_ns=%lld", event, phase, (long long)now_ns());
    if (context)
        append(&message, "\tcontext=%s", context);
    append(&message, "%s", data->bytes ? data->bytes : "");
    hand_over_words();
    send_line(&message);
    clear(&message);
}

/*
 * Waits until the harness has read all it needs; `stop` instead of `go` means that no more contexts are added. A `stop`
 * that was to end streams may come when they have ended.
 */
static void wait_at_barrier(bool is_steady)
{
    while (true) {
        struct line *line = next_line(false);
        bool is_trim = strcmp(line->fields[0], "trim") == 0;
        bool is_late = is_steady && strcmp(line->fields[0], "stop") == 0;
        free_line(line);
        if (is_late)
            continue;
        if (!is_trim)
            return;
        struct text data = {0};
        append(&data, "\ttrimmed=%d", trim_heap());
        send_message("barrier", "trimmed", NULL, &data);
        clear(&data);
    }
}

static bool do_step(const struct line *line, struct text *data, struct failure *failure)
{
    for (size_t index = 0; index < LENGTH(steps); index++)
        if (strcmp(steps[index].phase, line->fields[0]) == 0)
            return steps[index].take(line, data, failure);
    return fail(failure, "native_unknown_step");
}

bool take_step(const struct line *line)
{
    const char *phase = line->fields[0], *context = field(line, "context");
    struct text data = {0};
    struct failure failure = {0};
    bool is_well = do_step(line, &data, &failure);
    bool is_full = !is_well && field(line, "may_be_full") && !failure.is_not_supported;
    if (is_full) {
        clear(&data);
        append_field(&data, "failed_phase", phase);
        append(&data, "%s", failure.fields.bytes);
        phase = "full";
    }
    if (field(line, "usage"))
        append_usage(&data);
    if (is_well || is_full) {
        send_message("barrier", phase, context, &data);
        wait_at_barrier(strcmp(phase, "steady") == 0);
    } else {
        send_message("failure", phase, context, &failure.fields);
    }
    clear(&data);
    forget(&failure);
    return is_well || is_full;
}

bool inspect(const struct line *line)
{
    struct text answer = {0};
    struct failure failure = {0};
    bool is_well = open_library(&library, &failure) && append_interface_of(field(line, "path"), &answer, &failure);
    if (is_well)
        send_message("interface", "inspect", NULL, &answer);
    else
        send_message("failure", "inspect", NULL, &failure.fields);
    clear(&answer);
    forget(&failure);
    return is_well;
}
