/* The functions of Rockchip's library, whether the program is linked with it or loads it later. */
#include "apply.h"

#include <dlfcn.h>
#include <string.h>

typedef void *symbol_finder(void *, const char *);

/* The handle by which the program has loaded the library, if it looks functions up by itself. */
static void *loaded;

static symbol_finder *real_dlsym(void)
{
    /* The versions of dlsym: since glibc 2.34, and before it by architecture. */
    static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.4", "GLIBC_2.2.5"};
    static symbol_finder *found;
    for (size_t index = 0; !found && index < LENGTH(versions); index++)
        found = (symbol_finder *)dlvsym(RTLD_NEXT, "dlsym", versions[index]);
    return found;
}

void *function_of_library(const char *name)
{
    symbol_finder *find = real_dlsym();
    if (!find)
        return NULL;
    void *function = loaded ? find(loaded, name) : NULL;
    return function ? function : find(RTLD_NEXT, name);
}

/*
 * Gives this library's functions to a program that loads Rockchip's by dlopen, as RKNNLite does. Everything else goes on
 * to the real one by a jump, since RTLD_NEXT is relative to the caller.
 */
__attribute__((visibility("default"))) void *hook_dlsym(void *handle, const char *name) __asm__("dlsym");

__attribute__((visibility("default"))) void *hook_dlsym(void *handle, const char *name)
{
    if (handle != RTLD_NEXT && handle != RTLD_DEFAULT && name && strncmp(name, "rknn_", 5) == 0) {
        void *theirs = real_dlsym()(handle, name);
        static void *own;
        if (!own) {
            Dl_info info;
            own = dladdr((void *)hook_dlsym, &info) ? dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD) : NULL;
        }
        void *ours = own && theirs ? real_dlsym()(own, name) : NULL;
        if (ours && handle != own)
            loaded = handle;
        return ours ? ours : theirs;
    }
    symbol_finder *find = real_dlsym();
    return find(handle, name);
}
