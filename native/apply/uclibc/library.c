/*
 * The functions of Rockchip's library on uClibc, whose symbols have no versions. Programs for its boards are linked with
 * librknnmrt; one that loads it by dlopen is left alone.
 */
#include "../apply.h"

#include <dlfcn.h>

void *function_of_library(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}
