/* The functions of Rockchip's library, whether the program is linked with it or loads it later. */
#include "../apply.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

typedef void *symbol_finder(void *, const char *);

/* The library that this one stands before; other copies of it are left alone. It is not unloaded any more. */
static struct {
    void *handle;
    const void *begin;
} library;
static pthread_mutex_t finding = PTHREAD_MUTEX_INITIALIZER;

static symbol_finder *real_dlsym(void)
{
    /* The versions of dlsym: since glibc 2.34, and before it by architecture. */
    static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.4", "GLIBC_2.2.5"};
    static symbol_finder *found;
    for (size_t index = 0; !found && index < LENGTH(versions); index++)
        found = (symbol_finder *)dlvsym(RTLD_NEXT, "dlsym", versions[index]);
    return found;
}

static const void *begin_of_object(const void *address)
{
    Dl_info info;
    return address && dladdr(address, &info) ? info.dli_fbase : NULL;
}

static const void *own_begin(void)
{
    static const void *begin;
    if (!begin)
        begin = begin_of_object((const void *)own_begin);
    return begin;
}

/* Takes the object that the function is in; this library's own hooks are none. */
static bool take_library_of(const void *function)
{
    Dl_info info;
    if (!function || !dladdr(function, &info) || info.dli_fbase == own_begin())
        return false;
    void *handle = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (!handle || begin_of_object(real_dlsym()(handle, "rknn_init")) != info.dli_fbase)
        return false;
    library.begin = info.dli_fbase;
    __atomic_store_n(&library.handle, handle, __ATOMIC_RELEASE);
    return true;
}

/* A library that only other libraries are linked with is not found by name. */
static int take_loaded(struct dl_phdr_info *object, size_t size, void *unused)
{
    (void)size, (void)unused;
    void *handle = object->dlpi_name[0] ? dlopen(object->dlpi_name, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    if (!handle)
        return 0;
    const void *function = real_dlsym()(handle, "rknn_init");
    bool is_taken = strstr(object->dlpi_name, "rknn") && take_library_of(function);
    dlclose(handle);
    return is_taken;
}

static bool find_library(const void *function)
{
    pthread_mutex_lock(&finding);
    bool is_found = library.handle || take_library_of(real_dlsym()(RTLD_NEXT, "rknn_init")) ||
                    take_library_of(function) || dl_iterate_phdr(take_loaded, NULL);
    pthread_mutex_unlock(&finding);
    return is_found;
}

void *function_of_library(const char *name)
{
    if (!__atomic_load_n(&library.handle, __ATOMIC_ACQUIRE) && !find_library(NULL))
        return NULL;
    return real_dlsym()(library.handle, name);
}

/* Returns this library's function of the name; NULL if there is none. */
static void *hook_of(const char *name)
{
    static void *own;
    Dl_info info;
    if (!own && dladdr((const void *)hook_of, &info))
        own = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    void *function = own ? real_dlsym()(own, name) : NULL;
    return begin_of_object(function) == own_begin() ? function : NULL;
}

/* Returns this library's function in place of Rockchip's, if there is one. */
static void *replacement(void *theirs, const char *name)
{
    void *hook = hook_of(name);
    bool is_replaced = hook && find_library(theirs) && begin_of_object(theirs) == library.begin;
    return is_replaced ? hook : theirs;
}

/*
 * Gives this library's functions to a program that loads Rockchip's by dlopen, as RKNNLite does. Everything else goes on
 * to the real one by a jump, since RTLD_NEXT is relative to the caller.
 */
__attribute__((visibility("default"))) void *hook_dlsym(void *handle, const char *name) __asm__("dlsym");

__attribute__((visibility("default"))) void *hook_dlsym(void *handle, const char *name)
{
    symbol_finder *find = real_dlsym();
    bool is_theirs = name && strncmp(name, "rknn_", 5) == 0;
    if (is_theirs && handle == RTLD_DEFAULT && hook_of(name) && !find_library(NULL))
        return NULL; /* the program asks whether there is such a library */
    if (is_theirs && handle != RTLD_NEXT && handle != RTLD_DEFAULT) {
        void *theirs = find(handle, name);
        return theirs ? replacement(theirs, name) : NULL;
    }
    return find(handle, name);
}
