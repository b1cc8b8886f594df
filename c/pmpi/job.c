/* job.c: which job, which MPI_COMM_WORLD, which node and process this is; from
 * /proc and the launcher's environment. */
#define _GNU_SOURCE
#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compat.h"
#include "state.h"

static ssize_t mt_file_text(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, size - 1) : -1;
    if (fd >= 0) {
        close(fd);
    }
    text[n > 0 ? n : 0] = '\0';
    return n;
}

/* A field of /proc/PID/stat behind the name, which is field 2 and may hold
 * anything; 0: there is no such process. */
static unsigned long long mt_stat_of(unsigned pid, int wanted)
{
    char path[64], text[1024];
    snprintf(path, sizeof(path), "/proc/%u/stat", pid);
    if (mt_file_text(path, text, sizeof(text)) <= 0) {
        return 0;
    }
    const char *p = strrchr(text, ')');
    for (int field = 2; p != NULL && field < wanted; field++) {
        p = strchr(p + 1, ' ');
    }
    return p != NULL ? strtoull(p, NULL, 10) : 0;
}

unsigned long long mt_start_of(unsigned pid)
{
    return mt_stat_of(pid, 22);
}

unsigned long long mt_process_start(void)
{
    static unsigned long long start;
    if (start == 0) {
        start = mt_start_of((unsigned)getpid());
    }
    return start;
}

const char *mt_process_executable(void)
{
    static char path[512];
    if (path[0] == '\0') {
        ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
        path[n > 0 ? n : 0] = '\0';
    }
    return path;
}

/* Keeps letters, digits, '.', '-' and '_': the job id becomes a file name. */
static void mt_job_clean(char *text)
{
    for (char *c = text; *c != '\0'; c++) {
        if (!isalnum((unsigned char)*c) && strchr(".-_", *c) == NULL) {
            *c = '_';
        }
    }
    if (text[0] == '.') {
        text[0] = '_';
    }
}

/* What is too long for a name ends with a hash of all of it (FNV-1a). */
static void mt_job_name(char *text, size_t size, const char *prefix,
                        const char *value)
{
    enum { HASH = 1 + 16 }; /* digits, and what is before them */
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    size_t room = size - 1 - strlen(prefix);
    if (strlen(value) <= room) {
        snprintf(text, size, "%s%s", prefix, value);
        return;
    }
    for (const char *c = value; *c != '\0'; c++) {
        hash = (hash ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
    }
    memcpy(text, prefix, strlen(prefix));
    memcpy(text + strlen(prefix), value, room - HASH);
    snprintf(text + size - 1 - HASH, HASH + 1, "-%016llx",
             (unsigned long long)hash);
}

/* The name of a job from the port that a proxy of Hydra has as an argument, or from the
 * proxy itself. False: it is none. */
static bool mt_job_proxy(unsigned pid, char *text, size_t size)
{
    char path[64], arguments[4096];
    snprintf(path, sizeof(path), "/proc/%u/cmdline", pid);
    ssize_t n = mt_file_text(path, arguments, sizeof(arguments));
    const char *end = arguments + (n > 0 ? n : 0);
    const char *slash = strrchr(arguments, '/');
    const char *name = slash != NULL ? slash + 1 : arguments;
    for (const char *a = arguments; a < end; a += strlen(a) + 1) {
        const char *value = a + strlen(a) + 1;
        if (strcmp(a, "--control-port") == 0 && value < end) {
            mt_job_name(text, size, "hydra-", value);
            return true;
        }
    }
    if (strncmp(name, "hydra_", 6) != 0) {
        return false;
    }
    snprintf(text, size, "hydra-%u-%llu", pid, mt_start_of(pid));
    return true;
}

/* Hydra gives ranks no job id. What is equal for all ranks of an mpiexec, on
 * every node, is the port that its proxies report to: a proxy is the parent of a rank,
 * or of the script that wraps it. False: there is none. */
static bool mt_job_hydra(char *text, size_t size)
{
    enum { PARENT = 4, DEPTH = 32 };
    unsigned ancestor = (unsigned)getppid();
    for (int i = 0; i < DEPTH && ancestor > 0; i++) {
        if (mt_job_proxy(ancestor, text, size)) {
            return true;
        }
        ancestor = (unsigned)mt_stat_of(ancestor, PARENT);
    }
    return false;
}

/* Another launcher that speaks PMI: what its ranks on a node have in common. */
static void mt_job_parent(char *text, size_t size)
{
    unsigned parent = (unsigned)getppid();
    snprintf(text, size, "hydra-%u-%llu", parent, mt_start_of(parent));
}

static void mt_job_id(struct mt_seg_header *h)
{
    const char *given = mt_process.knobs.job_id;
    const char *slurm = getenv("SLURM_JOB_ID"), *step = getenv("SLURM_STEP_ID");
    const char *pmix = getenv("PMIX_NAMESPACE");
    size_t size = sizeof(h->job);
    if (given[0] != '\0') {
        snprintf(h->job, size, "%s", given);
    } else if (slurm != NULL && step != NULL) {
        snprintf(h->job, size, "slurm-%s.%s", slurm, step);
    } else if (pmix != NULL) {
        mt_job_name(h->job, size, "pmix-", pmix);
    } else if (getenv("PMI_RANK") != NULL) {
        if (!mt_job_hydra(h->job, size)) {
            mt_job_parent(h->job, size);
        }
    } else {
        snprintf(h->job, size, "pid-%u-%llu", mt_process.pid,
                 mt_process_start());
    }
    mt_job_clean(h->job);
}

/* A step of Slurm may hold several mpiexec of Hydra: its proxies come first. */
static void mt_job_world(struct mt_seg_header *h)
{
    const char *pmix = getenv("PMIX_NAMESPACE");
    size_t size = sizeof(h->world);
    const char *launcher = "none";
    if (pmix != NULL) {
        launcher = getenv("OMPI_COMM_WORLD_SIZE") != NULL ? "openmpi" : "pmix";
        mt_job_name(h->world, size, "", pmix);
    } else if (getenv("PMI_RANK") != NULL && mt_job_hydra(h->world, size)) {
        launcher = "hydra";
    } else if (getenv("SLURM_STEP_ID") != NULL &&
               getenv("SLURM_PROCID") != NULL) {
        snprintf(h->world, size, "%s.%s", getenv("SLURM_JOB_ID"),
                 getenv("SLURM_STEP_ID"));
    } else if (getenv("PMI_RANK") != NULL) {
        launcher = "hydra";
        mt_job_parent(h->world, size);
    } else {
        snprintf(h->world, size, "%u-%llu", mt_process.pid,
                 mt_process_start());
    }
    if (getenv("SLURM_STEP_ID") != NULL) {
        launcher = "slurm";
    }
    snprintf(h->launcher, sizeof(h->launcher), "%s", launcher);
}

/* Arguments of the program joined by blanks. */
static void mt_job_command(struct mt_seg_header *h)
{
    ssize_t n = mt_file_text("/proc/self/cmdline", h->command,
                             sizeof(h->command));
    for (ssize_t i = 0; i + 1 < n; i++) {
        if (h->command[i] == '\0') {
            h->command[i] = ' ';
        }
    }
}

void mt_job_identify(struct mt_seg_header *h)
{
    struct statx st;
    h->pid_start = mt_process_start();
    if (mt_stat(AT_FDCWD, "/proc/self/ns/pid", 0, &st)) {
        h->pid_namespace = st.stx_ino;
    }
    mt_file_text("/proc/sys/kernel/random/boot_id", h->boot_id,
                 sizeof(h->boot_id));
    h->boot_id[strcspn(h->boot_id, "\n")] = '\0';
    gethostname(h->node, sizeof(h->node) - 1);
    snprintf(h->executable, sizeof(h->executable), "%.255s",
             mt_process_executable());
    mt_job_command(h);
    mt_job_id(h);
    mt_job_world(h);
}
