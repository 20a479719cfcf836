#include "tests/gpu/bench.cuh"

#include <algorithm>
#include <cstring>
#include <sstream>

namespace bench {
namespace {

constexpr int kWarmUp = 5;                 // rounds
constexpr size_t kLeast = 11, kMost = 401; // runs of a rival
constexpr u64 kSpinNs = 60000;             // longer than the host takes to launch anything measured here

__global__ void spin(u64 ns)
{
    u64 start, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
    do
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    while (now - start < ns);
}

// The value below which the given share of the samples lies.
float quantile(std::vector<float> v, double share)
{
    size_t at = (size_t)(share * (double)(v.size() - 1) + 0.5);
    std::nth_element(v.begin(), v.begin() + at, v.end());
    return v[at];
}

void usage(const char *program, const char *groups)
{
    printf("usage: %s [--only GROUP,...] [--types DTYPE,...] [--largest LOG2] [--smallest LOG2] [--runs N]\n"
           "       [--cases PART,...] [--budget MS] [--queued] [--json FILE]\ngroups: %s\n",
           program, groups);
    exit(2);
}

} // namespace

Options options_of(int argc, char **argv, const char *groups)
{
    Options o;
    for (int i = 1; i < argc; i++) {
        std::string name = argv[i];
        if (name == "--queued") {
            o.queued = true;
            continue;
        }
        const char *value = i + 1 < argc ? argv[++i] : nullptr;
        if (!value)
            usage(argv[0], groups);
        else if (name == "--only")
            o.groups = value;
        else if (name == "--types")
            o.dtypes = value;
        else if (name == "--cases")
            o.cases = value;
        else if (name == "--largest")
            o.largest = atoi(value);
        else if (name == "--smallest")
            o.smallest = atoi(value);
        else if (name == "--runs")
            o.runs = (size_t)atoi(value);
        else if (name == "--budget")
            o.budget_us = atof(value) * 1e3;
        else if (name == "--json")
            o.json = value;
        else
            usage(argv[0], groups);
    }
    return o;
}

bool listed(const std::string &list, const std::string &name)
{
    return list.empty() || ("," + list + ",").find("," + name + ",") != std::string::npos;
}

bool part_listed(const std::string &list, const std::string &name)
{
    std::istringstream parts(list);
    bool listed = list.empty();
    for (std::string part; std::getline(parts, part, ',');)
        listed |= name.find(part) != std::string::npos;
    return listed;
}

Meter::Meter(const Options &o) : options(o), json(nullptr)
{
    CK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CK(cudaEventCreate(&begin));
    CK(cudaEventCreate(&end));
    if (o.json && !(json = fopen(o.json, "w"))) {
        perror(o.json);
        exit(1);
    }
}

float Meter::once(const Rival &r)
{
    if (options.queued)
        spin<<<1, 1, 0, stream>>>(kSpinNs);
    CK(cudaEventRecord(begin, stream));
    CK(r.launch());
    CK(cudaEventRecord(end, stream));
    CK(cudaEventSynchronize(end));
    float ms;
    CK(cudaEventElapsedTime(&ms, begin, end));
    return ms * 1e3f;
}

void Meter::measure(Case &c)
{
    if (!part_listed(options.cases, c.name))
        return;
    std::vector<Rival *> present;
    for (Rival &r : c.rivals) {
        cudaError_t err = r.launch();
        CK(cudaStreamSynchronize(stream)); // a fault on the device is the end
        cudaGetLastError();
        if (err == cudaSuccess)
            present.push_back(&r);
        else
            printf("%s: %s left out: %s\n", c.name.c_str(), r.name.c_str(), cudaGetErrorString(err));
    }
    float slowest = 1;
    for (int i = 0; i < kWarmUp; i++)
        for (Rival *r : present)
            slowest = std::max(slowest, once(*r));
    size_t fit = (size_t)(options.budget_us / slowest);
    size_t runs = options.runs ? options.runs : std::max(kLeast, std::min(kMost, fit | 1));
    for (size_t i = 0; i < runs; i++)
        for (size_t k = 0; k < present.size(); k++) {
            Rival *r = present[(i + k) % present.size()];
            r->us.push_back(once(*r));
        }
}

void Meter::report(const Case &c, const char *check)
{
    if (!part_listed(options.cases, c.name))
        return;
    float first = 0;
    printf("%-24s", c.name.c_str());
    for (const Rival &r : c.rivals) {
        if (r.us.empty())
            continue;
        float us = quantile(r.us, 0.5);
        printf("  %s %.2f us %.1f GB/s", r.name.c_str(), us, c.bytes / us / 1e3);
        if (first > 0)
            printf(" (%.3f)", us / first);
        else
            first = us;
        if (json)
            fprintf(json,
                    "{\"group\": \"%s\", \"case\": \"%s\", \"who\": \"%s\", \"unit\": \"us\", \"median\": %.3f, "
                    "\"low\": %.3f, \"high\": %.3f, \"runs\": %zu, \"bytes\": %llu, \"check\": \"%s\", \"route\": \"%s\"}\n",
                    c.group.c_str(), c.name.c_str(), r.name.c_str(), us, quantile(r.us, 0.1), quantile(r.us, 0.9), r.us.size(),
                    c.bytes, check, *r.route);
    }
    printf("  %s  %s\n", check, *c.rivals[0].route);
    fflush(stdout);
    if (json)
        fflush(json);
}

} // namespace bench
