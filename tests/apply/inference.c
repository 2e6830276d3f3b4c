/*
 * A program on Rockchip's real library that prints all that it is told: inference MODEL...
 *
 * It loads each model twice, as bytes and by its path, asks every query before and after a run, runs with copied and
 * with its own memory, duplicates a context itself, and destroys the first context first. What it prints does not depend
 * on memory that is shared.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver/abi.h"

#define MOST 64
#define QUERIES 20
#define QUERY_PERF_DETAIL 3
#define QUERY_PERF_RUN 4
#define QUERY_CUSTOM_STRING 7
#define QUERY_NATIVE_NHWC_INPUT_ATTR 10
#define QUERY_NATIVE_NHWC_OUTPUT_ATTR 11

static uint64_t checksum(const void *bytes, size_t count)
{
    const unsigned char *begin = bytes;
    uint64_t sum = 5381;
    for (size_t index = 0; index < count; index++)
        sum = sum * 33 + begin[index];
    return sum;
}

static void *read_file(const char *path, uint32_t *size)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        exit(9);
    fseek(file, 0, SEEK_END);
    *size = (uint32_t)ftell(file);
    rewind(file);
    void *bytes = malloc(*size);
    if (fread(bytes, 1, *size, file) != *size)
        exit(9);
    fclose(file);
    return bytes;
}

static uint32_t size_of_query(int command)
{
    switch (command) {
    case QUERY_IN_OUT_NUM:
        return sizeof(rknn_input_output_num);
    case QUERY_SDK_VERSION:
        return sizeof(rknn_sdk_version);
    case QUERY_MEM_SIZE:
        return sizeof(rknn_mem_size);
    case QUERY_CUSTOM_STRING:
        return 1024;
    case QUERY_INPUT_DYNAMIC_RANGE:
        return sizeof(rknn_input_range);
    case QUERY_PERF_DETAIL:
    case QUERY_PERF_RUN:
        return 16;
    default:
        return sizeof(rknn_tensor_attr);
    }
}

/* A time, or an address, is another one each time; all other answers are compared whole. */
static void print_query(rknn_context handle, int command, uint32_t index, uint32_t size)
{
    static char answer[sizeof(rknn_input_range) + 64];
    memset(answer, 0x55, sizeof answer);
    memcpy(answer, &index, sizeof index);
    int code = rknn_query(handle, command, answer, size);
    int is_stable = command != QUERY_PERF_DETAIL && command != QUERY_PERF_RUN;
    printf("  query %d %u %u: %d %016llx\n", command, index, size, code,
           is_stable ? (unsigned long long)checksum(answer, sizeof answer) : 0ull);
}

/* The library crashes if it is asked for a tensor that is not there. */
static uint32_t tensors_of(int command, const rknn_input_output_num *count)
{
    switch (command) {
    case QUERY_INPUT_ATTR:
    case QUERY_NATIVE_INPUT_ATTR:
    case QUERY_NATIVE_NHWC_INPUT_ATTR:
        return count->n_input;
    case QUERY_OUTPUT_ATTR:
    case QUERY_NATIVE_OUTPUT_ATTR:
    case QUERY_NATIVE_NHWC_OUTPUT_ATTR:
        return count->n_output;
    default:
        return 1;
    }
}

static void print_queries(rknn_context handle)
{
    rknn_input_output_num count = {0, 0};
    rknn_query(handle, QUERY_IN_OUT_NUM, &count, sizeof count);
    for (int command = 0; command < QUERIES; command++)
        for (uint32_t index = 0; index < tensors_of(command, &count); index++)
            print_query(handle, command, index, size_of_query(command));
    for (uint32_t size = 4; size <= 72; size += 4)
        print_query(handle, QUERY_MEM_SIZE, 0, size);
}

static void set_inputs(rknn_context handle, uint32_t count, unsigned seed)
{
    for (uint32_t index = 0; index < count; index++) {
        rknn_tensor_attr attribute = {.index = index};
        rknn_query(handle, QUERY_INPUT_ATTR, &attribute, sizeof attribute);
        rknn_input input = {.index = index, .size = attribute.n_elems * 4, .type = TYPE_FLOAT32};
        input.fmt = attribute.fmt;
        float *values = malloc(input.size);
        for (uint32_t place = 0; place < attribute.n_elems; place++)
            values[place] = (float)((place * 7 + seed) % 101) / 50 - 1;
        input.buf = values;
        printf("  inputs_set %d\n", rknn_inputs_set(handle, 1, &input));
        free(values);
    }
}

static void print_outputs(rknn_context handle, uint32_t count)
{
    rknn_output outputs[MOST];
    memset(outputs, 0, sizeof outputs);
    for (uint32_t index = 0; index < count; index++) {
        outputs[index].index = index;
        outputs[index].want_float = index % 2 == 0;
    }
    printf("  outputs_get %d\n", rknn_outputs_get(handle, count, outputs, NULL));
    for (uint32_t index = 0; index < count; index++)
        printf("  output %u: %u %016llx\n", index, outputs[index].size,
               (unsigned long long)checksum(outputs[index].buf, outputs[index].size));
}

static void run(rknn_context handle, unsigned seed)
{
    rknn_input_output_num count = {0, 0};
    rknn_query(handle, QUERY_IN_OUT_NUM, &count, sizeof count);
    set_inputs(handle, count.n_input, seed);
    printf("  run %d\n", rknn_run(handle, NULL));
    print_outputs(handle, count.n_output);
}

static rknn_tensor_mem *give(rknn_context handle, int command, uint32_t index, uint32_t *bytes)
{
    rknn_tensor_attr attribute = {.index = index};
    rknn_query(handle, command, &attribute, sizeof attribute);
    *bytes = attribute.size_with_stride;
    rknn_tensor_mem *mem = rknn_create_mem(handle, *bytes);
    memset(mem->virt_addr, 3, *bytes);
    printf("  set_io_mem %d\n", rknn_set_io_mem(handle, mem, &attribute));
    return mem;
}

/* Without copies: inputs and outputs are in memory that the program has made. */
static void run_in_own_memory(rknn_context handle)
{
    rknn_input_output_num count = {0, 0};
    rknn_tensor_mem *inputs[MOST], *outputs[MOST];
    uint32_t bytes;
    rknn_query(handle, QUERY_IN_OUT_NUM, &count, sizeof count);
    for (uint32_t index = 0; index < count.n_input; index++)
        inputs[index] = give(handle, QUERY_NATIVE_INPUT_ATTR, index, &bytes);
    for (uint32_t index = 0; index < count.n_output; index++)
        outputs[index] = give(handle, QUERY_OUTPUT_ATTR, index, &bytes);
    printf("  run %d\n", rknn_run(handle, NULL));
    for (uint32_t index = 0; index < count.n_output; index++) {
        printf("  memory %u: %016llx\n", index,
               (unsigned long long)checksum(outputs[index]->virt_addr, outputs[index]->size));
        rknn_destroy_mem(handle, outputs[index]);
    }
    for (uint32_t index = 0; index < count.n_input; index++)
        rknn_destroy_mem(handle, inputs[index]);
}

static rknn_context loaded(char *path, int is_by_path, uint32_t flags)
{
    rknn_context handle = 0;
    uint32_t size = 0;
    rknn_init_extend extend;
    memset(&extend, 0, sizeof extend);
    void *bytes = is_by_path ? NULL : read_file(path, &size);
    printf("init %d\n", rknn_init(&handle, bytes ? bytes : path, size, flags, flags ? &extend : NULL));
    free(bytes);
    return handle;
}

int main(int count, char **values)
{
    static const uint32_t flags[] = {0, 2};
    rknn_context handles[MOST];
    int made = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int model = 1; model < count; model++)
        for (unsigned index = 0; index < 4; index++)
            handles[made++] = loaded(values[model], index % 2, flags[index / 2]);
    /* The fourth of each model is a duplicate that the program makes itself. */
    for (int index = 3; index < made; index += 4) {
        printf("destroy %d\n", rknn_destroy(handles[index]));
        printf("dup_context %d\n", rknn_dup_context(&handles[index - 3], &handles[index]));
    }
    for (int index = 0; index < made; index++) {
        printf("context %d\n", index);
        print_queries(handles[index]);
        run(handles[index], (unsigned)index);
        print_query(handles[index], QUERY_MEM_SIZE, 0, sizeof(rknn_mem_size));
    }
    for (int index = 0; index < made; index++)
        printf("set_core_mask %d\n", rknn_set_core_mask(handles[index], 1 << index % 2));
    /* Each again after all others, and a first one is destroyed before the others run. */
    for (int index = 0; index < made; index++) {
        run(handles[index], 1);
        if (index % 4 == 0)
            printf("destroy %d\n", rknn_destroy(handles[index]));
    }
    for (int index = 0; index < made; index++) {
        if (index % 4 == 0)
            continue;
        run_in_own_memory(handles[index]);
        print_query(handles[index], QUERY_MEM_SIZE, 0, sizeof(rknn_mem_size));
    }
    for (int index = made - 1; index >= 0; index--)
        if (index % 4)
            printf("destroy %d\n", rknn_destroy(handles[index]));
    puts("done");
    return 0;
}
