/* The contexts whose memory is shared. */
#include "apply.h"

#include <stdlib.h>

pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
struct context *contexts;

struct context *find_context(rknn_context handle)
{
    struct context *context = contexts;
    while (context && context->handle != handle)
        context = context->next;
    return context;
}

struct context *find_equal(const struct model *model)
{
    struct context *context = contexts;
    while (context && !is_equal_model(&context->model, model))
        context = context->next;
    return context;
}

struct context *add_context(rknn_context handle, const struct model *model, const rknn_mem_size *told)
{
    struct context *context = calloc(1, sizeof *context);
    if (!context)
        return NULL;
    context->handle = handle;
    context->model = *model;
    context->internal_bytes = told->total_internal_size;
    context->told = *told;
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
    free(context);
}
