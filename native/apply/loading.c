/* Makes the program's contexts so that they can share memory. */
#include "apply.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/*
 * The sizes in whole pages of the files that the process has open. Rockchip's library holds each buffer by a descriptor.
 */
struct open_files {
    uint64_t bytes[256];
    size_t count;
};

static void read_open_files(struct open_files *files)
{
    DIR *folder = opendir("/proc/self/fd");
    struct dirent *entry;
    struct stat status;
    files->count = 0;
    while (folder && files->count < LENGTH(files->bytes) && (entry = readdir(folder)))
        if (fstat(atoi(entry->d_name), &status) == 0 && (uint64_t)status.st_size % PAGE_BYTES == 0)
            files->bytes[files->count++] = (uint64_t)status.st_size;
    if (folder)
        closedir(folder);
}

/* Returns whether a file of that size was open, and takes it out. */
static bool take_size(struct open_files *files, uint64_t bytes)
{
    for (size_t index = 0; index < files->count; index++) {
        if (files->bytes[index] != bytes)
            continue;
        files->bytes[index] = files->bytes[--files->count];
        return true;
    }
    return false;
}

/*
 * The bytes of the buffers that a duplicate has made, one of which has its commands. 0 if they cannot be known, because
 * other files were opened meanwhile.
 */
static uint64_t made_bytes(struct open_files *before, uint64_t command_bytes, uint64_t most_bytes)
{
    struct open_files after;
    uint64_t bytes = 0;
    bool has_commands = false;
    read_open_files(&after);
    for (size_t index = 0; index < after.count; index++) {
        if (take_size(before, after.bytes[index]))
            continue;
        bytes += after.bytes[index];
        has_commands = has_commands || after.bytes[index] == command_bytes;
    }
    return has_commands && bytes <= most_bytes ? bytes : 0;
}

static bool query_sizes(rknn_context handle, rknn_mem_size *sizes)
{
    memset(sizes, 0, sizeof *sizes);
    return REAL(rknn_query)(handle, QUERY_MEM_SIZE, sizes, sizeof *sizes) == SUCCEEDED;
}

/* The shapes of a model with several may be set later, for each context by itself. */
static bool is_dynamic(const struct content *content, rknn_context handle)
{
    static rknn_input_range range; /* with `making` held */
    enum answer answer = has_dynamic_shapes(content);
    if (answer != UNKNOWN)
        return answer == YES;
    memset(&range, 0, sizeof range);
    return REAL(rknn_query)(handle, QUERY_INPUT_DYNAMIC_RANGE, &range, sizeof range) == SUCCEEDED &&
           range.shape_number > 0;
}

/* A model converted with rknn_batch_size: librknnrt 2.3.2 crashes when a duplicate of it runs. */
static bool is_batched(const struct content *content, rknn_context handle)
{
    rknn_input_output_num count = {0};
    if (REAL(rknn_query)(handle, QUERY_IN_OUT_NUM, &count, sizeof count) != SUCCEEDED)
        return true;
    for (uint32_t index = 0; index < count.n_input; index++) {
        rknn_tensor_attr input = {.index = index};
        if (REAL(rknn_query)(handle, QUERY_INPUT_ATTR, &input, sizeof input) != SUCCEEDED)
            return true;
        if (input.dims[0] > 1 && !declares_elements(content, input.name, input.n_elems))
            return true;
    }
    return false;
}

static const char *objection(const struct content *content, rknn_context handle, const rknn_mem_size *sizes)
{
    if (!sizes->total_internal_size)
        return "no_internal_memory";
    if (is_dynamic(content, handle))
        return "dynamic_shapes";
    if (is_batched(content, handle))
        return "batch";
    return NULL;
}

/*
 * Takes the context into the list, with internal memory; false if there is none, and then it is destroyed. `alone_bytes`:
 * what a context of the model has that shares nothing, without internal memory.
 */
static bool keep(rknn_context handle, const struct model *model, const rknn_mem_size *sizes, uint64_t alone_bytes)
{
    int state = hold(&lock);
    struct context *context = add_context(handle, model);
    if (context) {
        uint64_t internal_bytes = whole_pages(sizes->total_internal_size);
        context->is_managed = true;
        context->internal_bytes = sizes->total_internal_size;
        context->alone_bytes = alone_bytes;
        context->hidden_bytes = alone_bytes + internal_bytes - sizes->total_dma_allocated_size;
    }
    bool is_kept = context && attach(context);
    if (is_kept)
        note_model(model);
    else if (context)
        remove_context(context);
    let_go(&lock, state);
    if (!is_kept)
        REAL(rknn_destroy)(handle);
    return is_kept;
}

/* Waits for the calls of the program on the context, and keeps new ones back. */
static void begin_copy(struct context *source)
{
    int state = hold(&lock);
    while (source->calls)
        wait_for_change();
    source->is_copied = true;
    let_go(&lock, state);
}

static void end_copy(struct context *source)
{
    int state = hold(&lock);
    source->is_copied = false;
    tell_change();
    let_go(&lock, state);
}

static void note_duplicate(struct context *source, rknn_context handle, uint64_t bytes)
{
    int state = hold(&lock);
    struct context *context = find_context(handle);
    context->is_duplicate = true;
    context->duplicate_bytes = bytes;
    note_shared_weights(source);
    note_shared_weights(context);
    note_bytes();
    let_go(&lock, state);
}

int duplicate(struct context *source, rknn_context *handle)
{
    rknn_context made = 0;
    rknn_mem_size sizes;
    struct open_files before;
    uint64_t alone_bytes = source->alone_bytes;
    begin_copy(source);
    read_open_files(&before);
    int code = REAL(rknn_dup_context)(&source->handle, &made);
    end_copy(source);
    if (code != SUCCEEDED)
        return code;
    if (!query_sizes(made, &sizes)) {
        REAL(rknn_destroy)(made);
        return ERROR_FAILED;
    }
    uint64_t command_bytes = sizes.total_dma_allocated_size - alone_bytes;
    uint64_t bytes = made_bytes(&before, command_bytes, alone_bytes + command_bytes);
    if (!keep(made, &source->model, &sizes, alone_bytes))
        return ERROR_NO_MEMORY;
    note_duplicate(source, made, bytes);
    *handle = made;
    return SUCCEEDED;
}

/* A failed rknn_init may leave a context behind, which crashes if it is destroyed after too little memory. */
static void drop_failed(rknn_context handle, int code)
{
    if (handle && code != ERROR_NO_MEMORY)
        REAL(rknn_destroy)(handle);
}

/* Loads the first context of a model, whose internal memory this library gives. */
static const char *load(rknn_context *handle, const struct content *content, const struct model *model)
{
    rknn_context made = 0;
    rknn_mem_size sizes;
    uint32_t flags = model->flags | FLAG_INTERNAL_ALLOC_OUTSIDE;
    int code = REAL(rknn_init)(&made, (void *)content->bytes, content->size, flags, NULL);
    if (code != SUCCEEDED) {
        drop_failed(made, code);
        return "call_failed";
    }
    const char *reason = query_sizes(made, &sizes) ? objection(content, made, &sizes) : "library_too_old";
    if (reason) {
        REAL(rknn_destroy)(made);
        return reason;
    }
    note_version(made);
    if (!keep(made, model, &sizes, sizes.total_dma_allocated_size))
        return "call_failed";
    *handle = made;
    return NULL;
}

static bool has_functions(void)
{
    return REAL(rknn_dup_context) && REAL(rknn_query) && REAL(rknn_create_mem) && REAL(rknn_create_mem_from_fd) &&
           REAL(rknn_destroy_mem) && REAL(rknn_set_internal_mem) && REAL(rknn_destroy);
}

const char *load_shared(rknn_context *handle, struct content *content, const struct model *model)
{
    if (is_mini())
        return load_mini(handle, content, model);
    if (!has_functions())
        return "library_too_old";
    int state = hold(&lock);
    struct context *source = may_share_weights(model) ? find_equal(model) : NULL;
    let_go(&lock, state);
    if (!source)
        return load(handle, content, model);
    if (duplicate(source, handle) == SUCCEEDED)
        return NULL;
    state = hold(&lock);
    note_failure("rknn_dup_context");
    let_go(&lock, state);
    return "call_failed";
}
