/*
 * A double of Rockchip's runtime, to check the client's side alone: which calls the adapter makes, in which order, with
 * which flags and sizes, and what it does about errors. Its output is a sum over its input. It says nothing about
 * Rockchip's library.
 *
 * A model is a text: bytes of weights and of internal memory, the number of inputs, and what they are (kinds, below), as
 * in "9000 5000 1 tokens"; without a kind they are pictures. What the real library punishes with a crash, the double
 * punishes with abort() and a sentence on standard error: memory destroyed after its context, a context used after it
 * was destroyed, a master destroyed before its slave, a run without the internal memory that it was to be given, a
 * run without the shapes that a model with dynamic shapes must be told, channels first in rknn_inputs_set; of a model in
 * place a dup after its sizes were asked for, a second context over its memory, a run after its memory was destroyed.
 *
 *   VERSION          (at compile time) the version text, whose first word decides whether this is the mini runtime
 *   WITHOUT_...      (at compile time) leave functions out
 *   DOUBLE_LOG       file to which each call is appended, one line each; that of rknn_destroy says what is left
 *   DOUBLE_FAIL      "call=code[,...]": the call returns this code, and does nothing
 *   DOUBLE_SAY       "call=words": the call writes the words, as a line on standard output, and goes on
 *   DOUBLE_REWRITES  set: each rknn_set_weight_mem writes other weights
 *   DOUBLE_LEAK      "call=what[,...]": the call leaks 40 KiB of heap or in a memfd, an fd or a mapping
 *   DOUBLE_LEAVES    set: a failed rknn_init leaves a context behind
 *   DOUBLE_MEMORY    bytes that all contexts and memories may take; a call that needs more writes so and returns -4
 *   DOUBLE_DIES      set: such a call aborts
 */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MOST 128
#define OK 0
#define FAIL -1
#define PARAM_INVALID -5
#define MALLOC_FAIL -4
#define MODEL_INVALID -6
#define MEM_ALLOC_OUTSIDE 0x10
#define SHARE_WEIGHT_MEM 0x20
#define INTERNAL_ALLOC_OUTSIDE 0x200
#define MODEL_BUFFER_ZERO_COPY 0x10000
#define ALLOC_NO_CONTEXT 0x20000
#define ALLOC_INSIDE 1

/* An input of 10 rows of 10 pixels, for each of which the NPU wants room for 12; an output of 300 bytes. */
#define HEIGHT 10
#define ROW (10 * 3)
#define PITCH (12 * 3)
#define OUTPUT 300
#define LEAK (40 * 1024)

enum { FLOAT32, FLOAT16, INT8, UINT8, INT64 = 8, BOOL, INT4 };
enum { NCHW, NHWC, NC1HWC2, UNDEFINED };

/* Kinds of inputs; all inputs of a model are of one kind. */
struct kind {
    const char *name;
    uint32_t n_dims, dims[4], type, format, element_size;
    int32_t zp;
    float scale;
    /* Whether the shape is to be chosen, this one or one of half the height. */
    bool is_dynamic;
    /* Its type on the mini runtime; whether the NPU has it in an order of its own. */
    uint32_t mini_type;
    bool in_groups;
};

static const struct kind kinds[] = {
    {"picture", 4, {1, HEIGHT, 10, 3}, INT8, NHWC, 1, -128, 1 / 255.f, .mini_type = INT8},
    {"dynamic", 4, {1, HEIGHT, 10, 3}, INT8, NHWC, 1, -128, 1 / 255.f, true, .mini_type = INT8},
    {"numbers", 2, {1, 6}, INT8, UNDEFINED, 1, -128, 1 / 255.f, .mini_type = INT8},
    {"halves", 2, {1, 6}, FLOAT16, UNDEFINED, 2, 0, 1, .mini_type = FLOAT16},
    {"features", 4, {1, 2, 3, 16}, INT8, NHWC, 1, -128, 1 / 255.f, .mini_type = INT8, .in_groups = true},
    {"tokens", 2, {1, 6}, INT64, UNDEFINED, 8, 0, 1, .mini_type = INT64},
    {"mask", 3, {1, 2, 3}, BOOL, UNDEFINED, 1, 0, 1, .mini_type = INT8},
    {"nibbles", 2, {1, 6}, INT4, UNDEFINED, 1, 0, 1, .mini_type = INT4},
};

typedef uintptr_t rknn_context;

struct tensor_mem {
    void *virt_addr;
    uint64_t phys_addr;
    int32_t fd, offset;
    uint32_t size, flags;
    void *priv_data;
};

struct init_extend {
    rknn_context ctx;
    int32_t model_offset;
    uint32_t model_size;
    int32_t model_fd;
    uint32_t model_flags;
};

struct input {
    uint32_t index;
    void *buf;
    uint32_t size;
    uint8_t pass_through;
    int32_t type, fmt;
};

struct output {
    uint8_t want_float, is_prealloc;
    uint32_t index;
    void *buf;
    uint32_t size;
};

struct context {
    bool alive, has_weights, has_internal, has_shapes, is_in_place, has_told_sizes;
    const struct kind *kind;
    uint32_t height;
    uint8_t elements[HEIGHT * ROW], result;
    struct tensor_mem *bound_input, *bound_output;
    uint32_t flags, weights, internal, inputs;
    rknn_context master;
    const void *model;
    char text[MOST];
    uint32_t taken;
};

struct owned {
    struct tensor_mem *mem;
    rknn_context owner;
};

static const char version[] = VERSION;
static struct context contexts[MOST];
static struct owned owned[MOST];
static rknn_context made;

static void note(const char *format, ...)
{
    const char *path = getenv("DOUBLE_LOG");
    FILE *log = path ? fopen(path, "a") : NULL;
    if (!log)
        return;
    va_list values;
    va_start(values, format);
    vfprintf(log, format, values);
    va_end(values);
    fputc('\n', log);
    fclose(log);
}

static void punish(const char *words)
{
    fprintf(stderr, "double: %s\n", words);
    abort();
}

/* The value behind "call=" in a variable of the environment; NULL if the call is not named there. */
static const char *told(const char *variable, const char *call)
{
    const char *text = getenv(variable);
    const char *found = text ? strstr(text, call) : NULL;
    return found && found[strlen(call)] == '=' ? found + strlen(call) + 1 : NULL;
}

static bool begins_with(const char *text, const char *word)
{
    return !strncmp(text, word, strlen(word));
}

static void leak(const char *what)
{
    if (begins_with(what, "heap"))
        memset(malloc(LEAK), 1, LEAK);
    if (!begins_with(what, "fd") && !begins_with(what, "mapping") && !begins_with(what, "memfd"))
        return;
    int fd = memfd_create("leak", 0);
    if (begins_with(what, "memfd")) {
        fallocate(fd, 0, 0, LEAK);
        return;
    }
    if (begins_with(what, "fd") || ftruncate(fd, 1))
        return;
    /* From a file of its own, because the kernel would join it with its neighbours. */
    mmap(NULL, 1, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
}

static int code_of(const char *call)
{
    const char *what = told("DOUBLE_LEAK", call);
    if (what)
        leak(what);
    const char *words = told("DOUBLE_SAY", call);
    if (words)
        printf("%s\n", words);
    const char *code = told("DOUBLE_FAIL", call);
    return code ? atoi(code) : OK;
}

static bool is_mini(void)
{
    return begins_with(version, "librknnmrt");
}

static struct context *alive(rknn_context handle)
{
    if (handle < 1 || handle > made || !contexts[handle].alive)
        punish("a context that is not there");
    return &contexts[handle];
}

static void check_mem(const struct tensor_mem *mem)
{
    for (int index = 0; index < MOST; index++)
        if (owned[index].mem == mem)
            return;
    punish("memory that is not there");
}

static struct tensor_mem *own(rknn_context handle, struct tensor_mem mem)
{
    if (handle)
        alive(handle);
    for (int index = 0; index < MOST; index++)
        if (!owned[index].mem) {
            owned[index] = (struct owned){malloc(sizeof mem), handle};
            *owned[index].mem = mem;
            return owned[index].mem;
        }
    punish("too much memory");
    return NULL;
}

/* The memory for a model that is there; NULL if there is none. */
static struct tensor_mem *memory_of_model(const void *model)
{
    for (int index = 0; index < MOST; index++)
        if (owned[index].mem && !owned[index].owner && owned[index].mem->virt_addr == model)
            return owned[index].mem;
    return NULL;
}

static void check_in_place(const void *model, uint32_t size, const struct init_extend *extend)
{
    const struct tensor_mem *mem = memory_of_model(model);
    if (!mem || !extend || extend->model_fd != mem->fd || extend->model_size != size)
        punish("a model in place that is in no memory of rknn_create_mem2");
    for (rknn_context other = 1; other <= made; other++)
        if (contexts[other].alive && contexts[other].is_in_place && contexts[other].model == model)
            punish("a second context over the memory of a model");
}

/* Memory of all contexts and buffers together. */
static uint64_t taken;

static bool take(uint32_t bytes)
{
    const char *most = getenv("DOUBLE_MEMORY");
    if (most && taken + bytes > strtoull(most, NULL, 10)) {
        fprintf(stderr, "E RKNN: failed to malloc npu memory, size: %u\n", bytes);
        if (getenv("DOUBLE_DIES"))
            punish("no memory");
        return false;
    }
    taken += bytes;
    return true;
}

static rknn_context make(struct context context)
{
    if (made + 1 == MOST)
        punish("too many contexts");
    context.alive = true;
    contexts[++made] = context;
    return made;
}

int rknn_init(rknn_context *handle, void *model, uint32_t size, uint32_t flags, struct init_extend *extend)
{
    rknn_context master = extend ? extend->ctx : 0;
    note("rknn_init size=%u flags=0x%x master=%d", size, flags, (int)master);
    struct context context = {.flags = flags, .master = master, .model = model};
    int code = code_of("rknn_init");
    if (code) {
        if (getenv("DOUBLE_LEAVES"))
            *handle = make(context);
        return code;
    }
    if (size >= MOST)
        return MODEL_INVALID;
    memcpy(context.text, model, size);
    char kind[MOST] = "picture";
    if (sscanf(context.text, "%u %u %u %s", &context.weights, &context.internal, &context.inputs, kind) < 3)
        return MODEL_INVALID;
    for (size_t index = 0; index < sizeof kinds / sizeof *kinds; index++)
        if (!strcmp(kinds[index].name, kind))
            context.kind = &kinds[index];
    if (!context.kind)
        return MODEL_INVALID;
    context.height = context.kind->dims[1];
    if (flags & MODEL_BUFFER_ZERO_COPY) {
        check_in_place(model, size, extend);
        context.is_in_place = true;
    }
    if (master)
        alive(master);
    context.taken = context.weights + (flags & INTERNAL_ALLOC_OUTSIDE ? 0 : context.internal);
    if (!take(context.taken))
        return MALLOC_FAIL;
    *handle = make(context);
    return OK;
}

#ifndef WITHOUT_DUP
int rknn_dup_context(rknn_context *source, rknn_context *handle)
{
    note("rknn_dup_context source=%d", (int)*source);
    int code = code_of("rknn_dup_context");
    if (is_mini()) {
        fprintf(stderr, "E RKNN: rknn_dup_context is not supported in mini runtime\n");
        return FAIL;
    }
    if (code)
        return code;
    struct context context = *alive(*source);
    if (context.is_in_place && context.has_told_sizes)
        punish("a dup of a model in place whose sizes were asked for");
    context.is_in_place = false;
    context.bound_input = context.bound_output = NULL;
    context.has_internal = context.has_shapes = false;
    context.has_weights = true;
    context.taken = context.flags & INTERNAL_ALLOC_OUTSIDE ? 0 : context.internal;
    if (!take(context.taken))
        return MALLOC_FAIL;
    *handle = make(context);
    return OK;
}
#endif

int rknn_destroy(rknn_context handle)
{
    int living = 0, mems = 0;
    alive(handle)->alive = false;
    taken -= contexts[handle].taken;
    for (rknn_context other = 1; other <= made; other++) {
        living += contexts[other].alive;
        if (contexts[other].alive && contexts[other].master == handle)
            punish("a master destroyed before its slave");
    }
    for (int index = 0; index < MOST; index++)
        mems += owned[index].mem != NULL;
    note("rknn_destroy context=%d, left: %d contexts, %d memories", (int)handle, living, mems);
    return code_of("rknn_destroy");
}

static uint32_t count_of(const struct context *context)
{
    uint32_t count = 1;
    for (uint32_t index = 0; index < context->kind->n_dims; index++)
        count *= index == 1 ? context->height : context->kind->dims[index];
    return count;
}

static bool has_rows(const struct context *context)
{
    return context->kind->n_dims == 4 && context->kind->dims[3] == 3;
}

/* rknn_tensor_attr as far as it is filled here, and the same of the other answers. */
static void describe_input(const struct context *context, uint32_t *attr, bool native)
{
    const struct kind *kind = context->kind;
    uint32_t *dims = attr + 2;
    sprintf((char *)attr + 72, attr[0] ? "input%u" : "input", attr[0]);
    attr[1] = kind->n_dims;
    memcpy(dims, kind->dims, sizeof kind->dims);
    dims[1] = context->height;
    attr[82] = count_of(context);            /* n_elems */
    attr[83] = attr[82] * kind->element_size;
    attr[84] = kind->format;
    attr[85] = is_mini() ? kind->mini_type : kind->type;
    attr[88] = kind->zp;
    memcpy(attr + 89, &kind->scale, sizeof kind->scale);
    attr[90] = has_rows(context) ? PITCH / 3 : 0; /* w_stride */
    attr[91] = has_rows(context) ? context->height * PITCH : attr[83];
    if (native && kind->in_groups) {
        attr[1] = 5, attr[84] = NC1HWC2;
        dims[1] = 2, dims[2] = kind->dims[1], dims[3] = kind->dims[2], dims[4] = kind->dims[3] / 2;
    }
}

static void describe_output(uint32_t *attr, uint32_t size_with_stride)
{
    uint32_t *dims = attr + 2;
    strcpy((char *)attr + 72, "output");
    attr[1] = 4;
    dims[0] = 1, dims[1] = 3, dims[2] = 10, dims[3] = 10;
    attr[82] = attr[83] = OUTPUT; /* n_elems, size */
    attr[85] = INT8;
    attr[91] = size_with_stride;
}

static int refuse(const char *words)
{
    fprintf(stderr, "E RKNN: %s\n", words);
    return MODEL_INVALID;
}

/* rknn_input_range: words of index, shape_number, fmt, 256 bytes of name, 512 shapes of 16 sizes, n_dims. */
static int describe_range(const struct context *context, uint32_t *range)
{
    if (is_mini() || !context->kind->is_dynamic)
        return refuse("rknn model is static shape type");
    range[1] = 2, range[2] = context->kind->format;
    for (uint32_t shape = 0; shape < 2; shape++) {
        uint32_t *dims = range + 67 + 16 * shape;
        memcpy(dims, context->kind->dims, sizeof context->kind->dims);
        dims[1] /= shape + 1;
    }
    range[67 + 16 * 512] = context->kind->n_dims;
    return OK;
}

int rknn_set_input_shapes(rknn_context handle, uint32_t count, const uint32_t (*attrs)[94])
{
    struct context *context = alive(handle);
    note("rknn_set_input_shapes context=%d count=%u height=%u", (int)handle, count, attrs[0][3]);
    int code = code_of("rknn_set_input_shapes");
    if (code)
        return code;
    bool is_known = attrs[0][3] == HEIGHT || attrs[0][3] == HEIGHT / 2;
    if (!context->kind->is_dynamic || !is_known || count != context->inputs)
        return refuse("no such shape");
    context->height = attrs[0][3];
    context->has_shapes = true;
    return OK;
}

int rknn_query(rknn_context handle, int command, void *info, uint32_t size)
{
    struct context *context = alive(handle);
    note("rknn_query context=%d command=%d size=%u", (int)handle, command, size);
    int code = code_of("rknn_query");
    if (code)
        return code;
    uint32_t *words = info;
    if (command >= 14 && !context->has_shapes)
        return refuse("please call rknn_set_input_shape first");
    switch (command) {
    case 0:
        words[0] = context->inputs, words[1] = 1;
        return OK;
    case 1:
    case 14:
        describe_input(context, words, false);
        return OK;
    case 8:
    case 16:
        describe_input(context, words, true);
        return OK;
    case 2:
    case 15:
        describe_output(words, 320);
        return OK;
    case 9:
    case 17:
        describe_output(words, 512);
        return OK;
    case 13:
        return describe_range(context, info);
    case 5:
        strcpy(info, version);
        strcpy((char *)info + 256, "0.9.8");
        return OK;
    case 6:
        context->has_told_sizes = true;
        words[0] = context->weights, words[1] = context->internal;
        ((uint64_t *)info)[1] = context->weights + context->internal;
        return OK;
    }
    return PARAM_INVALID;
}

int rknn_inputs_set(rknn_context handle, uint32_t count, const struct input *inputs)
{
    const uint8_t *bytes = inputs->buf;
    note("rknn_inputs_set context=%d count=%u type=%d fmt=%d size=%u begins=%02x%02x%02x%02x", (int)handle, count,
         inputs->type, inputs->fmt, inputs->size, bytes[0], bytes[1], bytes[2], bytes[3]);
    struct context *context = alive(handle);
    const struct kind *kind = context->kind;
    uint32_t elements = count_of(context);
    if (is_mini() || inputs->pass_through)
        return PARAM_INVALID;
    if (kind->n_dims == 4 && inputs->fmt != NHWC)
        punish("a layout that is not taken");
    memset(context->elements, 0, sizeof context->elements);
    if (inputs->type == FLOAT32 && kind->type == INT8 && inputs->size == 4 * elements) {
        for (uint32_t index = 0; index < elements; index++)
            context->elements[index] = (int)(((const float *)inputs->buf)[index] / kind->scale + 0.5f) + kind->zp;
        return code_of("rknn_inputs_set");
    }
    /* Data that the library would convert are taken over unchanged: the sum then differs from data in place. */
    bool is_taken = kind->type == FLOAT16 ? inputs->type == FLOAT32 && inputs->size == 4 * elements
                    : kind->type == INT8  ? inputs->type == UINT8 && inputs->size == elements
                                          : inputs->size == elements * kind->element_size;
    if (!is_taken)
        return PARAM_INVALID;
    memcpy(context->elements, inputs->buf, inputs->size);
    return code_of("rknn_inputs_set");
}

/* The result is a sum in which every byte of the input counts by its place. */
static void compute(struct context *context)
{
    const uint8_t *bound = context->bound_input ? context->bound_input->virt_addr : NULL;
    if (bound && !has_rows(context))
        memcpy(context->elements, bound, count_of(context) * context->kind->element_size);
    for (uint32_t row = 0; bound && has_rows(context) && row < context->height; row++)
        memcpy(context->elements + row * ROW, bound + row * PITCH, ROW);
    context->result = 0;
    for (unsigned index = 0; index < sizeof context->elements; index++)
        context->result = 31 * context->result + context->elements[index];
    if (context->bound_output)
        memset(context->bound_output->virt_addr, context->result, OUTPUT);
}

int rknn_run(rknn_context handle, void *extend)
{
    struct context *context = alive(handle);
    const uint8_t *bytes = context->bound_input ? context->bound_input->virt_addr : context->elements;
    note("rknn_run context=%d begins=%02x%02x%02x%02x", (int)handle, bytes[0], bytes[1], bytes[2], bytes[3]);
    if (context->kind->is_dynamic && !context->has_shapes)
        punish("a run without shapes");
    if (extend)
        return PARAM_INVALID;
    if (context->is_in_place && !memory_of_model(context->model))
        punish("a run of a model whose memory is gone");
    if (context->flags & (MEM_ALLOC_OUTSIDE | INTERNAL_ALLOC_OUTSIDE) && !context->has_internal)
        punish("a run without internal memory");
    if (context->flags & MEM_ALLOC_OUTSIDE && !(context->flags & SHARE_WEIGHT_MEM) && !context->has_weights)
        punish("a run without weights");
    compute(context);
    return code_of("rknn_run");
}

int rknn_outputs_get(rknn_context handle, uint32_t count, const struct output *outputs, void *extend)
{
    note("rknn_outputs_get context=%d count=%u", (int)handle, count);
    const struct context *context = alive(handle);
    if (extend || is_mini() || !outputs->is_prealloc || outputs->size != OUTPUT)
        return PARAM_INVALID;
    memset(outputs->buf, context->result, OUTPUT);
    return code_of("rknn_outputs_get");
}

#ifndef WITHOUT_CORE_MASK
int rknn_set_core_mask(rknn_context handle, int mask)
{
    note("rknn_set_core_mask context=%d mask=%d", (int)handle, mask);
    alive(handle);
    return code_of("rknn_set_core_mask");
}
#endif

static struct tensor_mem *allocate(rknn_context handle, uint32_t size)
{
    if (!take(size))
        return NULL;
    int fd = memfd_create("double", 0);
    if (fd < 0 || ftruncate(fd, size))
        return NULL;
    void *address = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return own(handle, (struct tensor_mem){address, 0x10000 + fd, fd, 0, size, ALLOC_INSIDE, address});
}

struct tensor_mem *rknn_create_mem(rknn_context handle, uint32_t size)
{
    note("rknn_create_mem context=%d size=%u", (int)handle, size);
    return code_of("rknn_create_mem") ? NULL : allocate(handle, size);
}

#ifndef WITHOUT_CREATE_MEM2
struct tensor_mem *rknn_create_mem2(rknn_context handle, uint64_t size, uint64_t flags)
{
    note("rknn_create_mem2 context=%d size=%u flags=0x%x", (int)handle, (unsigned)size, (unsigned)flags);
    bool is_refused = is_mini() || !(handle || flags & ALLOC_NO_CONTEXT) || code_of("rknn_create_mem2");
    return is_refused ? NULL : allocate(handle, (uint32_t)size);
}
#endif

struct tensor_mem *rknn_create_mem_from_fd(rknn_context handle, int32_t fd, void *address, uint32_t size, int32_t offset)
{
    note("rknn_create_mem_from_fd context=%d size=%u offset=%d", (int)handle, size, offset);
    if (fd < 0 || !address || code_of("rknn_create_mem_from_fd"))
        return NULL;
    return own(handle, (struct tensor_mem){address, 0x10000 + fd, fd, offset, size, ALLOC_INSIDE, NULL});
}

struct tensor_mem *rknn_create_mem_from_phys(rknn_context handle, uint64_t physical, void *address, uint32_t size)
{
    note("rknn_create_mem_from_phys context=%d size=%u", (int)handle, size);
    if (!physical || !address || code_of("rknn_create_mem_from_phys"))
        return NULL;
    return own(handle, (struct tensor_mem){address, physical, -1, 0, size, ALLOC_INSIDE, NULL});
}

int rknn_destroy_mem(rknn_context handle, struct tensor_mem *mem)
{
    alive(handle);
    for (int index = 0; index < MOST; index++) {
        if (owned[index].mem != mem)
            continue;
        note("rknn_destroy_mem context=%d size=%u", (int)handle, mem->size);
        if (owned[index].owner && owned[index].owner != handle)
            punish("memory destroyed for another context than its own");
        if (!(mem->flags & ALLOC_INSIDE))
            punish("the struct of a memory would never be freed");
        if (mem->priv_data) {
            taken -= mem->size;
            munmap(mem->priv_data, mem->size);
            close(mem->fd);
        }
        owned[index].mem = NULL;
        free(mem);
        return code_of("rknn_destroy_mem");
    }
    punish("memory destroyed twice");
    return FAIL;
}

int rknn_set_weight_mem(rknn_context handle, struct tensor_mem *mem)
{
    note("rknn_set_weight_mem context=%d size=%u", (int)handle, mem->size);
    struct context *context = alive(handle);
    check_mem(mem);
    if (memcmp(context->model, context->text, strlen(context->text)))
        punish("the model was dropped before its weights were taken from it");
    if (mem->size < context->weights)
        return PARAM_INVALID;
    static int times;
    memset(mem->virt_addr, getenv("DOUBLE_REWRITES") ? ++times : (int)context->weights, context->weights);
    context->has_weights = true;
    return code_of("rknn_set_weight_mem");
}

int rknn_set_internal_mem(rknn_context handle, struct tensor_mem *mem)
{
    note("rknn_set_internal_mem context=%d size=%u flags=%u", (int)handle, mem->size, mem->flags);
    struct context *context = alive(handle);
    check_mem(mem);
    if (mem->size < context->internal)
        return PARAM_INVALID;
    context->has_internal = true;
    return code_of("rknn_set_internal_mem");
}

int rknn_set_io_mem(rknn_context handle, struct tensor_mem *mem, const uint32_t *attr)
{
    note("rknn_set_io_mem context=%d size=%u type=%u fmt=%u", (int)handle, mem->size, attr[85], attr[84]);
    check_mem(mem);
    struct context *context = alive(handle);
    bool input = !strncmp((const char *)attr + 72, "input", strlen("input"));
    if (mem->size < attr[91] || (is_mini() && context->flags & MEM_ALLOC_OUTSIDE && !context->has_internal))
        return PARAM_INVALID;
    if (attr[0] == 0)
        *(input ? &context->bound_input : &context->bound_output) = mem;
    return code_of("rknn_set_io_mem");
}

#ifndef WITHOUT_MEM_SYNC
int rknn_mem_sync(rknn_context handle, struct tensor_mem *mem, int mode)
{
    note("rknn_mem_sync context=%d mode=%d", (int)handle, mode);
    alive(handle);
    check_mem(mem);
    return code_of("rknn_mem_sync");
}
#endif

/* Rockchip's media memory zone: this double is loaded a second time under the name of that library. */
struct block {
    int fd;
    uint32_t size;
    void *address;
};

int RK_MPI_MMZ_Alloc(struct block **handle, uint32_t size, uint32_t flags)
{
    note("RK_MPI_MMZ_Alloc size=%u flags=0x%x", size, flags);
    int code = code_of("RK_MPI_MMZ_Alloc");
    if (code)
        return code;
    struct block block = {memfd_create("zone", 0), size, NULL};
    if (ftruncate(block.fd, size))
        return FAIL;
    block.address = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, block.fd, 0);
    *handle = malloc(sizeof block);
    **handle = block;
    return OK;
}

void *RK_MPI_MMZ_Handle2VirAddr(const struct block *block)
{
    return block->address;
}

int RK_MPI_MMZ_Handle2Fd(const struct block *block)
{
    return block->fd;
}

int RK_MPI_MMZ_Free(struct block *block)
{
    note("RK_MPI_MMZ_Free size=%u", block->size);
    munmap(block->address, block->size);
    close(block->fd);
    free(block);
    return OK;
}
