/* The picture: a bar for each rung, a colour for each table, drawn by gnuplot from a script on its standard input. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/ladder/ladder.h"

enum { TABLES = 8, NO_PROGRAM = 127 };

/* Rows that begin a table: a change of n, block, type or finish. */
static int find_tables(const ladder_rows *rows, const ladder_row *tables[TABLES])
{
    int count = 0;
    for (size_t i = 0; i < rows->count; i++) {
        const ladder_row *r = &rows->row[i], *before = i ? r - 1 : NULL;
        bool begins = !before || r->n != before->n || r->block != before->block || strcmp(r->dtype, before->dtype) ||
                      strcmp(r->finish, before->finish);
        if (begins && count < TABLES)
            tables[count++] = r;
        else if (begins)
            return TABLES + 1;
    }
    return count;
}

static const ladder_row *row_of(const ladder_rows *rows, const ladder_row *table, const char *rung)
{
    for (const ladder_row *r = table; r < rows->row + rows->count; r++)
        if (!strcmp(r->rung, rung) && r->n == table->n && r->block == table->block && !strcmp(r->dtype, table->dtype) &&
            !strcmp(r->finish, table->finish))
            return r;
    return NULL;
}

/* A line a rung: its name and the GB/s in each table. Rungs that ran nowhere are left out. */
static void write_data(FILE *to, const ladder_rows *rows, const ladder_row *const tables[], int count)
{
    fputs("$rungs << END\n", to);
    for (int i = 0; i < ladder_rung_count; i++) {
        const char *name = ladder_rungs[i].name;
        bool any = false;
        for (int t = 0; t < count && !any; t++) {
            const ladder_row *r = row_of(rows, tables[t], name);
            any = r && r->gbs > 0;
        }
        if (!any)
            continue;
        fprintf(to, "\"%s\"", name);
        for (int t = 0; t < count; t++) {
            const ladder_row *r = row_of(rows, tables[t], name);
            fprintf(to, r && r->gbs > 0 ? " %.6g" : " ?", r ? r->gbs : 0.0);
        }
        putc('\n', to);
    }
    fputs("END\n", to);
}

/* Text inside a single-quoted string of gnuplot: it may come from a file, and nothing of it may be taken for a command. */
static void put_quoted(FILE *to, const char *s)
{
    for (; *s; s++) {
        if (*s == '\'')
            putc('\'', to);
        putc((unsigned char)*s < ' ' ? ' ' : *s, to);
    }
}

/* What gnuplot calls the kinds of files, by their suffix */
static const struct {
    const char *suffix, *terminal;
} kinds[] = {{".svg", "set terminal svg size 1280,720 font 'sans-serif,13' background '#ffffff'\n"},
             {".png", "if (strstrt(GPVAL_TERMINALS, 'pngcairo')) { set terminal pngcairo size 1280,720 font 'sans-serif,11' }"
                      " else { set terminal png size 1280,720 }\n"},
             {".pdf", "set terminal pdfcairo size 12.8,7.2 font 'sans-serif,11' background '#ffffff'\n"}};

const char *ladder_plot_terminal(const char *path)
{
    size_t n = strlen(path);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (n > strlen(kinds[i].suffix) && !strcmp(path + n - strlen(kinds[i].suffix), kinds[i].suffix))
            return kinds[i].terminal;
    return NULL;
}

static void write_script(FILE *to, const char *terminal, const ladder_rows *rows, const ladder_row *const tables[], int count)
{
    const ladder_row *first = tables[0];
    char n[24];
    fputs(terminal, to);
    fputs("set datafile missing '?'\n"
          "set style data histogram\nset style histogram clustered gap 1\n"
          "set style fill solid 0.85 noborder\nset boxwidth 0.95\n"
          "set xtics rotate by -50 noenhanced scale 0\nset grid y lc '#dddddd'\nset border 3\nset tics nomirror\n"
          "set yrange [0:*]\nset key outside center top horizontal noenhanced\nset ylabel 'GB/s, 4 n / time'\n",
          to);
    fputs("set title 'Reduction kernels on ", to);
    put_quoted(to, first->gpu[0] ? first->gpu : first->cpu);
    fputs(", ", to);
    put_quoted(to, first->date);
    fputs("' noenhanced\n", to);
    write_data(to, rows, tables, count);
    fputs("plot ", to);
    for (int t = 0; t < count; t++) {
        const ladder_row *r = tables[t];
        fprintf(to, "%s$rungs using %d:xtic(1) title '", t ? ", " : "", t + 2);
        put_quoted(to, r->dtype);
        fprintf(to, ", n = %s, block %" PRIu64 ", ", ladder_size_text(n, r->n), r->block);
        put_quoted(to, r->finish);
        putc('\'', to);
    }
    /* The values, upright over their bars */
    for (int t = 0; t < count; t++)
        fprintf(to,
                ", $rungs using ($0 + %.4f):%d:(sprintf($%d < 10 ? '%%.2f' : '%%.0f', $%d)) with labels rotate left"
                " font ',9' offset 0,0.3 notitle",
                (t - (count - 1) / 2.0) / (count + 1), t + 2, t + 2, t + 2);
    if (first->peak_gbs > 0)
        fprintf(to, ", %.1f with lines dashtype 2 lc '#555555' title 'memory peak'", first->peak_gbs);
    putc('\n', to);
}

/* gnuplot with its standard input at *to and its standard output in `file`. */
static pid_t start_gnuplot(int file, FILE **to)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC))
        return -1;
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[0], STDIN_FILENO);
        dup2(file, STDOUT_FILENO);
        execlp("gnuplot", "gnuplot", "-", (char *)NULL);
        _exit(NO_PROGRAM);
    }
    close(ends[0]);
    *to = pid > 0 ? fdopen(ends[1], "w") : NULL;
    if (!*to)
        close(ends[1]);
    return pid;
}

bool ladder_plot(const char *path, const ladder_rows *rows, char why[LADDER_WHY])
{
    const ladder_row *tables[TABLES];
    FILE *to = NULL;
    int count = find_tables(rows, tables), status = -1;
    if (count == 0 || count > TABLES) {
        snprintf(why, LADDER_WHY, "--plot shows 1 to %d tables", TABLES);
        return false;
    }
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (file < 0) {
        snprintf(why, LADDER_WHY, "%.100s: %s", path, strerror(errno));
        return false;
    }
    signal(SIGPIPE, SIG_IGN); /* gnuplot may be missing: then writing fails and its status says so */
    pid_t pid = start_gnuplot(file, &to);
    if (to) {
        write_script(to, ladder_plot_terminal(path), rows, tables, count);
        fclose(to);
    }
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    bool good = pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    bool missing = pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == NO_PROGRAM;
    good = close(file) == 0 && good;
    if (!good) {
        unlink(path);
        snprintf(why, LADDER_WHY, "--plot: %s",
                 missing ? "it needs gnuplot: install the package gnuplot-nox" : "gnuplot failed");
    }
    return good;
}
