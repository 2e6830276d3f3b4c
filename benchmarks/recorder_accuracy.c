/* The program that recorder_accuracy.py records: phases whose memory is known to the page.
 *
 *   phases PAUSE_MS FILE
 *   phases PAUSE_MS FILE STEP...
 *
 * It marks its phases through REUSEBENCH_MARKER and waits for the answers; with PAUSE_MS from 0 it sleeps for that time
 * instead. FILE has FILE_MIB. At the end it prints a line for each phase, in bytes: memory at its end, the highest sum
 * of the RSS of both processes, the highest RSS of one, and its name. In the first phase it reads its own values in
 * smaps_rollup, and the RSS of the child when that has begun; later values follow from the touched and unmapped
 * pages. With steps it does these instead of its own phases: hold, huge, free or spike and a number of MiB, sleep and
 * milliseconds, mark and a name. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MIB = 1 << 20, PAGE = 4096, FILE_MIB = 24, SHARED_MIB = 40, SPIKE_MIB = 32, SHORT_MIB = 8, MOST = 64, STACK = 256 };

static struct phase {
    const char *name;
    long memory, peak, largest;
} phases[MOST];
static int count, marker, pause_ms, is_huge;
/* Memory of both processes; RSS of this one and of the child; highest RSS in the phase, of both and of this one. */
static long memory, resident, child_resident, peak, largest;

static void sleep_ms(long ms)
{
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};

    nanosleep(&time, NULL);
}

static long rollup(int pid, const char *key)
{
    char text[4096], path[64], *line;
    int file;
    long size;

    snprintf(path, sizeof path, "/proc/%d/smaps_rollup", pid);
    file = open(path, O_RDONLY);
    size = read(file, text, sizeof text - 1);
    close(file);
    if (size <= 0)
        exit(3);
    text[size] = 0;
    line = strstr(text, key);
    return line ? atol(line + strlen(key)) * 1024 : 0;
}

static void note_peak(long sum)
{
    if (sum > peak)
        peak = sum;
    if (resident > largest)
        largest = resident;
}

static void note(long bytes)
{
    memory += bytes;
    resident += bytes;
    note_peak(resident + child_resident);
}

static char *mapped(long mib, int flags, int file)
{
    int writes = flags & MAP_SHARED || file < 0 ? PROT_WRITE : 0;
    char *begin = mmap(NULL, (size_t)mib * MIB, PROT_READ | writes, flags, file, 0);

    if (begin == MAP_FAILED)
        exit(4);
    madvise(begin, (size_t)mib * MIB, is_huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    return begin;
}

static void touch(char *begin, long mib)
{
    volatile char *page = begin;

    for (long at = 0; at < mib * MIB; at += PAGE)
        page[at] = 1;
}

static void look(const char *begin, long mib)
{
    const volatile char *page = begin;

    for (long at = 0; at < mib * MIB; at += PAGE)
        (void)page[at];
}

static int shared_file(void)
{
    int file = memfd_create("shared", MFD_CLOEXEC);

    if (file < 0 || ftruncate(file, (off_t)SHARED_MIB * MIB))
        exit(7);
    return file;
}

static char *held(long mib)
{
    char *begin = mapped(mib, MAP_PRIVATE | MAP_ANONYMOUS, -1);

    touch(begin, mib);
    note(mib * MIB);
    return begin;
}

static void released(char *begin, long mib)
{
    munmap(begin, (size_t)mib * MIB);
    note(-mib * MIB);
}

/* End the phase with this name; the mark is the name of the next one. */
static void end_phase(const char *name, const char *next)
{
    char answer;

    phases[count++] = (struct phase){name, memory, peak, largest};
    peak = largest = 0;
    note_peak(resident + child_resident);
    dprintf(marker, "%s\n", next);
    if (pause_ms > 0)
        sleep_ms(pause_ms);
    else if (pause_ms < 0 && read(marker, &answer, 1) != 1)
        exit(5);
}

static void spike(void)
{
    char *begin = mapped(SPIKE_MIB, MAP_PRIVATE | MAP_ANONYMOUS, -1);

    touch(begin, SPIKE_MIB);
    sleep_ms(1);
    munmap(begin, (size_t)SPIKE_MIB * MIB);
}

/* The child takes a step when it is told to, and reports when it is done. */
static void step(int tell, int told)
{
    char word = 0;

    if (write(tell, &word, 1) != 1 || read(told, &word, 1) != 1)
        exit(6);
}

static void be_child(char *shared, char *shm, int told, int tell)
{
    char word;

    for (int number = 0; read(told, &word, 1) == 1; number++) {
        if (number == 0) {
            touch(shared, SHARED_MIB);
            touch(shm, SHARED_MIB);
        } else {
            spike();
        }
        if (write(tell, &word, 1) != 1)
            break;
    }
    _exit(0);
}

/* Memory that was taken last is given back first, all that one step has taken. */
static void take_steps(char **words)
{
    struct {
        char *begin;
        long mib;
    } blocks[STACK];
    int held_blocks = 0;
    const char *name = "start";

    for (; words[0] && words[1]; words += 2) {
        long number = atol(words[1]);
        if (!strcmp(words[0], "mark")) {
            end_phase(name, words[1]);
            name = words[1];
        } else if (!strcmp(words[0], "sleep")) {
            sleep_ms(number);
        } else if (!strcmp(words[0], "spike")) {
            char *begin = held(number);
            released(begin, number);
        } else if (!strcmp(words[0], "free")) {
            if (held_blocks-- == 0)
                exit(8);
            released(blocks[held_blocks].begin, blocks[held_blocks].mib);
        } else {
            if (held_blocks == STACK)
                exit(8);
            is_huge = !strcmp(words[0], "huge");
            blocks[held_blocks].begin = held(number);
            blocks[held_blocks++].mib = number;
            is_huge = 0;
        }
    }
}

static void print_phases(void)
{
    for (int number = 0; number < count; number++)
        printf("%ld %ld %ld %s\n", phases[number].memory, phases[number].peak, phases[number].largest,
               phases[number].name);
}

int main(int arguments, char **words)
{
    int file = arguments >= 3 ? open(words[2], O_RDONLY) : -1, to_child[2], from_child[2], child;
    const char *const shorts[] = {"short 1", "short 2", "short 3", "short 4", "short 5", "short 6", "end"};
    char *base, *grown[24], *shared, *shm;

    if (file < 0 || !getenv("REUSEBENCH_MARKER") || pipe(to_child) || pipe(from_child))
        return 2;
    pause_ms = atoi(words[1]);
    marker = atoi(getenv("REUSEBENCH_MARKER"));
    if (arguments > 3) {
        rollup(getpid(), "Pss:");
        memory = rollup(getpid(), "\nPss:");
        resident = rollup(getpid(), "\nRss:");
        note(0);
        take_steps(words + 3);
        print_phases();
        return 0;
    }
    base = mapped(264, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    touch(base, 264);
    rollup(getpid(), "Pss:"); /* The first call allocates the C library's buffers. */
    sleep_ms(300);
    memory = rollup(getpid(), "\nPss:");
    resident = rollup(getpid(), "\nRss:");
    note(0);
    end_phase("start", "grow by 48");

    for (int number = 0; number < 24; number++) {
        grown[number] = held(2);
        sleep_ms(20);
    }
    end_phase("grow by 48", "shrink by 240");

    for (int number = 0; number < 24; number++)
        released(grown[number], 2);
    munmap(base, (size_t)192 * MIB);
    note(-192L * MIB);
    sleep_ms(300);
    end_phase("shrink by 240", "spike of 1 ms");

    sleep_ms(200);
    note_peak(resident + SPIKE_MIB * MIB);
    largest = resident + SPIKE_MIB * MIB;
    spike();
    sleep_ms(200);
    end_phase("spike of 1 ms", "map a file");

    look(mapped(FILE_MIB, MAP_PRIVATE, file), FILE_MIB);
    note(FILE_MIB * MIB);
    sleep_ms(200);
    end_phase("map a file", "share");

    shared = mapped(SHARED_MIB, MAP_SHARED | MAP_ANONYMOUS, -1);
    shm = mapped(SHARED_MIB, MAP_SHARED, shared_file());
    touch(shared, SHARED_MIB);
    touch(shm, SHARED_MIB);
    note(2L * SHARED_MIB * MIB);
    child = fork();
    if (child == 0) {
        close(to_child[1]);
        be_child(shared, shm, to_child[0], from_child[1]);
    }
    step(to_child[1], from_child[0]);
    child_resident = rollup(child, "\nRss:");
    note(0);
    sleep_ms(100);
    end_phase("share", "hold");

    sleep_ms(700);
    end_phase("hold", "spikes in turn");

    sleep_ms(100);
    note_peak(resident + child_resident + SPIKE_MIB * MIB);
    step(to_child[1], from_child[0]);
    sleep_ms(100);
    largest = resident + SPIKE_MIB * MIB;
    spike();
    sleep_ms(100);
    end_phase("spikes in turn", "alone");

    close(to_child[1]);
    waitpid(child, NULL, 0);
    child_resident = 0;
    end_phase("alone", shorts[0]);

    /* An immediate change of the next phase must not count in the one before. */
    for (int number = 0; number < 6; number += 2) {
        grown[0] = held(SHORT_MIB);
        end_phase(shorts[number], shorts[number + 1]);
        released(grown[0], SHORT_MIB);
        end_phase(shorts[number + 1], shorts[number + 2]);
    }
    print_phases();
    return 0;
}
