/*
 * librknnmrt, the runtime of RV1103 and RV1106: it has no rknn_dup_context, and its NPU has one core.
 *
 * Loaded with RKNN_FLAG_MEM_ALLOC_OUTSIDE, a context takes its weights and its internal memory from the program. Both
 * are regions here, which belong to no context: the memory is made by one, kept by a file descriptor of this library,
 * and used by each under a name of its own (a view). So contexts may end in any order, and a region ends with its last
 * user.
 *
 * The library writes the weights of each context anew. Only those of the first go into the region; all others are
 * written beside it, compared, and replaced by the region if they are equal. So nothing is ever written that another
 * context may be reading.
 *
 * A context's internal memory can be replaced until its first rknn_set_io_mem. So a context with a larger one, loaded
 * later, takes the others along only until then; afterwards they keep what they have.
 *
 * A context as the program loads it runs with tensors for which no memory was set; they are in its internal memory
 * then. One that takes its memory from the program does not: before its first run it gets memory for them.
 */
#include "plan.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* NPU memory: weights of a model or, if the model has no bytes, internal memory. */
struct region {
    struct region *next;
    struct model model;
    void *address;
    uint64_t physical;
    uint32_t bytes;
    int fd;
    unsigned users;
    struct context *runner;          /* NULL: nothing runs in it */
    const struct plan_context *line; /* of the context that it was made for */
};

struct view {
    struct region *region;
    rknn_tensor_mem *memory;
    void *address; /* a mapping of its own, or the region's */
};

/* Tensors are counted from the inputs on. */
#define MOST_TENSORS 64

struct mini {
    struct view weights, internal;
    /* A bit for each tensor whose memory is set, and memory of this library for those that the program leaves out. */
    uint64_t set_tensors;
    rknn_tensor_mem *own_tensors[MOST_TENSORS];
    bool is_bound;   /* to this internal memory for ever */
    bool is_outside; /* of a larger one that came later */
    bool has_run;
};

/* 0 is no memory for the driver. */
#define LOWEST_FD 3

static struct region *regions;

bool is_mini(void)
{
    return function_of_library("rknn_set_weight_mem") && !function_of_library("rknn_set_core_mask");
}

/* ---- Regions ---- */

static void *mapped(int fd, uint32_t bytes)
{
    void *address = fd < 0 ? MAP_FAILED : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return address == MAP_FAILED ? NULL : address;
}

/* Returns a region with the memory, which the caller is a user of, and leaves. */
static struct region *keep(const rknn_tensor_mem *memory, const struct model *model, uint32_t bytes,
                           const struct plan_context *line)
{
    int fd = fcntl(memory->fd, F_DUPFD_CLOEXEC, LOWEST_FD);
    void *address = mapped(fd, bytes);
    struct region *region = address ? calloc(1, sizeof *region) : NULL;
    if (region) {
        *region = (struct region){regions, *model, address, memory->phys_addr, bytes, fd, .users = 1, .line = line};
        return regions = region;
    }
    if (address)
        munmap(address, bytes);
    if (fd >= 0)
        close(fd);
    return NULL;
}

static void leave(struct region *region)
{
    if (--region->users)
        return;
    struct region **place = &regions;
    while (*place != region)
        place = &(*place)->next;
    *place = region->next;
    munmap(region->address, region->bytes);
    close(region->fd);
    free(region);
}

/* ---- Views ---- */

/* Keeps the compiler from leaving out, or putting another call for, what is done with the block. */
#define USED(block) __asm__ volatile("" : "+r"(block) : : "memory")

/*
 * librknnmrt 2.3.2 does not clear the struct that it makes. If that comes from freed memory which names a buffer at the
 * same address, the library takes the new name for that one (seen on uClibc). So freed memory of its size is cleared.
 */
static void clear_freed_structs(void)
{
    void *blocks[64];
    size_t count = 0;
    for (size_t bytes = sizeof(rknn_tensor_mem); count < LENGTH(blocks); bytes += sizeof(uint64_t))
        for (size_t end = count + LENGTH(blocks) / 4; count < end; count++) {
            void *block = malloc(bytes);
            USED(block);
            if (block)
                memset(block, 0, bytes);
            USED(block);
            blocks[count] = block;
        }
    while (count)
        free(blocks[--count]);
}

static bool open_view(struct view *view, rknn_context handle, struct region *region, void *address, uint32_t bytes)
{
    clear_freed_structs();
    rknn_tensor_mem *memory = REAL(rknn_create_mem_from_fd)(handle, region->fd, address, bytes, 0);
    /* There is no IOMMU. A name of other memory must not be destroyed. */
    if (!memory || memory->phys_addr != region->physical) {
        note_failure("rknn_create_mem_from_fd");
        return false;
    }
    *view = (struct view){region, memory, address};
    region->users++;
    return true;
}

/*
 * Makes memory by the context and gives it a first view, which the memory is kept by from then on: the context's own
 * name of it ends here.
 */
static bool open_new(struct view *view, struct context *context, const struct model *model, uint32_t bytes)
{
    rknn_tensor_mem *memory = REAL(rknn_create_mem)(context->handle, bytes);
    struct region *region = memory ? keep(memory, model, bytes, context->line) : NULL;
    bool is_open = region && open_view(view, context->handle, region, region->address, bytes);
    if (memory)
        REAL(rknn_destroy_mem)(context->handle, memory);
    else
        note_failure("rknn_create_mem");
    if (region)
        leave(region);
    return is_open;
}

static void close_view(struct view *view, rknn_context handle)
{
    struct region *region = view->region;
    if (!region)
        return;
    REAL(rknn_destroy_mem)(handle, view->memory);
    if (view->address != region->address)
        munmap(view->address, region->bytes);
    leave(region);
    *view = (struct view){0};
}

/* ---- Weights ---- */

static bool has_weights_of(const struct region *region, const struct context *context)
{
    return region->model.bytes && is_equal_model(&region->model, &context->model) &&
           may_share_weights(region->line, context->line);
}

static struct region *weights_of(const struct context *context)
{
    struct region *region = regions;
    while (region && !has_weights_of(region, context))
        region = region->next;
    return region;
}

/* Lets the library write the weights into the view; others may run meanwhile. */
static bool set_weights(const struct context *context)
{
    let_go(&lock, PTHREAD_CANCEL_DISABLE);
    int code = REAL(rknn_set_weight_mem)(context->handle, context->mini->weights.memory);
    hold(&lock);
    if (code != SUCCEEDED)
        note_failure("rknn_set_weight_mem");
    return code == SUCCEEDED;
}

static bool write_weights(struct context *context, uint32_t bytes)
{
    return open_new(&context->mini->weights, context, &context->model, bytes) && set_weights(context);
}

/* Lets the context read the weights of the region, if the library gives it equal ones. */
static bool share_weights(struct context *context, struct region *region)
{
    void *beside = mmap(NULL, region->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (beside == MAP_FAILED)
        return false;
    if (!open_view(&context->mini->weights, context->handle, region, beside, region->bytes)) {
        munmap(beside, region->bytes);
        return false;
    }
    if (!set_weights(context))
        return false;
    if (memcmp(beside, region->address, region->bytes)) {
        note_failure("rknn_set_weight_mem");
        return false;
    }
    return mmap(beside, region->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, region->fd, 0) == beside;
}

static bool give_weights(struct context *context, uint32_t bytes)
{
    struct region *region = weights_of(context);
    return region && region->bytes == bytes ? share_weights(context, region) : write_weights(context, bytes);
}

/* ---- Internal memory ---- */

static bool set_internal(struct context *context, struct view *view)
{
    struct mini *mini = context->mini;
    int code = REAL(rknn_set_internal_mem)(context->handle, view->memory);
    if (code == SUCCEEDED) {
        struct view former = mini->internal;
        mini->internal = *view;
        *view = former;
    } else
        note_failure("rknn_set_internal_mem");
    close_view(view, context->handle);
    return code == SUCCEEDED;
}

static bool share_internal(struct context *context, struct region *region)
{
    struct view view;
    return open_view(&view, context->handle, region, region->address, context->internal_bytes) &&
           set_internal(context, &view);
}

static struct region *internal_memory_for(const struct context *context)
{
    struct region *region = regions;
    while (region && (region->model.bytes || region->bytes < context->internal_bytes ||
                      !may_share_internal(region->line, context->line)))
        region = region->next;
    return region;
}

/* Contexts that the program calls at this moment stay where they are. */
static bool may_move(const struct context *context)
{
    return context->mini && !context->mini->is_bound && !context->calls;
}

/* The report tells it, since a program that loads its largest model first takes less. */
static void leave_outside(struct context *context)
{
    if (!context->mini || context->mini->is_outside)
        return;
    context->mini->is_outside = true;
    note_left_alone("bound_tensors");
}

static void move_others(const struct context *newest)
{
    struct region *region = newest->mini->internal.region;
    for (struct context *context = contexts; context; context = context->next) {
        if (!may_share_internal(context->line, newest->line))
            continue;
        bool has_it = context == newest || (may_move(context) && share_internal(context, region));
        if (!has_it)
            leave_outside(context);
    }
}

static bool give_internal(struct context *context)
{
    static const struct model none;
    struct region *region = internal_memory_for(context);
    if (region)
        return share_internal(context, region);
    struct view view;
    if (!open_new(&view, context, &none, context->internal_bytes) || !set_internal(context, &view))
        return false;
    move_others(context);
    return true;
}

/* ---- Contexts ---- */

void detach_mini(struct context *context)
{
    for (size_t number = 0; number < MOST_TENSORS; number++)
        if (context->mini->own_tensors[number])
            REAL(rknn_destroy_mem)(context->handle, context->mini->own_tensors[number]);
    close_view(&context->mini->internal, context->handle);
    close_view(&context->mini->weights, context->handle);
    free(context->mini);
    context->mini = NULL;
}

/* `alone_bytes`: of a context that shares nothing, with internal memory. */
static struct context *adopt(rknn_context handle, const struct model *model, const rknn_mem_size *sizes,
                             uint64_t alone_bytes, struct plan_context *line)
{
    struct mini *mini = calloc(1, sizeof *mini);
    struct context *context = mini ? add_context(handle, model) : NULL;
    if (!context) {
        free(mini);
        return NULL;
    }
    context->mini = mini;
    context->line = line;
    context->is_managed = true;
    context->internal_bytes = sizes->total_internal_size;
    context->alone_bytes = alone_bytes - whole_pages(sizes->total_internal_size);
    context->made_bytes = sizes->total_dma_allocated_size;
    context->hidden_bytes = alone_bytes - sizes->total_dma_allocated_size;
    return context;
}

/* Tells the report of the contexts that share with the newest. */
static void note_sharing(struct context *newest)
{
    struct region *weights = newest->mini->weights.region, *internal = newest->mini->internal.region;
    for (struct context *context = contexts; context; context = context->next) {
        if (context->mini && weights->users > 1 && context->mini->weights.region == weights)
            note_shared_weights(context);
        if (context->mini && internal->users > 1 && context->mini->internal.region == internal)
            note_shared_internal(context);
    }
    note_bytes();
}

static bool furnish(rknn_context handle, const struct model *model, uint64_t alone_bytes, struct plan_context *line)
{
    rknn_mem_size sizes = {0};
    int code = REAL(rknn_query)(handle, QUERY_MEM_SIZE, &sizes, sizeof sizes);
    struct context *context = code == SUCCEEDED ? adopt(handle, model, &sizes, alone_bytes, line) : NULL;
    if (!context)
        return false;
    if (give_weights(context, sizes.total_weight_size) && give_internal(context)) {
        note_model(model);
        note_sharing(context);
        return true;
    }
    detach_mini(context);
    remove_context(context);
    return false;
}

/* ---- Loading ---- */

/* A model as the program gives it to rknn_init, where a path has no size. */
struct argument {
    void *bytes_or_path;
    uint32_t size;
};

/* The library has what is needed since this release; earlier ones were never tried. */
static bool is_too_old(rknn_context handle)
{
    rknn_sdk_version version = {{0}, {0}};
    unsigned major = 0, minor = 0;
    REAL(rknn_query)(handle, QUERY_SDK_VERSION, &version, sizeof version);
    sscanf(version.api_version, "%u.%u", &major, &minor);
    return major < 1 || (major == 1 && minor < 6);
}

static const char *objection(rknn_context alone, rknn_mem_size *sizes)
{
    if (is_too_old(alone) || REAL(rknn_query)(alone, QUERY_MEM_SIZE, sizes, sizeof *sizes) != SUCCEEDED)
        return "library_too_old";
    if (!sizes->total_weight_size)
        return "no_weights";
    return sizes->total_internal_size ? NULL : "no_internal_memory";
}

/* Loads the model as the program would, to know its memory; only such a context has one buffer for all. */
static const char *ask_alone(struct argument model, uint32_t flags, uint64_t *bytes)
{
    rknn_context alone = 0;
    rknn_mem_size sizes = {0};
    if (REAL(rknn_init)(&alone, model.bytes_or_path, model.size, flags, NULL) != SUCCEEDED)
        return "call_failed";
    const char *reason = objection(alone, &sizes);
    if (!reason)
        note_version(alone);
    REAL(rknn_destroy)(alone);
    *bytes = sizes.total_dma_allocated_size;
    return reason;
}

/* What an earlier context of the model would have alone; 0 if there is none. */
static uint64_t known_bytes(const struct model *model)
{
    int state = hold(&lock);
    const struct context *context = find_equal(model, NULL);
    uint64_t bytes = context ? context->alone_bytes + whole_pages(context->internal_bytes) : 0;
    let_go(&lock, state);
    return bytes;
}

const char *load_mini(rknn_context *handle, struct content *content, const struct model *model,
                      struct plan_context *line)
{
    struct argument argument = {(void *)content->bytes, content->size};
    if (content->path) {
        forget_content(content); /* the library reads the file itself */
        argument = (struct argument){(void *)content->path, 0};
    }
    uint64_t bytes = known_bytes(model);
    const char *reason = bytes ? NULL : ask_alone(argument, model->flags, &bytes);
    if (reason)
        return reason;
    rknn_context made = 0;
    uint32_t flags = model->flags | FLAG_MEM_ALLOC_OUTSIDE;
    if (REAL(rknn_init)(&made, argument.bytes_or_path, argument.size, flags, NULL) != SUCCEEDED)
        return "call_failed";
    int state = hold(&lock);
    bool is_furnished = furnish(made, model, bytes, line);
    let_go(&lock, state);
    if (!is_furnished) {
        REAL(rknn_destroy)(made);
        return "call_failed";
    }
    *handle = made;
    return NULL;
}

void bind_mini(struct context *context)
{
    context->mini->is_bound = true;
}

/* ---- Tensors ---- */

/* Returns false if the context has no more tensors. */
static bool query_tensor(rknn_context handle, uint32_t number, rknn_tensor_attr *tensor, bool *is_input)
{
    rknn_input_output_num count = {0};
    if (REAL(rknn_query)(handle, QUERY_IN_OUT_NUM, &count, sizeof count) != SUCCEEDED)
        return false;
    if (number >= MOST_TENSORS || number >= count.n_input + count.n_output)
        return false;
    *is_input = number < count.n_input;
    int command = *is_input ? QUERY_NATIVE_INPUT_ATTR : QUERY_NATIVE_OUTPUT_ATTR;
    *tensor = (rknn_tensor_attr){.index = *is_input ? number : number - count.n_input};
    return REAL(rknn_query)(handle, command, tensor, sizeof *tensor) == SUCCEEDED;
}

/* If it is not known which tensor it is, it may be any. */
void note_tensor_mini(struct context *context, const rknn_tensor_attr *attribute)
{
    rknn_tensor_attr tensor;
    bool is_input;
    uint64_t found = 0;
    for (uint32_t number = 0; query_tensor(context->handle, number, &tensor, &is_input); number++)
        if (strncmp(tensor.name, attribute->name, NAME_BYTES) == 0)
            found |= UINT64_C(1) << number;
    context->mini->set_tensors |= found ? found : UINT64_MAX;
}

static bool give_tensor(struct context *context, uint32_t number, rknn_tensor_attr *tensor)
{
    rknn_tensor_mem **memory = &context->mini->own_tensors[number];
    if (!*memory)
        *memory = REAL(rknn_create_mem)(context->handle, tensor->size_with_stride);
    bool is_given = *memory && REAL(rknn_set_io_mem)(context->handle, *memory, tensor) == SUCCEEDED;
    if (!is_given)
        note_failure("rknn_set_io_mem");
    return is_given;
}

/* The library crashes in a run if one of these is missing. */
static bool give_other_tensors(struct context *context)
{
    rknn_tensor_attr tensor;
    bool is_input;
    for (uint32_t number = 0; query_tensor(context->handle, number, &tensor, &is_input); number++) {
        uint64_t bit = UINT64_C(1) << number;
        bool is_set = context->mini->set_tensors & bit;
        tensor.pass_through = is_input;
        if (!is_set && !give_tensor(context, number, &tensor))
            return false;
        context->mini->set_tensors |= bit;
    }
    return true;
}

/* ---- Turns ---- */

bool take_turn_mini(struct context *context)
{
    struct region *region = context->mini->internal.region;
    bind_mini(context);
    if (!context->mini->has_run && !give_other_tensors(context))
        return false;
    context->mini->has_run = true;
    while (region->runner) {
        if (pthread_equal(region->runner->runner, pthread_self()))
            return false;
        wait_for_change();
    }
    region->runner = context;
    context->is_running = true;
    context->runner = pthread_self();
    note_run(1);
    return true;
}

void end_turn_mini(struct context *context)
{
    context->mini->internal.region->runner = NULL;
    context->is_running = false;
    note_run(-1);
    tell_change();
}

uint64_t region_bytes(bool is_weights)
{
    uint64_t bytes = 0;
    for (const struct region *region = regions; region; region = region->next)
        if (is_weights == (region->model.bytes > 0))
            bytes += whole_pages(region->bytes);
    return bytes;
}

/* A new process begins with this thread alone. */
void forget_turns_mini(void)
{
    for (struct region *region = regions; region; region = region->next)
        region->runner = NULL;
}
