/* The plan of a layout, if there is one (REUSEBENCH_APPLY_PLAN); all is used with the lock held. */
#ifndef REUSEBENCH_APPLY_PLAN_H
#define REUSEBENCH_APPLY_PLAN_H

#include "apply.h"

/* What a context shares; equal numbers share. */
struct plan_context {
    struct plan_context *next;
    int weights;
    int memory; /* internal memory; -1: its own */
    int core;   /* -1: as the program says */
    bool is_taken;
};

bool has_plan(void);
/* Returns the next free line of the model; NULL if it has none, or there is no plan. `path`: NULL if it is in memory. */
struct plan_context *take_line(const struct model *model, const char *path);
void give_line_back(struct plan_context *line);
/* Writes the value of the report's key "plan"; returns its length. */
size_t plan_report(char *text, size_t size);
void forget_plan_counts(void);

#endif
