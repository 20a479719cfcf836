// How the GPU benchmarks measure: rivals in turn on one stream, between two events, medians.
//
// A case is one piece of work with the rivals that do it. They run in turn, a different one first each round, so that
// changes of the machine's load affect all alike. A time runs from the event before the call to the event after it: the
// device's work plus the host's time to launch. With `--queued` the calls queue up behind a kernel that spins, so only the
// device's part is left.
#pragma once

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#define CK(call)                                                                          \
    do {                                                                                  \
        cudaError_t err_ = (call);                                                        \
        if (err_ != cudaSuccess) {                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(err_)); \
            exit(1);                                                                      \
        }                                                                                 \
    } while (0)

namespace bench {

using u64 = unsigned long long;

struct Options {
    std::string groups = "";         // of cases to run, comma-separated; empty: all
    std::string dtypes = "";         // the same of element types
    std::string cases = "";          // parts of names of cases, comma-separated: only those that contain one; empty: all
    int largest = 30, smallest = 10; // log2 of elements, where a group goes through sizes
    size_t runs = 0;                 // of each rival; 0: as many as fit `budget_us`
    double budget_us = 6e4;          // device time for each rival of a case
    bool queued = false;
    const char *json = nullptr; // a line for each rival of each case goes here
};

// From the command line; prints usage and exits when it is wrong.
Options options_of(int argc, char **argv, const char *groups);

// Is `name` in the comma-separated `list`, or the list empty?
bool listed(const std::string &list, const std::string &name);

// Is a part of `name` in the comma-separated `list`, or the list empty?
bool part_listed(const std::string &list, const std::string &name);

struct Rival {
    std::string name;
    std::function<cudaError_t()> launch; // enqueues on the meter's stream
    std::vector<float> us;               // filled by Meter::measure; empty if it does not do this work
    std::shared_ptr<const char *> route = std::make_shared<const char *>(""); // ours: written by `launch`
};

struct Case {
    std::string group, name;
    u64 bytes;                 // that the work reads (and writes)
    std::vector<Rival> rivals; // the first one is what the others are compared to
};

class Meter {
  public:
    explicit Meter(const Options &o);
    cudaStream_t stream;

    // Run the case, if the options ask for it. A rival whose first launch fails with an error that does no harm is left out,
    // with the reason told.
    void measure(Case &c);

    // Print the measured case on one line, with what was found out about the result, and add it to the JSON file.
    void report(const Case &c, const char *check);

  private:
    float once(const Rival &r);
    const Options options;
    cudaEvent_t begin, end;
    FILE *json;
};

} // namespace bench
