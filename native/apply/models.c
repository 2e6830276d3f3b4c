/* Equal models: by their content and the flags that they are loaded with. */
#include "apply.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

void forget_content(struct content *content)
{
    if (content->read)
        munmap(content->read, content->size);
    content->bytes = content->read = NULL;
}

/* Pages of its own go back to the system at once; those of malloc might stay. */
static void *allocate_pages(size_t bytes)
{
    void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return pages == MAP_FAILED ? NULL : pages;
}

static bool read_file(struct content *content, const char *path)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool is_usable = fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0 &&
                     (uint64_t)status.st_size <= UINT32_MAX;
    content->read = is_usable ? allocate_pages((size_t)status.st_size) : NULL;
    size_t done = 0;
    while (content->read && done < (size_t)status.st_size) {
        ssize_t count = read(fd, (char *)content->read + done, (size_t)status.st_size - done);
        if (count <= 0)
            break;
        done += (size_t)count;
    }
    close(fd);
    content->bytes = content->read;
    content->size = is_usable ? (uint32_t)status.st_size : 0;
    if (content->read && done == content->size)
        return true;
    forget_content(content);
    return false;
}

/* rknn_init takes a path if the size is 0. */
bool read_content(struct content *content, const void *model_or_path, uint32_t size)
{
    *content = (struct content){.bytes = model_or_path, .size = size};
    if (!model_or_path)
        return false;
    if (size)
        return true;
    content->path = model_or_path;
    return read_file(content, model_or_path);
}

/* The end of MurmurHash3 (Austin Appleby, public domain): each bit changes each other one. */
static uint64_t mixed(uint64_t value)
{
    value = (value ^ value >> 33) * UINT64_C(0xff51afd7ed558ccd);
    value = (value ^ value >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
    return value ^ value >> 33;
}

/*
 * 128 bits: two sums over the words of the content, each mixed with its place. Models that differ by accident do not meet
 * in them. The models come from the program itself, so nobody makes two that meet on purpose. apply/digests.py computes
 * the same with numpy, for plans.
 */
struct model model_of(const struct content *content, uint32_t flags)
{
    uint64_t one = 0, other = 0, place = 0;
    for (uint64_t done = 0; done < content->size; done += sizeof place) {
        uint64_t word = 0, left = content->size - done;
        memcpy(&word, (const char *)content->bytes + done, left < sizeof word ? left : sizeof word);
        place++;
        one += mixed(word ^ place * UINT64_C(0x9e3779b97f4a7c15));
        other += mixed(word ^ place * UINT64_C(0xd1342543de82ef95));
    }
    return (struct model){{mixed(one + content->size), mixed(other + content->size)}, content->size, flags};
}

bool is_equal_content(const struct model *one, const struct model *other)
{
    return one->bytes == other->bytes && one->digest[0] == other->digest[0] && one->digest[1] == other->digest[1];
}

bool is_equal_model(const struct model *one, const struct model *other)
{
    return one->flags == other->flags && is_equal_content(one, other);
}
