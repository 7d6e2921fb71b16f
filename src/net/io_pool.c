#include "net/io_pool.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/assert.h"
#include "base/crash.h"
#include "base/mem.h"
#include "net/net_limits.h"

struct io_pool {
    io_pool_completed_fn *completed;
    /* What came in, newest first: reactors push without waiting for anyone. */
    _Atomic(struct loop_job *) inbox;
    sem_t waiting;         /* one count for each job, one more for each thread once the end has come */
    pthread_mutex_t order; /* among the workers alone */
    struct loop_job *oldest;
    atomic_bool ending;
    uint32_t thread_count;
    pthread_t threads[IO_THREADS_MAX];
};

/* The oldest job, or NULL. */
static struct loop_job *take_job(struct io_pool *pool)
{
    struct loop_job *job = NULL;

    pthread_mutex_lock(&pool->order);
    if (pool->oldest == NULL) {
        struct loop_job *newest = atomic_exchange(&pool->inbox, NULL);

        while (newest != NULL) {
            struct loop_job *before = newest->next;

            newest->next = pool->oldest;
            pool->oldest = newest;
            newest = before;
        }
    }
    job = pool->oldest;
    if (job != NULL)
        pool->oldest = job->next;
    pthread_mutex_unlock(&pool->order);
    return job;
}

static void *work(void *argument)
{
    struct io_pool *pool = argument;

    for (;;) {
        struct loop_job *job = NULL;

        while (sem_wait(&pool->waiting) != 0)
            assert(errno == EINTR);
        job = take_job(pool);
        if (job == NULL) {
            assert(atomic_load(&pool->ending));
            return NULL;
        }
        job->run(job);
        pool->completed(job);
    }
}

MUST_CHECK enum err io_pool_new(const char *name, uint32_t thread_count, io_pool_completed_fn *completed,
                                struct io_pool **pool)
{
    struct io_pool *new_pool = mem_calloc(1, sizeof(*new_pool));
    sigset_t all;
    sigset_t before;
    bool failed = false;

    assert(thread_count >= 1 && thread_count <= IO_THREADS_MAX);
    if (new_pool == NULL)
        return ERR_NOMEM;
    new_pool->completed = completed;
    sem_init(&new_pool->waiting, 0, 0);
    pthread_mutex_init(&new_pool->order, NULL);
    /* Signals are the main thread's, but for the crash report's; a thread inherits the mask. */
    sigfillset(&all);
    crash_keep_unblocked(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (uint32_t i = 0; i < thread_count && !failed; i++) {
        char thread_name[16];

        failed = pthread_create(&new_pool->threads[i], NULL, work, new_pool) != 0;
        if (failed)
            break;
        new_pool->thread_count++;
        snprintf(thread_name, sizeof(thread_name), "%.10s-%u", name, i % 1000);
        pthread_setname_np(new_pool->threads[i], thread_name);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed) {
        io_pool_free(new_pool);
        return ERR_LIMIT;
    }
    *pool = new_pool;
    return ERR_OK;
}

void io_pool_free(struct io_pool *pool)
{
    if (pool == NULL)
        return;
    atomic_store(&pool->ending, true);
    for (uint32_t i = 0; i < pool->thread_count; i++)
        sem_post(&pool->waiting);
    for (uint32_t i = 0; i < pool->thread_count; i++)
        pthread_join(pool->threads[i], NULL);
    assert(pool->oldest == NULL && atomic_load(&pool->inbox) == NULL);
    pthread_mutex_destroy(&pool->order);
    sem_destroy(&pool->waiting);
    mem_free(pool);
}

void io_pool_submit(struct io_pool *pool, struct loop_job *job)
{
    struct loop_job *newest = atomic_load_explicit(&pool->inbox, memory_order_relaxed);

    do
        job->next = newest;
    while (!atomic_compare_exchange_weak(&pool->inbox, &newest, job));
    sem_post(&pool->waiting);
}
