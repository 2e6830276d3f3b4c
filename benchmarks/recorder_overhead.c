/* The program that recorder_overhead.py records: a pipeline of frames, all of the same work.
 *
 *   pipeline SECONDS THREADS RESIDENT_MIB
 *
 * Each frame is allocated (3 MiB: the C library maps and unmaps it, under the lock that readings of PSS take), written,
 * scaled into a second one, and freed; a part of the resident memory is read too. About a hundred times a second the
 * program prints, in seconds, the monotonic time, its own CPU time, and the time that its threads have waited for a
 * CPU; and the number of finished frames. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { FRAME = 1920 * 1080 * 3 / 2, SMALL = FRAME / 4 };

static atomic_long frames;
static atomic_uint sink;
static atomic_int done;
static size_t resident_bytes;
static atomic_int started;
static long ids[64];

static double seconds(clockid_t clock)
{
    struct timespec time;

    clock_gettime(clock, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* Waiting time of the pipeline's threads: the second number of /proc/PID/task/TID/schedstat, in nanoseconds. */
static double waited_s(void)
{
    double sum = 0;

    for (int thread = 0; thread < started; thread++) {
        unsigned long long ran, waited = 0;
        char path[64];
        FILE *file;

        snprintf(path, sizeof path, "/proc/self/task/%ld/schedstat", ids[thread]);
        file = fopen(path, "r");
        if (!file || fscanf(file, "%llu %llu", &ran, &waited) != 2) {
            fprintf(stderr, "%s cannot be read: the kernel lacks CONFIG_SCHED_INFO\n", path);
            exit(1);
        }
        fclose(file);
        sum += (double)waited / 1e9;
    }
    return sum;
}

static void *pipeline(void *id)
{
    unsigned char *resident = malloc(resident_bytes);

    *(long *)id = syscall(SYS_gettid);
    started++;
    memset(resident, 1, resident_bytes);
    for (size_t number = 0; !done; number++) {
        unsigned char *frame = malloc(FRAME), *small = malloc(SMALL);
        unsigned sum = 0;

        memset(frame, (int)number, FRAME);
        for (size_t at = 0; at < SMALL; at++)
            small[at] = (unsigned char)((frame[4 * at] + frame[4 * at + 3]) / 2);
        for (size_t at = 0; at < SMALL; at += 64)
            sum += small[at] + resident[(at * 61 + number * 4096) % resident_bytes];
        free(small);
        free(frame);
        sink += sum;
        frames++;
    }
    free(resident);
    return NULL;
}

int main(int count, char **arguments)
{
    const struct timespec pause = {0, 5000000};
    pthread_t threads[64];
    int number = count == 4 ? atoi(arguments[2]) : 0;

    if (number < 1 || number > 64)
        return 2;
    double end_s = seconds(CLOCK_MONOTONIC) + atof(arguments[1]);
    resident_bytes = ((size_t)atol(arguments[3]) << 20) / (size_t)number;
    for (int thread = 0; thread < number; thread++)
        pthread_create(&threads[thread], NULL, pipeline, &ids[thread]);
    while (started < number)
        nanosleep(&pause, NULL);
    while (seconds(CLOCK_MONOTONIC) < end_s) {
        printf("%.6f %.6f %.6f %ld\n", seconds(CLOCK_MONOTONIC), seconds(CLOCK_PROCESS_CPUTIME_ID), waited_s(),
               (long)frames);
        nanosleep(&pause, NULL);
    }
    done = 1;
    for (int thread = 0; thread < number; thread++)
        pthread_join(threads[thread], NULL);
    return 0;
}
