/*
 * Content of the application's input buffers: noise, one value, or the data of a file, byte for byte as in content.py.
 */
#include "native.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The noise: runtimes.base.input_pattern, a linear congruential generator (constants of Numerical Recipes). */
#define PATTERN_BYTES 65521
#define MULTIPLIER 1664525u
#define INCREMENT 1013904223u
/* Prefix of a .npy file of version 1.0 (numpy.lib.format): magic and version, then the length of the header. */
#define MAGIC_BYTES 8
#define CHUNK_ELEMENTS 1024

/* Names, sizes and ranges of the element types. Those of size 0 are not written. */
static const struct element {
    const char *name;
    size_t bytes;
    double lowest, highest;
} elements[] = {
    [TYPE_FLOAT32] = {"float32", 4, -INFINITY, INFINITY},
    [TYPE_FLOAT16] = {"float16", 2, -65504, 65504},
    [TYPE_INT8] = {"int8", 1, -128, 127},
    [TYPE_UINT8] = {"uint8", 1, 0, 255},
    [TYPE_INT16] = {"int16", 2, -32768, 32767},
    [TYPE_UINT16] = {"uint16", 2, 0, 65535},
    [TYPE_INT32] = {"int32", 4, INT32_MIN, INT32_MAX},
    [TYPE_UINT32] = {"uint32", 4, 0, UINT32_MAX},
    [TYPE_INT64] = {"int64", 8, (double)INT64_MIN, (double)INT64_MAX},
    [TYPE_BOOL] = {"bool", 1, 0, 1},
    [TYPE_INT4] = {"int4", 0, 0, 0},
    [TYPE_BFLOAT16] = {"bfloat16", 0, 0, 0},
};

static const struct element *element_of(const rknn_tensor_attr *attribute)
{
    bool is_known = attribute->type >= 0 && (size_t)attribute->type < LENGTH(elements);
    return &elements[is_known ? attribute->type : TYPE_BFLOAT16];
}

struct data_list read_data(const struct line *line)
{
    struct data_list list = {0};
    for (size_t index = 1; index < line->count; index++) {
        const char *name = value_of(line->fields[index], "input");
        if (name) {
            list.items = with_space(list.items, list.count, sizeof *list.items);
            list.items[list.count++] = (struct data){.name = name};
            continue;
        }
        if (!list.count)
            continue;
        struct data *last = &list.items[list.count - 1];
        const char *type = value_of(line->fields[index], "type"), *file = value_of(line->fields[index], "file");
        const char *number = value_of(line->fields[index], "value"), *shape = value_of(line->fields[index], "shape");
        last->type = type ? type : last->type;
        last->file = file ? file : last->file;
        if (number) {
            last->has_value = true;
            last->value = number_of(number);
        }
        for (; shape && *shape && last->n_dims < MAX_DIMENSIONS; shape += strcspn(shape, ","), shape += *shape == ',')
            last->dims[last->n_dims++] = (uint32_t)number_of(shape);
    }
    return list;
}

const struct data *data_of(const struct data_list *list, const char *name)
{
    for (size_t index = 0; index < list->count; index++)
        if (strcmp(list->items[index].name, name) == 0)
            return &list->items[index];
    return NULL;
}

/* Whether the elements are quantised; indices and masks have scale 1, or 0 on the mini runtime. */
static bool is_quantised(const rknn_tensor_attr *attribute)
{
    bool has_scale = attribute->zp || (attribute->scale != 0 && attribute->scale != 1);
    return has_scale &&
           (attribute->type == TYPE_INT8 || attribute->type == TYPE_UINT8 || attribute->type == TYPE_INT16);
}

/* Whether the model takes real numbers, possibly quantised. */
static bool is_real(const rknn_tensor_attr *attribute)
{
    return attribute->type == TYPE_FLOAT32 || attribute->type == TYPE_FLOAT16 || attribute->type == TYPE_BFLOAT16 ||
           is_quantised(attribute);
}

/* Whether the library takes the input as 8-bit pixels, which it scales and quantises as the model requires. */
static bool is_picture(const rknn_tensor_attr *attribute)
{
    uint32_t channels = attribute->dims[3];
    return attribute->n_dims == 4 && (channels == 1 || channels == 3 || channels == 4) &&
           attribute->fmt == FORMAT_NHWC && (is_real(attribute) || attribute->type == TYPE_UINT8);
}

static bool has_real_numbers(const struct data *data)
{
    return data && data->file && strcmp(data->type, "float32") == 0;
}

static double pixel(unsigned char byte)
{
    return byte;
}

static double fraction(unsigned char byte)
{
    return byte / 255.0;
}

/* An index that is valid in any table: 0 or 1. */
static double small_index(unsigned char byte)
{
    return byte & 1;
}

static bool check_type(const rknn_tensor_attr *attribute, struct failure *failure)
{
    if (element_of(attribute)->bytes)
        return true;
    not_supported(failure, "rknn_element_type");
    add_text(failure, "input", attribute->name);
    return add_text(failure, "type", element_of(attribute)->name);
}

bool feed_copied(struct fed_input *input, const rknn_tensor_attr *attribute, const struct data *data,
                 struct failure *failure)
{
    *input = (struct fed_input){.attribute = *attribute, .scale = 1, .noise = small_index, .data = data};
    if (is_picture(attribute) && !has_real_numbers(data)) {
        input->attribute.type = TYPE_UINT8;
        input->noise = pixel;
    } else if (is_real(attribute)) {
        input->attribute.type = TYPE_FLOAT32;
        input->noise = fraction;
    }
    input->bytes = attribute->n_elems * element_of(&input->attribute)->bytes;
    return check_type(&input->attribute, failure);
}

bool feed_bound(struct fed_input *input, const rknn_tensor_attr *attribute, const struct data *data,
                struct failure *failure)
{
    *input = (struct fed_input){.attribute = *attribute, .bytes = attribute->size, .scale = 1, .data = data};
    if (is_picture(attribute)) {
        if (has_real_numbers(data)) {
            not_supported(failure, "rknn_pixels_in_place");
            return add_text(failure, "input", attribute->name);
        }
        input->attribute.type = TYPE_UINT8;
        input->bytes = attribute->n_elems;
        input->noise = pixel;
        return true;
    }
    if (attribute->fmt == FORMAT_NC1HWC2 && data && data->file) {
        not_supported(failure, "rknn_order_of_npu");
        return add_text(failure, "input", attribute->name);
    }
    if (is_quantised(attribute)) {
        input->scale = attribute->scale;
        input->zero = attribute->zp;
    }
    input->noise = is_real(attribute) ? fraction : small_index;
    return check_type(attribute, failure);
}

/* Rounds to the nearest whole number; a half goes to the even one. */
static int64_t rounded(double value)
{
    int64_t whole = (int64_t)value;
    double rest = value - (double)whole;
    if (rest > 0.5 || (rest == 0.5 && whole & 1))
        return whole + 1;
    if (rest < -0.5 || (rest == -0.5 && whole & 1))
        return whole - 1;
    return whole;
}

/* Converts to IEEE 754 binary16, rounding once; a half goes to the even one. The value is within its range. */
static uint16_t half_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint16_t sign = (uint16_t)(bits >> 48 & 0x8000);
    int exponent = (int)(bits >> 52 & 0x7FF) - 1023;
    uint64_t fraction = (bits & 0xFFFFFFFFFFFFFull) | 1ull << 52;
    /* 11 of the 53 bits remain, fewer below the least normal number, 2^-14. */
    int dropped = 42 + (exponent < -14 ? -14 - exponent : 0);
    if (dropped > 54)
        return sign;
    uint64_t kept = fraction >> dropped, rest = fraction & ((1ull << dropped) - 1), middle = 1ull << (dropped - 1);
    kept += rest > middle || (rest == middle && kept & 1);
    return (uint16_t)(sign | (exponent < -14 ? kept : ((uint64_t)(exponent + 14) << 10) + kept));
}

/* Writes one element; a number out of the type's range becomes the nearest one in it. */
static void pack(uint8_t *target, const rknn_tensor_attr *attribute, double number)
{
    const struct element *element = element_of(attribute);
    number = number < element->highest ? number : element->highest;
    number = number > element->lowest ? number : element->lowest;
    if (attribute->type == TYPE_FLOAT32) {
        float real = (float)number;
        memcpy(target, &real, sizeof real);
    } else if (attribute->type == TYPE_FLOAT16) {
        uint16_t half = half_of(number);
        memcpy(target, &half, sizeof half);
    } else {
        /* All these machines are little-endian: the element is in the first bytes. */
        int64_t whole = rounded(number);
        memcpy(target, &whole, element->bytes);
    }
}

static void pack_number(const struct fed_input *input, uint8_t *target, double number)
{
    if (input->scale != 1 || input->zero)
        number = number / input->scale + input->zero;
    pack(target, &input->attribute, number);
}

static void fill_with_value(const struct fed_input *input, uint8_t *buffer)
{
    uint8_t element[8];
    size_t bytes = element_of(&input->attribute)->bytes;
    if (input->attribute.type == TYPE_INT64)
        memcpy(element, &input->data->value, sizeof element); /* a double does not have all of its digits */
    else
        pack_number(input, element, (double)input->data->value);
    for (size_t index = 0; index < input->bytes; index++)
        buffer[index] = element[index % bytes];
}

/* Writes one element for each byte of the pattern, which starts again at its end. */
static void fill_with_noise(const struct fed_input *input, uint8_t *buffer)
{
    uint8_t table[256][8];
    size_t bytes = element_of(&input->attribute)->bytes, count = input->bytes / bytes;
    size_t period = bytes * (bytes > 1 && count < PATTERN_BYTES ? count : PATTERN_BYTES);
    for (int byte = 0; byte < 256; byte++)
        pack_number(input, table[byte], input->noise((unsigned char)byte));
    uint32_t state = 1;
    for (size_t index = 0; index < input->bytes && index < period; index++) {
        if (index % bytes == 0)
            state = state * MULTIPLIER + INCREMENT;
        buffer[index] = table[state >> 24][index % bytes];
    }
    for (size_t index = period; index < input->bytes; index++)
        buffer[index] = buffer[index - period];
}

static bool read_whole(int fd, void *target, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t count = read(fd, (char *)target + done, bytes - done);
        if (count <= 0)
            return false;
        done += (size_t)count;
    }
    return true;
}

static bool skip_header(int fd)
{
    uint8_t start[MAGIC_BYTES + 2];
    return read_whole(fd, start, sizeof start) &&
           lseek(fd, start[MAGIC_BYTES] | start[MAGIC_BYTES + 1] << 8, SEEK_CUR) >= 0;
}

/* Copies the file, or converts its numbers if they are real and the elements have another type. */
static void fill_from_file(const struct fed_input *input, int fd, uint8_t *buffer)
{
    if (!has_real_numbers(input->data) || input->attribute.type == TYPE_FLOAT32) {
        read_whole(fd, buffer, input->bytes);
        return;
    }
    size_t bytes = element_of(&input->attribute)->bytes, left = input->bytes / bytes;
    float chunk[CHUNK_ELEMENTS];
    while (left) {
        size_t count = left < CHUNK_ELEMENTS ? left : CHUNK_ELEMENTS;
        if (!read_whole(fd, chunk, count * sizeof *chunk))
            return;
        for (size_t index = 0; index < count; index++, buffer += bytes)
            pack_number(input, buffer, chunk[index]);
        left -= count;
    }
}

uint8_t *filled(const struct fed_input *input, struct failure *failure)
{
    uint8_t *buffer = allocate_bytes(input->bytes);
    if (input->data && input->data->file) {
        int fd = open(input->data->file, O_RDONLY | O_CLOEXEC);
        if (fd < 0 || !skip_header(fd)) {
            fail_of_system(failure, fd < 0 ? errno : EIO, input->data->file);
            free(buffer);
            buffer = NULL;
        } else {
            fill_from_file(input, fd, buffer);
        }
        if (fd >= 0)
            close(fd);
    } else if (input->data && input->data->has_value) {
        fill_with_value(input, buffer);
    } else {
        fill_with_noise(input, buffer);
    }
    return buffer;
}
