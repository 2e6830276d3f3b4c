/*
 * A stand-in for librknnrt that punishes two runs at once in one internal memory, and whatever the real one crashes at.
 *
 * A run takes a while. At the end of the process nothing may be left. "abort" ends a test.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "driver/abi.h"

#define MOST 512
#define TIMEOUT (-2)

struct run_extend {
    uint64_t frame_id;
    int32_t non_block, timeout_ms, fence_fd;
};

struct piece {
    rknn_tensor_mem mem;
    rknn_context owner;
    int *busy; /* shared by all names of one memory */
    int fd;
    int is_first;
};

static struct context {
    int alive, is_outside, started, has_run;
    struct piece *internal;
    uint32_t weights, internal_bytes;
    int *weight_users;
} contexts[MOST];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned made, live, pieces, runs, dups;
static unsigned long long live_bytes, peak_bytes;

static void punish(const char *words)
{
    fprintf(stderr, "punished: %s\n", words);
    abort();
}

static void take(long long bytes)
{
    live_bytes += (unsigned long long)bytes;
    peak_bytes = live_bytes > peak_bytes ? live_bytes : peak_bytes;
}

static struct context *of(rknn_context handle)
{
    if (!handle || handle > made || !contexts[handle - 1].alive)
        punish("a context that is not alive");
    return &contexts[handle - 1];
}

/*
 * LIBRARY_FAILS="rknn_create_mem 2 0" lets the second call fail, "rknn_create_mem 2 1" all from the second on. Only calls
 * that a program without reuse does not make are named there.
 */
static int fails(const char *call)
{
    static unsigned calls;
    const char *setting = getenv("LIBRARY_FAILS");
    char name[64];
    unsigned number, is_lasting;
    if (!setting || sscanf(setting, "%63s %u %u", name, &number, &is_lasting) != 3 || strcmp(name, call))
        return 0;
    pthread_mutex_lock(&lock);
    calls++;
    int answer = calls == number || (is_lasting && calls > number);
    pthread_mutex_unlock(&lock);
    return answer;
}

static uint32_t whole_pages(uint32_t bytes)
{
    return (bytes + 4095) / 4096 * 4096;
}

/* LIBRARY_BYTES is all the memory that the NPU has. */
static int is_full(long long bytes)
{
    const char *setting = getenv("LIBRARY_BYTES");
    return setting && (long long)live_bytes + bytes > atoll(setting);
}

/* The model is a text: bytes of weights and of internal memory. */
int rknn_init(rknn_context *handle, void *model, uint32_t size, uint32_t flags, rknn_init_extend *extend)
{
    char text[256] = "";
    (void)extend;
    if (!size) {
        FILE *file = fopen(model, "r");
        if (!file)
            return -6;
        size = (uint32_t)fread(text, 1, sizeof text - 1, file);
        fclose(file);
    } else
        memcpy(text, model, size < sizeof text ? size : sizeof text - 1);
    uint32_t weights, internal;
    if (sscanf(text, "%u %u", &weights, &internal) != 2)
        return -6;
    weights = whole_pages(weights);
    if (flags & FLAG_INTERNAL_ALLOC_OUTSIDE && fails("rknn_init"))
        return -1;
    pthread_mutex_lock(&lock);
    if (is_full(weights + (flags & FLAG_INTERNAL_ALLOC_OUTSIDE ? 0 : whole_pages(internal)))) {
        pthread_mutex_unlock(&lock);
        return -4;
    }
    struct context *context = &contexts[made++];
    *context = (struct context){.alive = 1, .is_outside = (flags & FLAG_INTERNAL_ALLOC_OUTSIDE) != 0};
    context->weights = weights;
    context->internal_bytes = internal;
    context->weight_users = calloc(1, sizeof(int));
    *context->weight_users = 1;
    take(weights + (context->is_outside ? 0 : whole_pages(internal)));
    live++;
    *handle = made;
    pthread_mutex_unlock(&lock);
    return 0;
}

int rknn_dup_context(rknn_context *in, rknn_context *out)
{
    if (fails("rknn_dup_context"))
        return -1;
    pthread_mutex_lock(&lock);
    struct context *source = of(*in), *context = &contexts[made++];
    *context = *source;
    context->internal = NULL;
    context->started = context->has_run = 0;
    ++*context->weight_users;
    take(context->is_outside ? 0 : whole_pages(context->internal_bytes));
    live++;
    dups++;
    *out = made;
    pthread_mutex_unlock(&lock);
    return 0;
}

int rknn_destroy(rknn_context handle)
{
    pthread_mutex_lock(&lock);
    struct context *context = of(handle);
    context->alive = 0;
    if (!--*context->weight_users)
        take(-(long long)context->weights);
    take(context->is_outside ? 0 : -(long long)whole_pages(context->internal_bytes));
    live--;
    pthread_mutex_unlock(&lock);
    return 0;
}

int rknn_query(rknn_context handle, int command, void *answer, uint32_t size)
{
    pthread_mutex_lock(&lock);
    struct context *context = of(handle);
    int code = -1;
    if (command == QUERY_MEM_SIZE && size == sizeof(rknn_mem_size)) {
        rknn_mem_size *sizes = answer;
        *sizes = (rknn_mem_size){.total_weight_size = context->weights, .total_internal_size = context->internal_bytes};
        sizes->total_dma_allocated_size = context->weights + (context->is_outside ? 0 : whole_pages(context->internal_bytes));
        code = 0;
    }
    if (command == QUERY_IN_OUT_NUM && size == sizeof(rknn_input_output_num)) {
        *(rknn_input_output_num *)answer = (rknn_input_output_num){1, 1};
        code = 0;
    }
    if ((command == QUERY_INPUT_ATTR || command == QUERY_OUTPUT_ATTR) && size == sizeof(rknn_tensor_attr)) {
        *(rknn_tensor_attr *)answer = (rknn_tensor_attr){.n_dims = 1, .dims = {1}, .n_elems = 1, .size = 1};
        code = 0;
    }
    pthread_mutex_unlock(&lock);
    return code;
}

rknn_tensor_mem *rknn_create_mem(rknn_context handle, uint32_t size)
{
    if (fails("rknn_create_mem") || is_full(whole_pages(size)))
        return NULL;
    struct piece *piece = calloc(1, sizeof *piece);
    piece->fd = memfd_create("memory", 0);
    if (ftruncate(piece->fd, size))
        return NULL;
    piece->busy = calloc(1, sizeof(int));
    piece->is_first = 1;
    piece->owner = handle;
    void *address = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, piece->fd, 0);
    piece->mem = (rknn_tensor_mem){address, 0, piece->fd, 0, size, 1, piece};
    pthread_mutex_lock(&lock);
    of(handle);
    take(whole_pages(size));
    pieces++;
    pthread_mutex_unlock(&lock);
    return &piece->mem;
}

rknn_tensor_mem *rknn_create_mem_from_fd(rknn_context handle, int32_t fd, void *address, uint32_t size, int32_t offset)
{
    (void)offset;
    if (fails("rknn_create_mem_from_fd"))
        return NULL;
    struct piece *piece = calloc(1, sizeof *piece);
    pthread_mutex_lock(&lock);
    of(handle);
    pieces++;
    pthread_mutex_unlock(&lock);
    piece->owner = handle;
    piece->mem = (rknn_tensor_mem){address, 0, fd, 0, size, 1, piece};
    return &piece->mem;
}

int rknn_destroy_mem(rknn_context handle, rknn_tensor_mem *mem)
{
    struct piece *piece = mem->priv_data;
    pthread_mutex_lock(&lock);
    of(handle);
    if (piece->owner != handle)
        punish("memory of another context is destroyed");
    if (piece->is_first) {
        int *busy = mem->virt_addr;
        if (*busy)
            punish("memory is destroyed during a run");
        take(-(long long)whole_pages(mem->size));
        munmap(mem->virt_addr, mem->size);
        close(piece->fd);
    }
    pieces--;
    pthread_mutex_unlock(&lock);
    free(piece);
    return 0;
}

int rknn_set_internal_mem(rknn_context handle, rknn_tensor_mem *mem)
{
    if (fails("rknn_set_internal_mem"))
        return -1;
    pthread_mutex_lock(&lock);
    struct context *context = of(handle);
    if (!context->is_outside)
        punish("internal memory of the library is replaced");
    if (context->started)
        punish("internal memory is replaced during a run");
    if (context->has_run)
        punish("internal memory is replaced after a run");
    if (mem->size < context->internal_bytes)
        punish("internal memory is too small");
    context->internal = mem->priv_data;
    pthread_mutex_unlock(&lock);
    return 0;
}

/* The first word of the memory says who runs in it. */
static void begin(struct context *context, rknn_context handle)
{
    if (!context->is_outside)
        return;
    if (!context->internal)
        punish("a run without internal memory");
    int expected = 0;
    if (!atomic_compare_exchange_strong((_Atomic int *)context->internal->mem.virt_addr, &expected, (int)handle))
        punish("two runs at once in one memory");
}

static void end(struct context *context, rknn_context handle)
{
    int expected = (int)handle;
    if (context->is_outside &&
        !atomic_compare_exchange_strong((_Atomic int *)context->internal->mem.virt_addr, &expected, 0))
        punish("another run has used the memory");
}

int rknn_run(rknn_context handle, void *extend)
{
    pthread_mutex_lock(&lock);
    struct context *context = of(handle);
    const struct run_extend *run = extend;
    if (context->started)
        punish("a second run before the first has ended");
    context->started = context->has_run = 1;
    runs++;
    begin(context, handle);
    pthread_mutex_unlock(&lock);
    if (run && run->non_block)
        return 0;
    usleep((useconds_t)(100 + handle % 7 * 50));
    pthread_mutex_lock(&lock);
    context->started = 0;
    end(context, handle);
    pthread_mutex_unlock(&lock);
    return 0;
}

int rknn_wait(rknn_context handle, struct run_extend *extend)
{
    (void)extend;
    usleep(100);
    pthread_mutex_lock(&lock);
    struct context *context = of(handle);
    if (!context->started)
        punish("a wait without a run");
    context->started = 0;
    end(context, handle);
    pthread_mutex_unlock(&lock);
    return 0;
}

int rknn_outputs_get(rknn_context handle, uint32_t count, rknn_output *outputs, void *extend)
{
    (void)count, (void)outputs, (void)extend;
    pthread_mutex_lock(&lock);
    struct context *context = of(handle);
    if (context->started) {
        context->started = 0;
        end(context, handle);
    }
    pthread_mutex_unlock(&lock);
    return 0;
}

int rknn_set_core_mask(rknn_context handle, int mask)
{
    pthread_mutex_lock(&lock);
    of(handle);
    pthread_mutex_unlock(&lock);
    return mask < 0 ? -5 : 0;
}

__attribute__((destructor)) static void tell(void)
{
    printf("contexts %u dups %u runs %u left %u pieces %u bytes %llu peak %llu\n", made, dups, runs, live, pieces,
           live_bytes, peak_bytes);
}
