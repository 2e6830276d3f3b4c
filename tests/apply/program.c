/* A program with several threads that knows nothing of reuse: program THREADS ROUNDS SEED MODEL... */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver/abi.h"

struct run_extend {
    uint64_t frame_id;
    int32_t non_block, timeout_ms, fence_fd;
};
int rknn_wait(rknn_context, struct run_extend *);

static int rounds;
static unsigned seed;
static int model_count;
static char **models;

static unsigned drawn(unsigned *state)
{
    *state = *state * 1103515245u + 12345u;
    return *state >> 16;
}

static void fail(const char *call, int code)
{
    printf("%s gave %d\n", call, code);
    exit(1);
}

static void *work(void *number)
{
    unsigned state = seed + 77u * (unsigned)(size_t)number;
    rknn_context contexts[4] = {0};
    for (int round = 0; round < rounds; round++) {
        unsigned index = drawn(&state) % 4;
        if (!contexts[index]) {
            const char *model = models[drawn(&state) % (unsigned)model_count];
            int code = rknn_init(&contexts[index], (void *)model, (uint32_t)strlen(model), 0, NULL);
            if (code)
                fail("rknn_init", code);
            continue;
        }
        rknn_context context = contexts[index];
        struct run_extend extend = {.non_block = 1};
        int code = 0;
        switch (drawn(&state) % 8) {
        case 0:
            code = rknn_destroy(context);
            contexts[index] = 0;
            break;
        case 1:
            code = rknn_set_core_mask(context, (int)(drawn(&state) % 4));
            break;
        case 2: /* two at once, waited for in the wrong order */
            code = rknn_run(context, &extend);
            for (unsigned other = 0; !code && other < 4; other++)
                if (contexts[other] && other != index)
                    code = rknn_run(contexts[other], NULL);
            code = code ? code : rknn_wait(context, &extend);
            break;
        case 3:
            code = rknn_run(context, &extend);
            code = code ? code : rknn_outputs_get(context, 0, NULL, NULL);
            break;
        default:
            code = rknn_run(context, NULL);
        }
        if (code)
            fail("a call", code);
    }
    for (unsigned index = 0; index < 4; index++)
        if (contexts[index] && rknn_destroy(contexts[index]))
            fail("rknn_destroy", 0);
    return NULL;
}

int main(int count, char **values)
{
    int threads = atoi(values[1]);
    rounds = atoi(values[2]);
    seed = (unsigned)atoi(values[3]);
    models = values + 4;
    model_count = count - 4;
    pthread_t thread[64];
    for (int index = 0; index < threads; index++)
        pthread_create(&thread[index], NULL, work, (void *)(size_t)index);
    for (int index = 0; index < threads; index++)
        pthread_join(thread[index], NULL);
    return 0;
}
