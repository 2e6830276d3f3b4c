/* Digests of outputs, so that a run with this library can be compared with one without. */
#include "apply.h"

#include <stdlib.h>
#include <string.h>

/* The memory that the program has set for an output. */
struct output_memory {
    struct output_memory *next;
    rknn_tensor_mem *mem;
    rknn_tensor_attr attribute;
};

bool has_digests(void)
{
    static int answer = -1;
    if (answer < 0) {
        const char *setting = getenv("REUSEBENCH_APPLY_DIGESTS");
        answer = setting && strcmp(setting, "1") == 0;
    }
    return answer;
}

static uint64_t mixed(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    hash = (hash ^ hash >> 32) * UINT64_C(0xd6e8feb86659fd93);
    return hash ^ hash >> 29;
}

static void add_word(struct outputs_digest *digest, uint64_t word)
{
    digest->words[0] = mixed(digest->words[0], word);
    digest->words[1] = mixed(digest->words[1] + UINT64_C(0x2545f4914f6cdd1d), word ^ digest->words[0]);
}

static void add_bytes(struct outputs_digest *digest, const void *bytes, uint64_t count)
{
    const char *begin = bytes;
    add_word(digest, count);
    for (uint64_t done = 0; done < count; done += sizeof(uint64_t)) {
        uint64_t word = 0, left = count - done;
        memcpy(&word, begin + done, left < sizeof word ? left : sizeof word);
        add_word(digest, word);
    }
}

static void add_tensor(struct outputs_digest *digest, const rknn_tensor_attr *attribute, int type)
{
    add_word(digest, attribute->index);
    add_word(digest, (uint64_t)type);
    add_word(digest, (uint64_t)attribute->fmt);
    for (uint32_t index = 0; index < attribute->n_dims && index < MAX_DIMENSIONS; index++)
        add_word(digest, attribute->dims[index]);
}

static bool is_output(rknn_context handle, const rknn_tensor_attr *attribute)
{
    rknn_tensor_attr output = {.index = attribute->index};
    return REAL(rknn_query)(handle, QUERY_OUTPUT_ATTR, &output, sizeof output) == SUCCEEDED &&
           strncmp(output.name, attribute->name, NAME_BYTES) == 0;
}

void note_io_memory(struct context *context, rknn_tensor_mem *mem, const rknn_tensor_attr *attribute)
{
    if (!is_output(context->handle, attribute))
        return;
    struct output_memory *output = context->outputs;
    while (output && output->attribute.index != attribute->index)
        output = output->next;
    if (!output) {
        output = calloc(1, sizeof *output);
        if (!output)
            return;
        /* In order of their indices. */
        struct output_memory **place = &context->outputs;
        while (*place && (*place)->attribute.index < attribute->index)
            place = &(*place)->next;
        output->next = *place;
        *place = output;
    }
    output->mem = mem;
    output->attribute = *attribute;
}

bool has_output_memory(const struct context *context)
{
    return context->outputs;
}

struct outputs_digest digest_of_memory(const struct context *context)
{
    struct outputs_digest digest = {{0}};
    for (const struct output_memory *output = context->outputs; output; output = output->next) {
        const rknn_tensor_attr *attribute = &output->attribute;
        uint32_t bytes = attribute->size_with_stride ? attribute->size_with_stride : attribute->size;
        if (context->model.flags & FLAG_DISABLE_FLUSH_OUTPUT_MEM_CACHE)
            REAL(rknn_mem_sync)(context->handle, output->mem, SYNC_FROM_DEVICE);
        add_tensor(&digest, attribute, attribute->type);
        add_bytes(&digest, output->mem->virt_addr, bytes < output->mem->size ? bytes : output->mem->size);
    }
    return digest;
}

struct outputs_digest digest_of_outputs(const struct context *context, uint32_t count, const rknn_output *outputs)
{
    struct outputs_digest digest = {{0}};
    for (uint32_t index = 0; index < count; index++) {
        rknn_tensor_attr attribute = {.index = outputs[index].index};
        REAL(rknn_query)(context->handle, QUERY_OUTPUT_ATTR, &attribute, sizeof attribute);
        add_tensor(&digest, &attribute, outputs[index].want_float ? TYPE_FLOAT32 : attribute.type);
        add_bytes(&digest, outputs[index].buf, outputs[index].size);
    }
    return digest;
}

void forget_outputs(struct context *context)
{
    while (context->outputs) {
        struct output_memory *next = context->outputs->next;
        free(context->outputs);
        context->outputs = next;
    }
}
