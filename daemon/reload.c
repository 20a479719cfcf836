#include "daemon/reload.h"

#include <pwd.h>
#include <stdio.h>
#include <string.h>

#include "daemon/base/log.h"
#include "daemon/base/notify.h"
#include "daemon/base/paths.h"
#include "daemon/loop.h"
#include "daemon/request/dispatch.h"
#include "daemon/tls.h"

/* ---- who may use a URL ---- */

/* Its own lists, or the common ones if it has none. */
static rd_allow rule_of(const rd_config *c, uint64_t i)
{
    const rd_allow *own = &c->allow[i + 1], *common = &c->allow[0];
    rd_allow rule = {.names = own->names.n ? own->names : common->names};
    if (rd_is_tls(c->listen[i]))
        return rule;
    const rd_allow *ids = own->users.n || own->groups.n ? own : common;
    return (rd_allow){.users = ids->users, .groups = ids->groups};
}

bool rd_gate_open_url(rd_server *s, uint64_t i)
{
    rd_gate fresh;
    if (!rd_ipc_path(s->config.listen[i]) && !rd_is_tls(s->config.listen[i]))
        return true; /* plain tcp lets everybody in */
    const rd_allow rule = rule_of(&s->config, i);
    if (!rd_gate_init(&fresh, &rule)) {
        rd_gate_fini(&fresh);
        return false;
    }
    rd_gate_fini(&s->gates[i]);
    s->gates[i] = fresh;
    return true;
}

/* Processes of a user may have another group than the user database tells, so this is for the log alone. */
static bool may_come(const rd_server *s, const rd_user *user)
{
    const struct passwd *p = rd_user_is_named(user) ? NULL : getpwuid((uid_t)user->uid);
    for (uint64_t i = 0; i < s->config.listens; i++) {
        const bool tls = rd_is_tls(s->config.listen[i]);
        if (tls == rd_user_is_named(user) &&
            (tls ? rd_gate_lets_name(&s->gates[i], rd_user_name(user))
                 : rd_gate_lets(&s->gates[i], (uint32_t)user->uid, p ? p->pw_gid : UINT32_MAX)))
            return true;
    }
    return false;
}

static void log_what_stays(const rd_server *s)
{
    for (const rd_user *user = s->users.first; user; user = user->next) {
        const uint64_t n = rd_held(&user->charges, RD_HELD_RESIDENTS);
        if (n && user->uid != RD_NETWORK && !may_come(s, user))
            rd_log(RD_LOG_INFO, "reload: %s%s may not come in: %llu resident arrays of it stay until their time to live",
                   rd_user_is_named(user) ? "" : "uid ", user->text, (unsigned long long)n);
    }
}

static void renew_gates(rd_server *s)
{
    for (uint64_t i = 0; i < s->config.listens; i++)
        if (!rd_gate_open_url(s, i))
            rd_log(RD_LOG_ERROR, "reload: no memory: who may use %s stays as it was", s->config.listen[i]);
    const size_t ended = rd_evict(s);
    if (ended)
        rd_log(RD_LOG_INFO, "reload: %zu connections end, because the lists no longer let them in", ended);
    log_what_stays(s);
}

/* ---- TLS ---- */
static void keep_tls_files(const rd_config *now, rd_config *fresh)
{
    memcpy(fresh->tls_cert, now->tls_cert, sizeof now->tls_cert);
    memcpy(fresh->tls_key, now->tls_key, sizeof now->tls_key);
    memcpy(fresh->tls_ca, now->tls_ca, sizeof now->tls_ca);
    memcpy(fresh->tls_crl, now->tls_crl, sizeof now->tls_crl);
}

static void renew_tls(rd_server *s, rd_config *fresh)
{
    static const struct {
        unsigned bit;
        const char *text;
    } files[] = {{RD_TLS_NEW_CERT, "the certificate of tls-cert is renewed: new connections get it"},
                 {RD_TLS_NEW_CA, "the CAs of tls-ca are others: connections that they do not trust end"},
                 {RD_TLS_NEW_CRL, "the lists of tls-crl are others: connections that they revoke end"}};
    char why[RD_MAX_WHY];
    unsigned changed;
    if (!rd_tls_renew(&s->config, fresh, s->transport, &changed, why)) {
        rd_log(RD_LOG_ERROR, "reload: tls: %s; the old files stay in use", why);
        keep_tls_files(&s->config, fresh);
        return;
    }
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        if (changed & files[i].bit)
            rd_log(RD_LOG_INFO, "reload: %s", files[i].text);
    if (why[0])
        rd_log(RD_LOG_WARN, "%s", why);
}

/* ---- all of it ---- */
static void reload_tell(const char *line) { rd_log(RD_LOG_INFO, "reload: %s", line); }

static void take(rd_server *s, rd_config *fresh)
{
    char names[RD_MAX_WHY];
    renew_tls(s, fresh);
    const unsigned stuck = rd_config_reload(&s->config, fresh, reload_tell, names, sizeof names);
    rd_users_configure(&s->users, &s->config);
    rd_log_set_level((rd_log_level)s->config.log_level);
    renew_gates(s);
    if (fresh->removed)
        rd_log(RD_LOG_WARN, "the option %s has no effect any more", fresh->removed);
    if (stuck)
        rd_log(RD_LOG_WARN, "changed, but needs a restart: %s", names);
    rd_fastpath_limit(&s->requests.fastpath, (unsigned)s->config.max_inflight, rd_unread_limit(&s->config));
    rd_log(RD_LOG_INFO, "config read again");
}

void rd_reload(rd_server *s)
{
    rd_config fresh;
    rd_command command;
    char why[RD_MAX_WHY];
    rd_notify_reloading();
    if (rd_config_load(&fresh, &command, s->argc, s->argv, NULL, why))
        take(s, &fresh);
    else
        rd_log(RD_LOG_ERROR, "%s; the old settings stay", why);
    rd_notify_ready();
}
