/* The command line of the ladder. */
#include <errno.h>
#include <fnmatch.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/ladder/ladder.h"

#define MAX_N (UINT64_C(1) << 34)

enum {
    OPT_BLOCK = 256,
    OPT_RUNGS,
    OPT_REPEAT,
    OPT_FINISH,
    OPT_DEVICE,
    OPT_CHECK,
    OPT_JSON,
    OPT_CSV,
    OPT_PLOT,
    OPT_EXPLAIN,
    OPT_FROM,
    OPT_LIST
};

static const struct option LONG[] = {{"n", required_argument, NULL, 'n'},
                                     {"block", required_argument, NULL, OPT_BLOCK},
                                     {"rungs", required_argument, NULL, OPT_RUNGS},
                                     {"repeat", required_argument, NULL, OPT_REPEAT},
                                     {"finish", required_argument, NULL, OPT_FINISH},
                                     {"dtype", required_argument, NULL, 't'},
                                     {"device", required_argument, NULL, OPT_DEVICE},
                                     {"check", no_argument, NULL, OPT_CHECK},
                                     {"json", no_argument, NULL, OPT_JSON},
                                     {"csv", no_argument, NULL, OPT_CSV},
                                     {"plot", required_argument, NULL, OPT_PLOT},
                                     {"explain", required_argument, NULL, OPT_EXPLAIN},
                                     {"from", required_argument, NULL, OPT_FROM},
                                     {"list", no_argument, NULL, OPT_LIST},
                                     {"help", no_argument, NULL, 'h'},
                                     {"version", no_argument, NULL, 'V'},
                                     {NULL, 0, NULL, 0}};

void ladder_help(FILE *out)
{
    fputs("reducectl ladder: reduction kernels from the naive one up, checked and timed, beside CUB and reduced's own\n"
          "\n"
          "usage: reducectl ladder [OPTION]...\n"
          "\n"
          "Commas separate the items of a LIST. Every combination of the lists makes a table.\n"
          "\n"
          "What to run\n"
          "  -n, --n LIST         elements (default 2^26,2^22): whole numbers, 2^K, 2^K+M, 2^K-M; up to 2^34\n"
          "      --block LIST     threads in a block (default 512): multiples of 32 up to 1024\n"
          "      --rungs LIST     names or patterns; ! in front excludes (default all; --list shows them)\n"
          "      --finish LIST    how the blocks' partial results are combined: relaunch (default), atomic, host\n"
          "  -t, --dtype LIST     i32 (default), f32\n"
          "      --repeat N       timed runs of each rung, after a warm-up (default 21, or one second of runs)\n"
          "      --device N       CUDA device (default: the one that the daemon uses, if it uses one, else 0)\n"
          "      --check          run each rung once on every combination and check the sums only\n"
          "\n"
          "What to print (default: a table and a chart)\n"
          "      --json           one object per line\n"
          "      --csv            values separated by commas\n"
          "      --plot FILE      also draw a bar chart, .svg, .png or .pdf; needs gnuplot\n"
          "      --explain RUNG   the page of a kernel: its idea, what it fixes, what is wrong with it, its code\n"
          "      --from FILE      show the output of an earlier --json run, without running anything\n"
          "      --list           list the rungs\n"
          "  -h, --help           this text\n"
          "  -V, --version        the version\n"
          "\n"
          "Each time is the median of runs on a cold L2, from the first launch to the value. With --finish host it\n"
          "includes the copy and the sum on the host. Data are odd integers from -7 to 7. Every partial sum is a\n"
          "whole number below 2^24, so the float rungs do not round either. Each value must equal the exact sum.\n"
          "\n"
          "Examples\n"
          "  reducectl ladder\n"
          "  reducectl ladder --rungs 'unroll*,cub,chain' -t f32 --block 128,256,512\n"
          "  reducectl ladder --check -n 1,31,1000,2^20+1 --block 32,1024 --finish relaunch,atomic,host -t i32,f32\n"
          "  reducectl ladder --json >run.json; reducectl ladder --from run.json --plot run.svg\n"
          "\n"
          "Exit status: 0 success; 1 a rung gave a wrong sum or failed; 2 wrong usage\n",
          out);
}

static bool number(const char **text, uint64_t *out)
{
    char *end;
    errno = 0;
    if (**text < '0' || **text > '9')
        return false;
    *out = strtoull(*text, &end, 10);
    *text = end;
    return errno == 0;
}

/* A whole number, 2^K, 2^K+M or 2^K-M */
static bool size_of(const char *text, uint64_t *out)
{
    uint64_t more;
    if (!number(&text, out))
        return false;
    if (*text == '^') {
        text++;
        if (*out != 2 || !number(&text, &more) || more > 63)
            return false;
        *out = UINT64_C(1) << more;
    }
    char sign = *text;
    if (sign == '+' || sign == '-') {
        text++;
        if (!number(&text, &more) || more > MAX_N)
            return false;
        *out = sign == '+' ? *out + more : *out - more; /* below 0 it wraps and is too large */
    }
    return *text == 0 && *out >= 1 && *out <= MAX_N;
}

static bool take_n(ladder_options *o, const char *word, char why[LADDER_WHY])
{
    if (size_of(word, &o->n[o->n_count++]))
        return true;
    snprintf(why, LADDER_WHY, "--n '%.40s' is not a number of elements from 1 to 2^34 (as 1000, 2^20 or 2^20-1)", word);
    return false;
}

static bool take_block(ladder_options *o, const char *word, char why[LADDER_WHY])
{
    uint64_t n;
    const char *end = word;
    if (number(&end, &n) && *end == 0 && n >= LADDER_BLOCK_MIN && n <= LADDER_BLOCK_MAX && n % LADDER_BLOCK_MIN == 0) {
        o->block[o->block_count++] = (unsigned)n;
        return true;
    }
    snprintf(why, LADDER_WHY, "--block '%.40s' is not a multiple of 32 from 32 to 1024", word);
    return false;
}

/* Place of a word among names, or -1 with `why` */
static int place_of(const char *option, const char *word, const char *const names[], int count, char why[LADDER_WHY])
{
    size_t used = 0;
    for (int i = 0; i < count; i++)
        if (!strcmp(names[i], word))
            return i;
    used += (size_t)snprintf(why, LADDER_WHY, "%s '%.40s' is not one of", option, word);
    for (int i = 0; i < count; i++)
        used += (size_t)snprintf(why + used, LADDER_WHY - used, "%s %s", i ? "," : "", names[i]);
    return -1;
}

static bool take_finish(ladder_options *o, const char *word, char why[LADDER_WHY])
{
    int i = place_of("--finish", word, ladder_finish_names, LADDER_FINISHES, why);
    if (i >= 0)
        o->finish[o->finish_count++] = (ladder_finish)i;
    return i >= 0;
}

static bool take_dtype(ladder_options *o, const char *word, char why[LADDER_WHY])
{
    int i = place_of("--dtype", word, ladder_dtype_names, LADDER_DTYPES, why);
    if (i >= 0)
        o->dtype[o->dtype_count++] = (ladder_dtype)i;
    return i >= 0;
}

static bool take_rung(ladder_options *o, const char *word, char why[LADDER_WHY])
{
    bool remove = word[0] == '!', found = false;
    const char *pattern = word + remove;
    for (int i = 0; i < ladder_rung_count; i++)
        if (!fnmatch(pattern, ladder_rungs[i].name, 0)) {
            o->rung[i] = !remove;
            found = true;
        }
    if (!found)
        snprintf(why, LADDER_WHY, "--rungs '%.40s' does not match any rung; --list shows them", word);
    return found;
}

/* Call take() on each word of a list. */
static bool take_list(ladder_options *o, const char *option, const char *list,
                      bool (*take)(ladder_options *, const char *, char *), char why[LADDER_WHY])
{
    int count = 0;
    for (const char *at = list; at; count++) {
        char word[64];
        const char *comma = strchr(at, ',');
        size_t len = comma ? (size_t)(comma - at) : strlen(at);
        if (len == 0 || len >= sizeof word || count == LADDER_LIST) {
            snprintf(why, LADDER_WHY, "%s takes 1 to %d words separated by commas", option, LADDER_LIST);
            return false;
        }
        memcpy(word, at, len);
        word[len] = 0;
        if (!take(o, word, why))
            return false;
        at = comma ? comma + 1 : NULL;
    }
    return true;
}

static bool take_int(int *out, const char *option, const char *text, int least, int most, char why[LADDER_WHY])
{
    uint64_t n;
    const char *end = text;
    bool good = number(&end, &n) && *end == 0 && n >= (uint64_t)least && n <= (uint64_t)most;
    if (good)
        *out = (int)n;
    else
        snprintf(why, LADDER_WHY, "%s '%.40s' is not a whole number from %d to %d", option, text, least, most);
    return good;
}

static bool take_rungs(ladder_options *o, char why[LADDER_WHY])
{
    bool all = optarg[0] == '!'; /* a list that begins with what to leave out means all others */
    for (int i = 0; i < ladder_rung_count; i++)
        o->rung[i] = all;
    return take_list(o, "--rungs", optarg, take_rung, why);
}

/* One option; false: wrong. */
static bool take(ladder_options *o, int opt, char why[LADDER_WHY])
{
    switch (opt) {
    case 'n':
        o->n_count = 0;
        return take_list(o, "--n", optarg, take_n, why);
    case OPT_BLOCK:
        o->block_count = 0;
        return take_list(o, "--block", optarg, take_block, why);
    case OPT_FINISH:
        o->finish_count = 0;
        return take_list(o, "--finish", optarg, take_finish, why);
    case 't':
        o->dtype_count = 0;
        return take_list(o, "--dtype", optarg, take_dtype, why);
    case OPT_RUNGS:
        return take_rungs(o, why);
    case OPT_REPEAT:
        return take_int(&o->repeat, "--repeat", optarg, 1, 1000, why);
    case OPT_DEVICE:
        return take_int(&o->device, "--device", optarg, 0, 1023, why);
    case OPT_CHECK:
        return o->check = true;
    case OPT_JSON:
        return o->json = true;
    case OPT_CSV:
        return o->csv = true;
    case OPT_PLOT:
        o->plot = optarg;
        return true;
    case OPT_EXPLAIN:
        o->explain = optarg;
        return true;
    case OPT_FROM:
        o->from = optarg;
        return true;
    case OPT_LIST:
        return o->list = true;
    case 'h':
        return o->help = true;
    case 'V':
        return o->version = true;
    default:
        return false;
    }
}

/* Options that do not go together. */
static bool consistent(const ladder_options *o, char why[LADDER_WHY])
{
    const char *clash = NULL;
    if (o->json && o->csv)
        clash = "--json and --csv exclude each other";
    else if (o->check && (o->json || o->csv || o->plot || o->from || o->repeat))
        clash = "--check measures nothing: it excludes --json, --csv, --plot, --from and --repeat";
    else if (o->plot && !ladder_plot_terminal(o->plot))
        clash = "--plot draws FILE.svg, FILE.png or FILE.pdf";
    if (clash)
        snprintf(why, LADDER_WHY, "%s", clash);
    return !clash;
}

bool ladder_parse(ladder_options *o, int argc, char **argv, char why[LADDER_WHY])
{
    *o = (ladder_options){.n = {UINT64_C(1) << 26, UINT64_C(1) << 22},
                          .n_count = 2,
                          .block = {512},
                          .block_count = 1,
                          .dtype = {LADDER_I32},
                          .dtype_count = 1,
                          .finish = {LADDER_RELAUNCH},
                          .finish_count = 1,
                          .device = -1};
    for (int i = 0; i < ladder_rung_count; i++)
        o->rung[i] = true;
    why[0] = 0;
    opterr = 0;
    for (int opt; (opt = getopt_long(argc, argv, ":n:t:hV", LONG, NULL)) != -1;) {
        if (opt == ':')
            snprintf(why, LADDER_WHY, "%.60s needs a value", argv[optind - 1]);
        else if (opt == '?' && optopt && optopt < 256)
            snprintf(why, LADDER_WHY, "unknown option -%c", optopt);
        else if (opt == '?')
            snprintf(why, LADDER_WHY, "unknown or misused option %.60s", argv[optind - 1]);
        if (!take(o, opt, why))
            return false;
    }
    if (optind < argc) {
        snprintf(why, LADDER_WHY, "'%.60s' is not an option", argv[optind]);
        return false;
    }
    return consistent(o, why);
}
