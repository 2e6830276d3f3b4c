/*
 * An rknn_context with its tensors and the memory allocated for it outside the library
 * (measured/runtimes/rknn/adapter.py).
 */
#include "native.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct library library;
char driver_version[NAME_BYTES];

/* The tensors that contexts share; the index is the number of their memory. */
static struct shared_tensors {
    int64_t number;
    struct tensor_memories *memories;
} *shared_tensors;
static size_t shared_tensors_count;

static struct context *describe(const struct line *line)
{
    struct context *context = allocate_bytes(sizeof *context);
    const char *allocator = field(line, "allocator");
    context->line = copy_of(line);
    context->data = read_data(context->line);
    context->shares_internal = field(line, "internal");
    context->internal_outside = has_word(line, "outside", "internal");
    context->weights_outside = has_word(line, "outside", "weights");
    context->input_in_place = has_word(line, "zero_copy", "input");
    context->output_in_place = has_word(line, "zero_copy", "output");
    context->native_output = has_word(line, "zero_copy", "native_output");
    context->model_in_place = has_word(line, "zero_copy", "model");
    context->allocator = allocator_of(allocator ? allocator : "");
    context->own.inputs.allocator = context->own.outputs.allocator = context->allocator;
    return context;
}

static void forget_context(struct context *context)
{
    if (context->memories == &context->own) {
        forget_memory(&context->own.inputs);
        forget_memory(&context->own.outputs);
    }
    free(context->data.items);
    free_line(context->line);
    free(context);
}

/* Whether the library leaves the internal memory to the application. */
static bool gives_internal(const struct context *context)
{
    return context->shares_internal || context->internal_outside;
}

/* Refuses what the library cannot do, and what would run in memory that nobody has allocated. */
static bool check_memory(const struct context *context, bool shares_weights, struct failure *failure)
{
    const char *option = field(context->line, "option"), *device = field(context->line, "device");
    if (option) {
        not_supported(failure, "unknown_option");
        add_text(failure, "runtime", "RKNN");
        add_text(failure, "option", option);
        return add_text(failure, "valid", "none");
    }
    if (device) {
        not_supported(failure, "rknn_npu_only");
        return add_text(failure, "device", device);
    }
    if (field(context->line, "device_io"))
        return not_supported(failure, "rknn_already_on_device");
    bool has_weights = shares_weights || context->weights_outside;
    if (has_weights && !gives_internal(context))
        return not_supported(failure, "rknn_weights_alone_outside");
    if (has_weights && context->model_in_place)
        return not_supported(failure, "rknn_weights_twice");
    return true;
}

/* The flags for allocation. The mini runtime ignores 0x200 and overwrites other memory, so it needs 0x10. */
static uint32_t flags_of(const struct context *context)
{
    if (context->weights_outside || (library.is_mini && gives_internal(context)))
        return FLAG_MEM_ALLOC_OUTSIDE;
    return gives_internal(context) ? FLAG_INTERNAL_ALLOC_OUTSIDE : 0;
}

static struct tensor_memories *memories_of(struct context *context)
{
    const char *io = field(context->line, "io");
    if (!io)
        return &context->own;
    for (size_t index = 0; index < shared_tensors_count; index++)
        if (shared_tensors[index].number == number_of(io))
            return shared_tensors[index].memories;
    shared_tensors = with_space(shared_tensors, shared_tensors_count, sizeof *shared_tensors);
    struct tensor_memories *memories = allocate_bytes(sizeof *memories);
    *memories = context->own;
    shared_tensors[shared_tensors_count++] = (struct shared_tensors){number_of(io), memories};
    return memories;
}

static void add_piece(struct context *context, const struct piece *piece, const char *kind)
{
    context->pieces[context->piece_count++] = *piece;
    if (kind)
        context->allocations[context->allocation_count++] = allocation_of(piece, kind);
}

static bool read_driver_version(const struct context *context, struct failure *failure)
{
    rknn_sdk_version version = {0};
    if (*driver_version)
        return true;
    if (!query(context->handle, QUERY_SDK_VERSION, &version, sizeof version, failure))
        return false;
    memcpy(driver_version, version.drv_version, sizeof driver_version - 1);
    return true;
}

/* Gives a context the weights and internal memory that the application allocates for it alone. */
static bool give_memory(struct context *context, bool is_loaded, struct failure *failure)
{
    bool gives_weights = is_loaded && flags_of(context) == FLAG_MEM_ALLOC_OUTSIDE;
    rknn_mem_size sizes;
    struct piece piece;
    if (!gives_weights && !context->internal_outside)
        return true;
    if (!query_mem_size(context->handle, &sizes, failure))
        return false;
    if (gives_weights) {
        if (!allocate(&piece, context->allocator, context->handle, sizes.total_weight_size, failure))
            return false;
        add_piece(context, &piece, "weights");
        context->weights = piece.place;
        context->weights_bytes = piece.memory->size;
        if (!set_weight_mem(context->handle, piece.memory, failure))
            return false;
    }
    if (!context->internal_outside)
        return true;
    if (!allocate(&piece, context->allocator, context->handle, sizes.total_internal_size, failure))
        return false;
    add_piece(context, &piece, "internal");
    return set_internal_mem(context->handle, piece.memory, failure);
}

static bool bind_to_core(const struct context *context, struct failure *failure)
{
    const char *core = field(context->line, "core");
    return !core || set_core_mask(context->handle, 1 << number_of(core), failure);
}

/* Sets core, shapes and application memory of a new context; destroys it if that fails. */
static bool furnish(struct context *context, bool is_loaded, bool may_be_dynamic, struct failure *failure)
{
    context->memories = memories_of(context);
    if (read_driver_version(context, failure) && bind_to_core(context, failure) &&
        (!may_be_dynamic || set_shapes(context->handle, &context->data, &context->is_dynamic, failure)) &&
        give_memory(context, is_loaded, failure))
        return true;
    struct failure first = *failure;
    *failure = (struct failure){0};
    if (destroy_context(context, failure))
        *failure = first;
    else
        forget(&first);
    return false;
}

/* Reads a model into memory. With weights outside, the library reads them there only in rknn_set_weight_mem. */
static uint8_t *read_model(const char *path, uint32_t *bytes, struct failure *failure)
{
    int64_t size = file_bytes(path);
    int fd = size < 0 ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    uint8_t *content = fd < 0 ? NULL : malloc(size ? (size_t)size : 1);
    if (!content)
        fail_of_system(failure, fd < 0 ? errno : ENOMEM, path);
    ssize_t count;
    for (int64_t done = 0; content && done < size; done += count)
        if ((count = read(fd, content + done, (size_t)(size - done))) <= 0)
            break;
    if (fd >= 0)
        close(fd);
    *bytes = (uint32_t)size;
    return content;
}

bool append_interface_of(const char *path, struct text *answer, struct failure *failure)
{
    uint32_t bytes;
    rknn_context handle;
    uint8_t *content = read_model(path, &bytes, failure);
    if (!content || !init(&handle, content, bytes, 0, NULL, failure)) {
        free(content);
        return false;
    }
    bool is_well = append_interface(handle, answer, failure);
    struct failure second = {0};
    if (!destroy_handle(handle, &second)) {
        forget(failure);
        *failure = second;
        is_well = false;
    }
    free(content);
    return is_well;
}

/* Makes a context from the model's file, whose copy is freed as soon as the library permits. */
static bool load_with(struct context *context, uint32_t flags, rknn_init_extend *extend, bool is_loaded,
                      struct failure *failure)
{
    uint32_t bytes;
    uint8_t *content = read_model(field(context->line, "path"), &bytes, failure);
    bool is_well = content && init(&context->handle, content, bytes, flags, extend, failure) &&
                   furnish(context, is_loaded, context->data.count, failure);
    free(content);
    return is_well;
}

/* Reads the model's file into NPU memory, which stays until after the context is destroyed. */
static bool load_in_place(struct context *context, struct failure *failure)
{
    const char *path = field(context->line, "path");
    int64_t size = file_bytes(path);
    if (size < 0)
        return fail_of_system(failure, errno, path);
    rknn_tensor_mem *memory = create_model_mem((uint32_t)size, failure);
    if (!memory)
        return false;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return fail_of_system(failure, errno, path);
    ssize_t count;
    for (int64_t done = 0; done < size; done += count)
        if ((count = read(fd, (char *)memory->virt_addr + done, (size_t)(size - done))) <= 0)
            break;
    close(fd);
    rknn_init_extend extend = {
        .real_model_size = (uint32_t)size,
        .model_buffer_fd = memory->fd,
        .model_buffer_flags = memory->flags,
    };
    uint32_t flags = flags_of(context) | FLAG_MODEL_BUFFER_ZERO_COPY;
    if (!init(&context->handle, memory->virt_addr, (uint32_t)size, flags, &extend, failure))
        return false;
    struct piece piece = {.context = context->handle, .memory = memory};
    add_piece(context, &piece, NULL);
    return furnish(context, true, context->data.count, failure);
}

static bool load(struct context *context, struct context *source, struct failure *failure)
{
    (void)source;
    if (!check_memory(context, false, failure))
        return false;
    if (context->model_in_place)
        return load_in_place(context, failure);
    return load_with(context, flags_of(context), NULL, true, failure);
}

static bool make_dup(struct context *context, struct context *source, struct failure *failure)
{
    if (gives_internal(source) && !gives_internal(context))
        /* Seen with 2.3.2: the dup has its source's flag but no internal memory, and runs with return code 0. */
        return not_supported(failure, "rknn_dup_without_internal");
    if (dup_context(source->handle, &context->handle, failure))
        return furnish(context, false, source->is_dynamic, failure);
    if (!failure->is_not_supported && (library.is_mini || source->is_dynamic)) {
        failure->is_not_supported = true;
        append_field(&failure->fields, "kind", "not_supported");
    }
    return false;
}

static bool share_weights(struct context *context, struct context *source, struct failure *failure)
{
    rknn_init_extend extend = {.ctx = source->handle};
    return load_with(context, flags_of(context) | FLAG_SHARE_WEIGHT_MEM, &extend, false, failure);
}

/* The library writes the weights again into the memory of the source; it does not compare them. */
static bool use_weights_of(struct context *context, const struct context *source, struct failure *failure)
{
    rknn_mem_size sizes;
    struct piece piece;
    if (!query_mem_size(context->handle, &sizes, failure))
        return false;
    uint32_t before = crc32(0, source->weights.address, source->weights_bytes);
    if (!name_again(&piece, context->handle, source->weights, sizes.total_weight_size, failure))
        return false;
    add_piece(context, &piece, NULL);
    if (!set_weight_mem(context->handle, piece.memory, failure))
        return false;
    if (crc32(0, source->weights.address, source->weights_bytes) == before)
        return true;
    return destroy_context(context, failure) && fail(failure, "rknn_weights_overwritten");
}

static bool share_weight_memory(struct context *context, struct context *source, struct failure *failure)
{
    uint32_t bytes;
    if (!check_memory(context, true, failure))
        return false;
    uint8_t *content = read_model(field(context->line, "path"), &bytes, failure);
    bool is_well = content && init(&context->handle, content, bytes, FLAG_MEM_ALLOC_OUTSIDE, NULL, failure) &&
                   furnish(context, false, context->data.count, failure) && use_weights_of(context, source, failure);
    free(content);
    return is_well;
}

/* Rockchip's API does not allow rknn_run of one context from two threads. */
static bool share_context(struct context *context, struct context *source, struct failure *failure)
{
    (void)context, (void)source;
    return not_supported(failure, "rknn_one_thread");
}

static const struct {
    const char *name;
    bool (*make)(struct context *, struct context *, struct failure *);
} mechanisms[] = {
    {"load", load},
    {"dup", make_dup},
    {"shared_weights", share_weights},
    {"shared_weight_memory", share_weight_memory},
    {"shared_context", share_context},
};

struct context *make_context(const struct line *line, struct context **contexts, struct failure *failure)
{
    const char *mechanism = field(line, "mechanism"), *source = field(line, "source");
    struct context *context = describe(line);
    for (size_t index = 0; index < LENGTH(mechanisms); index++)
        if (strcmp(mechanisms[index].name, mechanism) == 0)
            return mechanisms[index].make(context, source ? contexts[number_of(source)] : NULL, failure) ? context
                                                                                                         : NULL;
    fail_of_system(failure, EINVAL, mechanism);
    return NULL;
}

static bool open_all_inputs(struct context *context, struct failure *failure)
{
    int plain = context->is_dynamic ? QUERY_CURRENT_INPUT_ATTR : QUERY_INPUT_ATTR;
    int native = context->is_dynamic ? QUERY_CURRENT_NATIVE_INPUT_ATTR : QUERY_NATIVE_INPUT_ATTR;
    /* The mini runtime has no call that copies. */
    enum way way = context->input_in_place ? IN_PLACE : library.is_mini ? STAGED : COPIED;
    uint32_t count;
    rknn_tensor_attr *attributes = query_inputs(context->handle, library.is_mini ? native : plain, &count, failure);
    bool is_well = attributes && open_inputs(&context->inputs, way, context->handle, attributes, count, &context->data,
                                             &context->memories->inputs, failure);
    free(attributes);
    return is_well;
}

static bool open_all_outputs(struct context *context, struct failure *failure)
{
    int plain_command = context->is_dynamic ? QUERY_CURRENT_OUTPUT_ATTR : QUERY_OUTPUT_ATTR;
    int native_command = context->is_dynamic ? QUERY_CURRENT_NATIVE_OUTPUT_ATTR : QUERY_NATIVE_OUTPUT_ATTR;
    bool is_native = context->native_output && !library.is_mini;
    bool is_in_place = context->output_in_place || context->native_output;
    enum way way = is_in_place ? IN_PLACE : library.is_mini ? STAGED : COPIED;
    uint32_t count;
    rknn_tensor_attr *native = query_outputs(context->handle, native_command, &count, failure), *plain = NULL;
    if (native && !library.is_mini)
        plain = query_outputs(context->handle, plain_command, &count, failure);
    rknn_tensor_attr *used = library.is_mini || is_native ? native : plain;
    bool is_well = native && (plain || library.is_mini) &&
                   open_outputs(&context->outputs, way, context->handle, used, is_native ? plain : NULL, count,
                                &context->memories->outputs, failure);
    free(native);
    free(plain);
    return is_well;
}

/*
 * Makes the tensors at the first inference. The mini runtime needs them after the internal memory, which may be set
 * once all contexts exist, and the library itself makes its own no earlier.
 */
bool infer(struct context *context, struct failure *failure)
{
    if (!context->outputs.is_open && !(open_all_inputs(context, failure) && open_all_outputs(context, failure)))
        return false;
    return move_in(&context->inputs, context->handle, failure) && run(context->handle, failure) &&
           move_out(&context->outputs, context->handle, failure);
}

/*
 * Appends the library's own sizes. For a model in place, there are none before the first inference: librknnrt 1.6.0 and
 * 2.3.2 crash in rknn_dup_context after RKNN_QUERY_MEM_SIZE on such a context.
 */
bool append_account(struct context *context, struct text *answer, struct failure *failure)
{
    rknn_mem_size sizes;
    if (context->model_in_place && !context->outputs.is_open)
        return true;
    if (!query_mem_size(context->handle, &sizes, failure))
        return false;
    append(answer, "\tweights_bytes=%u\tinternal_bytes=%u\tdma_bytes=%llu", sizes.total_weight_size,
           sizes.total_internal_size, (unsigned long long)sizes.total_dma_allocated_size);
    return true;
}

static void append_some(const struct allocation *allocations, size_t count, struct text *answer)
{
    for (size_t index = 0; index < count; index++)
        append(answer, "\tallocation=%s,%u,%llu", allocations[index].kind, allocations[index].bytes,
               (unsigned long long)allocations[index].inode);
}

void append_allocations(const struct context *context, struct text *answer)
{
    append_some(context->allocations, context->allocation_count, answer);
    append_some(context->inputs.allocations, context->inputs.allocation_count, answer);
    append_some(context->outputs.allocations, context->outputs.allocation_count, answer);
}

static bool use_internal(struct context *context, struct place whole, uint32_t bytes, struct failure *failure)
{
    struct piece piece;
    if (!name_again(&piece, context->handle, whole, bytes, failure))
        return false;
    add_piece(context, &piece, NULL);
    return set_internal_mem(context->handle, piece.memory, failure);
}

bool share_internal(struct context **members, size_t count, struct failure *failure)
{
    uint32_t *bytes = allocate_bytes(count * sizeof *bytes), most = 0;
    bool is_well = true;
    for (size_t index = 0; is_well && index < count; index++) {
        rknn_mem_size sizes;
        is_well = query_mem_size(members[index]->handle, &sizes, failure);
        bytes[index] = sizes.total_internal_size;
        most = bytes[index] > most ? bytes[index] : most;
    }
    struct piece whole;
    is_well = is_well && allocate(&whole, CREATE_MEM, members[0]->handle, most, failure);
    if (is_well) {
        add_piece(members[0], &whole, "internal");
        members[0]->shared_internal = whole.place;
    }
    for (size_t index = 0; is_well && index < count; index++)
        is_well = use_internal(members[index], whole.place, bytes[index], failure);
    free(bytes);
    return is_well;
}

bool join_internal(struct context *context, const struct context *member, struct failure *failure)
{
    rknn_mem_size sizes;
    return query_mem_size(context->handle, &sizes, failure) &&
           use_internal(context, member->shared_internal, sizes.total_internal_size, failure);
}

static bool release_io(struct context *context, struct failure *failure)
{
    return release_tensors(&context->outputs, failure) && release_tensors(&context->inputs, failure);
}

/*
 * Lets the next inference make new tensors. Seen with the mini runtime 2.3.2: once an input was bound in a type that is
 * converted, binding it again fails in rknn_run ("not support input dtype=UINT8, output dtype=UINT8").
 */
bool renew_tensors(struct context *context, struct failure *failure)
{
    if (library.is_mini)
        return not_supported(failure, "rknn_bound_once");
    if (!release_io(context, failure))
        return false;
    forget_memory(&context->memories->inputs);
    forget_memory(&context->memories->outputs);
    return true;
}

/* Releases memory first: rknn_destroy_mem crashes after rknn_destroy. */
bool destroy_context(struct context *context, struct failure *failure)
{
    if (!release_io(context, failure))
        return false;
    while (context->piece_count)
        if (!release(&context->pieces[--context->piece_count], failure))
            return false;
    if (!destroy_handle(context->handle, failure))
        return false;
    forget_context(context);
    return true;
}
