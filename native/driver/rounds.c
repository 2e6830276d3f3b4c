/* The steady phase of a plan without a schedule: every context infers a number of times. */
#include "native.h"

#include <stdlib.h>

struct task_of_chain {
    const struct chain *chain;
    int64_t rounds;
    /* per context, the latency of each round; to be filled in */
    int64_t **latencies_ns;
};

static bool infer_in_gate(const struct turn *turn, int64_t *latency_ns, struct failure *failure)
{
    if (turn->gate)
        enter(turn->gate);
    int64_t started_ns = now_ns();
    bool is_well = infer(turn->context, failure);
    *latency_ns = now_ns() - started_ns;
    if (turn->gate)
        leave(turn->gate);
    return is_well;
}

static bool run_chain(void *argument, struct failure *failure)
{
    const struct task_of_chain *task = argument;
    for (int64_t round = 0; round < task->rounds; round++)
        for (size_t index = 0; index < task->chain->count; index++) {
            const struct turn *turn = &task->chain->turns[index];
            if (!infer_in_gate(turn, &task->latencies_ns[turn->number][round], failure))
                return false;
        }
    return true;
}

static size_t number_of_contexts(const struct schedule *schedule)
{
    size_t count = 0;
    for (size_t index = 0; index < schedule->count; index++)
        count += schedule->chains[index].count;
    return count;
}

/* Waits for all chains; the failure is that of the first chain that failed. */
static bool finish_all(const struct schedule *schedule, struct failure *failure)
{
    bool is_well = true;
    for (size_t index = 0; index < schedule->count; index++) {
        struct failure one = {0};
        if (finish_task(schedule->chains[index].worker, &one))
            continue;
        if (is_well)
            *failure = one;
        else
            forget(&one);
        is_well = false;
    }
    return is_well;
}

static void append_latencies(struct text *answer, const int64_t *latencies_ns, int64_t rounds)
{
    append(answer, "\tlatencies_ns=");
    for (int64_t round = 0; round < rounds; round++)
        append(answer, "%s%lld", round ? "," : "", (long long)latencies_ns[round]);
}

bool run_rounds(const struct line *line, const struct schedule *schedule, struct text *answer, struct failure *failure)
{
    int64_t rounds = number_field(line, "rounds", 1);
    size_t count = number_of_contexts(schedule);
    int64_t **latencies_ns = allocate_bytes(count * sizeof *latencies_ns);
    struct task_of_chain *tasks = allocate_bytes(schedule->count * sizeof *tasks);
    for (size_t index = 0; index < count; index++)
        latencies_ns[index] = allocate_bytes((size_t)rounds * sizeof **latencies_ns);
    int64_t started_ns = now_ns();
    for (size_t index = 0; index < schedule->count; index++) {
        tasks[index] = (struct task_of_chain){&schedule->chains[index], rounds, latencies_ns};
        start_task(schedule->chains[index].worker, run_chain, &tasks[index]);
    }
    bool is_well = finish_all(schedule, failure);
    append(answer, "\telapsed_ns=%lld", (long long)(now_ns() - started_ns));
    for (size_t index = 0; index < count; index++) {
        append_latencies(answer, latencies_ns[index], rounds);
        free(latencies_ns[index]);
    }
    free(latencies_ns);
    free(tasks);
    return is_well;
}
