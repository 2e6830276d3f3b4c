/* A program with several threads that knows nothing of reuse: program THREADS ROUNDS SEED MODEL... */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver/abi.h"

/* As in the stand-in for the library. */
#define PAGE 4096u
#define COMMANDS 5000u

static int rounds, model_count;
static unsigned seed;
static char **models;

struct app {
    rknn_context context;
    rknn_tensor_mem *tensor;
    bool is_bound;
};

static unsigned drawn(unsigned *state)
{
    *state = *state * 1103515245u + 12345u;
    return *state >> 16;
}

static void check(const char *call, int code)
{
    if (!code)
        return;
    printf("%s gave %d\n", call, code);
    exit(1);
}

/* The sizes are those of a context that shares nothing. */
static void check_sizes(rknn_context context, const char *model)
{
    uint32_t weights = 0, internal = 0;
    rknn_mem_size sizes = {0};
    sscanf(model, "%u %u", &weights, &internal);
    uint32_t all = (COMMANDS + weights + internal + PAGE - 1) / PAGE * PAGE;
    check("rknn_query", rknn_query(context, QUERY_MEM_SIZE, &sizes, sizeof sizes));
    bool is_right = sizes.total_weight_size == weights && sizes.total_internal_size == internal &&
                    sizes.total_dma_allocated_size == all;
    check("MEM_SIZE", is_right ? 0 : (int)sizes.total_dma_allocated_size);
}

/* The other tensor has no memory of the program, which the library puts up with. */
static void bind(struct app *app, bool is_input)
{
    rknn_tensor_attr attribute = {0};
    if (app->is_bound)
        return;
    strcpy(attribute.name, is_input ? "input" : "output");
    app->tensor = rknn_create_mem(app->context, 100);
    check("rknn_set_io_mem", rknn_set_io_mem(app->context, app->tensor, &attribute));
    app->is_bound = true;
}

static void begin(struct app *app, unsigned *state)
{
    const char *model = models[drawn(state) % (unsigned)model_count];
    *app = (struct app){0};
    check("rknn_init", rknn_init(&app->context, (void *)model, (uint32_t)strlen(model), 0, NULL));
    check_sizes(app->context, model);
    if (drawn(state) % 2)
        bind(app, drawn(state) % 2);
}

static void run(struct app *app)
{
    bind(app, true);
    check("rknn_run", rknn_run(app->context, NULL));
}

static void end(struct app *app, bool is_memory_first)
{
    if (!app->context)
        return;
    if (app->tensor && is_memory_first)
        check("rknn_destroy_mem", rknn_destroy_mem(app->context, app->tensor));
    check("rknn_destroy", rknn_destroy(app->context));
    if (app->tensor && !is_memory_first)
        check("rknn_destroy_mem", rknn_destroy_mem(0, app->tensor));
    *app = (struct app){0};
}

static void *work(void *number)
{
    unsigned state = seed + 77u * (unsigned)(size_t)number;
    struct app apps[4] = {{0}};
    for (int round = 0; round < rounds; round++) {
        struct app *app = &apps[drawn(&state) % 4];
        if (!app->context)
            begin(app, &state);
        else if (drawn(&state) % 6 == 0)
            end(app, drawn(&state) % 2);
        else
            run(app);
    }
    for (size_t index = 0; index < 4; index++)
        end(&apps[index], true);
    return NULL;
}

int main(int count, char **values)
{
    int threads = atoi(values[1]);
    pthread_t thread[64];
    rounds = atoi(values[2]);
    seed = (unsigned)atoi(values[3]);
    models = values + 4;
    model_count = count - 4;
    for (int index = 0; index < threads; index++)
        pthread_create(&thread[index], NULL, work, (void *)(size_t)index);
    for (int index = 0; index < threads; index++)
        pthread_join(thread[index], NULL);
    return 0;
}
