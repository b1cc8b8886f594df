/* story.h: behaviour as text that is replayed. A file has blocks between empty
 * lines: commands above ----, below it what happens; or a comment, which lines that
 * begin with # are too. With the argument -rewrite the files are written anew, and
 * the difference is to be reviewed. */
#ifndef MPITRACE_TEST_STORY_H
#define MPITRACE_TEST_STORY_H

#include <dirent.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

enum { STORY_OUTPUT = 1 << 16 };

static char story_output[STORY_OUTPUT];
static size_t story_bytes;

/* What happens. */
static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void say(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    story_bytes += (size_t)vsnprintf(story_output + story_bytes,
                                      STORY_OUTPUT - story_bytes, format, arguments);
    va_end(arguments);
    if (story_bytes >= STORY_OUTPUT) {
        printf("too much output\n");
        exit(1);
    }
}

static char *story_read(const char *path)
{
    FILE *file = fopen(path, "re");
    char *text = calloc(1, STORY_OUTPUT);
    if (file == NULL || fread(text, 1, STORY_OUTPUT - 1, file) == 0) {
        perror(path);
        exit(1);
    }
    fclose(file);
    return text;
}

/* Blocks are separated by empty lines: commands, ----, output; or a comment. */
static void story_run(const char *path, bool (*command)(const char *line),
                      void (*end)(void), bool rewrite)
{
    static char whole[STORY_OUTPUT];
    char *text = story_read(path), *next;
    size_t length = 0;
    for (char *block = text; block != NULL && *block != '\0'; block = next) {
        next = strstr(block, "\n\n");
        if (next != NULL) {
            *next = '\0';
            next += 2 + strspn(next + 2, "\n");
        }
        char *last = block + strlen(block);
        while (last > block && last[-1] == '\n') {
            *--last = '\0';
        }
        char *rule = strstr(block, "\n----");
        if (rule == NULL) { /* a comment */
            length += (size_t)snprintf(whole + length, STORY_OUTPUT - length,
                                       "%s\n\n", block);
            continue;
        }
        const char *want = rule[5] == '\n' ? rule + 6 : "";
        *rule = '\0';
        story_bytes = 0;
        story_output[0] = '\0';
        length += (size_t)snprintf(whole + length, STORY_OUTPUT - length,
                                   "%s\n----\n", block);
        for (char *line = strtok(block, "\n"); line != NULL;
             line = strtok(NULL, "\n")) {
            if (line[0] != '#' && !command(line)) {
                printf("%s: what is %s?\n", path, line);
                exit(1);
            }
        }
        if (story_bytes > 0 && story_output[story_bytes - 1] == '\n') {
            story_output[--story_bytes] = '\0';
        }
        if (!rewrite && strcmp(story_output, want) != 0) {
            printf("%s: behind\n%s\nis\n%s\nnot\n%s\n", path, block, story_output,
                   want);
            check_failures++;
        }
        length += (size_t)snprintf(whole + length, STORY_OUTPUT - length, "%s%s\n",
                                   story_output, story_bytes > 0 ? "\n" : "");
    }
    story_bytes = 0;
    end();
    if (story_bytes > 0) {
        printf("%s: at the end\n%s", path, story_output);
    }
    if (rewrite) {
        while (length > 1 && whole[length - 2] == '\n') {
            length--;
        }
        FILE *file = fopen(path, "we");
        if (file == NULL || fwrite(whole, 1, length, file) != length ||
            fclose(file) != 0) {
            perror(path);
            exit(1);
        }
    }
    free(text);
}

/* All files of a directory. command: false if it makes no sense; end: of each
 * file. Returns what main does. */
static int story_main(const char *directory, bool (*command)(const char *line),
                      void (*end)(void), int argc, char **argv)
{
    bool rewrite = argc > 1 && strcmp(argv[1], "-rewrite") == 0;
    struct dirent **entries;
    int files = 0, n = scandir(directory, &entries, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        char path[512];
        const char *dot = strrchr(entries[i]->d_name, '.');
        if (dot != NULL && strcmp(dot, ".txt") == 0) {
            snprintf(path, sizeof(path), "%s/%s", directory,
                     entries[i]->d_name);
            story_run(path, command, end, rewrite);
            files++;
        }
        free(entries[i]);
    }
    free(n >= 0 ? entries : NULL);
    if (files == 0) {
        printf("no stories in %s\n", directory);
        return 1;
    }
    return check_failures != 0;
}

#endif
