/* Rockchip's C API: every call is checked by its return code and by what the library prints during it. */
#include "native.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static void *library_handle;

/*
 * Words that mean a lack of memory, and words that name another cause if both occur
 * (measured/runtimes/rknn/diagnosis.py, which makes the message). Here they decide whether to destroy a context that a
 * failed rknn_init leaves behind.
 */
static const char *const lack_of_memory[] = {
    "failed to allocate handle", "failed to allocate fd",      "failed to allocate model memory",
    "failed to convert handle(", "DMA Heap allocation failed", "failed to malloc npu memory",
};
static const char *const other_causes[] = {
    "requires driver version", "need to insmod", "Failed to open DMA heap", "current platform", "failed to map memory",
    "failed to convert fd(",   "errno: 24",
};

void use_library(void *handle)
{
    library_handle = handle;
}

static bool has_any(const char *words, const char *const *signs, size_t count)
{
    for (size_t index = 0; index < count; index++)
        if (strstr(words, signs[index]))
            return true;
    return false;
}

static bool fail_call(const char *call, int code, const char *words, struct failure *failure)
{
    char number[16];
    snprintf(number, sizeof number, "%d", code);
    forget(failure);
    append_field(&failure->fields, "call", call);
    append_field(&failure->fields, "result", number);
    if (!words)
        return false;
    append_field(&failure->fields, "written", words);
    /* A query also serves to ask whether the model has something; if not, there is nothing to explain. */
    if (strcmp(call, "rknn_query")) {
        failure->is_lack_of_memory = has_any(words, lack_of_memory, LENGTH(lack_of_memory)) &&
                                     !has_any(words, other_causes, LENGTH(other_causes));
        append_facts(&failure->fields, words);
    }
    return false;
}

static bool has_ended(const char *call, int code, int64_t written, struct failure *failure)
{
    struct text words = {0};
    bool has_words = read_error_words(written, &words);
    bool is_well = !code && !has_words;
    if (!is_well)
        fail_call(call, code, has_words ? words.bytes : NULL, failure);
    clear(&words);
    return is_well;
}

static void *function_of(const char *name, struct failure *failure)
{
    void *function = dlsym(library_handle, name);
    if (!function) {
        not_supported(failure, "rknn_function_missing");
        add_text(failure, "function", name);
    }
    return function;
}

#define FUNCTION(name, failure)                                                                                        \
    (__extension__({                                                                                                   \
        static __typeof__(&name) function;                                                                             \
        if (!function)                                                                                                 \
            function = (__typeof__(&name))function_of(#name, failure);                                                 \
        function;                                                                                                      \
    }))

/* Calls a function that returns a code. */
#define CALL(name, failure, ...)                                                                                       \
    (__extension__({                                                                                                   \
        int64_t written = words_bytes();                                                                               \
        __typeof__(&name) called = FUNCTION(name, failure);                                                            \
        called &&has_ended(#name, called(__VA_ARGS__), written, failure);                                              \
    }))

/* Calls a function that returns memory. */
#define CREATE(name, failure, ...)                                                                                     \
    (__extension__({                                                                                                   \
        int64_t written = words_bytes();                                                                               \
        __typeof__(&name) called = FUNCTION(name, failure);                                                            \
        rknn_tensor_mem *memory = called ? called(__VA_ARGS__) : NULL;                                                 \
        called &&has_ended(#name, memory ? 0 : -1, written, failure) ? memory : NULL;                                  \
    }))

bool init(rknn_context *context, void *model, uint32_t bytes, uint32_t flags, rknn_init_extend *extend,
          struct failure *failure)
{
    *context = 0;
    if (CALL(rknn_init, failure, context, model, bytes, flags, extend))
        return true;
    /*
     * A failed init may leave memory and a context behind. If memory for internal tensors was missing, librknnrt 1.6.0
     * and 2.3.2 leave a context that crashes in rknn_destroy.
     */
    struct failure second = {0};
    if (*context && !failure->is_lack_of_memory && !destroy_handle(*context, &second)) {
        forget(failure);
        *failure = second;
    }
    return false;
}

bool dup_context(rknn_context source, rknn_context *context, struct failure *failure)
{
    *context = 0;
    return CALL(rknn_dup_context, failure, &source, context);
}

bool destroy_handle(rknn_context context, struct failure *failure)
{
    return CALL(rknn_destroy, failure, context);
}

bool query(rknn_context context, int command, void *info, uint32_t bytes, struct failure *failure)
{
    return CALL(rknn_query, failure, context, command, info, bytes);
}

bool query_mem_size(rknn_context context, rknn_mem_size *sizes, struct failure *failure)
{
    *sizes = (rknn_mem_size){0};
    return query(context, QUERY_MEM_SIZE, sizes, sizeof *sizes, failure);
}

bool set_inputs(rknn_context context, uint32_t count, rknn_input *inputs, struct failure *failure)
{
    return CALL(rknn_inputs_set, failure, context, count, inputs);
}

bool run(rknn_context context, struct failure *failure)
{
    return CALL(rknn_run, failure, context, NULL);
}

bool get_outputs(rknn_context context, uint32_t count, rknn_output *outputs, struct failure *failure)
{
    return CALL(rknn_outputs_get, failure, context, count, outputs, NULL);
}

bool set_input_shapes(rknn_context context, uint32_t count, rknn_tensor_attr *attributes, struct failure *failure)
{
    return CALL(rknn_set_input_shapes, failure, context, count, attributes);
}

bool set_core_mask(rknn_context context, int mask, struct failure *failure)
{
    return CALL(rknn_set_core_mask, failure, context, mask);
}

rknn_tensor_mem *create_mem(rknn_context context, uint32_t bytes, struct failure *failure)
{
    return CREATE(rknn_create_mem, failure, context, bytes);
}

rknn_tensor_mem *create_model_mem(uint32_t bytes, struct failure *failure)
{
    rknn_tensor_mem *memory = CREATE(rknn_create_mem2, failure, 0, bytes, MEM_FLAG_ALLOC_NO_CONTEXT);
    /* librknnmrt 2.3.2 has the function, but gives no memory without a context, and reports nothing. */
    if (!memory && !failure->is_not_supported && !strstr(failure->fields.bytes, "\twritten="))
        not_supported(failure, "rknn_no_model_memory");
    return memory;
}

rknn_tensor_mem *create_mem_from_fd(rknn_context context, int fd, void *address, uint32_t bytes,
                                    struct failure *failure)
{
    return CREATE(rknn_create_mem_from_fd, failure, context, fd, address, bytes, 0);
}

rknn_tensor_mem *create_mem_from_phys(rknn_context context, uint64_t physical, void *address, uint32_t bytes,
                                      struct failure *failure)
{
    return CREATE(rknn_create_mem_from_phys, failure, context, physical, address, bytes);
}

bool destroy_mem(rknn_context context, rknn_tensor_mem *memory, struct failure *failure)
{
    return CALL(rknn_destroy_mem, failure, context, memory);
}

bool set_weight_mem(rknn_context context, rknn_tensor_mem *memory, struct failure *failure)
{
    return CALL(rknn_set_weight_mem, failure, context, memory);
}

bool set_internal_mem(rknn_context context, rknn_tensor_mem *memory, struct failure *failure)
{
    return CALL(rknn_set_internal_mem, failure, context, memory);
}

bool set_io_mem(rknn_context context, rknn_tensor_mem *memory, rknn_tensor_attr *attribute, struct failure *failure)
{
    return CALL(rknn_set_io_mem, failure, context, memory, attribute);
}

/* Before 1.6.0 the library synchronises the CPU's caches with the memory by itself. */
bool sync_mem(rknn_context context, rknn_tensor_mem *memory, int mode, struct failure *failure)
{
    return !dlsym(library_handle, "rknn_mem_sync") || CALL(rknn_mem_sync, failure, context, memory, mode);
}
