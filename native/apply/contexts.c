/* The contexts that the program has, and the locks. */
#include "plan.h"

#include <stdlib.h>
#include <string.h>

struct own_mutex lock = {.mutex = PTHREAD_MUTEX_INITIALIZER};
struct own_mutex making = {.mutex = PTHREAD_MUTEX_INITIALIZER};
struct context *contexts;

static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static void set_holder(struct own_mutex *mutex, bool is_held)
{
    mutex->holder = pthread_self();
    __atomic_store_n(&mutex->is_held, is_held, __ATOMIC_SEQ_CST);
}

int hold(struct own_mutex *mutex)
{
    int state;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    pthread_mutex_lock(&mutex->mutex);
    set_holder(mutex, true);
    return state;
}

void let_go(struct own_mutex *mutex, int cancel_state)
{
    set_holder(mutex, false);
    pthread_mutex_unlock(&mutex->mutex);
    pthread_setcancelstate(cancel_state, NULL);
}

bool is_held_here(const struct own_mutex *mutex)
{
    return __atomic_load_n(&mutex->is_held, __ATOMIC_SEQ_CST) && pthread_equal(mutex->holder, pthread_self());
}

void wait_for_change(void)
{
    set_holder(&lock, false);
    pthread_cond_wait(&changed, &lock.mutex);
    set_holder(&lock, true);
}

void tell_change(void)
{
    pthread_cond_broadcast(&changed);
}

/* A new process begins with this thread alone: what others did in the parent has no end here. */
static void before_fork(void)
{
    pthread_mutex_lock(&lock.mutex);
}

static void after_fork_in_parent(void)
{
    pthread_mutex_unlock(&lock.mutex);
}

static void after_fork_in_child(void)
{
    static const pthread_mutex_t new_mutex = PTHREAD_MUTEX_INITIALIZER;
    static const pthread_cond_t new_condition = PTHREAD_COND_INITIALIZER;
    lock.mutex = making.mutex = new_mutex;
    lock.is_held = making.is_held = false;
    changed = new_condition;
    for (struct context *context = contexts; context; context = context->next) {
        context->is_running = context->is_copied = false;
        context->calls = 0;
    }
    forget_turns();
    forget_turns_mini();
    forget_report();
}

__attribute__((constructor)) static void prepare_for_fork(void)
{
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

struct context *find_context(rknn_context handle)
{
    struct context *context = contexts;
    while (context && (context->handle != handle || context->is_ended))
        context = context->next;
    return context;
}

struct context *find_equal(const struct model *model, const struct plan_context *line)
{
    struct context *context = contexts;
    while (context && (!context->is_managed || context->is_changed || context->is_ended || !is_equal_model(&context->model, model) ||
                       !may_share_weights(context->line, line)))
        context = context->next;
    return context;
}

struct context *add_context(rknn_context handle, const struct model *model)
{
    struct context *context = calloc(1, sizeof *context);
    if (!context)
        return NULL;
    context->handle = handle;
    context->model = *model;
    context->next = contexts;
    contexts = context;
    return context;
}

void remove_context(struct context *context)
{
    struct context **place = &contexts;
    while (*place != context)
        place = &(*place)->next;
    *place = context->next;
    give_line_back(context->line);
    forget_outputs(context);
    free(context);
}
