/* The transfer of a context's inputs and outputs: copied by the library, copied by us, or used in place. */
#include "native.h"

#include <stdlib.h>
#include <string.h>

static void begin(struct tensors *tensors, enum way way, uint32_t count)
{
    *tensors = (struct tensors){.way = way, .count = count};
    tensors->items = allocate_bytes(count * sizeof *tensors->items);
}

static void end(struct tensors *tensors)
{
    for (size_t index = 0; index < tensors->count; index++)
        free(tensors->items[index].buffer);
    free(tensors->items);
    free(tensors->inputs);
    free(tensors->outputs);
    free(tensors->allocations);
    *tensors = (struct tensors){0};
}

/* Sets the tensor's layout in its memory: the NPU may need padding after each row of pixels. */
static void lay_out(struct tensor *tensor, const rknn_tensor_attr *attribute)
{
    uint32_t width = attribute->dims[2];
    bool has_rows = attribute->n_dims == 4 && attribute->fmt == FORMAT_NHWC;
    tensor->row = tensor->pitch = tensor->bytes;
    if (!has_rows || attribute->w_stride <= width)
        return;
    tensor->row = tensor->bytes / ((size_t)attribute->dims[0] * attribute->dims[1]);
    tensor->pitch = tensor->row / width * attribute->w_stride;
}

/* Gives the tensor the memory that the NPU uses from now on. Padding after the tensor is not part of it. */
static bool bind_tensor(struct tensors *tensors, struct tensor *tensor, const char *kind, rknn_context context,
                        struct tensor_memory *memory, struct failure *failure)
{
    rknn_tensor_attr *attribute = &tensor->attribute;
    uint32_t whole = attribute->size_with_stride > attribute->size ? attribute->size_with_stride : attribute->size;
    bool is_new;
    if (!take_memory(memory, tensors->bound, context, whole, &is_new, &tensor->piece, failure))
        return false;
    tensors->bound++;
    if (is_new) {
        tensors->allocations =
            with_space(tensors->allocations, tensors->allocation_count, sizeof *tensors->allocations);
        tensors->allocations[tensors->allocation_count++] = allocation_of(&tensor->piece, kind);
    }
    lay_out(tensor, attribute);
    return set_io_mem(context, tensor->piece.memory, attribute, failure);
}

static uint8_t *address_of(const struct tensor *tensor)
{
    return tensor->piece.place.address;
}

/* Copies the tensor from a buffer without padding. */
static void put(const struct tensor *tensor, const uint8_t *buffer)
{
    for (size_t number = 0; number < tensor->bytes / tensor->row; number++)
        memcpy(address_of(tensor) + number * tensor->pitch, buffer + number * tensor->row, tensor->row);
}

static bool sync_all(struct tensors *tensors, rknn_context context, int mode, struct failure *failure)
{
    for (size_t index = 0; index < tensors->bound; index++)
        if (!sync_mem(context, tensors->items[index].piece.memory, mode, failure))
            return false;
    return true;
}

static bool fill_bound(struct tensors *tensors, struct tensor *tensor, const struct fed_input *input,
                       struct failure *failure)
{
    tensor->buffer = filled(input, failure);
    if (!tensor->buffer || tensors->way == STAGED)
        return tensor->buffer;
    put(tensor, tensor->buffer);
    free(tensor->buffer);
    tensor->buffer = NULL;
    return true;
}

static bool bind_inputs(struct tensors *tensors, rknn_context context, const struct fed_input *inputs,
                        struct tensor_memory *memory, struct failure *failure)
{
    for (size_t index = 0; index < tensors->count; index++) {
        struct tensor *tensor = &tensors->items[index];
        tensor->attribute = inputs[index].attribute;
        tensor->bytes = inputs[index].bytes;
        if (!bind_tensor(tensors, tensor, "input", context, memory, failure) ||
            !fill_bound(tensors, tensor, &inputs[index], failure))
            return false;
    }
    return sync_all(tensors, context, SYNC_TO_DEVICE, failure);
}

static bool copy_inputs(struct tensors *tensors, const struct fed_input *inputs, struct failure *failure)
{
    tensors->inputs = allocate_bytes(tensors->count * sizeof *tensors->inputs);
    for (size_t index = 0; index < tensors->count; index++) {
        struct tensor *tensor = &tensors->items[index];
        const rknn_tensor_attr *attribute = &inputs[index].attribute;
        tensor->bytes = inputs[index].bytes;
        tensor->buffer = filled(&inputs[index], failure);
        if (!tensor->buffer)
            return false;
        tensors->inputs[index] = (rknn_input){
            .index = (uint32_t)index,
            .buf = tensor->buffer,
            .size = (uint32_t)tensor->bytes,
            .type = attribute->type,
            .fmt = attribute->fmt,
        };
    }
    return true;
}

/* Memory bound before a failure is not released, as in the Python driver: the context has failed. */
static bool ended_well(struct tensors *tensors, bool is_well)
{
    tensors->is_open = is_well;
    if (!is_well)
        end(tensors);
    return is_well;
}

bool open_inputs(struct tensors *tensors, enum way way, rknn_context context, rknn_tensor_attr *attributes,
                 uint32_t count, const struct data_list *data, struct tensor_memory *memory, struct failure *failure)
{
    begin(tensors, way, count);
    struct fed_input *inputs = allocate_bytes(count * sizeof *inputs);
    bool is_well = true;
    for (uint32_t index = 0; is_well && index < count; index++) {
        const struct data *given = data_of(data, attributes[index].name);
        is_well = way == COPIED ? feed_copied(&inputs[index], &attributes[index], given, failure)
                                : feed_bound(&inputs[index], &attributes[index], given, failure);
    }
    if (is_well)
        is_well = way == COPIED ? copy_inputs(tensors, inputs, failure)
                                : bind_inputs(tensors, context, inputs, memory, failure);
    free(inputs);
    return ended_well(tensors, is_well);
}

static void copy_outputs(struct tensors *tensors)
{
    tensors->outputs = allocate_bytes(tensors->count * sizeof *tensors->outputs);
    for (size_t index = 0; index < tensors->count; index++)
        tensors->outputs[index] = (rknn_output){
            .is_prealloc = 1,
            .index = (uint32_t)index,
            .buf = tensors->items[index].buffer,
            .size = (uint32_t)tensors->items[index].bytes,
        };
}

bool open_outputs(struct tensors *tensors, enum way way, rknn_context context, const rknn_tensor_attr *attributes,
                  const rknn_tensor_attr *plain, uint32_t count, struct tensor_memory *memory, struct failure *failure)
{
    begin(tensors, way, count);
    tensors->is_native = plain;
    bool is_well = true;
    for (uint32_t index = 0; is_well && index < count; index++) {
        struct tensor *tensor = &tensors->items[index];
        tensor->attribute = attributes[index];
        tensor->plain = plain ? plain[index] : attributes[index];
        tensor->bytes = attributes[index].size;
        is_well = way == COPIED || bind_tensor(tensors, tensor, "output", context, memory, failure);
        tensor->buffer = way == IN_PLACE ? NULL : allocate_bytes(tensor->bytes);
    }
    if (way == COPIED)
        copy_outputs(tensors);
    return ended_well(tensors, is_well);
}

/* An input in place does not change and needs no call. */
bool move_in(struct tensors *tensors, rknn_context context, struct failure *failure)
{
    if (tensors->way == COPIED)
        return set_inputs(context, (uint32_t)tensors->count, tensors->inputs, failure);
    if (tensors->way == IN_PLACE)
        return true;
    for (size_t index = 0; index < tensors->count; index++)
        put(&tensors->items[index], tensors->items[index].buffer);
    return sync_all(tensors, context, SYNC_TO_DEVICE, failure);
}

bool move_out(struct tensors *tensors, rknn_context context, struct failure *failure)
{
    if (tensors->way == COPIED)
        return get_outputs(context, (uint32_t)tensors->count, tensors->outputs, failure);
    if (!sync_all(tensors, context, SYNC_FROM_DEVICE, failure))
        return false;
    for (size_t index = 0; tensors->way == STAGED && index < tensors->count; index++)
        memcpy(tensors->items[index].buffer, address_of(&tensors->items[index]), tensors->items[index].bytes);
    return true;
}

/* Returns the checksum of pictures in the model's order; the NPU has groups of channels, padded with zeros. */
static uint32_t checksum_of_pictures(uint32_t value, const struct tensor *tensor)
{
    const rknn_tensor_attr *plain = &tensor->plain;
    const uint32_t *dims =
        tensor->attribute.dims; /* pictures, groups of channels, height, width, channels in a group */
    size_t pixels = (size_t)dims[2] * dims[3], in_group = dims[4], item = plain->size / plain->n_elems;
    size_t channels = plain->n_elems / (dims[0] * pixels), bytes = pixels * channels * item;
    uint8_t *whole = allocate_bytes(bytes);
    for (size_t picture = 0; picture < dims[0]; picture++) {
        for (size_t channel = 0; channel < channels; channel++) {
            size_t group = picture * dims[1] + channel / in_group;
            const uint8_t *source = address_of(tensor) + (group * pixels * in_group + channel % in_group) * item;
            for (size_t pixel = 0; pixel < pixels; pixel++) {
                size_t target = plain->fmt == FORMAT_NHWC ? pixel * channels + channel : channel * pixels + pixel;
                memcpy(whole + target * item, source + pixel * in_group * item, item);
            }
        }
        value = crc32(value, whole, bytes);
    }
    free(whole);
    return value;
}

uint32_t checksum_of(const struct tensors *tensors)
{
    uint32_t value = 0;
    for (size_t index = 0; index < tensors->count; index++) {
        const struct tensor *tensor = &tensors->items[index];
        if (tensors->is_native && tensor->attribute.fmt == FORMAT_NC1HWC2)
            value = checksum_of_pictures(value, tensor);
        else
            value = crc32(value, tensor->buffer ? tensor->buffer : address_of(tensor), tensor->plain.size);
    }
    return value;
}

size_t copied_bytes(const struct tensors *tensors)
{
    size_t bytes = 0;
    for (size_t index = 0; index < tensors->count; index++)
        bytes += tensors->items[index].buffer ? tensors->items[index].bytes : 0;
    return bytes;
}

bool release_tensors(struct tensors *tensors, struct failure *failure)
{
    while (tensors->bound)
        if (!release(&tensors->items[--tensors->bound].piece, failure))
            return false;
    end(tensors);
    return true;
}
