/* The memory that a submitted job reads and writes, found by walking the register commands of its tasks. */
#include "preload.h"

/* Address of a command list: the task's own, then the next task's. */
#define COMMANDS_REGISTER 0x0010

/*
 * The registers that hold addresses, among all that the runtimes write for ResNet-50, MobileNetV2, YOLOv5s and small
 * models. Each value was an address inside a live buffer, or 0 if the unit is not used in that task. Other registers
 * hold sizes and settings that may look like addresses.
 */
#define MOST_REGISTERS 11

/* RK3588, RK3566, RK3562 and RV1106, seen with four runtimes. */
static const uint16_t address_registers[MOST_REGISTERS] = {
    COMMANDS_REGISTER,
    0x1070, /* convolution input */
    0x1110, /* convolution weights */
    0x4020, /* output of the data processing unit */
    0x5018, /* its first input if that is not a convolution */
    0x5020, /* bias */
    0x502c, /* batch normalisation */
    0x5038, /* second input of an element-wise operation */
    0x6070, /* pooling output */
    0x701c, /* pooling input */
};

/* RK3576 and RV1126B, seen with librknnrt 2.3.2: 0x1070 and 0x4020 hold settings there. */
static const uint16_t later_address_registers[MOST_REGISTERS] = {
    COMMANDS_REGISTER,
    0x1088, /* convolution input */
    0x1110, /* convolution weights */
    0x4018, /* output of the data processing unit */
    0x5018, /* its first input if that is not a convolution */
    0x5020, /* these three: data beside the weights, such as the bias */
    0x5024,
    0x5030,
    0x5038, /* second input of an element-wise operation */
    0x6070, /* pooling output */
    0x701c, /* pooling input */
};

static const uint32_t later_hardware[] = {HARDWARE_RK3576, HARDWARE_RV1126B};

/* Behind the commands that a task counts, four more lead to the next task (rknpu_job.c). */
#define COMMANDS_BEYOND_COUNT 4

struct access {
    uint16_t register_number;
    unsigned buffer;
    const char *state;
    uint64_t count, lowest, highest;
};

struct numbers {
    unsigned *of;
    size_t count;
};

/* The commands of one task. */
struct task {
    uint64_t address, count;
};

struct walk {
    bool is_rocket;
    int domain;
    uint64_t base_address;
    unsigned task_buffer; /* 0: the task list is in the process's own memory */
    uint32_t start, core_mask;
    struct task *tasks; /* that run */
    size_t task_count;
    bool complete; /* whether everything could be read */
    uint64_t input; /* hash of all commands and of the meaning of addresses */
    struct numbers registers; /* buffers that hold commands */
    struct numbers inputs, outputs; /* buffers that rocket's jobs name */
    struct access *accesses;
    size_t access_count;
};

/* The last event of the tasks that start there; an equal one is not written again. */
static struct seen {
    int domain;
    unsigned task_buffer;
    uint32_t start, core_mask;
    uint64_t input, event;
} *seen;
static size_t seen_count;

static uint64_t mixed(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

static uint64_t hash_of(uint64_t hash, const uint8_t *data, uint64_t bytes)
{
    uint64_t word = 0;
    for (; bytes >= sizeof word; data += sizeof word, bytes -= sizeof word) {
        memcpy(&word, data, sizeof word);
        hash = mixed(hash, word);
    }
    word = 0;
    memcpy(&word, data, (size_t)bytes);
    return mixed(hash, word);
}

/* Start of the tasks of a core that the chip does not have, as the runtime writes it. */
#define NO_START UINT32_MAX

struct ranges {
    struct {
        uint32_t start, count;
    } of[LENGTH(((struct npu_submit *)0)->core)];
    size_t count;
};

static void add_range(struct ranges *ranges, uint32_t start, uint32_t count)
{
    for (size_t index = 0; index < ranges->count; index++)
        if (ranges->of[index].start == start && ranges->of[index].count == count)
            return;
    if (count && start != NO_START) {
        ranges->of[ranges->count].start = start;
        ranges->of[ranges->count++].count = count;
    }
}

/*
 * Chooses the tasks that run. A chip with several cores has tasks per core: one or two cores take the entries of their
 * own numbers, three cores the last three; if no core is requested, it may be any one (rknpu_job.c). A chip with one
 * core takes task_start and task_count, and its runtime leaves the entries per core empty.
 */
static struct ranges ranges_of(const struct npu_submit *submit)
{
    struct ranges ranges = {.count = 0};
    unsigned mask = submit->core_mask & 7, shift = mask == 7 ? 2 : 0;
    for (unsigned core = 0; core < 3; core++)
        if (!mask || mask & 1u << core)
            add_range(&ranges, submit->core[core + shift].start, submit->core[core + shift].count);
    if (!ranges.count)
        add_range(&ranges, submit->task_start, submit->task_count);
    return ranges;
}

/* Lists the tasks that run; the walk is incomplete if the task list cannot be read. */
static void list_tasks(struct walk *walk, const struct npu_submit *submit)
{
    struct ranges ranges = ranges_of(submit);
    walk->start = ranges.count ? ranges.of[0].start : 0;
    for (size_t index = 0; index < ranges.count; index++) {
        uint64_t offset = (uint64_t)ranges.of[index].start * sizeof(struct npu_task);
        uint64_t bytes = (uint64_t)ranges.of[index].count * sizeof(struct npu_task);
        const uint8_t *list = contents(walk->task_buffer, offset, bytes);
        walk->complete = walk->complete && list;
        for (uint64_t at = 0; list && at < bytes; at += sizeof(struct npu_task)) {
            struct npu_task task;
            memcpy(&task, list + at, sizeof task);
            uint64_t count = (uint64_t)task.command_count + COMMANDS_BEYOND_COUNT;
            APPEND(walk->tasks, walk->task_count, (struct task){task.command_address, count});
        }
    }
}

static void note_access(struct walk *walk, uint16_t register_number, uint64_t address)
{
    static const struct object *last;
    static uint64_t last_generation;
    const struct object *object = last;
    if (last_generation != generation || !last || last->domain != walk->domain || address < last->start ||
        last->end <= address)
        object = object_holding(walk->domain, address);
    last = object;
    last_generation = generation;

    const char *state = !object ? "unknown" : object->alive ? "live" : "dead";
    unsigned buffer = object ? object->buffer : 0;
    uint64_t offset = object ? address - object->start : address;
    struct access *access = NULL;
    for (size_t index = 0; index < walk->access_count && !access; index++) {
        struct access *known = &walk->accesses[index];
        if (known->register_number == register_number && known->buffer == buffer && known->state == state)
            access = known;
    }
    if (!access) {
        APPEND(walk->accesses, walk->access_count,
               (struct access){register_number, buffer, state, 0, UINT64_MAX, 0});
        access = &walk->accesses[walk->access_count - 1];
    }
    access->count++;
    access->lowest = offset < access->lowest ? offset : access->lowest;
    access->highest = offset > access->highest ? offset : access->highest;
}

static bool holds_address(uint16_t register_number)
{
    const uint16_t *registers = address_registers;
    for (size_t index = 0; index < LENGTH(later_hardware); index++)
        if (later_hardware[index] == settings.hardware_version)
            registers = later_address_registers;
    for (size_t index = 0; index < MOST_REGISTERS; index++)
        if (registers[index] && registers[index] == register_number)
            return true;
    return false;
}

/*
 * Addresses of rocket begin at 0, so 0 is one in the registers that each of Mesa's tasks needs. Elsewhere it means that
 * a unit is not used.
 */
static bool holds_first_address(const struct walk *walk, uint16_t register_number)
{
    static const uint16_t needed[] = {0x1070, 0x1110, 0x4020, 0x5020};
    for (size_t index = 0; index < LENGTH(needed); index++)
        if (needed[index] == register_number)
            return walk->is_rocket;
    return false;
}

static void note(struct numbers *numbers, unsigned number)
{
    for (size_t index = 0; index < numbers->count; index++)
        if (numbers->of[index] == number)
            return;
    APPEND(numbers->of, numbers->count, number);
}

struct view {
    const uint8_t *commands; /* NULL if they cannot be read */
    uint64_t bytes;
    unsigned buffer;
    void *mapping; /* made for this view; NULL if the process has one */
    uint64_t mapping_bytes;
};

/* Shows a task's commands through a mapping of the process, or one of our own: Teflon's are gone at a submit. */
static struct view open_view(int domain, const struct task *task)
{
    const struct object *object = object_holding(domain, task->address);
    if (!object || !object->alive || !object->buffer)
        return (struct view){.commands = NULL};
    uint64_t offset = task->address - object->start;
    uint64_t rest = buffers[object->buffer - 1].bytes - offset;
    struct view view = {.bytes = task->count * sizeof(uint64_t), .buffer = object->buffer};
    view.bytes = view.bytes < rest ? view.bytes : rest;
    view.commands = contents(object->buffer, offset, view.bytes);
    if (!view.commands && (view.mapping = map_object(object))) {
        view.mapping_bytes = object->end - object->start;
        view.commands = (const uint8_t *)view.mapping + offset;
    }
    return view;
}

static void close_view(const struct view *view)
{
    if (view->mapping)
        NEXT(munmap)(view->mapping, view->mapping_bytes);
}

static void hash_task(struct walk *walk, const struct task *task)
{
    struct view view = open_view(walk->domain, task);
    walk->input = mixed(walk->input, task->address);
    if (view.commands)
        walk->input = hash_of(walk->input, view.commands, view.bytes);
    close_view(&view);
}

static void walk_task(struct walk *walk, const struct task *task)
{
    struct view view = open_view(walk->domain, task);
    note_access(walk, COMMANDS_REGISTER, task->address);
    if (view.commands)
        note(&walk->registers, view.buffer);
    else
        walk->complete = false;
    for (uint64_t at = 0; view.commands && at + sizeof(uint64_t) <= view.bytes; at += sizeof(uint64_t)) {
        uint64_t command;
        memcpy(&command, view.commands + at, sizeof command);
        uint16_t register_number = command & 0xffff;
        uint32_t value = (uint32_t)(command >> 16);
        if ((value || holds_first_address(walk, register_number)) && holds_address(register_number))
            note_access(walk, register_number, (uint32_t)(value + walk->base_address));
    }
    close_view(&view);
}

/* Returns the last event of these tasks; a new entry has hashes that nothing else has. */
static struct seen *seen_of(const struct walk *walk)
{
    for (size_t index = 0; index < seen_count; index++) {
        const struct seen *entry = &seen[index];
        if (entry->domain == walk->domain && entry->task_buffer == walk->task_buffer && entry->start == walk->start &&
            entry->core_mask == walk->core_mask)
            return &seen[index];
    }
    APPEND(seen, seen_count, (struct seen){walk->domain, walk->task_buffer, walk->start, walk->core_mask, 0, 0});
    return &seen[seen_count - 1];
}

static void print_numbers(FILE *text, const char *name, const struct numbers *numbers)
{
    fprintf(text, ",\"%s\":[", name);
    for (size_t index = 0; index < numbers->count; index++)
        fprintf(text, "%s%u", index ? "," : "", numbers->of[index]);
    fputs("]", text);
}

static void print_walk(FILE *text, const struct walk *walk)
{
    fprintf(text, ",\"task_buffer\":%u,\"tasks\":%zu,\"core_mask\":%u", walk->task_buffer, walk->task_count,
            walk->core_mask);
    if (!walk->complete)
        fputs(",\"walked\":false", text);
    print_numbers(text, "registers", &walk->registers);
    if (walk->is_rocket) {
        print_numbers(text, "inputs", &walk->inputs);
        print_numbers(text, "outputs", &walk->outputs);
    }
    fputs(",\"reads\":[", text);
    for (size_t index = 0; index < walk->access_count; index++) {
        const struct access *access = &walk->accesses[index];
        fprintf(text,
                "%s{\"register\":\"0x%04x\",\"buffer\":%u,\"state\":\"%s\",\"count\":%" PRIu64 ",\"lowest\":%" PRIu64
                ",\"highest\":%" PRIu64,
                index ? "," : "", access->register_number, access->buffer, access->state, access->count,
                access->lowest, access->highest);
        /* If no buffer was ever there, the one before may be too small. */
        const struct object *before = access->buffer ? NULL : object_before(walk->domain, access->lowest);
        if (before)
            fprintf(text, ",\"after\":%u,\"past_end\":%" PRIu64, before->buffer, access->lowest - before->end);
        fputs("}", text);
    }
    fputs("]}\n", text);
}

static void write_submit(const struct walk *walk, struct seen *before)
{
    char *line = NULL;
    size_t bytes = 0;
    FILE *text = open_memstream(&line, &bytes);
    if (!text)
        return;
    int begin = fprintf(text, "{\"event\":\"submit\",\"at_ns\":%" PRIu64 ",\"thread\":%ld", now_ns(), thread_id());
    print_walk(text, walk);
    fclose(text);
    uint64_t hash = hash_of(1, (const uint8_t *)line + begin, bytes - (size_t)begin);
    if (hash != before->event)
        append_line(line, bytes);
    before->event = hash;
    free(line);
}

/* Follows the commands of all tasks, unless nothing has changed since the last event of these tasks. */
static void walk_tasks(struct walk *walk)
{
    for (size_t index = 0; index < walk->task_count; index++)
        hash_task(walk, &walk->tasks[index]);
    struct seen *before = seen_of(walk);
    if (before->input != walk->input) {
        before->input = walk->input;
        for (size_t index = 0; index < walk->task_count; index++)
            walk_task(walk, &walk->tasks[index]);
        write_submit(walk, before);
    }
    free(walk->tasks);
    free(walk->registers.of);
    free(walk->inputs.of);
    free(walk->outputs.of);
    free(walk->accesses);
}

void account_submit(const struct npu_submit *submit)
{
    const struct object *task_object = object_named(submit->task_object);
    if (!settings.ledger || !task_object)
        return;
    struct walk walk = {
        .domain = submit->iommu_domain,
        .base_address = submit->base_address,
        .task_buffer = task_object->buffer,
        .core_mask = submit->core_mask,
        .complete = true,
        .input = generation,
    };
    list_tasks(&walk, submit);
    walk_tasks(&walk);
}

/*
 * ---- Jobs of rocket: tasks and handles are in the process's own memory ----------------------------------------------
 */

static const uint8_t *item(uint64_t list, uint32_t index, size_t bytes)
{
    return (const uint8_t *)(uintptr_t)list + index * bytes;
}

/* Notes the buffers of handles; false if one is none. */
static bool note_handles(struct numbers *numbers, int file, uint64_t handles, uint32_t count)
{
    for (uint32_t index = 0; index < count; index++) {
        uint32_t handle;
        memcpy(&handle, item(handles, index, sizeof handle), sizeof handle);
        const struct object *object = object_of_handle(file, handle);
        if (!object)
            return false;
        note(numbers, object->buffer);
    }
    return true;
}

/* Lists the tasks of a job; false if the driver takes one for wrong. */
static bool list_job(struct walk *walk, int file, const struct rocket_job *job)
{
    if (!job->task_count || job->task_bytes < sizeof(struct rocket_task))
        return false;
    for (uint32_t index = 0; index < job->task_count; index++) {
        struct rocket_task task;
        memcpy(&task, item(job->tasks, index, job->task_bytes), sizeof task);
        if (!task.command_count)
            return false;
        APPEND(walk->tasks, walk->task_count, (struct task){task.command_address, task.command_count});
    }
    return note_handles(&walk->inputs, file, job->input_handles, job->input_count) &&
           note_handles(&walk->outputs, file, job->output_handles, job->output_count);
}

static struct rocket_job job_in_list(const struct rocket_submit *submit, uint32_t index)
{
    struct rocket_job job;
    memcpy(&job, item(submit->jobs, index, submit->job_bytes), sizeof job);
    return job;
}

/* Returns the buffer of a job's first commands, 0 if there is none. */
static unsigned command_buffer(int file, const struct rocket_job *job)
{
    struct rocket_task task;
    if (!job->task_count || job->task_bytes < sizeof task)
        return 0;
    memcpy(&task, item(job->tasks, 0, job->task_bytes), sizeof task);
    const struct object *object = object_holding(file, task.command_address);
    return object ? object->buffer : 0;
}

/* Teflon reports no job that is not run, and goes on: one event for each buffer of commands tells of it. */
static void write_failed(unsigned buffer, uint32_t jobs, int error)
{
    static bool has_failed_without_buffer;
    bool *has_failed = buffer ? &buffers[buffer - 1].has_failed : &has_failed_without_buffer;
    if (!*has_failed)
        write_event("failed", ",\"buffer\":%u,\"jobs\":%" PRIu32 ",\"error\":%d", buffer, jobs, error);
    *has_failed = true;
}

/* The driver does not run a job with an error, tells nobody, and runs the others. */
static void list_jobs(struct walk *walk, int file, const struct rocket_submit *submit)
{
    for (uint32_t index = 0; index < submit->job_count; index++) {
        struct rocket_job job = job_in_list(submit, index);
        struct walk before = *walk;
        if (list_job(walk, file, &job))
            continue;
        walk->task_count = before.task_count;
        walk->inputs.count = before.inputs.count;
        walk->outputs.count = before.outputs.count;
        write_failed(command_buffer(file, &job), 1, 0);
    }
}

static bool has_jobs(const struct rocket_submit *submit)
{
    return submit->job_count && submit->job_bytes >= sizeof(struct rocket_job);
}

void account_failed_submit(int file, const struct rocket_submit *submit, int error)
{
    if (!settings.ledger || !has_jobs(submit))
        return;
    struct rocket_job first = job_in_list(submit, 0);
    write_failed(command_buffer(file, &first), submit->job_count, error);
}

void account_rocket_submit(int file, const struct rocket_submit *submit)
{
    struct walk walk = {.is_rocket = true, .domain = file, .complete = true, .input = generation};
    if (!settings.ledger || !has_jobs(submit) || submit->reserved)
        return;
    list_jobs(&walk, file, submit);
    walk.start = walk.task_count ? (uint32_t)walk.tasks[0].address : 0;
    for (size_t index = 0; index < walk.inputs.count; index++)
        walk.input = mixed(walk.input, walk.inputs.of[index]);
    for (size_t index = 0; index < walk.outputs.count; index++)
        walk.input = mixed(walk.input, ~(uint64_t)walk.outputs.of[index]);
    walk_tasks(&walk);
}
