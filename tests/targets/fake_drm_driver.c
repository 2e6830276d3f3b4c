/*
 * Stands in for the NPU's driver in its DRM form, to test the pass-through mode: preloaded after the library under test,
 * in place of the kernel. Buffers are memfds. /dev/dri/card1 is the NPU's driver; /dev/dri/card0, a display's, and
 * /dev/accel/accel0, another NPU's, are others.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HANDLES 64
#define OFFSET 0x100000u

static int other = -1, npu = -1;
static int memory[HANDLES]; /* index: handle; 0: none */
static uint64_t address[HANDLES], next_address = 0x20000000;

static void drop(int fd)
{
    syscall(SYS_close, fd);
}

static ino_t inode_of(int fd)
{
    struct stat status = {0};
    fstat(fd, &status);
    return status.st_ino;
}

static uint32_t handle_of(ino_t inode)
{
    for (uint32_t handle = 1; handle < HANDLES; handle++)
        if (memory[handle] && inode_of(memory[handle]) == inode)
            return handle;
    return 0;
}

static uint32_t new_handle(int fd)
{
    uint32_t handle = 1;
    while (memory[handle])
        handle++;
    memory[handle] = fd;
    address[handle] = 0;
    return handle;
}

static int release(uint32_t handle)
{
    if (handle >= HANDLES || !memory[handle])
        return errno = EINVAL, -1;
    drop(memory[handle]);
    memory[handle] = 0;
    return 0;
}

static int create(uint32_t *handle, uint64_t *fields)
{
    uint64_t bytes = (fields[0] + 4095) / 4096 * 4096;
    if (!*handle || !memory[*handle]) {
        int fd = memfd_create("drm", MFD_CLOEXEC);
        if (ftruncate(fd, (off_t)bytes))
            return -1;
        *handle = new_handle(fd);
    }
    struct stat status;
    fstat(memory[*handle], &status);
    if (!address[*handle]) {
        address[*handle] = next_address;
        next_address += (uint64_t)status.st_size;
    }
    fields[0] = (uint64_t)status.st_size;
    fields[1] = 0xffff000000000000u + *handle;
    fields[2] = address[*handle];
    return 0;
}

static int answer(int fd, unsigned number, uint32_t *words)
{
    uint64_t *fields = (uint64_t *)(words + 2);
    switch (number) {
    case 0x00: { /* the driver's name: at 16 its size, at 24 a pointer to it */
        uint64_t *sizes = (uint64_t *)words;
        const char *name = fd == npu ? "rknpu" : "other";
        memcpy((char *)(uintptr_t)sizes[3], name, strlen(name));
        return 0;
    }
    case 0x09:
        return release(words[0]);
    case 0x2d:
        words[2] = (uint32_t)syscall(SYS_dup, memory[words[0]]);
        return 0;
    case 0x2e:
        words[0] = handle_of(inode_of((int)words[2]));
        if (!words[0])
            words[0] = new_handle((int)syscall(SYS_dup, words[2]));
        return 0;
    case 0x42:
        return create(words, fields);
    case 0x43:
        fields[0] = words[0] * OFFSET;
        return 0;
    case 0x44:
        return release(words[0]);
    default:
        return 0;
    }
}

static int open_device(const char *name, const char *path, int flags, int mode)
{
    if (strncmp(path, "/dev/dri/card", 13) != 0 && strcmp(path, "/dev/accel/accel0") != 0)
        return ((int (*)(const char *, int, int))dlsym(RTLD_NEXT, name))(path, flags, mode);
    int fd = memfd_create("device", MFD_CLOEXEC);
    if (strcmp(path, "/dev/dri/card1") == 0)
        npu = fd;
    else
        other = fd;
    return fd;
}

int open(const char *path, int flags, int mode)
{
    return open_device("open", path, flags, mode);
}

int open64(const char *path, int flags, int mode)
{
    return open_device("open64", path, flags, mode);
}

int ioctl(int fd, unsigned long request, void *argument)
{
    if (fd >= 0 && (fd == npu || fd == other))
        return answer(fd, request & 0xff, argument);
    return ((int (*)(int, unsigned long, void *))dlsym(RTLD_NEXT, "ioctl"))(fd, request, argument);
}

void *mmap(void *wish, size_t bytes, int protection, int flags, int fd, long offset)
{
    void *(*next)(void *, size_t, int, int, int, long) =
        (void *(*)(void *, size_t, int, int, int, long))dlsym(RTLD_NEXT, "mmap");
    if (fd >= 0 && fd == npu)
        return next(wish, bytes, protection, flags, memory[offset / OFFSET], 0);
    return next(wish, bytes, protection, flags, fd, offset);
}
