/*
 * Streams of frames (measured/streams/pipeline.py, threads.py and pool.py): each frame is due at its time, and the
 * chain that has been free for longest takes it. Nothing is decoded: inputs stay the same, so all frames have the same
 * outputs.
 */
#include "native.h"

#include <stdlib.h>

/* A stream that is later than this starts again with the newest frame, as a player of a camera's stream does. */
#define MOST_BEHIND_NS NS_PER_S
/* Interval at which a thread that waits for a frame checks whether the run is to end. */
#define CHECK_NS 100000000LL
/* Interval at which the heap is read, and the number of readings after which finished frames are sent. */
#define READING_NS 100000000LL
#define READINGS 10
/* A row: the due time of a frame, and its stages wait, decode, queue, resize, inference, output. */
#define ROW_NUMBERS 7

struct frame {
    size_t stream;
    int64_t due_ns, begun_ns, decoded_ns;
};

/* The counted frames of one stream. */
struct tally {
    pthread_mutex_t lock;
    int64_t dropped, missed;
    int64_t (*rows)[ROW_NUMBERS];
    size_t row_count, row_numbers;
};

/* The place from which a chain gets its next frame; used with the pool's lock held. */
struct inbox {
    pthread_cond_t changed;
    enum { EMPTY, FULL, CLOSED } state;
    struct frame frame;
    struct inbox *next;
};

struct pool {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int64_t queue; /* number of frames of each stream that may wait for a chain */
    struct inbox *first_idle, *last_idle;
    struct frame *waiting;
    size_t waiting_count;
    int64_t *waiting_of, working; /* per stream */
    bool is_closed;
};

/* The times when frames are due, and the period in which they count. */
static struct clock {
    int64_t streams, interval_ps, apart_ns, start_ns, begin_ns, end_ns;
} schedule_clock;

static struct tally *tallies;
static struct pool *pools;
static size_t pool_count;
static bool is_stopping; /* read and written without a lock, as one word */

static bool is_paced(void)
{
    return schedule_clock.interval_ps > 0;
}

/* Returns the due time of the stream's first frame: some intervals after the first stream's, and part of one. */
static int64_t first_due_ns(int64_t stream)
{
    const struct clock *clock = &schedule_clock;
    int64_t intervals = stream * clock->apart_ns * 1000 / clock->interval_ps;
    return clock->start_ns + (intervals * clock->interval_ps + stream * clock->interval_ps / clock->streams) / 1000;
}

static int64_t due_ns(int64_t stream, int64_t number)
{
    return first_due_ns(stream) + number * schedule_clock.interval_ps / 1000;
}

static int64_t newest_number(int64_t stream, int64_t at_ns)
{
    return (at_ns - first_due_ns(stream)) * 1000 / schedule_clock.interval_ps;
}

static bool counts(int64_t due)
{
    return schedule_clock.begin_ns <= due && due < schedule_clock.end_ns;
}

static int64_t measured_ns(int64_t at_ns)
{
    int64_t end_ns = at_ns < schedule_clock.end_ns ? at_ns : schedule_clock.end_ns;
    return end_ns > schedule_clock.begin_ns ? end_ns - schedule_clock.begin_ns : 0;
}

static bool must_stop(void)
{
    return __atomic_load_n(&is_stopping, __ATOMIC_ACQUIRE);
}

/* Keeps the row of a finished frame, given the times at which its stages ended. */
static void note_frame(const struct frame *frame, const int64_t *later_ns, size_t count)
{
    struct tally *tally = &tallies[frame->stream];
    int64_t row[ROW_NUMBERS] = {frame->due_ns, frame->begun_ns - frame->due_ns, frame->decoded_ns - frame->begun_ns};
    int64_t before_ns = frame->decoded_ns;
    for (size_t index = 0; index < count; before_ns = later_ns[index++])
        row[3 + index] = later_ns[index] - before_ns;
    pthread_mutex_lock(&tally->lock);
    tally->rows = with_space(tally->rows, tally->row_count, sizeof *tally->rows);
    for (size_t index = 0; index < ROW_NUMBERS; index++)
        tally->rows[tally->row_count][index] = row[index];
    tally->row_count++;
    tally->row_numbers = 3 + count;
    pthread_mutex_unlock(&tally->lock);
}

static void note_lost(size_t stream, int64_t *lost, int64_t count)
{
    pthread_mutex_lock(&tallies[stream].lock);
    *lost += count;
    pthread_mutex_unlock(&tallies[stream].lock);
}

static void put(struct inbox *inbox, int state, const struct frame *frame)
{
    inbox->state = state;
    if (frame)
        inbox->frame = *frame;
    pthread_cond_signal(&inbox->changed);
}

static void add_idle(struct pool *pool, struct inbox *inbox)
{
    inbox->next = NULL;
    if (pool->first_idle)
        pool->last_idle->next = inbox;
    else
        pool->first_idle = inbox;
    pool->last_idle = inbox;
}

static bool fits(const struct pool *pool, size_t stream)
{
    return pool->waiting_of[stream] < pool->queue;
}

static bool take_or_queue(struct pool *pool, const struct frame *frame)
{
    struct inbox *idle = pool->first_idle;
    if (pool->is_closed)
        return false;
    if (idle) {
        pool->working++;
        pool->first_idle = idle->next;
        put(idle, FULL, frame);
        return true;
    }
    if (!fits(pool, frame->stream))
        return false;
    pool->waiting = with_space(pool->waiting, pool->waiting_count, sizeof *pool->waiting);
    pool->waiting[pool->waiting_count++] = *frame;
    pool->waiting_of[frame->stream]++;
    return true;
}

/* Gives the frame to a chain or queues it; false if it is dropped. With `waits` nothing is dropped. */
static bool offer(struct pool *pool, const struct frame *frame, bool waits)
{
    pthread_mutex_lock(&pool->lock);
    while (waits && !pool->is_closed && !pool->first_idle && !fits(pool, frame->stream))
        pthread_cond_wait(&pool->changed, &pool->lock);
    bool is_taken = take_or_queue(pool, frame);
    pthread_mutex_unlock(&pool->lock);
    return is_taken;
}

/* Gives a chain that has finished its frame the next one; if there is none, the chain is free. */
static void give_next(struct pool *pool, struct inbox *inbox)
{
    pthread_mutex_lock(&pool->lock);
    if (pool->is_closed) {
        put(inbox, CLOSED, NULL);
    } else if (pool->waiting_count) {
        struct frame frame = pool->waiting[0];
        pool->waiting_count--;
        for (size_t index = 0; index < pool->waiting_count; index++)
            pool->waiting[index] = pool->waiting[index + 1];
        pool->waiting_of[frame.stream]--;
        put(inbox, FULL, &frame);
    } else {
        pool->working--;
        add_idle(pool, inbox);
    }
    pthread_cond_broadcast(&pool->changed);
    pthread_mutex_unlock(&pool->lock);
}

/* Takes no more frames and waits for none, since something has failed. */
static void fail_pool(struct pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    pool->is_closed = true;
    pool->working = 0;
    pool->waiting_count = 0;
    pthread_cond_broadcast(&pool->changed);
    pthread_mutex_unlock(&pool->lock);
}

/* Waits until all accepted frames are finished, then lets the chains end. */
static void drain(struct pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    while (pool->working)
        pthread_cond_wait(&pool->changed, &pool->lock);
    pool->is_closed = true;
    for (struct inbox *inbox = pool->first_idle; inbox; inbox = inbox->next)
        put(inbox, CLOSED, NULL);
    pthread_mutex_unlock(&pool->lock);
}

static bool end_all(bool is_well)
{
    if (!is_well) {
        __atomic_store_n(&is_stopping, true, __ATOMIC_RELEASE);
        for (size_t index = 0; index < pool_count; index++)
            fail_pool(&pools[index]);
    }
    return is_well;
}

struct stream_thread {
    struct worker *worker;
    size_t stream;
    struct pool *pool; /* NULL: there is no context */
};

/* Waits until the frame is due; false if the run ends before. */
static bool await_frame(size_t stream, int64_t number, int64_t *due)
{
    *due = is_paced() ? due_ns((int64_t)stream, number) : now_ns();
    while (*due < schedule_clock.end_ns && !must_stop()) {
        int64_t left_ns = *due - now_ns();
        if (left_ns <= 0)
            return true;
        sleep_ns(left_ns < CHECK_NS ? left_ns : CHECK_NS);
    }
    return false;
}

/* Skips all frames before the newest, and returns its number. */
static int64_t catch_up(size_t stream, int64_t number, int64_t at_ns)
{
    int64_t newest = newest_number((int64_t)stream, at_ns), missed = 0;
    for (; number < newest; number++)
        missed += counts(due_ns((int64_t)stream, number));
    note_lost(stream, &tallies[stream].missed, missed);
    return newest;
}

static void hand_over(const struct stream_thread *thread, const struct frame *frame)
{
    if (!thread->pool) {
        if (counts(frame->due_ns))
            note_frame(frame, NULL, 0);
    } else if (!offer(thread->pool, frame, !is_paced())) {
        note_lost(frame->stream, &tallies[frame->stream].dropped, counts(frame->due_ns));
    }
}

static bool run_stream(void *argument, struct failure *failure)
{
    const struct stream_thread *thread = argument;
    int64_t number = 0, due;
    (void)failure;
    while (await_frame(thread->stream, number, &due)) {
        int64_t begun_ns = now_ns();
        if (is_paced() && begun_ns - due > MOST_BEHIND_NS) {
            number = catch_up(thread->stream, number, begun_ns);
        } else {
            hand_over(thread, &(struct frame){thread->stream, due, begun_ns, now_ns()});
            number++;
        }
    }
    return true;
}

struct chain_thread {
    const struct chain *chain;
    struct pool *pool;
    struct inbox inbox;
};

/* Fills in the times at which the frame was taken, its inputs were set, it was inferred and its outputs were read. */
static bool serve(const struct chain *chain, int64_t *times_ns, struct failure *failure)
{
    times_ns[0] = times_ns[1] = now_ns();
    for (size_t index = 0; index < chain->count; index++) {
        const struct turn *turn = &chain->turns[index];
        if (turn->gate)
            enter(turn->gate);
        bool is_well = infer(turn->context, failure);
        if (turn->gate)
            leave(turn->gate);
        if (!is_well)
            return false;
    }
    times_ns[2] = now_ns();
    for (size_t index = 0; index < chain->count; index++)
        checksum_of(&chain->turns[index].context->outputs);
    times_ns[3] = now_ns();
    return true;
}

static bool run_chain(void *argument, struct failure *failure)
{
    struct chain_thread *thread = argument;
    while (true) {
        pthread_mutex_lock(&thread->pool->lock);
        while (thread->inbox.state == EMPTY)
            pthread_cond_wait(&thread->inbox.changed, &thread->pool->lock);
        bool is_last = thread->inbox.state == CLOSED;
        struct frame frame = thread->inbox.frame;
        thread->inbox.state = EMPTY;
        pthread_mutex_unlock(&thread->pool->lock);
        if (is_last)
            return true;
        int64_t times_ns[4];
        if (!serve(thread->chain, times_ns, failure))
            return end_all(false);
        if (counts(frame.due_ns))
            note_frame(&frame, times_ns, LENGTH(times_ns));
        give_next(thread->pool, &thread->inbox);
    }
}

static void append_tally(struct text *message, struct tally *tally)
{
    pthread_mutex_lock(&tally->lock);
    append(message, "\tstream=%lld,%lld", (long long)tally->dropped, (long long)tally->missed);
    for (size_t row = 0; row < tally->row_count; row++) {
        append(message, "\trow=");
        for (size_t index = 0; index < tally->row_numbers; index++)
            append(message, "%s%lld", index ? "," : "", (long long)tally->rows[row][index]);
    }
    free(tally->rows);
    tally->rows = NULL;
    tally->row_count = 0;
    pthread_mutex_unlock(&tally->lock);
}

static void send_progress(int64_t at_ns, int64_t *lowest_bytes)
{
    struct text message = {0};
    append(&message, "frames\tseconds_ns=%lld\theap_bytes=%lld", (long long)measured_ns(at_ns),
           (long long)*lowest_bytes);
    for (int64_t stream = 0; stream < schedule_clock.streams; stream++)
        append_tally(&message, &tallies[stream]);
    send_line(&message);
    clear(&message);
    *lowest_bytes = -1;
}

/* Reads the heap and sends finished frames until the end of the run; returns the time of the end. */
static int64_t await_end(int64_t *lowest_bytes)
{
    for (int64_t number = 1;; number++) {
        int64_t next_ns = schedule_clock.start_ns + number * READING_NS;
        next_ns = next_ns < schedule_clock.end_ns ? next_ns : schedule_clock.end_ns;
        if (stopped_within(next_ns - now_ns()) || must_stop())
            break;
        if (next_ns == schedule_clock.end_ns)
            return next_ns;
        int64_t bytes = heap_bytes();
        *lowest_bytes = *lowest_bytes < 0 || bytes < *lowest_bytes ? bytes : *lowest_bytes;
        if (number % READINGS == 0)
            send_progress(now_ns(), lowest_bytes);
    }
    __atomic_store_n(&is_stopping, true, __ATOMIC_RELEASE);
    return now_ns();
}

static void open_clock(const struct line *line)
{
    schedule_clock = (struct clock){
        .streams = number_field(line, "streams", 1),
        .interval_ps = number_field(line, "interval_ps", 0),
        .apart_ns = number_field(line, "apart_ns", 0),
        .start_ns = now_ns(),
    };
    schedule_clock.begin_ns = schedule_clock.start_ns + number_field(line, "warm_up_ns", 0);
    schedule_clock.end_ns = schedule_clock.begin_ns + number_field(line, "duration_ns", 0);
}

static void open_pools(const struct line *line)
{
    size_t streams = (size_t)number_field(line, "streams", 1);
    is_stopping = false;
    tallies = allocate_bytes(streams * sizeof *tallies);
    for (size_t stream = 0; stream < streams; stream++)
        pthread_mutex_init(&tallies[stream].lock, NULL);
    pool_count = (size_t)number_field(line, "pools", 1);
    pools = allocate_bytes(pool_count * sizeof *pools);
    for (size_t index = 0; index < pool_count; index++) {
        pools[index].queue = number_field(line, "queue", 0);
        pools[index].waiting_of = allocate_bytes(streams * sizeof *pools[index].waiting_of);
        pthread_mutex_init(&pools[index].lock, NULL);
        pthread_cond_init(&pools[index].changed, NULL);
    }
}

static void close_pools(void)
{
    for (size_t index = 0; index < pool_count; index++) {
        free(pools[index].waiting);
        free(pools[index].waiting_of);
    }
    free(pools);
    free(tallies);
}

static struct chain_thread *start_chains(const struct schedule *schedule)
{
    struct chain_thread *threads = allocate_bytes(schedule->count * sizeof *threads);
    for (size_t index = 0; index < schedule->count; index++) {
        struct chain_thread *thread = &threads[index];
        thread->chain = &schedule->chains[index];
        thread->pool = &pools[thread->chain->pool];
        pthread_cond_init(&thread->inbox.changed, NULL);
        add_idle(thread->pool, &thread->inbox);
    }
    for (size_t index = 0; index < schedule->count; index++)
        start_task(threads[index].chain->worker, run_chain, &threads[index]);
    return threads;
}

static struct stream_thread *start_streams(bool has_contexts)
{
    size_t count = (size_t)schedule_clock.streams;
    struct stream_thread *threads = allocate_bytes(count * sizeof *threads);
    for (size_t stream = 0; stream < count; stream++) {
        struct pool *pool = &pools[stream % pool_count];
        threads[stream] = (struct stream_thread){start_worker(false), stream, has_contexts ? pool : NULL};
        start_task(threads[stream].worker, run_stream, &threads[stream]);
    }
    return threads;
}

/* Lets the last frames finish; false with the failure of the first chain that failed. */
static bool finish(struct stream_thread *streams, const struct schedule *schedule, struct failure *failure)
{
    bool is_well = true;
    for (int64_t stream = 0; stream < schedule_clock.streams; stream++) {
        finish_task(streams[stream].worker, failure);
        stop_worker(streams[stream].worker);
    }
    for (size_t index = 0; index < pool_count; index++)
        drain(&pools[index]);
    for (size_t index = 0; is_well && index < schedule->count; index++)
        is_well = finish_task(schedule->chains[index].worker, failure);
    return is_well;
}

bool run_streams(const struct line *line, const struct schedule *schedule, struct text *answer, struct failure *failure)
{
    int64_t lowest_bytes = -1;
    open_pools(line);
    open_clock(line);
    struct chain_thread *chains = start_chains(schedule);
    struct stream_thread *streams = start_streams(schedule->count);
    int64_t end_ns = await_end(&lowest_bytes);
    bool is_well = finish(streams, schedule, failure);
    if (is_well) {
        send_progress(end_ns, &lowest_bytes);
        append(answer, "\tseconds_ns=%lld\tbegin_ns=%lld\tmodels=%lld", (long long)measured_ns(end_ns),
               (long long)schedule_clock.begin_ns, (long long)number_field(line, "models", 0));
    }
    free(streams);
    free(chains);
    close_pools();
    return is_well;
}
