/* Settings: one table of options (config_options.h) makes the config file, the flags, --help, --check-config and
 * --dump-config. The only side effect is reading the file. Nothing is logged: errors come back as one line of text. */
#ifndef RD_CONFIG_H
#define RD_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "daemon/base/access.h"

enum {
    RD_MAX_LISTEN = 8, /* URLs: a user's socket, the system's, a few tcp interfaces */
    RD_MAX_URL = 160,  /* a unix socket path has at most 107 bytes, a host name may have 253 but does not in practice */
    RD_MAX_FILE = 180, /* of an option's path: name and path fit in a line of the config file, which inih limits to 198 bytes */
    RD_MAX_PATH = 512, /* of the config file's own */
    RD_MAX_WHY = 320,
    RD_BACKEND_HYBRID = 3 /* after the codes of rp_backend: of older configurations; auto does this */
};

/* idle-exit of a daemon that a client started; REDUCE_OPEN_OPTS_INIT of client/reduce.h has the same */
enum { RD_AUTOSTARTED_IDLE_S = 600 };

/* What an option sets. Numbers are uint64_t so that one parser serves all. */
typedef struct rd_config {
    char listen[RD_MAX_LISTEN][RD_MAX_URL];
    uint64_t listens;
    rd_allow allow[RD_MAX_LISTEN + 1]; /* for all sockets without own lists, then for listen[0], ... */
    uint64_t last;                     /* index of the one that the next allow-uid, allow-gid or allow-name extends */
    uint64_t backend;                  /* 0 = auto, or an rp_backend, or RD_BACKEND_HYBRID */
    char devices[RD_MAX_FILE];         /* in the form of rk_options */
    uint64_t threads, small_bytes, slots;
    uint64_t contexts, max_sessions, max_inflight, max_streams;
    uint64_t max_device_memory; /* MiB */
    uint64_t max_user_sessions, max_user_inflight;
    rd_ids high_users, background_users;
    uint64_t max_held, max_user_held; /* MiB */
    uint64_t drain, idle_exit, probe; /* seconds */
    uint64_t log_level;               /* rd_log_level */
    uint64_t socket_mode;
    uint64_t no_sandbox;                   /* 0 yes, 1 no */
    rd_ids socket_group;                   /* none: the daemon's, or one */
    uint64_t allow_plain_tcp, tls_clients; /* 0 no, known; 1 yes, any */
    char metrics_url[RD_MAX_URL];          /* "": none */
    uint64_t allow_remote_metrics;         /* 0 no, 1 yes */
    char trace[RD_MAX_FILE];               /* "": none */
    uint64_t trace_size;                   /* MiB */
    char tls_cert[RD_MAX_FILE], tls_key[RD_MAX_FILE], tls_ca[RD_MAX_FILE], tls_crl[RD_MAX_FILE];
    uint64_t readers;
    uint64_t files_from;              /* an rd_files_from */
    uint64_t direct;                  /* MiB */
    uint64_t arena, arena_user;       /* MiB */
    uint64_t resident, resident_user; /* MiB */
    uint64_t no_resident_keep;        /* 0 yes, 1 no */
    uint64_t no_local;                /* 0 yes, 1 no */
    const char *removed;              /* the last option that has no effect any more; NULL: none was set */
} rd_config;

/* What the command line asks for besides the options. */
typedef struct rd_command {
    char config_file[RD_MAX_PATH]; /* --config; empty: the default file, if there is one */
    char user[64];                 /* --user, of the check; empty: not given */
    bool check, self_test, dump, help, version, autostarted;
} rd_command;

void rd_config_defaults(rd_config *c);

/* Set one option by name. False: `why` has the option, the value and the limit. */
bool rd_config_set(rd_config *c, const char *name, const char *value, char why[RD_MAX_WHY]);

/* Gets each problem of a file or of the options together. */
typedef void rd_problem_fn(const char *problem);

/* Read a file over *c. `tell` gets all problems; without it (NULL) the first one ends the reading. False: `why` has file, line,
 * key and limit, and *c is half changed: work on a copy. */
bool rd_config_read(rd_config *c, const char *path, rd_problem_fn *tell, char why[RD_MAX_WHY]);

/* Defaults, then the file (cmd->config_file, else the default file if it exists), then the flags, then the default URL
 * if none is given. */
bool rd_config_load(rd_config *c, rd_command *cmd, int argc, char **argv, rd_problem_fn *tell, char why[RD_MAX_WHY]);

/* Take over from `fresh` what can change at run time: options marked live, and the lists of URLs that both have. `tell` gets a
 * line for each change. Returns how many other options differ; their names go to `names`, separated by blanks: they need a
 * restart. */
unsigned rd_config_reload(rd_config *now, const rd_config *fresh, void (*tell)(const char *line), char *names, size_t cap);

void rd_config_help(FILE *out);
void rd_config_dump(const rd_config *c, FILE *out); /* as a config file that reads back to the same */

#endif
