/* The names that this library takes from uClibc 1.0.31, all in its libc.so.0. They are linked against and never loaded. */
#define NAME(name) void name(void) {}

/* clang-format off */
NAME(__register_atfork) NAME(atoi) NAME(calloc) NAME(close) NAME(closedir) NAME(dlsym) NAME(fclose) NAME(fcntl) NAME(fopen)
NAME(fread) NAME(free) NAME(fstat) NAME(getenv) NAME(getpid) NAME(malloc) NAME(memchr) NAME(memcmp) NAME(memcpy)
NAME(memmem) NAME(memmove) NAME(memset) NAME(mmap) NAME(munmap) NAME(open) NAME(opendir) NAME(pthread_cond_broadcast)
NAME(pthread_cond_wait) NAME(pthread_equal) NAME(pthread_mutex_lock) NAME(pthread_mutex_unlock) NAME(pthread_self)
NAME(pthread_setcancelstate) NAME(read) NAME(readdir) NAME(snprintf) NAME(strcmp) NAME(strcpy) NAME(strlen) NAME(strncmp)
NAME(strrchr) NAME(strtok_r) NAME(strtol) NAME(syscall) NAME(vsnprintf) NAME(vsscanf) NAME(write)

void *__ctype_b;
