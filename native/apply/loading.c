/* Makes the program's contexts so that they can share memory. */
#include "plan.h"

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

/* Returns the sizes of the files that were opened since. */
static struct open_files new_files(struct open_files *before)
{
    struct open_files after, made = {.count = 0};
    read_open_files(&after);
    for (size_t index = 0; index < after.count; index++)
        if (!take_size(before, after.bytes[index]))
            made.bytes[made.count++] = after.bytes[index];
    return made;
}

/*
 * The bytes of the buffers that a duplicate has made, one of which has its commands. 0 if they cannot be known, because
 * other files were opened meanwhile.
 */
static uint64_t bytes_of_duplicate(const struct open_files *made, uint64_t command_bytes, uint64_t most_bytes)
{
    uint64_t bytes = 0;
    bool has_commands = false;
    for (size_t index = 0; index < made->count; index++) {
        bytes += made->bytes[index];
        has_commands = has_commands || made->bytes[index] == command_bytes;
    }
    return has_commands && bytes <= most_bytes ? bytes : 0;
}

/*
 * A context without internal memory has two buffers: the list of its tasks, and its weights and commands with a copy of
 * that list. Returns the size of the first, the smaller one; 0 if it cannot be known.
 */
static uint64_t bytes_of_tasks(const struct open_files *made, uint64_t both_bytes)
{
    for (size_t one = 0; one < made->count; one++)
        for (size_t other = 0; other < made->count; other++)
            if (made->bytes[one] < made->bytes[other] && made->bytes[one] + made->bytes[other] == both_bytes)
                return made->bytes[one];
    return 0;
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
 * What the context would have without this library. A duplicate by the program itself (`content`: NULL) has the same,
 * and its internal memory. A model that is loaded by its path is used in place, in a buffer of the file's size that
 * MEM_SIZE counts twice.
 */
static void set_bytes(struct context *context, const struct content *content, const rknn_mem_size *sizes)
{
    uint64_t internal_bytes = whole_pages(sizes->total_internal_size);
    if (!content) {
        context->alone_bytes = context->made_bytes;
        context->hidden_bytes = internal_bytes;
        return;
    }
    uint64_t file_bytes = content->read && context->loaded.task_bytes ? whole_pages(content->size) : 0;
    context->alone_bytes = file_bytes ? file_bytes + context->loaded.task_bytes : context->loaded.bytes;
    uint64_t told_bytes = context->alone_bytes + file_bytes + internal_bytes;
    context->hidden_bytes = told_bytes - sizes->total_dma_allocated_size;
}

static void set_planned_core(const struct context *context)
{
    const struct plan_context *line = context->line;
    if (!line || line->core < 0)
        return;
    if (REAL(rknn_set_core_mask) && REAL(rknn_set_core_mask)(context->handle, 1 << line->core) == SUCCEEDED)
        return;
    int state = hold(&lock);
    note_failure("rknn_set_core_mask");
    let_go(&lock, state);
}

/* Takes the context into the list, with internal memory; false if there is none, and then it is destroyed. */
static bool keep(const struct context *made, const struct content *content, const rknn_mem_size *sizes)
{
    int state = hold(&lock);
    struct context *context = add_context(made->handle, &made->model);
    if (context) {
        context->is_managed = true;
        context->group = first_group(made->line);
        context->internal_bytes = sizes->total_internal_size;
        context->loaded = made->loaded;
        context->made_bytes = made->made_bytes;
        set_bytes(context, content, sizes);
    }
    bool is_kept = context && attach(context);
    if (is_kept) {
        context->line = made->line;
        note_model(&made->model);
    } else if (context) {
        remove_context(context);
    }
    let_go(&lock, state);
    if (is_kept)
        set_planned_core(made);
    else
        REAL(rknn_destroy)(made->handle);
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

static void note_duplicate(struct context *source, rknn_context handle)
{
    int state = hold(&lock);
    note_shared_weights(source);
    note_shared_weights(find_context(handle));
    let_go(&lock, state);
}

int duplicate(struct context *source, const struct content *content, rknn_context *handle, struct plan_context *line)
{
    struct context made = {.model = source->model, .loaded = source->loaded, .line = line};
    rknn_mem_size sizes;
    struct open_files before;
    begin_copy(source);
    read_open_files(&before);
    int code = REAL(rknn_dup_context)(&source->handle, &made.handle);
    end_copy(source);
    if (code != SUCCEEDED)
        return code;
    if (!query_sizes(made.handle, &sizes)) {
        REAL(rknn_destroy)(made.handle);
        return ERROR_FAILED;
    }
    /* MEM_SIZE counts the buffer of the weights for a duplicate too. */
    uint64_t command_bytes = sizes.total_dma_allocated_size - source->loaded.bytes;
    struct open_files files = new_files(&before);
    made.made_bytes = bytes_of_duplicate(&files, command_bytes, sizes.total_dma_allocated_size);
    if (!keep(&made, content, &sizes))
        return ERROR_NO_MEMORY;
    if (content)
        note_duplicate(source, made.handle);
    *handle = made.handle;
    return SUCCEEDED;
}

/* A failed rknn_init may leave a context behind, which crashes if it is destroyed after too little memory. */
static void drop_failed(rknn_context handle, int code)
{
    if (handle && code != ERROR_NO_MEMORY)
        REAL(rknn_destroy)(handle);
}

/* Loads the first context of a model, whose internal memory this library gives. */
static const char *load(rknn_context *handle, const struct content *content, const struct model *model,
                        struct plan_context *line)
{
    struct context made = {.model = *model, .line = line};
    rknn_mem_size sizes;
    struct open_files before;
    uint32_t flags = model->flags | FLAG_INTERNAL_ALLOC_OUTSIDE;
    read_open_files(&before);
    int code = REAL(rknn_init)(&made.handle, (void *)content->bytes, content->size, flags, NULL);
    if (code != SUCCEEDED) {
        drop_failed(made.handle, code);
        return "call_failed";
    }
    const char *reason =
        query_sizes(made.handle, &sizes) ? objection(content, made.handle, &sizes) : "library_too_old";
    if (reason) {
        REAL(rknn_destroy)(made.handle);
        return reason;
    }
    note_version(made.handle);
    struct open_files files = new_files(&before);
    made.made_bytes = sizes.total_dma_allocated_size;
    made.loaded = (struct loaded_bytes){made.made_bytes, bytes_of_tasks(&files, made.made_bytes)};
    if (!keep(&made, content, &sizes))
        return "call_failed";
    *handle = made.handle;
    return NULL;
}

static bool has_functions(void)
{
    return REAL(rknn_dup_context) && REAL(rknn_query) && REAL(rknn_create_mem) && REAL(rknn_create_mem_from_fd) &&
           REAL(rknn_destroy_mem) && REAL(rknn_set_internal_mem) && REAL(rknn_destroy);
}

static const char *load_planned(rknn_context *handle, struct content *content, const struct model *model,
                                struct plan_context *line)
{
    if (is_mini())
        return load_mini(handle, content, model, line);
    int state = hold(&lock);
    struct context *source = find_equal(model, line);
    let_go(&lock, state);
    if (!source)
        return load(handle, content, model, line);
    if (duplicate(source, content, handle, line) == SUCCEEDED)
        return NULL;
    state = hold(&lock);
    note_failure("rknn_dup_context");
    let_go(&lock, state);
    return "call_failed";
}

const char *load_shared(rknn_context *handle, struct content *content, const struct model *model)
{
    if (!is_mini() && !has_functions())
        return "library_too_old";
    int state = hold(&lock);
    struct plan_context *line = take_line(model, content->path);
    let_go(&lock, state);
    const char *reason = load_planned(handle, content, model, line);
    if (!reason)
        return NULL;
    state = hold(&lock);
    give_line_back(line);
    let_go(&lock, state);
    return reason;
}
