/* out.c: results as a table for people, or as JSON. */
#include "tool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../include/version.gen.h"

static int by_value(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

double tool_median(double *batches, uint32_t count)
{
    qsort(batches, count, sizeof(batches[0]), by_value);
    return batches[count / 2];
}

static const char *const tool_engines[] = {"inline", "peer", "thread"};

void tool_table_begin(struct tool *t, const struct tool_column *columns)
{
    t->table = (struct tool_table){.open = true, .columns = columns};
    if (t->rank != 0) {
        return;
    }
    if (t->o.json) {
        printf("{\"version\":\"%s\",\"mode\":\"%s\",\"engine\":\"%s\","
               "\"rails\":[",
               MPITRACE_VERSION, tool_modes[t->config.mode].name,
               tool_engines[t->o.engine]);
        for (uint32_t i = 0; i < t->rails.count; i++) {
            printf("%s\"%s\"", i > 0 ? "," : "", t->rails.rails[i].name);
        }
        printf("],\"rows\":[");
        return;
    }
    printf("# %s over", tool_modes[t->config.mode].name);
    for (uint32_t i = 0; i < t->rails.count; i++) {
        printf(" %s", t->rails.rails[i].name);
    }
    printf(", engine %s\n", tool_engines[t->o.engine]);
    for (const struct tool_column *c = columns; c->key != NULL; c++) {
        printf(c->decimals < 0 ? "%-16s" : "%16s", c->title);
    }
    printf("\n");
}

void tool_row(struct tool *t, const struct tool_cell *cells)
{
    if (t->rank != 0) {
        return;
    }
    if (t->o.json) {
        printf("%s{", t->table.rows > 0 ? "," : "");
    }
    for (int i = 0; t->table.columns[i].key != NULL; i++) {
        const struct tool_column *c = &t->table.columns[i];
        if (t->o.json) {
            printf("%s\"%s\":", i > 0 ? "," : "", c->key);
        }
        if (c->decimals < 0) {
            printf(t->o.json ? "\"%s\"" : "%-16s", cells[i].text);
        } else {
            printf(t->o.json ? "%.*f" : "%16.*f", c->decimals, cells[i].number);
        }
    }
    printf(t->o.json ? "}" : "\n");
    t->table.rows++;
    fflush(stdout);
}

void tool_table_end(struct tool *t)
{
    if (t->rank == 0 && t->o.json) {
        printf("]}\n");
    }
    t->table.open = false;
}
