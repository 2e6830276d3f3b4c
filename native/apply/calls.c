/* The program's calls of Rockchip's library. */
#include "plan.h"

#include <stdlib.h>
#include <string.h>

/* Flags that change neither what memory is made nor when a run has ended: priority and cache handling. */
#define KNOWN_FLAGS (0x1u | 0x2u | 0x2000u | 0x4000u | FLAG_DISABLE_FLUSH_OUTPUT_MEM_CACHE)

#define HOOK(type, name, parameters)                                                                                   \
    __attribute__((visibility("default"))) type hook_##name parameters __asm__(#name);                                 \
    type hook_##name parameters

/* Calls the function of Rockchip's library as the program does. */
#define FORWARD(name, ...) (REAL(name) ? REAL(name)(__VA_ARGS__) : ERROR_FAILED)

/* Variables by which Rockchip's library makes other memory, or reads it. */
static const char *const memory_variables[] = {"RKNN_INTERNAL_MEM_TYPE", "RKNN_WEIGHT_MEM_TYPE",
                                               "RKNN_SEPARATE_WEIGHT_MEM", "RKNN_DUMP_DIR"};

static bool is_empty(const rknn_init_extend *extend)
{
    static const rknn_init_extend empty;
    return !extend || memcmp(extend, &empty, sizeof empty) == 0;
}

static bool has_memory_variable(void)
{
    for (size_t index = 0; index < LENGTH(memory_variables); index++)
        if (getenv(memory_variables[index]))
            return true;
    return false;
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
    if (has_memory_variable())
        return "environment";
    return NULL;
}

/* Whether the call comes from within this library, or from a signal handler that has interrupted it. */
static bool is_inner(void)
{
    return is_held_here(&lock) || is_held_here(&making);
}

/* Whether the call comes from within a run of the context, by a signal handler or by Rockchip's library itself. */
static bool runs_here(const struct context *context)
{
    return context->is_running && pthread_equal(context->runner, pthread_self());
}

/* ---- Calls on a context ---- */

/* A call of the program on a context; NULL if the context is none of ours. */
struct visit {
    struct context *context;
    int cancel_state;
};

/* To be called with the lock held, which it may release meanwhile. */
static struct context *visited(rknn_context handle)
{
    struct context *context = find_context(handle);
    if (!context || runs_here(context))
        return NULL;
    while (context->is_copied)
        wait_for_change();
    context->calls++;
    return context;
}

/* Begins a call, during which the context is not duplicated, and the thread not cancelled. */
static struct visit enter(rknn_context handle)
{
    struct visit visit = {NULL, 0};
    if (is_inner())
        return visit;
    int state = hold(&lock);
    visit.context = visited(handle);
    visit.cancel_state = state;
    if (!visit.context) {
        let_go(&lock, state);
        return visit;
    }
    let_go(&lock, PTHREAD_CANCEL_DISABLE);
    return visit;
}

static void leave(const struct visit *visit)
{
    if (!visit->context)
        return;
    hold(&lock);
    visit->context->calls--;
    tell_change();
    let_go(&lock, visit->cancel_state);
}

/* ---- Making and destroying ---- */

static void note_alone(rknn_context handle, const struct model *model, const char *reason)
{
    int state = hold(&lock);
    note_left_alone(reason);
    note_model(model);
    if (model && has_digests())
        add_context(handle, model);
    let_go(&lock, state);
}

/* Makes a context that shares memory, or says why not. */
static const char *make_shared(rknn_context *handle, struct content *content, const struct model *model,
                               const rknn_init_extend *extend)
{
    const char *reason = objection(model->flags, extend);
    return reason ? reason : load_shared(handle, content, model);
}

HOOK(int, rknn_init, (rknn_context * handle, void *bytes, uint32_t size, uint32_t flags, rknn_init_extend *extend))
{
    struct content content = {0};
    struct model model = {0};
    if (is_inner() || !handle || !bytes)
        return FORWARD(rknn_init, handle, bytes, size, flags, extend);
    bool is_known = (!is_off() || has_digests()) && read_content(&content, bytes, size);
    if (is_known)
        model = model_of(&content, flags);
    int state = hold(&making);
    const char *reason = is_off() ? "off" : "unreadable";
    if (is_known)
        reason = make_shared(handle, &content, &model, extend);
    forget_content(&content);
    int code = reason ? FORWARD(rknn_init, handle, bytes, size, flags, extend) : SUCCEEDED;
    if (reason && code == SUCCEEDED)
        note_alone(*handle, is_known ? &model : NULL, reason);
    let_go(&making, state);
    return code;
}

/* A program's own duplicate of a context without internal memory of its own needs one as well. */
HOOK(int, rknn_dup_context, (rknn_context * in, rknn_context *out))
{
    if (is_inner() || !in || !out)
        return FORWARD(rknn_dup_context, in, out);
    int state = hold(&making);
    int inner = hold(&lock);
    struct context *source = find_context(*in);
    bool is_ours = source && source->is_managed;
    struct plan_context *line = is_ours ? take_line(&source->model, NULL) : NULL;
    let_go(&lock, inner);
    int code = is_ours ? duplicate(source, NULL, out, line) : FORWARD(rknn_dup_context, in, out);
    if (is_ours && code != SUCCEEDED) {
        inner = hold(&lock);
        give_line_back(line);
        let_go(&lock, inner);
    }
    if (!is_ours && code == SUCCEEDED)
        note_alone(*out, source ? &source->model : NULL, is_off() ? "off" : "own_duplicate");
    let_go(&making, state);
    return code;
}

HOOK(int, rknn_destroy, (rknn_context handle))
{
    if (is_inner())
        return FORWARD(rknn_destroy, handle);
    int state = hold(&making);
    int inner = hold(&lock);
    struct context *context = find_context(handle);
    bool stays = false;
    if (context && !runs_here(context)) {
        wait_until_idle(context);
        detach(context);
        stays = owns_memory(context);
        context->is_ended = true;
        if (!stays)
            remove_context(context);
        note_bytes();
    }
    let_go(&lock, inner);
    int code = stays ? SUCCEEDED : FORWARD(rknn_destroy, handle);
    let_go(&making, state);
    return code;
}

/* ---- What the program asks ---- */

HOOK(int, rknn_query, (rknn_context handle, int command, void *answer, uint32_t size))
{
    int code = FORWARD(rknn_query, handle, command, answer, size);
    if (command != QUERY_MEM_SIZE || code != SUCCEEDED || size < sizeof(rknn_mem_size) || is_inner())
        return code;
    int state = hold(&lock);
    struct context *context = find_context(handle);
    if (context && context->is_managed)
        ((rknn_mem_size *)answer)->total_dma_allocated_size += context->hidden_bytes;
    let_go(&lock, state);
    return code;
}

/* ---- What the program sets ---- */

/* Gives the context internal memory of its own, unless its inputs are set, and does not duplicate it any more. */
static void part(struct context *context, const char *reason)
{
    context->is_changed = true;
    if (!context->memory || context->group == OWN_GROUP)
        return;
    wait_until_idle(context);
    if (regroup(context, OWN_GROUP))
        note_left_alone(has_own_memory(context) ? reason : "bound");
}

static void part_visited(const struct visit *visit, const char *reason)
{
    if (!visit->context || !visit->context->is_managed)
        return;
    int state = hold(&lock);
    part(visit->context, reason);
    let_go(&lock, state);
}

HOOK(int, rknn_set_core_mask, (rknn_context handle, int core_mask))
{
    struct visit visit = enter(handle);
    struct context *context = visit.context;
    int code = FORWARD(rknn_set_core_mask, handle, core_mask);
    if (context && context->memory && context->group != OWN_GROUP && code == SUCCEEDED) {
        int state = hold(&lock);
        wait_until_idle(context);
        regroup(context, group_of_mask(context->line, core_mask));
        let_go(&lock, state);
    }
    leave(&visit);
    return code;
}

HOOK(int, rknn_set_batch_core_num, (rknn_context handle, int count))
{
    struct visit visit = enter(handle);
    part_visited(&visit, "batch");
    int code = FORWARD(rknn_set_batch_core_num, handle, count);
    leave(&visit);
    return code;
}

/* A custom operator is the program's own code, which may do anything during a run. */
HOOK(int, rknn_register_custom_ops, (rknn_context handle, void *operators, uint32_t count))
{
    struct visit visit = enter(handle);
    part_visited(&visit, "custom_operators");
    int code = FORWARD(rknn_register_custom_ops, handle, operators, count);
    leave(&visit);
    return code;
}

/* librknnmrt takes no memory for a context that was not loaded so, and the program's was not. */
static bool refuses_memory(const struct context *context)
{
    return context && context->mini;
}

HOOK(int, rknn_set_weight_mem, (rknn_context handle, rknn_tensor_mem *mem))
{
    struct visit visit = enter(handle);
    int code = refuses_memory(visit.context) ? ERROR_FAILED : FORWARD(rknn_set_weight_mem, handle, mem);
    leave(&visit);
    return code;
}

/* The program gives internal memory itself: this library's is not used any more. */
HOOK(int, rknn_set_internal_mem, (rknn_context handle, rknn_tensor_mem *mem))
{
    struct visit visit = enter(handle);
    struct context *context = visit.context;
    if (!context || !context->memory) {
        int code = refuses_memory(context) ? ERROR_FAILED : FORWARD(rknn_set_internal_mem, handle, mem);
        leave(&visit);
        return code;
    }
    int state = hold(&lock);
    wait_until_idle(context);
    int code = FORWARD(rknn_set_internal_mem, handle, mem);
    if (code == SUCCEEDED) {
        context->is_changed = true;
        context->hidden_bytes -= whole_pages(context->internal_bytes);
        detach(context);
        note_left_alone("own_internal_memory");
        note_bytes();
    }
    let_go(&lock, state);
    leave(&visit);
    return code;
}

/* With tensors, a context of librknnmrt cannot be given other internal memory any more. */
static void bind_visited(const struct visit *visit, bool has_tensors)
{
    if (!visit->context || !visit->context->is_managed)
        return;
    int state = hold(&lock);
    if (visit->context->mini)
        bind_mini(visit->context);
    else
        bind(visit->context, has_tensors);
    let_go(&lock, state);
}

HOOK(int, rknn_set_io_mem, (rknn_context handle, rknn_tensor_mem *mem, rknn_tensor_attr *attribute))
{
    struct visit visit = enter(handle);
    bind_visited(&visit, true);
    int code = FORWARD(rknn_set_io_mem, handle, mem, attribute);
    if (visit.context && code == SUCCEEDED) {
        int state = hold(&lock);
        if (visit.context->mini)
            note_tensor_mini(visit.context, attribute);
        if (has_digests())
            note_io_memory(visit.context, mem, attribute);
        let_go(&lock, state);
    }
    leave(&visit);
    return code;
}

HOOK(int, rknn_inputs_set, (rknn_context handle, uint32_t count, rknn_input *inputs))
{
    struct visit visit = enter(handle);
    bind_visited(&visit, false);
    int code = FORWARD(rknn_inputs_set, handle, count, inputs);
    leave(&visit);
    return code;
}

/* ---- Runs ---- */

static void note_digest(const struct context *context, struct outputs_digest digest)
{
    int state = hold(&lock);
    note_outputs(&context->model, digest);
    let_go(&lock, state);
}

/*
 * Returns whether the run waits for its end. The end of one that does not cannot be known (rknn_wait of librknnrt 2.3.2
 * needs a fence), so that such a context gets internal memory of its own; if there is none, the run waits.
 */
static bool is_waited_for(struct context *context, const struct run_extend *extend)
{
    if (!extend || !extend->non_block || context->mini)
        return true;
    if (context->is_managed)
        part(context, "non_blocking");
    return context->memory && !has_own_memory(context);
}

/* Runs without waiting for the end only if the context has internal memory of its own. */
static int run_real(rknn_context handle, struct run_extend *extend, bool is_waited)
{
    if (!extend || !is_waited)
        return FORWARD(rknn_run, handle, extend);
    int32_t non_block = extend->non_block;
    extend->non_block = 0;
    int code = FORWARD(rknn_run, handle, extend);
    extend->non_block = non_block;
    return code;
}

static int run_in_turn(struct context *context, struct run_extend *extend)
{
    int state = hold(&lock);
    bool is_waited = is_waited_for(context, extend);
    bool is_shared = (context->memory || context->mini) && is_waited;
    context->has_ended = is_shared && extend && extend->non_block;
    if (is_shared && !take_turn(context)) {
        let_go(&lock, state);
        return ERROR_NO_MEMORY;
    }
    let_go(&lock, state);
    int code = run_real(context->handle, extend, is_waited);
    if (is_shared) {
        state = hold(&lock);
        end_turn(context);
        let_go(&lock, state);
    }
    if (code == SUCCEEDED && is_waited && has_output_memory(context))
        note_digest(context, digest_of_memory(context));
    return code;
}

HOOK(int, rknn_run, (rknn_context handle, void *extend))
{
    struct visit visit = enter(handle);
    int code = visit.context ? run_in_turn(visit.context, extend) : FORWARD(rknn_run, handle, extend);
    leave(&visit);
    return code;
}

/* A run that was to be waited for has ended already if there was no memory for it alone. */
HOOK(int, rknn_wait, (rknn_context handle, struct run_extend *extend))
{
    struct visit visit = enter(handle);
    bool has_ended = visit.context && visit.context->has_ended;
    if (has_ended)
        visit.context->has_ended = false;
    int code = has_ended ? SUCCEEDED : FORWARD(rknn_wait, handle, extend);
    leave(&visit);
    return code;
}

HOOK(int, rknn_outputs_get, (rknn_context handle, uint32_t count, rknn_output *outputs, void *extend))
{
    struct visit visit = enter(handle);
    int code = FORWARD(rknn_outputs_get, handle, count, outputs, extend);
    if (visit.context && code == SUCCEEDED && has_digests())
        note_digest(visit.context, digest_of_outputs(visit.context, count, outputs));
    leave(&visit);
    return code;
}
