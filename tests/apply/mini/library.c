/*
 * A stand-in for librknnmrt that punishes two runs at once in one internal memory, changed weights, and whatever the
 * real one crashes at. A model is a text: bytes of weights and of internal memory.
 *
 * At the end of the process nothing may be left. "abort" ends a test.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "driver/abi.h"

#define MOST 4096
#define PAGE 4096u
/* The register commands of each context. */
#define COMMANDS 5000u
#define FLAG_PRIORITY 1u

/* One that has ended stays, so that a struct which still names it is known. */
struct piece {
    struct piece *next;
    rknn_context owner;
    void *address;
    int is_import, has_ended;
};

static struct context {
    int alive, is_outside, is_bound, runs;
    int has_input, has_output; /* memory for them */
    uint32_t weights, internal;
    unsigned seed;
    struct piece *weight_piece, *internal_piece;
} contexts[MOST];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned made, live, pieces, runs, outside;
static struct piece *all_pieces;

static void punish(const char *words)
{
    fprintf(stderr, "punished: %s\n", words);
    abort();
}

static struct context *of(rknn_context handle)
{
    if (!handle || handle > made || !contexts[handle - 1].alive)
        punish("a context that is not alive");
    return &contexts[handle - 1];
}

static uint32_t whole(uint32_t bytes)
{
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

static int read_text(char *text, size_t room, const void *model, uint32_t size)
{
    memset(text, 0, room);
    if (size) {
        memcpy(text, model, size < room ? size : room - 1);
        return 1;
    }
    FILE *file = fopen(model, "r");
    if (!file)
        return 0;
    size_t count = fread(text, 1, room - 1, file);
    fclose(file);
    return count > 0;
}

int rknn_init(rknn_context *handle, void *model, uint32_t size, uint32_t flags, rknn_init_extend *extend)
{
    char text[256];
    uint32_t weights, internal;
    (void)extend;
    if (!read_text(text, sizeof text, model, size) || sscanf(text, "%u %u", &weights, &internal) != 2)
        return -6;
    if (!weights && flags & FLAG_MEM_ALLOC_OUTSIDE)
        return -1;
    pthread_mutex_lock(&lock);
    struct context *context = &contexts[made++];
    *context = (struct context){.alive = 1, .weights = weights, .internal = internal};
    context->is_outside = (flags & FLAG_MEM_ALLOC_OUTSIDE) != 0;
    for (const char *place = text; *place; place++)
        context->seed = context->seed * 31 + (unsigned char)*place;
    live++;
    outside += (unsigned)context->is_outside;
    *handle = made;
    pthread_mutex_unlock(&lock);
    return 0;
}

int rknn_dup_context(rknn_context *in, rknn_context *out)
{
    (void)in, (void)out;
    return -1;
}

int rknn_wait(rknn_context handle, void *extend)
{
    (void)handle, (void)extend;
    return -1;
}

int rknn_destroy(rknn_context handle)
{
    pthread_mutex_lock(&lock);
    struct context *context = of(handle);
    if (context->runs)
        punish("a context is destroyed during a run");
    if (context->weight_piece || context->internal_piece)
        punish("a context is destroyed before its memory");
    context->alive = 0;
    live--;
    pthread_mutex_unlock(&lock);
    return 0;
}

int rknn_query(rknn_context handle, int command, void *answer, uint32_t size)
{
    pthread_mutex_lock(&lock);
    struct context *context = of(handle);
    int code = -5;
    if (command == QUERY_MEM_SIZE && size == sizeof(rknn_mem_size)) {
        uint32_t all = COMMANDS + context->weights + context->internal;
        *(rknn_mem_size *)answer = (rknn_mem_size){
            .total_weight_size = context->weights,
            .total_internal_size = context->internal,
            .total_dma_allocated_size = whole(context->is_outside ? COMMANDS : all),
        };
        code = 0;
    }
    if (command == QUERY_IN_OUT_NUM && size == sizeof(rknn_input_output_num)) {
        *(rknn_input_output_num *)answer = (rknn_input_output_num){1, 1};
        code = 0;
    }
    if (command == QUERY_NATIVE_INPUT_ATTR || command == QUERY_NATIVE_OUTPUT_ATTR) {
        const char *name = command == QUERY_NATIVE_INPUT_ATTR ? "input" : "output";
        snprintf(((rknn_tensor_attr *)answer)->name, NAME_BYTES, "%s", name);
        ((rknn_tensor_attr *)answer)->size_with_stride = 100;
        code = 0;
    }
    if (command == QUERY_SDK_VERSION && size == sizeof(rknn_sdk_version)) {
        const char *version = getenv("LIBRARY_VERSION");
        snprintf(((rknn_sdk_version *)answer)->api_version, NAME_BYTES, "%s (a stand-in)", version ? version : "2.3.2");
        code = 0;
    }
    pthread_mutex_unlock(&lock);
    return code;
}

static uint64_t physical_address(int fd)
{
    struct stat status;
    return fstat(fd, &status) ? 0 : (uint64_t)status.st_ino << 32;
}

/* The real library does not clear the struct of an import, and believes what freed memory says of the same address. */
static void check_struct(const rknn_tensor_mem *uncleared, const void *address)
{
    const void *former;
    memcpy(&former, &uncleared->priv_data, sizeof former);
    for (const struct piece *piece = all_pieces; piece; piece = piece->next)
        if (piece == former && piece->has_ended && piece->address == address)
            punish("a name of memory that is given back");
}

static rknn_tensor_mem *add_piece(rknn_context handle, const rknn_tensor_mem *values)
{
    struct piece *piece = calloc(1, sizeof *piece);
    rknn_tensor_mem *mem = malloc(sizeof *mem);
    pthread_mutex_lock(&lock);
    of(handle);
    if (!(values->flags & ALLOC_INSIDE))
        check_struct(mem, values->virt_addr);
    *mem = *values;
    mem->phys_addr = physical_address(mem->fd);
    mem->priv_data = piece;
    *piece = (struct piece){all_pieces, handle, mem->virt_addr, !(mem->flags & ALLOC_INSIDE), 0};
    all_pieces = piece;
    pieces++;
    pthread_mutex_unlock(&lock);
    return mem;
}

rknn_tensor_mem *rknn_create_mem(rknn_context handle, uint32_t size)
{
    const char *refused = getenv("LIBRARY_REFUSES_BYTES");
    int fd = memfd_create("npu", MFD_CLOEXEC);
    if ((refused && size == (uint32_t)atoi(refused)) || ftruncate(fd, whole(size))) {
        close(fd);
        return NULL;
    }
    void *address = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    rknn_tensor_mem mem = {.virt_addr = address, .fd = fd, .size = size, .flags = ALLOC_INSIDE};
    return add_piece(handle, &mem);
}

rknn_tensor_mem *rknn_create_mem_from_fd(rknn_context handle, int32_t fd, void *address, uint32_t size, int32_t offset)
{
    (void)offset;
    rknn_tensor_mem mem = {.virt_addr = address, .fd = fd, .size = size, .flags = 2};
    return add_piece(handle, &mem);
}

/* Without a context, as after rknn_destroy, it works for memory that the library has made. */
int rknn_destroy_mem(rknn_context handle, rknn_tensor_mem *mem)
{
    struct piece *piece = mem->priv_data;
    pthread_mutex_lock(&lock);
    if (handle && piece->owner != handle)
        punish("memory of another context is destroyed");
    struct context *context = &contexts[piece->owner - 1];
    if (context->runs && (context->weight_piece == piece || context->internal_piece == piece))
        punish("memory is destroyed during a run");
    if (context->weight_piece == piece)
        context->weight_piece = NULL;
    if (context->internal_piece == piece)
        context->internal_piece = NULL;
    if (!piece->is_import) {
        munmap(mem->virt_addr, mem->size);
        close(mem->fd);
    }
    piece->has_ended = 1;
    pieces--;
    pthread_mutex_unlock(&lock);
    free(mem);
    return 0;
}

static unsigned char weight_at(const struct context *context, uint32_t place)
{
    return (unsigned char)(context->seed + place * 7);
}

int rknn_set_weight_mem(rknn_context handle, rknn_tensor_mem *mem)
{
    pthread_mutex_lock(&lock);
    struct context *context = of(handle);
    if (!context->is_outside) {
        pthread_mutex_unlock(&lock);
        return -1;
    }
    if (mem->size < context->weights)
        punish("weight memory is too small");
    for (uint32_t place = 0; place < context->weights; place++)
        ((unsigned char *)mem->virt_addr)[place] = weight_at(context, place);
    context->weight_piece = mem->priv_data;
    pthread_mutex_unlock(&lock);
    return 0;
}

int rknn_set_internal_mem(rknn_context handle, rknn_tensor_mem *mem)
{
    pthread_mutex_lock(&lock);
    struct context *context = of(handle);
    int code = context->is_outside && !context->is_bound ? 0 : -1;
    if (context->runs)
        punish("internal memory is replaced during a run");
    if (code == 0 && mem->size < context->internal)
        punish("internal memory is too small");
    if (code == 0)
        context->internal_piece = mem->priv_data;
    pthread_mutex_unlock(&lock);
    return code;
}

int rknn_set_io_mem(rknn_context handle, rknn_tensor_mem *mem, rknn_tensor_attr *attribute)
{
    (void)mem;
    pthread_mutex_lock(&lock);
    struct context *context = of(handle);
    if (context->is_outside && !context->internal_piece)
        punish("tensors before internal memory");
    context->is_bound = 1;
    context->has_input |= strcmp(attribute->name, "input") == 0;
    context->has_output |= strcmp(attribute->name, "output") == 0;
    pthread_mutex_unlock(&lock);
    return 0;
}

static void check_weights(const struct context *context)
{
    const unsigned char *weights = context->weight_piece->address;
    for (uint32_t place = 0; place < context->weights; place += 61)
        if (weights[place] != weight_at(context, place))
            punish("the weights are another model's");
}

/* The first word of the internal memory says who runs in it. */
static void run_in(_Atomic int *word, int number)
{
    int expected = 0;
    if (!atomic_compare_exchange_strong(word, &expected, number))
        punish("two runs at once in one memory");
    usleep((useconds_t)(100 + number % 7 * 50));
    expected = number;
    if (!atomic_compare_exchange_strong(word, &expected, 0))
        punish("another run has used the memory");
}

int rknn_run(rknn_context handle, void *extend)
{
    (void)extend;
    pthread_mutex_lock(&lock);
    struct context *context = of(handle);
    if (context->is_outside && !(context->has_input && context->has_output))
        punish("a run with a tensor that has no memory");
    if (context->is_outside && !(context->weight_piece && context->internal_piece))
        punish("a run without memory");
    context->runs++;
    runs++;
    pthread_mutex_unlock(&lock);
    if (context->is_outside) {
        check_weights(context);
        run_in(context->internal_piece->address, (int)handle);
    }
    pthread_mutex_lock(&lock);
    context->runs--;
    pthread_mutex_unlock(&lock);
    return 0;
}

/* Buffers of this library that the process holds open or sees in its memory. */
static unsigned held_buffers(void)
{
    char line[512];
    unsigned count = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps))
        count += strstr(line, "/memfd:npu") != NULL;
    if (maps)
        fclose(maps);
    DIR *folder = opendir("/proc/self/fd");
    struct dirent *entry;
    while (folder && (entry = readdir(folder))) {
        ssize_t length = readlinkat(dirfd(folder), entry->d_name, line, sizeof line - 1);
        line[length > 0 ? length : 0] = 0;
        count += strstr(line, "/memfd:npu") != NULL;
    }
    if (folder)
        closedir(folder);
    return count;
}

__attribute__((destructor)) static void tell(void)
{
    printf("contexts %u outside %u runs %u left %u pieces %u buffers %u\n", made, outside, runs, live, pieces,
           held_buffers());
}
