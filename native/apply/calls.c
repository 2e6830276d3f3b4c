/* The program's calls of Rockchip's library. */
#include "apply.h"

#include <stdlib.h>
#include <string.h>

/* Flags that change neither what memory is made nor when a run has ended: priority and cache handling. */
#define KNOWN_FLAGS (0x1u | 0x2u | 0x2000u | 0x4000u | 0x8000u)
#define PAGE_BYTES UINT64_C(4096)

#define HOOK(type, name, parameters)                                                                                   \
    __attribute__((visibility("default"))) type hook_##name parameters __asm__(#name);                                 \
    type hook_##name parameters

static bool is_off(void)
{
    return getenv("REUSEBENCH_APPLY_OFF");
}

static bool is_empty(const rknn_init_extend *extend)
{
    static const rknn_init_extend empty;
    return !extend || memcmp(extend, &empty, sizeof empty) == 0;
}

/* Returns the reason to leave the context alone; NULL if its memory can be shared. */
static const char *objection(uint32_t flags, const rknn_init_extend *extend)
{
    if (is_off())
        return "off";
    if (flags & ~KNOWN_FLAGS)
        return "flags";
    if (!is_empty(extend))
        return "extension";
    return NULL;
}

/* The shapes of a model with several may be set later, for each context by itself. */
static bool is_dynamic(rknn_context handle)
{
    static rknn_input_range range;
    range.index = 0;
    return REAL(rknn_query)(handle, QUERY_INPUT_DYNAMIC_RANGE, &range, sizeof range) == SUCCEEDED &&
           range.shape_number > 0;
}

static bool keep(rknn_context handle, const struct model *model, const rknn_mem_size *told, bool is_dup)
{
    pthread_mutex_lock(&lock);
    struct context *context = add_context(handle, model, told);
    bool is_kept = context && attach(context);
    if (is_kept)
        note_context(context, is_dup);
    else if (context)
        remove_context(context);
    pthread_mutex_unlock(&lock);
    if (!is_kept)
        REAL(rknn_destroy)(handle);
    return is_kept;
}

static void leave_alone(const char *reason)
{
    pthread_mutex_lock(&lock);
    note_left_alone(reason);
    pthread_mutex_unlock(&lock);
}

static bool duplicate(rknn_context *handle, struct context *source)
{
    if (REAL(rknn_dup_context)(&source->handle, handle) == SUCCEEDED)
        return keep(*handle, &source->model, &source->told, true);
    leave_alone("rknn_dup_context");
    return false;
}

/* Loads the first context of a model, whose internal memory this library gives. */
static bool load(rknn_context *handle, const struct content *content, const struct model *model)
{
    rknn_mem_size sizes = {0};
    uint32_t flags = model->flags | FLAG_INTERNAL_ALLOC_OUTSIDE;
    if (REAL(rknn_init)(handle, (void *)content->bytes, content->size, flags, NULL) != SUCCEEDED)
        return false; /* the program's own call will tell */
    bool is_fit = !is_dynamic(*handle) &&
                  REAL(rknn_query)(*handle, QUERY_MEM_SIZE, &sizes, sizeof sizes) == SUCCEEDED &&
                  sizes.total_internal_size > 0;
    if (!is_fit) {
        leave_alone("shapes");
        REAL(rknn_destroy)(*handle);
        return false;
    }
    sizes.total_dma_allocated_size += (sizes.total_internal_size + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    return keep(*handle, model, &sizes, false);
}

static struct context *find_source(const struct model *model)
{
    pthread_mutex_lock(&lock);
    struct context *source = find_equal(model);
    pthread_mutex_unlock(&lock);
    return source;
}

static bool share(rknn_context *handle, const void *model_or_path, uint32_t size, uint32_t flags)
{
    struct content content;
    if (!read_content(&content, model_or_path, size))
        return false;
    struct model model = model_of(&content, flags);
    pthread_mutex_lock(&making);
    struct context *source = find_source(&model);
    bool is_shared = source ? duplicate(handle, source) : load(handle, &content, &model);
    pthread_mutex_unlock(&making);
    free(content.read);
    return is_shared;
}

HOOK(int, rknn_init, (rknn_context * handle, void *model, uint32_t size, uint32_t flags, rknn_init_extend *extend))
{
    const char *reason = handle && model ? objection(flags, extend) : "arguments";
    if (!reason && share(handle, model, size, flags))
        return SUCCEEDED;
    if (reason)
        leave_alone(reason);
    return REAL(rknn_init)(handle, model, size, flags, extend);
}

/* A program's own duplicate of a context without internal memory of its own needs one as well. */
HOOK(int, rknn_dup_context, (rknn_context * in, rknn_context *out))
{
    pthread_mutex_lock(&making);
    pthread_mutex_lock(&lock);
    struct context *source = in && out ? find_context(*in) : NULL;
    pthread_mutex_unlock(&lock);
    int code = source ? duplicate(out, source) ? SUCCEEDED : -1 : REAL(rknn_dup_context)(in, out);
    pthread_mutex_unlock(&making);
    return code;
}

HOOK(int, rknn_destroy, (rknn_context handle))
{
    pthread_mutex_lock(&making);
    pthread_mutex_lock(&lock);
    struct context *context = find_context(handle);
    if (context) {
        wait_until_idle(context);
        detach(context);
        remove_context(context);
    }
    pthread_mutex_unlock(&lock);
    int code = REAL(rknn_destroy)(handle);
    pthread_mutex_unlock(&making);
    return code;
}

HOOK(int, rknn_query, (rknn_context handle, int command, void *answer, uint32_t size))
{
    if (command == QUERY_MEM_SIZE && answer && size == sizeof(rknn_mem_size)) {
        pthread_mutex_lock(&lock);
        struct context *context = find_context(handle);
        if (context)
            memcpy(answer, &context->told, sizeof context->told);
        pthread_mutex_unlock(&lock);
        if (context)
            return SUCCEEDED;
    }
    return REAL(rknn_query)(handle, command, answer, size);
}

HOOK(int, rknn_set_core_mask, (rknn_context handle, int core_mask))
{
    pthread_mutex_lock(&lock);
    struct context *context = find_context(handle);
    if (context)
        wait_until_idle(context);
    int code = REAL(rknn_set_core_mask)(handle, core_mask);
    if (context && code == SUCCEEDED && core_mask != context->core_mask) {
        detach(context);
        context->core_mask = core_mask;
        if (!attach(context))
            code = -1;
    }
    pthread_mutex_unlock(&lock);
    return code;
}

HOOK(int, rknn_run, (rknn_context handle, void *extend))
{
    pthread_mutex_lock(&lock);
    struct context *context = find_context(handle);
    if (context)
        take_turn(context);
    pthread_mutex_unlock(&lock);
    int code = REAL(rknn_run)(handle, extend);
    if (!context)
        return code;
    const struct run_extend *run = extend;
    pthread_mutex_lock(&lock);
    if (code == SUCCEEDED && run && run->non_block)
        context->state = STARTED;
    else
        end_turn(context);
    pthread_mutex_unlock(&lock);
    return code;
}

/* Returns false if this library has waited for the run already; then `code` is what the wait gave. */
static bool begin_wait(struct context *context, int *code)
{
    wait_until_ended(context);
    *code = context->ended_code;
    bool is_to_wait = !context->has_ended;
    context->has_ended = false;
    if (is_to_wait && context->state == STARTED)
        context->state = RUNS;
    return is_to_wait;
}

HOOK(int, rknn_wait, (rknn_context handle, struct run_extend *extend))
{
    int code = SUCCEEDED;
    pthread_mutex_lock(&lock);
    struct context *context = find_context(handle);
    bool is_to_wait = !context || begin_wait(context, &code);
    pthread_mutex_unlock(&lock);
    if (!is_to_wait)
        return code;
    code = REAL(rknn_wait)(handle, extend);
    if (!context)
        return code;
    pthread_mutex_lock(&lock);
    if (context->state == RUNS && code == ERROR_TIMEOUT)
        context->state = STARTED;
    else if (context->state == RUNS)
        end_turn(context);
    pthread_mutex_unlock(&lock);
    return code;
}

/* The outputs are those of the run that was started last. */
HOOK(int, rknn_outputs_get, (rknn_context handle, uint32_t count, rknn_output *outputs, void *extend))
{
    pthread_mutex_lock(&lock);
    struct context *context = find_context(handle);
    if (context)
        wait_until_idle(context);
    pthread_mutex_unlock(&lock);
    return REAL(rknn_outputs_get)(handle, count, outputs, extend);
}
