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
          "\n"
          "OP is one of\n",
          out);
    for (int op = REDUCE_SUM; reduce_op_name(op)[0] != '?'; op++)
        fprintf(out, "  %-14s %s\n", reduce_op_name(op), reduce_op_help(op));
    fputs("\n"
          "FILE is a .npy file (known by its content), raw little-endian elements (--dtype), text (--text), or - for standard\n"
          "input. Without FILE a pipe is read. Several files give a line each: the value, two blanks, the name.\n"
          "\n"
          "What to reduce\n"
          "  -t, --dtype T      elements of raw files (default f32):",
          out);
    names(out, reduce_dtype_name, REDUCE_I8);
    fputs("\n"
          "      --text         white-space separated numbers, read as f64\n"
          "      --rows N       cut each file into N equal rows, a value for each\n"
          "      --total        all files as one array\n"
          "  -o, --out T        type of the value: f16 bf16 f32 f64 for floats, i64 u64 for integers\n"
          "                     (default f64, i64, u64 by the class of the elements; u64 for indexes and counts)\n"
          "      --nan POLICY   propagate (default), omit, or error\n"
          "\n"
          "How to print it (default: the shortest decimal that reads back to the same bits)\n"
          "      --hex          floats as C's %a: exact\n"
          "      --json         an object per line: value, op, count, backend, path, times\n"
          "      --raw          the bytes of the value\n"
          "  -v, --verbose      on standard error: which daemon and backend answered, type, path, throughput\n"
          "\n"
          "The daemon\n"
          "      --connect URL  ipc:///PATH or tcp://HOST:PORT\n"
          "                     (default: $REDUCED_URL, or this user's daemon, or the system's)\n"
          "      --no-autostart do not start a private daemon when none answers\n"
          "      --deadline MS  give up on a file after MS milliseconds\n"
          "  -h, --help         this text\n"
          "  -V, --version      the version\n"
          "\n"
          "Examples\n"
          "  reducectl sum data.npy                    the exact sum, rounded once\n"
          "  reducectl max --dtype u16 *.raw           the maximum of each file\n"
          "  reducectl sum --total --dtype i64 *.bin   one sum over all files\n"
          "  reducectl argmax --rows 1000 m.npy        the position of the largest element in each of 1000 rows\n"
          "  seq 100 | reducectl sum --text            5050\n"
          "  zcat big.f32.gz | reducectl sum -v -      a pipe of raw f32\n"
          "  reducectl sum --nan omit --json t.npy     for scripts\n"
          "\n"
          "Exit status: 0 done; 1 a reduction failed (OVERFLOW, EMPTY, NAN, SHAPE, TYPE, IO ...); 2 wrong usage; 3 no daemon\n",
          out);
}
