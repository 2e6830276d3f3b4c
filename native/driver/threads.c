/*
 * Threads of the measured process: one worker for each chain of contexts, and gates that limit how many infer at once.
 */
#include "native.h"

#include <stdlib.h>

/* Stack of a context's thread if there may be hundreds: 300 of the usual 8 MiB use up a 32-bit process. */
#define SMALL_STACK_BYTES (1 << 20)

struct worker {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    enum { IDLE, BUSY, DONE, ENDING } state;
    task *run;
    void *argument;
    bool is_well;
    struct failure failure;
};

static void set_state(struct worker *worker, int state)
{
    pthread_mutex_lock(&worker->lock);
    worker->state = state;
    pthread_cond_broadcast(&worker->changed);
    pthread_mutex_unlock(&worker->lock);
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    while (true) {
        pthread_mutex_lock(&worker->lock);
        while (worker->state != BUSY && worker->state != ENDING)
            pthread_cond_wait(&worker->changed, &worker->lock);
        bool is_ending = worker->state == ENDING;
        pthread_mutex_unlock(&worker->lock);
        if (is_ending)
            return NULL;
        worker->failure = (struct failure){0};
        worker->is_well = worker->run(worker->argument, &worker->failure);
        set_state(worker, DONE);
    }
}

struct worker *start_worker(bool has_small_stack)
{
    struct worker *worker = allocate_bytes(sizeof *worker);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    if (has_small_stack)
        pthread_attr_setstacksize(&attributes, SMALL_STACK_BYTES);
    pthread_mutex_init(&worker->lock, NULL);
    pthread_cond_init(&worker->changed, NULL);
    if (pthread_create(&worker->thread, &attributes, work, worker))
        abort();
    pthread_attr_destroy(&attributes);
    return worker;
}

void start_task(struct worker *worker, task *run, void *argument)
{
    worker->run = run;
    worker->argument = argument;
    set_state(worker, BUSY);
}

bool finish_task(struct worker *worker, struct failure *failure)
{
    pthread_mutex_lock(&worker->lock);
    while (worker->state != DONE)
        pthread_cond_wait(&worker->changed, &worker->lock);
    worker->state = IDLE;
    pthread_mutex_unlock(&worker->lock);
    if (!worker->is_well)
        *failure = worker->failure;
    return worker->is_well;
}

void stop_worker(struct worker *worker)
{
    set_state(worker, ENDING);
    pthread_join(worker->thread, NULL);
    pthread_cond_destroy(&worker->changed);
    pthread_mutex_destroy(&worker->lock);
    free(worker);
}

/* A thread that waits for a gate. */
struct waiting {
    pthread_cond_t admitted;
    bool is_admitted;
    struct waiting *next;
};

void open_gate(struct gate *gate, uint64_t capacity)
{
    *gate = (struct gate){.free = capacity};
    pthread_mutex_init(&gate->lock, NULL);
}

void enter(struct gate *gate)
{
    struct waiting self = {0};
    pthread_mutex_lock(&gate->lock);
    if (gate->free) {
        gate->free--;
        pthread_mutex_unlock(&gate->lock);
        return;
    }
    pthread_cond_init(&self.admitted, NULL);
    if (gate->first)
        gate->last->next = &self;
    else
        gate->first = &self;
    gate->last = &self;
    while (!self.is_admitted)
        pthread_cond_wait(&self.admitted, &gate->lock);
    pthread_mutex_unlock(&gate->lock);
    pthread_cond_destroy(&self.admitted);
}

void leave(struct gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    struct waiting *next = gate->first;
    if (next) {
        gate->first = next->next;
        next->is_admitted = true;
        pthread_cond_signal(&next->admitted);
    } else {
        gate->free++;
    }
    pthread_mutex_unlock(&gate->lock);
}
