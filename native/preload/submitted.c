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

struct walk {
    struct {
        uint32_t start, count;
    } range[LENGTH(((struct npu_submit *)0)->core)];
    size_t range_count;
    int domain;
    uint64_t base_address;
    const struct object *task_object;
    bool complete; /* whether everything could be read */
    uint64_t input; /* hash of all commands and of the meaning of addresses */
    uint64_t task_count;
    unsigned *registers; /* buffers that hold commands */
    size_t register_count;
    struct access *accesses;
    size_t access_count;
};

/* The last event of the tasks that start there; an equal one is not written again. */
static struct seen {
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

static void add_range(struct walk *walk, uint32_t start, uint32_t count)
{
    for (size_t index = 0; index < walk->range_count; index++)
        if (walk->range[index].start == start && walk->range[index].count == count)
            return;
    if (count && start != NO_START) {
        walk->range[walk->range_count].start = start;
        walk->range[walk->range_count++].count = count;
    }
}

/*
 * Chooses the tasks that run. A chip with several cores has tasks per core: one or two cores take the entries of their
 * own numbers, three cores the last three; if no core is requested, it may be any one (rknpu_job.c). A chip with one
 * core takes task_start and task_count, and its runtime leaves the entries per core empty.
 */
static void choose_ranges(struct walk *walk, const struct npu_submit *submit)
{
    unsigned mask = submit->core_mask & 7, shift = mask == 7 ? 2 : 0;
    for (unsigned core = 0; core < 3; core++)
        if (!mask || mask & 1u << core)
            add_range(walk, submit->core[core + shift].start, submit->core[core + shift].count);
    if (!walk->range_count)
        add_range(walk, submit->task_start, submit->task_count);
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

static void note_register_buffer(struct walk *walk, unsigned buffer)
{
    for (size_t index = 0; index < walk->register_count; index++)
        if (walk->registers[index] == buffer)
            return;
    APPEND(walk->registers, walk->register_count, buffer);
}

/* Returns a task's commands in memory and their size; NULL if they cannot be read. */
static const uint8_t *commands_of(int domain, const struct npu_task *task, uint64_t *bytes,
                                  const struct object **object)
{
    *object = object_holding(domain, task->command_address);
    if (!*object || !(*object)->alive || !(*object)->buffer)
        return NULL;
    uint64_t offset = task->command_address - (*object)->start;
    uint64_t rest = buffers[(*object)->buffer - 1].bytes - offset;
    *bytes = ((uint64_t)task->command_count + COMMANDS_BEYOND_COUNT) * sizeof(uint64_t);
    *bytes = *bytes < rest ? *bytes : rest;
    return contents((*object)->buffer, offset, *bytes);
}

static void hash_task(struct walk *walk, const struct npu_task *task)
{
    const struct object *object;
    uint64_t bytes;
    const uint8_t *commands = commands_of(walk->domain, task, &bytes, &object);
    walk->input = mixed(walk->input, task->command_address);
    if (commands)
        walk->input = hash_of(walk->input, commands, bytes);
}

static void walk_task(struct walk *walk, const struct npu_task *task)
{
    const struct object *object;
    uint64_t bytes;
    const uint8_t *commands = commands_of(walk->domain, task, &bytes, &object);
    note_access(walk, COMMANDS_REGISTER, task->command_address);
    if (!commands) {
        walk->complete = false;
        return;
    }
    note_register_buffer(walk, object->buffer);
    for (uint64_t at = 0; at + sizeof(uint64_t) <= bytes; at += sizeof(uint64_t)) {
        uint64_t command;
        memcpy(&command, commands + at, sizeof command);
        uint16_t register_number = command & 0xffff;
        uint32_t value = (uint32_t)(command >> 16);
        if (value && holds_address(register_number))
            note_access(walk, register_number, (uint32_t)(value + walk->base_address));
    }
}

/* Calls `visit` for every task that runs; the walk is incomplete if the list cannot be read. */
static void for_each_task(struct walk *walk, void (*visit)(struct walk *, const struct npu_task *))
{
    for (size_t index = 0; index < walk->range_count; index++) {
        uint64_t offset = (uint64_t)walk->range[index].start * sizeof(struct npu_task);
        uint64_t bytes = (uint64_t)walk->range[index].count * sizeof(struct npu_task);
        const uint8_t *list = contents(walk->task_object->buffer, offset, bytes);
        walk->complete = walk->complete && list;
        for (uint64_t at = 0; list && at < bytes; at += sizeof(struct npu_task)) {
            struct npu_task task;
            memcpy(&task, list + at, sizeof task);
            visit(walk, &task);
        }
    }
}

/* Returns the last event of these tasks; a new entry has hashes that nothing else has. */
static struct seen *seen_of(const struct walk *walk, uint32_t core_mask)
{
    unsigned task_buffer = walk->task_object->buffer;
    uint32_t start = walk->range_count ? walk->range[0].start : 0;
    for (size_t index = 0; index < seen_count; index++)
        if (seen[index].task_buffer == task_buffer && seen[index].start == start && seen[index].core_mask == core_mask)
            return &seen[index];
    APPEND(seen, seen_count, (struct seen){task_buffer, start, core_mask, 0, 0});
    return &seen[seen_count - 1];
}

static void print_walk(FILE *text, const struct walk *walk, uint32_t core_mask)
{
    fprintf(text, ",\"task_buffer\":%u,\"tasks\":%" PRIu64 ",\"core_mask\":%u", walk->task_object->buffer,
            walk->task_count, core_mask);
    if (!walk->complete)
        fputs(",\"walked\":false", text);
    fputs(",\"registers\":[", text);
    for (size_t index = 0; index < walk->register_count; index++)
        fprintf(text, "%s%u", index ? "," : "", walk->registers[index]);
    fputs("],\"reads\":[", text);
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

static void write_submit(struct walk *walk, struct seen *before, uint32_t core_mask)
{
    char *line = NULL;
    size_t bytes = 0;
    FILE *text = open_memstream(&line, &bytes);
    if (!text)
        return;
    int begin = fprintf(text, "{\"event\":\"submit\",\"at_ns\":%" PRIu64 ",\"thread\":%ld", now_ns(), thread_id());
    print_walk(text, walk, core_mask);
    fclose(text);
    uint64_t hash = hash_of(1, (const uint8_t *)line + begin, bytes - (size_t)begin);
    if (hash != before->event)
        append_line(line, bytes);
    before->event = hash;
    free(line);
}

void account_submit(const struct npu_submit *submit)
{
    struct walk walk = {.task_object = object_named(submit->task_object), .complete = true, .input = generation};
    if (!settings.ledger || !walk.task_object)
        return;
    walk.domain = submit->iommu_domain;
    walk.base_address = submit->base_address;
    choose_ranges(&walk, submit);
    for_each_task(&walk, hash_task);
    struct seen *before = seen_of(&walk, submit->core_mask);
    if (before->input == walk.input)
        return;
    before->input = walk.input;
    for_each_task(&walk, walk_task);
    for (size_t index = 0; index < walk.range_count; index++)
        walk.task_count += walk.range[index].count;
    write_submit(&walk, before, submit->core_mask);
    free(walk.registers);
    free(walk.accesses);
}
