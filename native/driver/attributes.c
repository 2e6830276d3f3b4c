/* The tensors of a model: their attributes and the shapes that it allows. */
#include "native.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static rknn_tensor_attr *query_all(rknn_context context, int command, uint32_t count, struct failure *failure)
{
    rknn_tensor_attr *attributes = allocate_bytes(count * sizeof *attributes);
    for (uint32_t index = 0; index < count; index++) {
        attributes[index].index = index;
        if (!query(context, command, &attributes[index], sizeof *attributes, failure)) {
            free(attributes);
            return NULL;
        }
    }
    return attributes;
}

static bool query_numbers(rknn_context context, rknn_input_output_num *numbers, struct failure *failure)
{
    *numbers = (rknn_input_output_num){0};
    return query(context, QUERY_IN_OUT_NUM, numbers, sizeof *numbers, failure);
}

rknn_tensor_attr *query_inputs(rknn_context context, int command, uint32_t *count, struct failure *failure)
{
    rknn_input_output_num numbers;
    if (!query_numbers(context, &numbers, failure))
        return NULL;
    *count = numbers.n_input;
    return query_all(context, command, *count, failure);
}

rknn_tensor_attr *query_outputs(rknn_context context, int command, uint32_t *count, struct failure *failure)
{
    rknn_input_output_num numbers;
    if (!query_numbers(context, &numbers, failure))
        return NULL;
    *count = numbers.n_output;
    return query_all(context, command, *count, failure);
}

/* The dynamic shapes of all inputs; NULL and count 0 if the model has none. */
static bool query_ranges(rknn_context context, rknn_input_range **ranges, uint32_t *count, struct failure *failure)
{
    rknn_input_output_num numbers;
    if (!query_numbers(context, &numbers, failure))
        return false;
    *ranges = allocate_bytes(numbers.n_input * sizeof **ranges);
    *count = numbers.n_input;
    for (uint32_t index = 0; index < numbers.n_input; index++) {
        rknn_input_range *range = *ranges + index;
        range->index = index;
        /* The library reports by a failure that there are none. */
        if (!query(context, QUERY_INPUT_DYNAMIC_RANGE, range, sizeof *range, failure)) {
            forget(failure);
            *count = 0;
            break;
        }
    }
    if (!*count) {
        free(*ranges);
        *ranges = NULL;
    }
    return true;
}

/* The library gives the same number of shapes for every input. */
static uint32_t number_of_shapes(const rknn_input_range *ranges, uint32_t count)
{
    uint32_t least = count ? ranges[0].shape_number : 0;
    for (uint32_t index = 1; index < count; index++)
        if (ranges[index].shape_number < least)
            least = ranges[index].shape_number;
    return least;
}

bool set_shapes(rknn_context context, const struct data_list *data, bool *is_dynamic, struct failure *failure)
{
    rknn_input_range *ranges;
    uint32_t count, inputs;
    *is_dynamic = false;
    if (!query_ranges(context, &ranges, &count, failure))
        return false;
    if (!number_of_shapes(ranges, count)) {
        free(ranges);
        return true;
    }
    rknn_tensor_attr *attributes = query_inputs(context, QUERY_INPUT_ATTR, &inputs, failure);
    for (uint32_t index = 0; attributes && index < count; index++) {
        const struct data *given = data_of(data, attributes[index].name);
        const uint32_t *dims = given ? given->dims : ranges[index].dyn_range[0];
        uint32_t n_dims = given ? given->n_dims : ranges[index].n_dims;
        memcpy(attributes[index].dims, dims, n_dims * sizeof *dims);
    }
    *is_dynamic = attributes && set_input_shapes(context, count, attributes, failure);
    free(attributes);
    free(ranges);
    return *is_dynamic;
}

/* Appends the struct in hexadecimal digits; it is the same on 32 and 64 bits. */
static void append_attribute(struct text *answer, const char *name, const rknn_tensor_attr *attribute)
{
    append(answer, "\t%s=", name);
    for (size_t index = 0; index < sizeof *attribute; index++)
        append(answer, "%02x", ((const uint8_t *)attribute)[index]);
}

/* Appends the shapes of one input, such as 1,224,224,3;1,112,112,3. */
static void append_range(struct text *answer, const rknn_input_range *range, uint32_t shapes)
{
    append(answer, "\tshapes=");
    for (uint32_t shape = 0; shape < shapes; shape++)
        for (uint32_t index = 0; index < range->n_dims; index++)
            append(answer, "%s%u", index ? "," : shape ? ";" : "", range->dyn_range[shape][index]);
}

bool append_interface(rknn_context context, struct text *answer, struct failure *failure)
{
    rknn_input_range *ranges;
    uint32_t count, inputs, outputs = 0;
    if (!query_ranges(context, &ranges, &count, failure))
        return false;
    rknn_tensor_attr *of_inputs = query_inputs(context, QUERY_INPUT_ATTR, &inputs, failure);
    rknn_tensor_attr *of_outputs = of_inputs ? query_outputs(context, QUERY_OUTPUT_ATTR, &outputs, failure) : NULL;
    bool is_complete = of_outputs;
    for (uint32_t index = 0; is_complete && index < inputs; index++)
        append_attribute(answer, "input", &of_inputs[index]);
    for (uint32_t index = 0; is_complete && index < outputs; index++)
        append_attribute(answer, "output", &of_outputs[index]);
    for (uint32_t index = 0; is_complete && index < count; index++)
        append_range(answer, &ranges[index], number_of_shapes(ranges, count));
    free(ranges);
    free(of_inputs);
    free(of_outputs);
    return is_complete;
}
