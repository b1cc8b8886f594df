/* main.c: mpitrace-fabric MODE [options]: reads the command line. mpitrace
 * fabric starts it: that program is built without C. Status 0, 1 (something
 * failed) or 2 (a wrong command line). */
#include "tool.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct tool_mode tool_modes[] = {
    {"list", "devices, ports and what they can do", true, tool_list},
    {"pingpong", "latency of SEND, and of WRITE with a notice", false,
     tool_pingpong},
    {"bandwidth", "one way, ping-pong and both ways", false, tool_bandwidth},
    {"registration", "what registering memory costs", false, tool_registration},
    {"connections", "latency and throughput of 1 to 256 connections", false,
     tool_connections},
    {"rails", "several rails against one", false, tool_rails},
    {"memory", "memory for each peer, UD against RC", false, tool_memory},
    {"datagrams", "latency and bandwidth, UD against RC", false,
     tool_datagrams},
    {"rendezvous", "a message by READ, its FIN after it or fenced", false,
     tool_rendezvous},
    {NULL, NULL, false, NULL},
};
_Static_assert(sizeof(tool_modes) / sizeof(tool_modes[0]) == TOOL_MODES + 1,
               "as many as the other side may ask for");

static int usage(FILE *out, int status)
{
    fprintf(out, "usage: mpitrace-fabric MODE [options]\n\n");
    for (const struct tool_mode *m = tool_modes; m->name != NULL; m++) {
        fprintf(out, "  %-14s %s\n", m->name, m->help);
    }
    fprintf(
        out,
        "\n"
        "  --device PATTERNS      rails: names of ports or devices, as in "
        "'rxe*,iwarp:eth0'\n"
        "  --per-port N           so many rails of each port\n"
        "  --engine ENGINE        inline, peer or thread\n"
        "  --engine-cpu A,B       processors of the threads of engine thread\n"
        "  --size BYTES[,BYTES]   of messages; K, M: times 1024\n"
        "  --iterations N         of each size\n"
        "  --connections N        connections or peers at most\n"
        "  --duration MS          of a measurement for a fixed time\n"
        "  --operation OPERATION  of bandwidth: write or send\n"
        "  --buffers KIND         device (memory of the device) or registered\n"
        "  --stripe-above BYTES   messages that are split over all rails\n"
        "  --cpu A,B              processors of the two processes\n"
        "  --listen [HOST:]PORT   be one of two hosts, and wait\n"
        "  --connect HOST[:PORT]  be the other: the first says what is done\n"
        "  --timeout SECONDS      most time for any wait\n"
        "  --faults FILE          let things go wrong as the script says\n"
        "  --json                 results as JSON\n");
    return status;
}

static void wrong(const char *format, const char *what)
{
    fprintf(stderr, "mpitrace fabric: ");
    fprintf(stderr, format, what);
    fprintf(stderr, " (see mpitrace fabric --help)\n");
    exit(2);
}

/* A number of the range; with end_p there may be a comma behind it, which that
 * is then. */
static uint64_t number(const char *name, const char *text,
                       struct tool_range range, const char **end_p)
{
    uint64_t value;
    const char *end = tool_number(text, range, &value);
    if (end == NULL || (end_p == NULL && *end != '\0')) {
        fprintf(stderr,
                "mpitrace fabric: %s %s: a number from %llu to %llu is wanted\n",
                name, text, (unsigned long long)range.least,
                (unsigned long long)range.most);
        exit(2);
    }
    if (end_p != NULL) {
        *end_p = end;
    }
    return value;
}

static void read_sizes(struct tool_config *c, const char *text)
{
    c->size_count = 0;
    for (const char *at = text; at != NULL;
         at = *at == ',' ? at + 1 : NULL) {
        if (c->size_count == TOOL_SIZES) {
            wrong("--size %s: too many sizes", text);
        }
        c->sizes[c->size_count++] = number("--size", at, tool_size_range, &at);
    }
}

/* Which of the names a text is. */
static uint32_t choice(const char *option, const char *text,
                       const char *const *names)
{
    char wanted[100] = "";
    size_t used = 0;
    for (uint32_t i = 0; names[i] != NULL; i++) {
        if (strcmp(text, names[i]) == 0) {
            return i;
        }
        const char *between = names[i + 1] == NULL ? " or " : ", ";
        used += (size_t)snprintf(wanted + used, sizeof(wanted) - used, "%s%s",
                                 i > 0 ? between : "", names[i]);
    }
    fprintf(stderr,
            "mpitrace fabric: %s %s: %s is wanted (see mpitrace fabric "
            "--help)\n",
            option, text, wanted);
    exit(2);
}

/* "A,B", or "A" for both. */
static void read_cpus(const char *name, const char *text, int *cpus)
{
    static const struct tool_range processors = {0, 1023};
    const char *end;
    cpus[0] = (int)number(name, text, processors, &end);
    cpus[1] =
        *end == ',' ? (int)number(name, end + 1, processors, NULL) : cpus[0];
}

enum option_key {
    DEVICE = 256,
    PER_PORT,
    ENGINE,
    ENGINE_CPU,
    SIZE,
    ITERATIONS,
    CONNECTIONS,
    DURATION,
    OPERATION,
    BUFFERS,
    STRIPE,
    CPU,
    LISTEN,
    CONNECT,
    TIMEOUT,
    FAULTS,
    JSON,
    HELP,
};

static const struct option long_options[] = {
    {"device", required_argument, NULL, DEVICE},
    {"per-port", required_argument, NULL, PER_PORT},
    {"engine", required_argument, NULL, ENGINE},
    {"engine-cpu", required_argument, NULL, ENGINE_CPU},
    {"size", required_argument, NULL, SIZE},
    {"iterations", required_argument, NULL, ITERATIONS},
    {"connections", required_argument, NULL, CONNECTIONS},
    {"duration", required_argument, NULL, DURATION},
    {"operation", required_argument, NULL, OPERATION},
    {"buffers", required_argument, NULL, BUFFERS},
    {"stripe-above", required_argument, NULL, STRIPE},
    {"cpu", required_argument, NULL, CPU},
    {"listen", required_argument, NULL, LISTEN},
    {"connect", required_argument, NULL, CONNECT},
    {"timeout", required_argument, NULL, TIMEOUT},
    {"faults", required_argument, NULL, FAULTS},
    {"json", no_argument, NULL, JSON},
    {"help", no_argument, NULL, HELP},
    {NULL, 0, NULL, 0},
};

static void read_option(struct tool_options *o, int key, char *text)
{
    static const char *const engines[] = {"inline", "peer", "thread", NULL};
    static const char *const operations[] = {"write", "send", NULL};
    static const char *const buffers[] = {"device", "registered", NULL};
    static const struct tool_range rails = {1, MT_RAILS}, seconds = {1, 86400};
    switch (key) {
    case DEVICE: o->patterns = text; break;
    case PER_PORT:
        o->per_port = (uint32_t)number("--per-port", text, rails, NULL);
        break;
    case ENGINE:
        o->engine = (enum mt_fabric_engine)choice("--engine", text, engines);
        break;
    case OPERATION:
        o->config.operation = choice("--operation", text, operations);
        break;
    case BUFFERS:
        o->config.registered = choice("--buffers", text, buffers);
        break;
    case SIZE: read_sizes(&o->config, text); break;
    case ITERATIONS:
        o->config.iterations =
            (uint32_t)number("--iterations", text, tool_iterations_range, NULL);
        break;
    case CONNECTIONS:
        o->config.connections = (uint32_t)number(
            "--connections", text, tool_connections_range, NULL);
        break;
    case DURATION:
        o->config.duration_ms =
            (uint32_t)number("--duration", text, tool_duration_range, NULL);
        break;
    case STRIPE:
        o->config.threshold =
            number("--stripe-above", text, tool_threshold_range, NULL);
        break;
    case CPU: read_cpus("--cpu", text, o->cpus); break;
    case ENGINE_CPU: read_cpus("--engine-cpu", text, o->engine_cpus); break;
    case LISTEN: o->listen = text; break;
    case CONNECT: o->connect = text; break;
    case TIMEOUT:
        o->timeout_ms =
            1000 * (uint32_t)number("--timeout", text, seconds, NULL);
        break;
    case FAULTS: o->faults = text; break;
    case JSON: o->json = true; break;
    case HELP: exit(usage(stdout, 0));
    default: exit(2); /* getopt said why */
    }
}

/* "7000" listens everywhere. */
static const char *listen_address(const char *text)
{
    static char address[300];
    if (text == NULL || strpbrk(text, ":.[") != NULL ||
        strspn(text, "0123456789") != strlen(text)) {
        return text;
    }
    snprintf(address, sizeof(address), ":%s", text);
    return address;
}

static uint32_t read_mode(const char *name)
{
    for (uint32_t i = 0; tool_modes[i].name != NULL; i++) {
        if (strcmp(tool_modes[i].name, name) == 0) {
            return i;
        }
    }
    wrong("there is no mode %s", name);
    return 0;
}

int main(int argc, char **argv)
{
    static struct tool t;
    int key;
    t.o = (struct tool_options){.config = {.threshold = MT_STRIPE_THRESHOLD,
                                           .connections = 256,
                                           .duration_ms = 200},
                                .timeout_ms = 20000,
                                .cpus = {-1, -1},
                                .engine_cpus = {-1, -1}};
    argv[0] = "mpitrace fabric";
    while ((key = getopt_long(argc, argv, "h", long_options, NULL)) != -1) {
        read_option(&t.o, key == 'h' ? HELP : key, optarg);
    }
    if (optind + 1 < argc) {
        wrong("%s: one mode at a time", argv[optind + 1]);
    }
    if (optind == argc && t.o.connect == NULL) {
        return usage(stderr, 2);
    }
    if (t.o.listen != NULL && t.o.connect != NULL) {
        wrong("--listen or --connect %s, not both", t.o.connect);
    }
    t.o.listen = listen_address(t.o.listen);
    t.o.config.mode = optind < argc ? read_mode(argv[optind]) : 0;
    if (tool_modes[t.o.config.mode].alone && t.o.connect == NULL) {
        tool_modes[t.o.config.mode].run(&t);
        return 0;
    }
    tool_start(&t);
    tool_modes[t.config.mode].run(&t);
    return tool_stop(&t);
}
