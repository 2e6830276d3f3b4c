/* Programs that reach the library by other ways: loader WAY LIBRARY [OTHER]; exit code 0 if all went as it should. */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "driver/abi.h"

#define SHORT_MODEL "1000 500"
#define LONG_MODEL "3000 4000"

typedef struct {
    void *handle;
    __typeof__(&rknn_init) init;
    __typeof__(&rknn_run) run;
    __typeof__(&rknn_destroy) destroy;
    __typeof__(&rknn_create_mem) create_mem;
    __typeof__(&rknn_destroy_mem) destroy_mem;
} library;

static void must(int holds, const char *what)
{
    if (holds)
        return;
    printf("not so: %s\n", what);
    exit(1);
}

static library functions_of(void *handle)
{
    return (library){
        handle,
        dlsym(handle, "rknn_init"),
        dlsym(handle, "rknn_run"),
        dlsym(handle, "rknn_destroy"),
        dlsym(handle, "rknn_create_mem"),
        dlsym(handle, "rknn_destroy_mem"),
    };
}

static library opened(const char *path)
{
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    must(handle != NULL, "the library is loaded");
    return functions_of(handle);
}

static rknn_context loaded(const library *used, const char *model)
{
    rknn_context handle = 0;
    must(used->init(&handle, (void *)model, (uint32_t)strlen(model), 0, NULL) == 0, "rknn_init");
    return handle;
}

static void run_and_destroy(const library *used, rknn_context handle)
{
    must(used->run(handle, NULL) == 0, "rknn_run");
    must(used->destroy(handle) == 0, "rknn_destroy");
}

static void use(const library *used)
{
    rknn_context first = loaded(used, SHORT_MODEL), second = loaded(used, SHORT_MODEL);
    rknn_context third = loaded(used, LONG_MODEL);
    rknn_tensor_mem *mem = used->create_mem(second, 4096);
    must(mem && used->destroy_mem(second, mem) == 0, "memory of the program's own");
    run_and_destroy(used, first);
    run_and_destroy(used, third);
    run_and_destroy(used, second);
}

/* As RKNNLite does it; then the library is unloaded and loaded again. */
static void reload(const char *path)
{
    for (int round = 0; round < 3; round++) {
        library used = opened(path);
        use(&used);
        dlclose(used.handle);
    }
}

static void use_two(const char *path, const char *other)
{
    library one = opened(path), two = opened(other);
    must(one.destroy_mem != two.destroy_mem, "there are two libraries");
    rknn_context first = loaded(&one, SHORT_MODEL), second = loaded(&two, SHORT_MODEL);
    use(&two);
    use(&one);
    run_and_destroy(&two, second);
    run_and_destroy(&one, first);
}

/* A library that is linked with Rockchip's, as a Python module is. */
static void use_plugin(const char *path)
{
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    must(handle != NULL, "the plugin is loaded");
    int (*work)(void) = (int (*)(void))dlsym(handle, "plugin_work");
    must(work && work() == 0, "the plugin's work");
}

/* By a handle of the whole program, in which this library's functions come first. */
static void use_whole_program(const char *path)
{
    must(dlopen(path, RTLD_NOW | RTLD_GLOBAL) != NULL, "the library is loaded");
    library used = functions_of(dlopen(NULL, RTLD_NOW));
    use(&used);
    library by_default = functions_of(RTLD_DEFAULT);
    use(&by_default);
}

static void use_in_child(const char *path)
{
    library used = opened(path);
    rknn_context first = loaded(&used, SHORT_MODEL), second = loaded(&used, SHORT_MODEL);
    must(used.run(first, NULL) == 0, "a run before the fork");
    pid_t child = fork();
    if (child == 0) {
        use(&used);
        run_and_destroy(&used, first);
        run_and_destroy(&used, second);
        exit(0);
    }
    int status = 1;
    must(waitpid(child, &status, 0) == child && status == 0, "the child has ended well");
    run_and_destroy(&used, second);
    run_and_destroy(&used, first);
}

static library used_by_all;
static rknn_context running;

/* As many programs end: their handler destroys the context that is running, and exits. */
static void end_at_once(int number)
{
    (void)number;
    used_by_all.destroy(running);
    puts("well");
    exit(0);
}

static void end_by_signal(const char *path)
{
    used_by_all = opened(path);
    running = loaded(&used_by_all, SHORT_MODEL);
    signal(SIGALRM, end_at_once);
    ualarm(5000, 0);
    for (;;)
        used_by_all.run(running, NULL);
}

static void *run_for_ever(void *handle)
{
    for (;;) {
        used_by_all.run((rknn_context)(size_t)handle, NULL);
        pthread_testcancel();
    }
    return NULL;
}

static void cancel(const char *path)
{
    used_by_all = opened(path);
    rknn_context first = loaded(&used_by_all, SHORT_MODEL), second = loaded(&used_by_all, SHORT_MODEL);
    for (int round = 0; round < 20; round++) {
        pthread_t thread;
        must(pthread_create(&thread, NULL, run_for_ever, (void *)(size_t)first) == 0, "a thread");
        usleep(1000);
        pthread_cancel(thread);
        must(used_by_all.run(second, NULL) == 0, "a run beside");
        pthread_join(thread, NULL);
    }
    run_and_destroy(&used_by_all, first);
    run_and_destroy(&used_by_all, second);
}

static void *run_often(void *handle)
{
    for (int round = 0; round < 100; round++)
        must(used_by_all.run((rknn_context)(size_t)handle, NULL) == 0, "rknn_run");
    return NULL;
}

static void use_threads(const char *path)
{
    used_by_all = opened(path);
    rknn_context handles[6];
    pthread_t threads[6];
    for (int index = 0; index < 6; index++)
        handles[index] = loaded(&used_by_all, LONG_MODEL);
    for (int index = 0; index < 6; index++)
        pthread_create(&threads[index], NULL, run_often, (void *)(size_t)handles[index]);
    for (int index = 0; index < 6; index++)
        pthread_join(threads[index], NULL);
    for (int index = 0; index < 6; index++)
        must(used_by_all.destroy(handles[index]) == 0, "rknn_destroy");
}

int main(int count, char **values)
{
    const char *way = values[1], *path = count > 2 ? values[2] : NULL;
    if (strcmp(way, "reload") == 0)
        reload(path);
    else if (strcmp(way, "two") == 0)
        use_two(path, values[3]);
    else if (strcmp(way, "plugin") == 0)
        use_plugin(path);
    else if (strcmp(way, "whole") == 0)
        use_whole_program(path);
    else if (strcmp(way, "fork") == 0)
        use_in_child(path);
    else if (strcmp(way, "signal") == 0)
        end_by_signal(path);
    else if (strcmp(way, "threads") == 0)
        use_threads(path);
    else if (strcmp(way, "cancel") == 0)
        cancel(path);
    else
        must(dlsym(RTLD_DEFAULT, "rknn_init") == NULL, "there is no library");
    puts("well");
    return 0;
}
