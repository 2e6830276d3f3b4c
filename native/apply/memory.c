/*
 * The internal memories: each belongs to a core mask, and one context at a time runs in it.
 *
 * A memory is made by one of its contexts, its owner, and goes before that one does (rknn_destroy_mem crashes after
 * rknn_destroy): then another context makes it anew. Contexts without a mask begin with one memory for all. Only if two
 * want to run at once is a further one made, up to the number of cores: a program that runs in turn needs no more.
 */
#include "apply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct memory {
    struct memory *next;
    int core_mask;
    struct context *owner;
    rknn_tensor_mem *whole;
    uint32_t bytes;
    unsigned users;
    struct context *runner; /* NULL: nothing runs in it */
};

static struct memory *memories;
static pthread_cond_t turn_ended = PTHREAD_COND_INITIALIZER;

unsigned memory_count(void)
{
    unsigned count = 0;
    for (struct memory *memory = memories; memory; memory = memory->next)
        count++;
    return count;
}

uint64_t memory_bytes(void)
{
    uint64_t bytes = 0;
    for (struct memory *memory = memories; memory; memory = memory->next)
        bytes += memory->bytes;
    return bytes;
}

/* The chips whose NPU has several cores, by the device tree or by the name of a virtual board. */
static unsigned core_count(void)
{
    static const struct {
        const char *name;
        unsigned cores;
    } chips[] = {{"rk3588", 3}, {"rk3576", 2}};
    char text[256] = "";
    const char *board = getenv("REUSEBENCH_BOARD");
    FILE *file = board ? NULL : fopen("/proc/device-tree/compatible", "re");
    if (board)
        snprintf(text, sizeof text, "%s", board);
    size_t count = file ? fread(text, 1, sizeof text - 1, file) : strlen(text);
    if (file)
        fclose(file);
    for (size_t index = 0; index < LENGTH(chips); index++)
        if (memmem(text, count, chips[index].name, strlen(chips[index].name)))
            return chips[index].cores;
    return 1;
}

static unsigned most_at_once(int core_mask)
{
    static unsigned most;
    if (core_mask)
        return 1;
    if (!most) {
        const char *setting = getenv("REUSEBENCH_APPLY_AT_ONCE");
        long number = setting ? strtol(setting, NULL, 10) : 0;
        most = number > 0 ? (unsigned)number : core_count();
    }
    return most;
}

static void drop_view(struct context *context)
{
    if (context->view && context->view != context->memory->whole)
        REAL(rknn_destroy_mem)(context->handle, context->view);
    context->view = NULL;
}

/* Lets the context use the whole of the memory. */
static bool view(struct context *context, struct memory *memory)
{
    rknn_tensor_mem *whole = memory->whole, *named = whole;
    if (memory->owner != context)
        named = REAL(rknn_create_mem_from_fd)(context->handle, whole->fd, whole->virt_addr, context->internal_bytes, 0);
    if (!named)
        return false;
    int code = REAL(rknn_set_internal_mem)(context->handle, named);
    if (code != SUCCEEDED) {
        note_failure("rknn_set_internal_mem", code);
        if (named != whole)
            REAL(rknn_destroy_mem)(context->handle, named);
        return false;
    }
    context->view = named;
    return true;
}

static bool use(struct context *context, struct memory *memory)
{
    if (!view(context, memory))
        return false;
    context->memory = memory;
    memory->users++;
    return true;
}

static struct memory *make_memory(struct context *owner)
{
    struct memory *memory = calloc(1, sizeof *memory);
    rknn_tensor_mem *whole = memory ? REAL(rknn_create_mem)(owner->handle, owner->internal_bytes) : NULL;
    if (!whole) {
        free(memory);
        note_failure("rknn_create_mem", 0);
        return NULL;
    }
    *memory = (struct memory){memories, owner->core_mask, owner, whole, owner->internal_bytes, 0, NULL};
    memories = memory;
    return memory;
}

static void forget_memory(struct memory *memory)
{
    struct memory **place = &memories;
    while (*place != memory)
        place = &(*place)->next;
    *place = memory->next;
    free(memory);
}

/* Puts all users of the memory into one that the new owner makes, of at least its size. Nothing runs in it. */
static bool rebuild(struct memory *memory, struct context *owner, uint32_t bytes)
{
    rknn_tensor_mem *whole = REAL(rknn_create_mem)(owner->handle, bytes);
    if (!whole) {
        note_failure("rknn_create_mem", 0);
        return false;
    }
    struct memory former = *memory;
    for (struct context *context = contexts; context; context = context->next)
        if (context->memory == memory)
            drop_view(context);
    memory->owner = owner;
    memory->whole = whole;
    memory->bytes = bytes;
    bool is_well = true;
    for (struct context *context = contexts; context; context = context->next)
        if (context->memory == memory)
            is_well = view(context, memory) && is_well;
    REAL(rknn_destroy_mem)(former.owner->handle, former.whole);
    return is_well;
}

static void finish_run(struct context *context)
{
    struct run_extend extend = {0};
    context->state = ENDING;
    pthread_mutex_unlock(&lock);
    int code = REAL(rknn_wait)(context->handle, &extend);
    pthread_mutex_lock(&lock);
    context->ended_code = code;
    context->has_ended = true;
    end_turn(context);
}

/* Waits for a change of the run; everything may be another afterwards. */
static void wait_for_run(struct context *runner)
{
    if (runner->state == STARTED)
        finish_run(runner);
    else
        pthread_cond_wait(&turn_ended, &lock);
}

static struct memory *memory_of(int core_mask)
{
    struct memory *memory = memories;
    while (memory && memory->core_mask != core_mask)
        memory = memory->next;
    return memory;
}

bool attach(struct context *context)
{
    struct memory *memory;
    while ((memory = memory_of(context->core_mask)) && memory->runner)
        wait_for_run(memory->runner);
    if (!memory) {
        memory = make_memory(context);
        if (!memory)
            return false;
        if (use(context, memory))
            return true;
        REAL(rknn_destroy_mem)(context->handle, memory->whole);
        forget_memory(memory);
        return false;
    }
    if (memory->bytes >= context->internal_bytes)
        return use(context, memory);
    /* The larger memory belongs to the context that needs it. */
    memory->users++;
    context->memory = memory;
    return rebuild(memory, context, context->internal_bytes);
}

static struct context *other_user(const struct memory *memory, const struct context *context)
{
    struct context *other = contexts, *largest = NULL;
    for (; other; other = other->next)
        if (other != context && other->memory == memory && (!largest || other->internal_bytes > largest->internal_bytes))
            largest = other;
    return largest;
}

void detach(struct context *context)
{
    struct memory *memory = context->memory;
    if (!memory)
        return;
    while (memory->runner)
        wait_for_run(memory->runner);
    memory->users--;
    if (memory->owner != context) {
        drop_view(context);
        context->memory = NULL;
        return;
    }
    context->memory = NULL;
    context->view = NULL;
    if (memory->users) {
        struct context *heir = other_user(memory, context);
        rebuild(memory, heir, heir->internal_bytes);
        return;
    }
    REAL(rknn_destroy_mem)(context->handle, memory->whole);
    forget_memory(memory);
}

/* Returns another memory in which the context can run at once: an idle one, or a new one. */
static struct memory *free_memory(const struct context *context)
{
    unsigned count = 0;
    for (struct memory *memory = memories; memory; memory = memory->next) {
        if (memory->core_mask != context->core_mask)
            continue;
        count++;
        if (!memory->runner && memory->bytes >= context->internal_bytes)
            return memory;
    }
    return count < most_at_once(context->core_mask) ? make_memory((struct context *)context) : NULL;
}

/* Takes the context out of a memory in which another one runs. Its owner stays: the memory would go with it. */
static bool move(struct context *context)
{
    struct memory *former = context->memory;
    if (former->owner == context)
        return false;
    struct memory *memory = free_memory(context);
    if (!memory)
        return false;
    rknn_tensor_mem *former_view = context->view;
    if (!view(context, memory))
        return false;
    REAL(rknn_destroy_mem)(context->handle, former_view);
    former->users--;
    context->memory = memory;
    memory->users++;
    return true;
}

void take_turn(struct context *context)
{
    while (context->memory->runner) {
        struct context *runner = context->memory->runner;
        if (runner->state == STARTED || !move(context))
            wait_for_run(runner);
    }
    context->memory->runner = context;
    context->state = RUNS;
    context->has_ended = false;
}

void end_turn(struct context *context)
{
    context->state = IDLE;
    context->memory->runner = NULL;
    pthread_cond_broadcast(&turn_ended);
}

void wait_until_idle(struct context *context)
{
    while (context->state != IDLE)
        wait_for_run(context);
}

void wait_until_ended(struct context *context)
{
    while (context->state == ENDING)
        pthread_cond_wait(&turn_ended, &lock);
}
