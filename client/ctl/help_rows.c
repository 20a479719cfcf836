/* What --help and `help TOPIC` say. A new option takes a row here, in its topic; the lines break by themselves. */
#include "client/ctl/help_rows.h"

#include <string.h>

#include "client/ctl/op_table.h"

const help_topic ctl_topics[] = {
    {"ops", "all operations"},
    {"inputs", "files and what is in them, raw elements, text, masks"},
    {"csv", "columns of tables as text"},
    {"axes", "a result for each row, column, axis or segment"},
    {"values", "type of the value, NaN, ddof"},
    {"output", "JSON, hexadecimal, bytes, progress"},
    {"shards", "parts on many machines, merged with the same bits"},
    {"resident", "arrays that stay with the daemon"},
    {"daemon", "which daemon, TLS, priority, device, waiting"},
    {"examples", "commands to try"},
    {NULL, NULL},
};

const help_row ctl_help_rows[] = {
    {"inputs", NULL,
     "FILE is recognised by its content: .npy, .npz, safetensors, HDF5, netCDF-4, a table as text (help csv), or one of "
     "these after gzip or zstd. Without FILE, input comes from a pipe; - is standard input.",
     false},
    {"inputs", NULL,
     "FILE:MEMBER is one array of many. A FILE of many arrays gives one line for each, and 'stats' one table. Each of "
     "several files gives one line: the value, two blanks, the name.",
     false},
    {"inputs", "-t, --dtype T", "type of raw elements (>f4: big-endian), or of a column", true},
    {"inputs", "--text", "numbers as text, separated by white space", true},
    {"inputs", NULL,
     "With --dtype each number of a text is read as that type, exactly or rounded once. Without it: as i64 or u64 if all "
     "are integers of it (sums are exact in 128 bits then), else as f64. Integers of up to 128 bits have sum, mean, min and "
     "max. A "
     "pipe's type is that of its first 64 MiB.",
     false},
    {"inputs", "--no-unpack", "the bytes of a known kind of file as elements", false},
    {"inputs", "--verify", "compare stored members of .npz with their CRC; packed ones always are", false},
    {"inputs", "--no-scale", "the stored values of netCDF, without its attributes", false},
    {"inputs", "--total", "all files as one array", true},
    {"inputs", "--mask FILE", "skip the elements whose byte in FILE is 0: .npy of bool, u8, i8, or raw bytes", false},

    {"csv", NULL,
     "FILE:COLUMN is a column of CSV or TSV by its name, else by its number from 1 on; FILE:=NAME and FILE:#4 say which. "
     "FILE:#1,#3-#5 are several. What separates the fields, and whether the first line has names, is guessed from the first "
     "lines; what they leave open is refused with the choices.",
     false},
    {"csv", "--header", "the first line has names", false},
    {"csv", "--no-header", "the first line has numbers", false},
    {"csv", "--delimiter C", "what separates the fields: a character, or tab, space", false},
    {"csv", "--decimal C", "what stands for the point of numbers", false},
    {"csv", "--quote C", "what encloses fields, or none", false},
    {"csv", "--comment C", "lines that begin with it are left out", false},
    {"csv", "--skip-lines N", "the first lines that do not belong to the table", false},
    {"csv", "--missing LIST", "words for missing values, besides empty fields (default: NA, null, nan ...)", false},
    {"csv", "--by LIST", "of a table: a result for each text of this column", true},
    {"csv", NULL, "--by city,day has a result for each combination of texts in these columns. Lines are sorted by the texts.",
     false},
    {"csv", "--top N", "with --by: the N groups with the largest values alone", false},
    {"csv", NULL,
     "What is missing is a NaN, or left out with --nan omit. Columns of integers stay integers. --dtype names another type. "
     "/dev/stdin:COLUMN is a column of standard input.",
     false},

    {"axes", "--axis LIST", "reduce this axis, or these (0,2); -1 is the last one", true},
    {"axes", NULL, "Axes are those of numpy, of arrays with a shape. Results come in C order of the other axes.", false},
    {"axes", "--rows N", "cut each file into N equal rows, one result for each (with --axis 0: for each column)", false},
    {"axes", "--offsets FILE",
     "segments: ascending numbers (.npy of i64 or u64, or raw u64). Each segment begins at one number, as an "
     "index, and ends before the next",
     false},

    {"values", "-o, --out T",
     "type of the value. For floats, and always for" CTL_REAL_OPS ": f16 bf16 f32 f64 (default f64). For "
     "integers: i64 u64 (default by the sign of the elements), of min and max also that of the elements, OVERFLOW if it "
     "does not fit. Indexes and counts: u64",
     false},
    {"values", "--nan POLICY", "propagate (default), omit, or error", true},
    {"values", "--ddof N", "of" CTL_DDOF_OPS ": divide by the count minus N (default 0)", false},
    {"values", "--q LIST",
     "quantile: which, from 0 to 1, such as 0.25,0.5,0.75; p99 is short for one of them, also among several operations", false},
    {"values", "--method M",
     "of quantiles, by the names of numpy: linear (default), inverted_cdf, averaged_inverted_cdf, closest_observation, "
     "interpolated_inverted_cdf, hazen, weibull, median_unbiased, normal_unbiased, lower, higher, midpoint, nearest",
     false},
    {"values", "--k N",
     "kth: the rank of the element when sorted, from 0; -1 is the last one. largest, smallest: how many elements, with their "
     "indexes",
     false},
    {"values", "--quantiles", "stats: p25, p50 and p75, too; then the input is read into memory", false},
    {"values", "--bins N", "histogram: bins of equal width from the smallest to the largest element", false},
    {"values", "--edges LIST",
     "histogram: ascending numbers. A bin has what is not below its first edge and below its second one; the last one has both",
     false},
    {"values", "--spool BYTES",
     "order statistics, and dot, wsum, wmean, cov and corr of rows, axes and segments, read their input into memory, up to "
     "this size (default: half of the machine's memory). So are pipes that are needed again, or bring a container. Larger "
     "files are read again for "
     "each pass, or each 128 MiB of columns",
     false},
    {"values", "--weights FILE",
     "dot, wsum, wmean, cov, corr: the second array; 'dot X Y' for short. It has the shape of the elements, or one dimension: "
     "a weight for each place along an axis. :NAME is a column or member of the same file",
     false},
    {"values", "--drop-zero-weights", "wsum, wmean: a weight of 0 leaves out its element, even if that is nan or inf", false},
    {"values", "--initial V", "one more element, without an index, at the front of every array, row, column or segment", false},
    {"values", "--wrap", "prod of integers: modulo 2^64 instead of OVERFLOW", false},

    {"output", NULL, "The default is the shortest decimal that reads back to the same bits.", false},
    {"output", "--hex", "floats as C's %a: exact", false},
    {"output", "--json", "an object a line: value, op, count, backend, path, times", true},
    {"output", "--json-strings", "--json with integers beyond 2^53 as strings, for readers that know doubles only", false},
    {"output", "--raw", "the bytes of the value", false},
    {"output", "--progress", "a line each second on standard error, even if that is not a terminal", false},
    {"output", "-v, --verbose", "what was done: daemon, engine, type, path, throughput", true},
    {"output", NULL,
     "Exit status: 0 success; 1 a reduction failed (OVERFLOW, EMPTY, NAN, SHAPE, TYPE, IO ...); 2 wrong usage; 3 no "
     "daemon; 130 interrupted.",
     false},

    {"shards", NULL, "Reduce parts anywhere, merge them anywhere; the bits are those of the whole.", false},
    {"shards", "--partial", "write the exact partial state of each result instead of its value", false},
    {"shards", "--index-base N", "index of this shard's first element; added to indexes", false},
    {"shards", "--merge", "the files hold partial states of OP, one for each result: merge them", false},
    {"shards", "--shard I/N",
     "write the state of part I (from 0) of N equal parts of all files; auto: as Slurm or an MPI numbers this "
     "process",
     false},
    {"shards", "--joined FILE", "print what all parts give: FILE has their states, merged", false},

    {"resident", NULL,
     "'put NAME [FILE]' stores an array with the daemon, in the GPU's memory if there is a GPU. @NAME in place of a "
     "FILE is that array: whole, by rows and by axes, but not with --mask, --offsets or --total. 'ls' lists them, 'drop "
     "NAME...' "
     "gives their memory back.",
     false},
    {"resident", "--replace", "put: replace the array that has this name", false},
    {"resident", "--ttl S", "put: keep it for S seconds (default: until it is dropped or the daemon ends)", false},
    {"resident", "--spread", "put: keep it in equal parts on all devices of the daemon", false},

    {"daemon", NULL,
     "If no daemon answers, a reduction or a put starts a private one, which ends after ten idle minutes. Other commands "
     "start none.",
     false},
    {"daemon", "--connect URL",
     "ipc:///PATH, tls+tcp://HOST:PORT or tcp://HOST:PORT (default: $REDUCED_URL, or this user's daemon, or "
     "the system's)",
     false},
    {"daemon", "--tls-ca FILE", "tls+tcp: the CAs of trusted daemons, PEM (default: $REDUCED_TLS_CA)", false},
    {"daemon", "--tls-cert FILE", "the client's own certificate, PEM (default: $REDUCED_TLS_CERT)", false},
    {"daemon", "--tls-key FILE", "its key (default: $REDUCED_TLS_KEY)", false},
    {"daemon", "--no-autostart", "do not start a private daemon (with --connect or $REDUCED_URL none is started)", false},
    {"daemon", "--wait SECONDS", "wait this long for a daemon that is not there, and start none", false},
    {"daemon", "--deadline MS", "give up on a file after MS milliseconds", false},
    {"daemon", "--priority NAME", "normal, high (if the administrator allows it) or background", false},
    {"daemon", "--device N", "on this device of the daemon, or GPU-<UUID>, of which the first letters do; put: keep it there",
     false},
    {"daemon", "--path NAME", "how the data travel, for tests: inline, stream, shm, file (default: the fastest possible)",
     false},
    {"daemon", "--requests", "status: the requests under way instead, oldest first", false},
    {"daemon", "--watch", "status: again each second", false},
    {"daemon", "--once", "top: one frame as text (or with --json), measured over one second", false},
    {"daemon", "-h, --help", "the first screen of help", false},
    {"daemon", "-V, --version", "the version", false},

    {"examples", "seq 100 | reducectl sum --text", "5050", true},
    {"examples", "reducectl sum,mean,max *.npy", "a table, a line for each file", true},
    {"examples", "reducectl sum data.npy", "the exact sum, rounded once", false},
    {"examples", "reducectl max --dtype u16 *.raw", "the maximum of each file", false},
    {"examples", "reducectl sum --total --dtype i64 *.bin", "one sum over all files", false},
    {"examples", "reducectl mean --axis 0 m.npy", "the mean of each column", true},
    {"examples", "reducectl std --axis 0,2 images.npy", "over the first and the third axis", false},
    {"examples", "reducectl argmax --rows 1000 m.npy", "where each row has its largest", false},
    {"examples", "reducectl stats data.npy", "count, NaNs, min, max, mean ...", false},
    {"examples", "reducectl sum -t f32 big.f32.gz", "gzipped raw elements", false},
    {"examples", "reducectl stats model.safetensors", "a table of all tensors", true},
    {"examples", "reducectl max run.npz:u", "one array of a file", false},
    {"examples", "reducectl mean --nan omit data.csv:price", "a column, without what is missing", true},
    {"examples", "reducectl mean,count --by city trips.csv:price", "a line for each city", false},
    {"examples", "reducectl put temps data.npy && reducectl stats @temps", "", false},
    {"examples", "reducectl sum --nan omit --json t.npy", "for scripts", false},
};
const size_t ctl_n_help_rows = sizeof ctl_help_rows / sizeof *ctl_help_rows;

const char *ctl_topic_of_option(const char *name)
{
    for (size_t i = 0; i < ctl_n_help_rows; i++) {
        const help_row *r = &ctl_help_rows[i];
        const char *dashes = r->name && strcmp(r->topic, "examples") ? strstr(r->name, "--") : NULL;
        if (dashes && strcspn(dashes + 2, " ") == strlen(name) && !strncmp(dashes + 2, name, strlen(name)))
            return r->topic;
    }
    return NULL;
}
