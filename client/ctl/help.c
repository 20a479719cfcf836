/* reducectl --help: enough to work with, without the manual. */
#include "client/ctl/ctl.h"

static void names(FILE *out, const char *(*name)(int), int first)
{
    for (int i = first; name(i)[0] != '?'; i++)
        fprintf(out, " %s", name(i));
}

void ctl_help(FILE *out)
{
    fputs("reducectl: exact reductions of arrays in files and pipes, done by the reduced daemon (GPU or CPU)\n"
          "\n"
          "usage: reducectl OP [OPTION]... [FILE]...\n"
          "       reducectl ping | info | status [--json]\n"
          "       reducectl metrics               the daemon's counters and histograms as Prometheus text\n"
          "       reducectl top [--once]          live view of the daemon, refreshed each second; q quits\n"
          "       reducectl put NAME [FILE]       store an array with the daemon, to be reduced as @NAME\n"
          "       reducectl ls [--json] | drop NAME...\n"
          "       reducectl ladder [OPTION]...    reduction kernels side by side; see 'reducectl ladder --help'\n"
          "\n"
          "OP is one of\n",
          out);
    for (int op = REDUCE_SUM; reduce_op_name(op)[0] != '?'; op++)
        fprintf(out, "  %-14s %s\n", reduce_op_name(op), reduce_op_help(op));
    fputs("\n"
          "FILE is a .npy file (recognised by its content), raw little-endian elements (--dtype), text (--text), or - for\n"
          "standard input. Without FILE, input comes from a pipe. Each of several files gives one line: the value, two\n"
          "blanks, the name. @NAME is resident data, stored by 'put'. It can be reduced whole, by rows and by columns,\n"
          "but not with --mask, --offsets or --total.\n"
          "\n"
          "What to reduce\n"
          "  -t, --dtype T      elements of raw files (default f32):",
          out);
    names(out, reduce_dtype_name, REDUCE_I8);
    fputs("\n"
          "      --text         numbers separated by white space, read as f64\n"
          "      --total        all files as one array\n"
          "      --mask FILE    skip the elements whose byte in FILE is 0: .npy of bool, u8, i8, or raw bytes\n"
          "\n"
          "One result for each part\n"
          "      --axis 0|1     of a .npy of 1 or 2 dimensions, as numpy's axis; 0: for each column, 1: for each row\n"
          "      --rows N       cut each file into N equal rows, one result for each (with --axis 0: for each column)\n"
          "      --offsets FILE segments: ascending numbers (.npy of i64 or u64, or raw u64). Each segment begins at one "
          "number,\n"
          "                     as an index, and ends before the next\n"
          "\n"
          "How to reduce\n"
          "  -o, --out T        type of the value. For floats, mean, rms, var, std, sem, norm2: f16 bf16 f32 f64 (default\n"
          "                     f64). For integers: i64 u64 (default by the sign of the elements). Indexes and counts: u64\n"
          "      --nan POLICY   propagate (default), omit, or error\n"
          "      --ddof N       var, std, sem, stats: divide var by the count minus N (default 0)\n"
          "      --initial V    one more element, without an index, at the front of every array, row, column or segment\n"
          "      --wrap         prod of integers: modulo 2^64 instead of OVERFLOW\n"
          "\n"
          "Shards: reduce them anywhere, merge them anywhere; the bits are those of the whole\n"
          "      --partial      write the exact partial state of each result instead of its value\n"
          "      --index-base N index of this shard's first element; added to indexes\n"
          "      --merge        the files hold partial states of OP, one for each result: merge them\n"
          "\n"
          "How to print it (default: the shortest decimal that reads back to the same bits)\n"
          "      --hex          floats as C's %a: exact\n"
          "      --json         one object per line: value, op, count, backend, path, times\n"
          "      --raw          the bytes of the value\n"
          "  -v, --verbose      report on standard error: daemon, backend, type, path, throughput\n"
          "\n"
          "The daemon\n"
          "      --priority NAME    normal, high (if the administrator allows it) or background\n"
          "      --path NAME    how the data travel, for tests: inline, stream, shm, file (default: the fastest possible)\n"
          "      --connect URL  ipc:///PATH, tls+tcp://HOST:PORT or tcp://HOST:PORT\n"
          "                     (default: $REDUCED_URL, or this user's daemon, or the system's)\n"
          "      --tls-ca FILE  tls+tcp: the CAs of trusted daemons, PEM (default: $REDUCED_TLS_CA)\n"
          "      --tls-cert FILE, --tls-key FILE  the client's own, PEM (default: $REDUCED_TLS_CERT, $REDUCED_TLS_KEY)\n"
          "      --once         top: one frame as text, measured over one second\n"
          "      --no-autostart do not start a private daemon when none answers\n"
          "      --deadline MS  give up on a file after MS milliseconds\n"
          "      --replace      put: replace the array that has this name\n"
          "      --ttl S        put: keep it for S seconds (default: until it is dropped or the daemon ends)\n"
          "  -h, --help         this text\n"
          "  -V, --version      the version\n"
          "\n"
          "Examples\n"
          "  reducectl sum data.npy                    the exact sum, rounded once\n"
          "  reducectl max --dtype u16 *.raw           the maximum of each file\n"
          "  reducectl sum --total --dtype i64 *.bin   one sum over all files\n"
          "  reducectl mean --axis 0 m.npy             the mean of each column\n"
          "  reducectl argmax --rows 1000 m.npy        the position of the largest element in each of 1000 rows\n"
          "  reducectl stats data.npy                  count, NaNs, min, max, sum, mean, var, std ... in one pass\n"
          "  seq 100 | reducectl sum --text            5050\n"
          "  zcat big.f32.gz | reducectl sum -v -      a pipe of raw f32\n"
          "  reducectl put temps data.npy && reducectl stats @temps\n"
          "  reducectl sum --nan omit --json t.npy     for scripts\n"
          "\n"
          "Exit status: 0 success; 1 a reduction failed (OVERFLOW, EMPTY, NAN, SHAPE, TYPE, IO ...); 2 wrong usage;\n"
          "3 no daemon; 130 interrupted\n",
          out);
}
