/* Refuses a new thread while as many threads live as the first number in the file SCARCE_THREADS allows
   (0: any number); the second number counts those that live. Preloaded: cc -shared -fPIC. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

struct control {
    volatile int64_t limit;
    volatile int64_t live;
};

struct start {
    void *(*run)(void *);
    void *argument;
};

static struct control *control;

__attribute__((constructor)) static void open_control(void) {
    const char *name = getenv("SCARCE_THREADS");
    int file = name ? open(name, O_RDWR | O_CLOEXEC) : -1;
    if (file >= 0) {
        void *page = mmap(0, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (page != MAP_FAILED) control = page;
    }
}

static void end(void *nothing) {
    (void)nothing;
    __atomic_fetch_sub(&control->live, 1, __ATOMIC_SEQ_CST);
}

static void *run(void *given) {
    struct start start = *(struct start *)given;
    void *result;
    free(given);
    pthread_cleanup_push(end, 0);
    result = start.run(start.argument);
    pthread_cleanup_pop(1);
    return result;
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*function)(void *),
                   void *argument) {
    static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    if (!real) real = (__typeof__(real))dlsym(RTLD_NEXT, "pthread_create");
    if (!control) return real(thread, attributes, function, argument);
    int64_t live = __atomic_add_fetch(&control->live, 1, __ATOMIC_SEQ_CST);
    struct start *start = 0;
    int result = EAGAIN;
    if (!control->limit || live <= control->limit) {
        start = malloc(sizeof *start);
        if (start) {
            *start = (struct start){function, argument};
            result = real(thread, attributes, run, start);
        }
    }
    if (result) {
        free(start);
        __atomic_fetch_sub(&control->live, 1, __ATOMIC_SEQ_CST);
    }
    return result;
}
