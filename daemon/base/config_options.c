#include "daemon/base/config_options.h"

#include <string.h>

#include "daemon/base/log.h"
#include "daemon/base/workers.h"
#include "proto/types.h"

#define FIELD(f) offsetof(rd_config, f)

const rd_option rd_options[RD_OPTIONS] = {
    {"listen", RD_OPTION_URLS, FIELD(listen), 0, RD_MAX_LISTEN, 0, NULL, false,
     "URL to serve: ipc:///path/to/socket, tls+tcp://address:port or tcp://address:port. Repeat it for more. Default: the "
     "socket that clients try first; list it, too, beside other URLs"},
    {"allow-uid", RD_OPTION_USERS, 0, 0, RD_MAX_IDS, 0, NULL, true,
     "user, by name or number, that may use the ipc socket of the preceding `listen`. Before the first `listen`: all ipc "
     "sockets without a list of their own. Repeat it for more. Without any allow-uid and allow-gid, socket-mode decides"},
    {"allow-gid", RD_OPTION_GROUPS, 0, 0, RD_MAX_IDS, 0, NULL, true,
     "the same for a group: processes with this primary group, and users that are members of it when the daemon starts or "
     "reloads"},
    {"allow-name", RD_OPTION_NAMES, 0, 0, RD_MAX_IDS, 0, NULL, true,
     "user, by the common name in the client's certificate, that may use the tls+tcp URL of the preceding `listen`. Before the "
     "first `listen`: all such URLs without a list of their own. Repeat it for more. Without any, every name whose certificate "
     "tls-ca signed"},
    {"allow-plain-tcp", RD_OPTION_CHOICE, FIELD(allow_plain_tcp), 0, 1, 0, "no|yes", false,
     "serve tcp:// without encryption or authentication: anyone who can connect may use the device, and anyone in between "
     "can read and change what others send and receive"},
    {"tls-cert", RD_OPTION_PATH, FIELD(tls_cert), 0, RD_MAX_FILE - 1, 0, NULL, true,
     "certificate for tls+tcp://, PEM, followed by the intermediate certificates up to its CA"},
    {"tls-key", RD_OPTION_PATH, FIELD(tls_key), 0, RD_MAX_FILE - 1, 0, NULL, true,
     "its private key, PEM without a passphrase; only owner and group may have access to the file"},
    {"tls-ca", RD_OPTION_PATH, FIELD(tls_ca), 0, RD_MAX_FILE - 1, 0, NULL, true,
     "certificates of the CAs, PEM, that sign the clients' certificates"},
    {"tls-crl", RD_OPTION_PATH, FIELD(tls_crl), 0, RD_MAX_FILE - 1, 0, NULL, true,
     "revocation lists of these CAs, PEM. A certificate that one of them names is refused; a list that has expired refuses "
     "all"},
    {"tls-clients", RD_OPTION_CHOICE, FIELD(tls_clients), 0, 1, 0, "known|any", false,
     "known: a client must present a certificate signed by tls-ca; any: anyone who can connect may use the device"},
    {"metrics-url", RD_OPTION_HTTP, FIELD(metrics_url), 0, RD_MAX_URL - 1, 0, NULL, false,
     "http://ADDRESS:PORT, such as http://127.0.0.1:9464: serve a live page for browsers there, and the metrics as Prometheus "
     "text, at /metrics. Anyone who can connect can read them, including every user of this machine. Default: off; "
     "`reducectl metrics` works without it"},
    {"allow-remote-metrics", RD_OPTION_CHOICE, FIELD(allow_remote_metrics), 0, 1, 0, "no|yes", false,
     "allow an address in metrics-url that other machines can reach"},
    {"trace", RD_OPTION_PATH, FIELD(trace), 0, RD_MAX_FILE - 1, 0, NULL, false,
     "write every answered request with its times to this file, for chrome://tracing or Perfetto. If the disk is too slow, "
     "records are dropped and counted"},
    {"trace-size", RD_OPTION_NUMBER, FIELD(trace_size), 1, 65536, 256, NULL, false,
     "maximum size of the trace in MiB; tracing stops there"},
    {"backend", RD_OPTION_CHOICE, FIELD(backend), 0, 3, 0, "auto|cpu|cuda|hybrid", false,
     "engine; auto uses CUDA if a device answers, and the CPU beside it for large data of the host, by measured rates; else "
     "the CPU. cuda and cpu keep the other one free. hybrid is auto. Results have the same bits"},
    {"devices", RD_OPTION_DEVICES, FIELD(devices), 0, RD_MAX_FILE - 1, 0, NULL, false,
     "CUDA devices: `all` (the default), or their numbers and UUIDs, separated by commas: 0,1 or GPU-2c7b8d4e,GPU-51c09af3. "
     "The start of a UUID is enough. A device that cannot be opened is left out. Of the CPU: how many engines, for tests"},
    {"threads", RD_OPTION_NUMBER, FIELD(threads), 0, 1024, 0, NULL, false, "CPU workers; 0 = one per available core"},
    {"local", RD_OPTION_CHOICE, FIELD(no_local), 0, 1, 0, "yes|no", false,
     "may clients reduce large arrays in their own processes, where that takes less time? Not with `backend = cuda`"},
    {"small-bytes", RD_OPTION_NUMBER, FIELD(small_bytes), 0, RP_MAX_DATA, RP_SMALL_BYTES, NULL, false,
     "requests up to this many bytes are reduced on the CPU at once, which takes less time than a launch; 0 = never"},
    {"slots", RD_OPTION_NUMBER, FIELD(slots), 1, 64, 8, NULL, false, "CUDA staging slots, each with its own stream and memory"},
    {"max-device-memory", RD_OPTION_NUMBER, FIELD(max_device_memory), 0, 1 << 24, 0, NULL, false,
     "maximum MiB of each CUDA device's memory for slots and resident data together, so that other programs have memory too; "
     "the driver's own memory is not counted. 0 = as much as `slots` and `resident` allow"},
    {"contexts", RD_OPTION_NUMBER, FIELD(contexts), 8, 4096, 256, NULL, false,
     "requests of all clients that are received, processed or answered at the same time"},
    {"max-sessions", RD_OPTION_NUMBER, FIELD(max_sessions), 1, 65536, RP_MAX_SESSIONS, NULL, true, "connected sessions"},
    {"max-inflight", RD_OPTION_NUMBER, FIELD(max_inflight), 1, 4096, RP_MAX_INFLIGHT, NULL, true,
     "unanswered requests of one session; the next one gets BUSY"},
    {"max-held", RD_OPTION_NUMBER, FIELD(max_held), 0, 1 << 20, 0, NULL, true,
     "MiB of messages of one session held in the daemon; above this the next one gets BUSY, and one that alone is larger gets "
     "TOO_LARGE. 0 = the size of max-inflight messages"},
    {"max-user-sessions", RD_OPTION_NUMBER, FIELD(max_user_sessions), 0, 65536, 0, NULL, true,
     "connected sessions of one user; 0 = seven eighths of max-sessions"},
    {"max-user-inflight", RD_OPTION_NUMBER, FIELD(max_user_inflight), 0, 4096, 0, NULL, true,
     "unanswered requests of all sessions of one user; the next one gets BUSY. 0 = three quarters of `contexts`"},
    {"max-user-held", RD_OPTION_NUMBER, FIELD(max_user_held), 0, 1 << 20, 0, NULL, true,
     "MiB of messages of one user held in the daemon, in the same way; 0 = the size of max-user-inflight messages"},
    {"high-uid", RD_OPTION_ACCOUNTS, FIELD(high_users), 0, RD_MAX_IDS, 0, NULL, false,
     "user, by name or number, whose sessions get high priority if they ask for it. Repeat it for more. Root and the "
     "daemon's own user always may"},
    {"background-uid", RD_OPTION_ACCOUNTS, FIELD(background_users), 0, RD_MAX_IDS, 0, NULL, false,
     "user whose sessions have background priority, whatever they ask for. Repeat it for more"},
    {"max-streams", RD_OPTION_NUMBER, FIELD(max_streams), 1, 1024, RP_MAX_STREAMS, NULL, true,
     "open streams of one session; the next one gets QUOTA"},
    {"drain", RD_OPTION_NUMBER, FIELD(drain), 0, 3600, 10, NULL, true,
     "seconds that work in flight has to finish after SIGTERM, before it is cancelled"},
    {"idle-exit", RD_OPTION_NUMBER, FIELD(idle_exit), 0, 604800, 0, NULL, true,
     "exit after this many seconds without a session; 0 = never. Default of a daemon that a client started: 600"},
    {"probe", RD_OPTION_NUMBER, FIELD(probe), 1, 86400, 30, NULL, true,
     "seconds between health checks: a real reduction with a known answer"},
    {"log-level", RD_OPTION_CHOICE, FIELD(log_level), 0, 3, RD_LOG_INFO, "error|warn|info|debug", true,
     "what to log on stderr"},
    {"socket-mode", RD_OPTION_OCTAL, FIELD(socket_mode), 0600, 0777, 0660, NULL, false, "permissions of ipc sockets"},
    {"socket-group", RD_OPTION_GROUP, FIELD(socket_group), 0, 1, 0, NULL, false,
     "group of ipc sockets, by name or number; default: the daemon's. The owner is always the daemon's user, which clients "
     "check"},
    {"sandbox", RD_OPTION_CHOICE, FIELD(no_sandbox), 0, 1, 0, "yes|no", false,
     "once the device is open, give up calls and the writing to files that the daemon does not need (seccomp, Landlock)"},
    {"readers", RD_OPTION_NUMBER, FIELD(readers), 0, RD_MAX_READERS, 0, NULL, false,
     "threads that read clients' files, and with the CPU engine reduce most of what they read, with two buffers of 4 MiB each; "
     "0 = half the number of cores, or 7/8 of them with the CPU engine or several devices; at least 4, at most 16 for each "
     "device. One user gets at most three quarters of them"},
    {"files-from", RD_OPTION_CHOICE, FIELD(files_from), 0, 2, 0, "local|network|any", false,
     "file systems whose files the daemon reads for clients. local: disks and memory; network: NFS and the like, too, whose "
     "servers may keep readers waiting; any: FUSE and unknown ones, too, where a user may. Clients read the others themselves"},
    {"direct", RD_OPTION_NUMBER, FIELD(direct), 0, 1 << 24, 0, NULL, false,
     "files of at least this many MiB are read with O_DIRECT where they are not in the page cache; 0 = half of the machine's "
     "memory"},
    {"arena", RD_OPTION_NUMBER, FIELD(arena), 0, 1 << 24, 0, NULL, false,
     "MiB of memory shared with all clients together; 0 = a quarter of the machine's memory"},
    {"arena-user", RD_OPTION_NUMBER, FIELD(arena_user), 0, 1 << 24, 0, NULL, false,
     "MiB of memory shared with the clients of one user; 0 = half of `arena`"},
    {"resident", RD_OPTION_NUMBER, FIELD(resident), 0, 1 << 24, 0, NULL, false,
     "MiB for the resident data of all users together, in the device's memory if there is a device; 0 = half of that "
     "memory"},
    {"resident-user", RD_OPTION_NUMBER, FIELD(resident_user), 0, 1 << 24, 0, NULL, false,
     "MiB for the resident data of one user; 0 = half of `resident`"},
    {"resident-keep", RD_OPTION_CHOICE, FIELD(no_resident_keep), 0, 1, 0, "yes|no", false,
     "resident data stay when the daemon is restarted, if systemd keeps descriptors for it. Of data on a device this takes a "
     "copy in the machine's memory, of which all copies get a quarter"},
};

_Static_assert(RP_BACKEND_CPU == 1 && RP_BACKEND_CUDA == 2 && RD_BACKEND_HYBRID == 3,
               "the choices of `backend` are in the order of the codes");

const rd_option *rd_option_find(const char *name)
{
    if (strcmp(name, "device") == 0) /* the option's name up to version 0.2, which had a single device */
        name = "devices";
    for (int i = 0; i < RD_OPTIONS; i++)
        if (strcmp(rd_options[i].name, name) == 0)
            return &rd_options[i];
    return NULL;
}

const char *rd_option_removed(const char *name)
{
    static const char *const removed[] = {"batch-bytes"}; /* small requests shared launches */
    for (size_t i = 0; i < sizeof removed / sizeof removed[0]; i++)
        if (strcmp(removed[i], name) == 0)
            return removed[i];
    return NULL;
}

const char *rd_option_choice(const char *choices, uint64_t i, size_t *n)
{
    for (; i; i--) {
        choices = strchr(choices, '|');
        if (!choices)
            return NULL;
        choices++;
    }
    *n = strcspn(choices, "|");
    return choices;
}
