/*
 * The internal memories: each belongs to a group of contexts, and one context at a time runs in it.
 *
 * A memory is made by one context, its owner, and goes before that one does (rknn_destroy_mem crashes after
 * rknn_destroy): then a context that uses it makes it anew. A group begins with one memory. Only if two contexts want to
 * run at once is a further one made, up to the number of cores: a program that runs in turn needs no more.
 *
 * With librknnrt 2.3.2 runs of contexts that have changed their internal memory between runs are wrong if others run at
 * the same time. So a context is bound to its memory when the program first sets its inputs. Contexts that several threads
 * use, or whose tensors are in memory of the program, are spread over as many memories as the NPU has cores.
 */
#include "apply.h"

#include <stdlib.h>
#include <string.h>

/* A call that waits to run, or to change the memory; first come, first served. */
struct turn {
    struct turn *next;
};

struct memory {
    struct memory *next;
    int group;
    struct context *owner;
    rknn_tensor_mem *whole; /* NULL if there was not enough memory when it had to be made anew */
    uint32_t bytes;
    unsigned users;
    struct context *runner; /* NULL: nothing runs in it */
    struct turn *turns;
};

static struct memory *memories;
/* A further memory could not be made; that is not tried before each run. */
static bool is_short;

/* What the contexts would have without this library. */
static uint64_t bytes_as_is(void)
{
    uint64_t bytes = 0;
    for (const struct context *context = contexts; context; context = context->next)
        if (context->memory)
            bytes += whole_pages(context->internal_bytes);
    return bytes;
}

uint64_t memory_bytes(void)
{
    uint64_t bytes = 0;
    for (struct memory *memory = memories; memory; memory = memory->next)
        if (memory->whole)
            bytes += whole_pages(memory->bytes);
    return bytes;
}

/* ---- Turns ---- */

static void queue(struct memory *memory, struct turn *turn)
{
    struct turn **place = &memory->turns;
    while (*place)
        place = &(*place)->next;
    turn->next = NULL;
    *place = turn;
}

static struct memory *owned_memory(const struct context *context)
{
    struct memory *memory = memories;
    while (memory && memory->owner != context)
        memory = memory->next;
    return memory;
}

bool owns_memory(const struct context *context)
{
    return owned_memory(context);
}

/* Destroys a context that the program has destroyed already, if no memory of it is used any more. */
static void end_owner(struct context *owner)
{
    if (!owner || !owner->is_ended || owned_memory(owner))
        return;
    REAL(rknn_destroy)(owner->handle);
    remove_context(owner);
}

static void forget_memory(struct memory *memory)
{
    struct memory **place = &memories;
    while (*place != memory)
        place = &(*place)->next;
    *place = memory->next;
    struct context *owner = memory->owner;
    if (memory->whole)
        REAL(rknn_destroy_mem)(owner->handle, memory->whole);
    free(memory);
    end_owner(owner);
    note_bytes();
}

static void forget_if_unused(struct memory *memory)
{
    if (!memory->users && !memory->turns)
        forget_memory(memory);
}

static void leave_queue(struct memory *memory, const struct turn *turn)
{
    struct turn **place = &memory->turns;
    while (*place != turn)
        place = &(*place)->next;
    *place = turn->next;
    tell_change();
}

static bool is_first(const struct memory *memory, const struct turn *turn)
{
    return !memory->runner && memory->turns == turn;
}

/* Waits until nothing runs in the memory, and keeps others from running in it until the turn leaves the queue. */
static void wait_for_turn(struct memory *memory, struct turn *turn)
{
    queue(memory, turn);
    while (!is_first(memory, turn))
        wait_for_change();
}

void wait_until_idle(const struct context *context)
{
    while (context->is_running)
        wait_for_change();
}

void forget_turns(void)
{
    for (struct memory *memory = memories; memory; memory = memory->next) {
        memory->runner = NULL;
        memory->turns = NULL;
    }
}

/* ---- A context's view of a memory ---- */

static void drop_view(struct context *context)
{
    if (context->view && context->view != context->memory->whole)
        REAL(rknn_destroy_mem)(context->handle, context->view);
    context->view = NULL;
}

static rknn_tensor_mem *new_view(const struct context *context, const struct memory *memory)
{
    rknn_tensor_mem *whole = memory->whole;
    if (!whole || memory->owner == context)
        return whole;
    rknn_tensor_mem *named =
        REAL(rknn_create_mem_from_fd)(context->handle, whole->fd, whole->virt_addr, context->internal_bytes, 0);
    if (!named)
        note_failure("rknn_create_mem_from_fd");
    return named;
}

/* Lets the context use the whole of the memory, in place of the one that it used. */
static bool view(struct context *context, struct memory *memory)
{
    rknn_tensor_mem *named = new_view(context, memory);
    if (!named)
        return false;
    if (REAL(rknn_set_internal_mem)(context->handle, named) != SUCCEEDED) {
        note_failure("rknn_set_internal_mem");
        if (named != memory->whole)
            REAL(rknn_destroy_mem)(context->handle, named);
        return false;
    }
    if (context->memory)
        drop_view(context);
    context->view = named;
    return true;
}

static struct context *other_user(const struct memory *memory, const struct context *context)
{
    struct context *other = contexts;
    while (other && (other == context || other->memory != memory))
        other = other->next;
    return other;
}

static bool use(struct context *context, struct memory *memory)
{
    if (!view(context, memory))
        return false;
    struct memory *former = context->memory;
    context->memory = memory;
    memory->users++;
    if (former) {
        former->users--;
        forget_if_unused(former);
    }
    struct context *other = other_user(memory, context);
    if (other) {
        note_shared_internal(other);
        note_shared_internal(context);
    }
    note_bytes();
    return true;
}

/* ---- Memories ---- */

static bool make_whole(struct memory *memory, struct context *owner, uint32_t bytes)
{
    memory->whole = bytes ? REAL(rknn_create_mem)(owner->handle, bytes) : NULL;
    memory->owner = memory->whole ? owner : NULL;
    memory->bytes = memory->whole ? bytes : 0;
    if (bytes && !memory->whole)
        note_failure("rknn_create_mem");
    return memory->whole;
}

static struct memory *make_memory(struct context *owner, int group)
{
    struct memory *memory = calloc(1, sizeof *memory);
    if (!memory || !make_whole(memory, owner, owner->internal_bytes)) {
        free(memory);
        return NULL;
    }
    memory->group = group;
    memory->next = memories;
    memories = memory;
    return memory;
}

static uint32_t needed_bytes(const struct memory *memory)
{
    uint32_t most = 0;
    for (const struct context *context = contexts; context; context = context->next)
        if (context->memory == memory && context->internal_bytes > most)
            most = context->internal_bytes;
    return most;
}

/*
 * Makes the memory anew, of another size or with another owner; nothing runs in it. The former one is given back before,
 * so that both are never there at once. If there is not enough memory, it is made as its users need it.
 */
static bool renew(struct memory *memory, struct context *owner, uint32_t bytes)
{
    for (struct context *context = contexts; context; context = context->next)
        if (context->memory == memory)
            drop_view(context);
    struct context *former = memory->owner;
    if (memory->whole)
        REAL(rknn_destroy_mem)(former->handle, memory->whole);
    bool is_made = make_whole(memory, owner, bytes) || make_whole(memory, owner, needed_bytes(memory));
    for (struct context *context = contexts; is_made && context; context = context->next)
        if (context->memory == memory)
            view(context, memory); /* if that fails, it is tried again before the next run */
    end_owner(former);
    note_bytes();
    return memory->bytes >= bytes;
}

/* Whether the memory of a context must stay as it is. */
static bool is_fixed(const struct memory *memory)
{
    const struct context *context = contexts;
    while (context && (context->memory != memory || !context->is_bound))
        context = context->next;
    return context;
}

static bool enlarge(struct memory *memory, struct context *context)
{
    return !is_fixed(memory) && renew(memory, memory->owner ? memory->owner : context, context->internal_bytes);
}

/* Waits for a moment in which nothing runs in the memory. */
static bool grow(struct memory *memory, struct context *context)
{
    struct turn turn;
    wait_for_turn(memory, &turn);
    bool is_large = memory->bytes >= context->internal_bytes || enlarge(memory, context);
    leave_queue(memory, &turn);
    return is_large;
}

/* Returns the largest memory of the group. */
static struct memory *memory_of(int group)
{
    struct memory *largest = NULL;
    for (struct memory *memory = memories; memory && group != OWN_GROUP; memory = memory->next)
        if (memory->group == group && (!largest || memory->bytes > largest->bytes))
            largest = memory;
    return largest;
}

/* A memory of another group that is large enough. */
static struct memory *spare_memory(const struct context *context)
{
    struct memory *memory = memories;
    while (memory && (memory->group == OWN_GROUP || memory->bytes < context->internal_bytes))
        memory = memory->next;
    return memory;
}

static bool fits(struct memory *memory, struct context *context)
{
    if (memory->bytes >= context->internal_bytes || grow(memory, context))
        return true;
    forget_if_unused(memory);
    return false;
}

static bool use_or_forget(struct context *context, struct memory *memory)
{
    if (use(context, memory))
        return true;
    forget_if_unused(memory);
    return false;
}

/* Puts the context into the memory of a group, or into a new one. */
static bool join(struct context *context, int group)
{
    struct memory *memory = memory_of(group);
    if (memory && fits(memory, context) && use_or_forget(context, memory))
        return true;
    memory = make_memory(context, group);
    return memory && use_or_forget(context, memory);
}

/*
 * Until its first run a context may use a memory of another group: many programs set its core mask only now, and then it
 * never needs one of its present group.
 */
bool attach(struct context *context)
{
    struct memory *spare = memory_of(context->group) ? NULL : spare_memory(context);
    return (spare && use(context, spare)) || join(context, context->group);
}

/* If there is not enough memory for that of its own group, the context stays where it is. */
static void settle(struct context *context)
{
    if (context->memory->group != context->group && !is_short)
        is_short = !join(context, context->group);
}

/*
 * Gives the memories that the context has made to contexts that use them. One that is fixed stays, and the context with it
 * until its users have ended.
 */
static void disown(struct context *context)
{
    struct memory *memory = memories;
    while (memory) {
        if (memory->owner != context || is_fixed(memory)) {
            memory = memory->next;
            continue;
        }
        struct turn turn;
        wait_for_turn(memory, &turn);
        if (!is_fixed(memory))
            renew(memory, other_user(memory, context), needed_bytes(memory));
        leave_queue(memory, &turn);
        forget_if_unused(memory);
        memory = memories;
    }
}

/*
 * Keeps the memories from being more together than the program alone would have. One that was made for a larger context
 * than use it now is made smaller; not a context's own, in which a run may be that is not waited for.
 */
static void shrink(void)
{
    struct memory *memory = memories;
    while (memory && memory_bytes() > bytes_as_is()) {
        struct turn turn;
        wait_for_turn(memory, &turn);
        bool is_shared = memory->owner && memory->group != OWN_GROUP && !is_fixed(memory);
        if (is_shared && memory->bytes > needed_bytes(memory))
            renew(memory, memory->owner, needed_bytes(memory));
        leave_queue(memory, &turn);
        struct memory *next = memory->next;
        forget_if_unused(memory);
        memory = next;
    }
}

void detach(struct context *context)
{
    if (context->mini) {
        detach_mini(context);
        return;
    }
    struct memory *memory = context->memory;
    if (!memory)
        return;
    drop_view(context);
    context->memory = NULL;
    memory->users--;
    forget_if_unused(memory);
    disown(context);
    shrink();
}

/* Makes the memory the context's own if no other uses it; at no moment are there two. */
static bool take_over(struct context *context, struct memory *memory)
{
    if (memory->users > 1 || memory->turns)
        return false;
    bool is_own = memory->owner == context && context->view;
    return is_own || (!context->is_bound && renew(memory, context, context->internal_bytes) && context->view);
}

bool regroup(struct context *context, int group)
{
    if (group == context->group)
        return true;
    if (!memory_of(group) && take_over(context, context->memory))
        context->memory->group = group;
    else if (!context->is_bound && !join(context, group))
        return false;
    context->group = group;
    return true;
}

bool has_own_memory(const struct context *context)
{
    return context->memory && context->memory->group == OWN_GROUP;
}

/* ---- Runs ---- */

/* Whether a memory of that many more bytes leaves less than the program alone would have. */
static bool is_worth(uint64_t more_bytes)
{
    return memory_bytes() + more_bytes <= bytes_as_is();
}

/* Whether this thread is in a run itself, so that waiting for its end would last for ever. */
static bool is_nested(const struct memory *memory)
{
    return memory->runner && pthread_equal(memory->runner->runner, pthread_self());
}

/* Whether other contexts in its memory may run at the same time as this one, which is about to be bound. */
static bool has_rival(const struct context *context, bool has_tensors)
{
    const struct context *other = contexts;
    for (; other; other = other->next) {
        if (other == context || other->memory != context->memory || !other->is_bound)
            continue;
        if (has_tensors || !pthread_equal(other->binder, pthread_self()))
            return true;
    }
    return false;
}

static unsigned bound_users(const struct memory *memory)
{
    unsigned count = 0;
    for (const struct context *context = contexts; context; context = context->next)
        count += context->memory == memory && context->is_bound;
    return count;
}

/* Puts the context into the memory of its group that the fewest contexts are bound to, or into a new one. */
static void spread(struct context *context)
{
    unsigned count = 0, fewest = bound_users(context->memory);
    struct memory *found = NULL;
    for (struct memory *memory = memories; memory; memory = memory->next) {
        if (memory->group != context->group)
            continue;
        count++;
        if (memory->bytes >= context->internal_bytes && bound_users(memory) < fewest) {
            found = memory;
            fewest = bound_users(memory);
        }
    }
    bool may_make = !is_short && count < most_memories(context->group);
    if (fewest && may_make && is_worth(whole_pages(context->internal_bytes))) {
        found = make_memory(context, context->group);
        is_short = !found;
    }
    if (found)
        use_or_forget(context, found);
}

void bind(struct context *context, bool has_tensors)
{
    if (!context->memory || context->is_bound)
        return;
    wait_until_idle(context);
    settle(context);
    if (context->memory->group != OWN_GROUP && has_rival(context, has_tensors))
        spread(context);
    context->is_bound = true;
    context->binder = pthread_self();
}

static bool has_view(struct context *context)
{
    struct memory *memory = context->memory;
    if (!context->view && !memory->whole)
        renew(memory, context, needed_bytes(memory));
    if (context->view || view(context, memory))
        return true;
    context->is_bound = false;
    return regroup(context, OWN_GROUP);
}

bool take_turn(struct context *context)
{
    wait_until_idle(context);
    if (context->mini)
        return take_turn_mini(context);
    bind(context, false);
    struct memory *memory = context->memory;
    struct turn turn;
    queue(memory, &turn);
    while (context->is_running || !is_first(memory, &turn)) {
        if (is_nested(memory)) {
            leave_queue(memory, &turn);
            return false;
        }
        wait_for_change();
        if (context->memory != memory) {
            leave_queue(memory, &turn);
            forget_if_unused(memory);
            return take_turn(context);
        }
    }
    leave_queue(memory, &turn);
    if (!has_view(context))
        return false;
    context->memory->runner = context;
    context->is_running = true;
    context->runner = pthread_self();
    note_run(1);
    return true;
}

void end_turn(struct context *context)
{
    if (context->mini) {
        end_turn_mini(context);
        return;
    }
    context->is_running = false;
    context->memory->runner = NULL;
    note_run(-1);
    tell_change();
}
