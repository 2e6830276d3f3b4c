/* Rockchip's library: its kind and version, read from the file (measured/runtimes/rknn/library_file.py). */
#include "native.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIBRARY_VARIABLE "REUSEBENCH_RKNN_LIBRARY"
#define MINI_RUNTIME "librknnmrt"
#define PIECE_BYTES (1 << 16)
#define OVERLAP_BYTES 128
#define MOST_BUILD 60

/* The symbol that shows that our preload library (native/preload) is loaded. */
#define PRELOAD_SYMBOL "reusebench_preload"

static const struct {
    unsigned machine;
    const char *name;
} architectures[] = {{EM_ARM, "armhf"}, {EM_AARCH64, "aarch64"}, {EM_X86_64, "x86_64"}};

/* Returns e_machine of the ELF header; 0 if there is none. */
static unsigned machine_of(const char *path)
{
    unsigned char header[20] = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t count = read(fd, header, sizeof header);
    close(fd);
    return count == sizeof header && memcmp(header, ELFMAG, SELFMAG) == 0 ? header[18] | header[19] << 8 : 0;
}

static const char *architecture_of(const char *path)
{
    unsigned machine = machine_of(path);
    for (size_t index = 0; index < LENGTH(architectures); index++)
        if (architectures[index].machine == machine)
            return architectures[index].name;
    return NULL;
}

/* Takes the text after "version: ": three numbers, then anything up to and including ")", or up to a zero. */
static bool read_version(const char *text, const char *end, struct library *library)
{
    const char *next = text;
    for (int number = 0; number < 3; number++) {
        const char *start = next;
        while (next < end && *next >= '0' && *next <= '9')
            next++;
        if (next == start || (number < 2 && (next == end || *next++ != '.')))
            return false;
    }
    for (int count = 0; count < MOST_BUILD && next < end && *next && *next != ')'; count++)
        next++;
    next += next < end && *next == ')';
    snprintf(library->version, sizeof library->version, "%.*s", (int)(next - text), text);
    return true;
}

/* Finds text such as "librknnrt version: 1.6.0 (9a7b5d24c@2023-12-13T17:32:13)". */
static bool find_version(const char *text, size_t length, struct library *library)
{
    static const char version[] = " version: ";
    for (const char *start = text; (start = memmem(start, length - (size_t)(start - text), "librknn", 7)); start++) {
        bool is_mini = strncmp(start, MINI_RUNTIME, strlen(MINI_RUNTIME)) == 0;
        const char *behind = start + (is_mini ? strlen(MINI_RUNTIME) : strlen("librknnrt"));
        if (!is_mini && strncmp(start, "librknnrt", strlen("librknnrt")))
            continue;
        if (strncmp(behind, version, strlen(version)))
            continue;
        library->is_mini = is_mini;
        if (read_version(behind + strlen(version), text + length, library))
            return true;
    }
    return false;
}

/* Reads the file in pieces: its megabytes would add to the memory of this process. */
static bool read_library(const char *path, struct library *library, struct failure *failure)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        int error = errno;
        fail(failure, "rknn_not_a_library");
        add_text(failure, "path", path);
        return add_text(failure, "reason", strerror(error));
    }
    char *text = allocate_bytes(PIECE_BYTES + 1);
    ssize_t count;
    bool is_known = false;
    for (long start = 0; !is_known && (count = pread(fd, text, PIECE_BYTES, start)) > 0;) {
        is_known = find_version(text, (size_t)count, library);
        start += PIECE_BYTES - OVERLAP_BYTES;
    }
    free(text);
    close(fd);
    const char *architecture = architecture_of(path);
    if (is_known && architecture)
        return true;
    fail(failure, "rknn_not_a_library");
    add_text(failure, "path", path);
    if (architecture) {
        add_message(failure, "reason", "no_rknn_version");
        return add_text(failure, "reason.architecture", architecture);
    }
    add_message(failure, "reason", "no_shared_library");
    return add_text(failure, "reason.architectures", "armhf, aarch64, x86_64");
}

/* Whether Rockchip's library would use the machine's own /dev/dri, as it does without the preload library. */
static bool lacks_preload(void)
{
    return (getenv("REUSEBENCH_BOARD") || getenv("REUSEBENCH_LEDGER")) &&
           !dlsym(dlopen(NULL, RTLD_NOW), PRELOAD_SYMBOL);
}

bool open_library(struct library *library, struct failure *failure)
{
    /* The harness has found the library: targets/far/target.py. */
    const char *path = getenv(LIBRARY_VARIABLE);
    if (!path || !*path) {
        fail(failure, "rknn_no_library");
        return add_text(failure, "variable", LIBRARY_VARIABLE);
    }
    if (lacks_preload())
        return fail(failure, "rknn_preload_missing");
    if (!read_library(path, library, failure))
        return false;
    void *handle = dlopen(path, RTLD_NOW);
    if (!handle) {
        fail(failure, "rknn_library_not_loaded");
        add_text(failure, "path", path);
        return add_text(failure, "error", dlerror());
    }
    const char *slash = strrchr(path, '/');
    snprintf(library->folder, sizeof library->folder, "%.*s", slash ? (int)(slash + 1 - path) : 0, path);
    use_library(handle);
    return true;
}
