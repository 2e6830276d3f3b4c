/* The description of a steady phase: gates with their capacities, chains, and the turns of each chain. */
#include "native.h"

#include <stdlib.h>
#include <string.h>

static void add_chain(struct schedule *schedule, size_t pool)
{
    schedule->chains = with_space(schedule->chains, schedule->count, sizeof *schedule->chains);
    schedule->chains[schedule->count++] = (struct chain){.pool = pool};
}

/* Takes a turn such as 3, the index of a context, or 3:1, with the index of the gate that it holds while it infers. */
static void add_turn(struct schedule *schedule, const char *value, struct context **contexts, struct worker **workers)
{
    struct chain *chain = &schedule->chains[schedule->count - 1];
    size_t number = (size_t)number_of(value);
    const char *gate = strchr(value, ':');
    if (!chain->count)
        chain->worker = workers[number];
    chain->turns = with_space(chain->turns, chain->count, sizeof *chain->turns);
    chain->turns[chain->count++] = (struct turn){
        .context = contexts[number],
        .gate = gate ? &schedule->gates[number_of(gate + 1)] : NULL,
        .number = number,
    };
}

static void open_gates(struct schedule *schedule, const struct line *line)
{
    schedule->gates = allocate_bytes(line->count * sizeof *schedule->gates);
    for (size_t index = 1; index < line->count; index++) {
        const char *capacity = value_of(line->fields[index], "gate");
        if (capacity)
            open_gate(&schedule->gates[schedule->gate_count++], (uint64_t)number_of(capacity));
    }
}

struct schedule read_schedule(const struct line *line, struct context **contexts, struct worker **workers, size_t count)
{
    struct schedule schedule = {0};
    open_gates(&schedule, line);
    for (size_t index = 1; index < line->count; index++) {
        const char *pool = value_of(line->fields[index], "chain"), *turn = value_of(line->fields[index], "turn");
        if (pool)
            add_chain(&schedule, (size_t)number_of(pool));
        else if (turn && (size_t)number_of(turn) < count)
            add_turn(&schedule, turn, contexts, workers);
    }
    /* If contexts are added until one fails, every chain has one context, and those that did not fit come last. */
    while (schedule.count && !schedule.chains[schedule.count - 1].count)
        schedule.count--;
    return schedule;
}

void free_schedule(struct schedule *schedule)
{
    for (size_t index = 0; index < schedule->count; index++)
        free(schedule->chains[index].turns);
    for (size_t index = 0; index < schedule->gate_count; index++)
        pthread_mutex_destroy(&schedule->gates[index].lock);
    free(schedule->chains);
    free(schedule->gates);
}
