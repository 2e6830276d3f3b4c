/* The names that the driver takes from uClibc, all in its libc.so.0. They are linked against and never loaded. */
#define NAME(name) void name(void) {}

/* clang-format off */
NAME(_exit) NAME(abort) NAME(access) NAME(calloc) NAME(close) NAME(dlerror) NAME(dlopen) NAME(dlsym) NAME(dup)
NAME(dup2) NAME(exit) NAME(fcntl) NAME(free) NAME(ftruncate) NAME(getenv) NAME(ioctl) NAME(lseek) NAME(malloc)
NAME(memchr) NAME(memcmp) NAME(memcpy) NAME(memmem) NAME(memmove) NAME(memset) NAME(mmap) NAME(munmap) NAME(open)
NAME(poll) NAME(pread) NAME(pthread_attr_destroy) NAME(pthread_attr_init) NAME(pthread_attr_setstacksize)
NAME(pthread_cond_broadcast) NAME(pthread_cond_destroy) NAME(pthread_cond_init) NAME(pthread_cond_signal)
NAME(pthread_cond_wait) NAME(pthread_create) NAME(pthread_join) NAME(pthread_mutex_destroy) NAME(pthread_mutex_init)
NAME(pthread_mutex_lock) NAME(pthread_mutex_unlock) NAME(pthread_once) NAME(raise) NAME(read) NAME(realloc)
NAME(setvbuf) NAME(signal) NAME(snprintf) NAME(strchr) NAME(strcmp) NAME(strcspn) NAME(strerror) NAME(strlen)
NAME(strncmp) NAME(strrchr) NAME(strsep) NAME(strspn) NAME(strstr) NAME(syscall) NAME(vsnprintf) NAME(write)
NAME(__errno_location) NAME(__uClibc_main)

void *stdout;
