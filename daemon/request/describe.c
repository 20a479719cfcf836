#include "daemon/request/describe.h"

#include <inttypes.h>
#include <string.h>

bool rd_may_see(const rd_session *viewer, const rd_session *x)
{
    if (!viewer || viewer == x || rd_session_is_admin(viewer))
        return true;
    return rd_peer_is_user(&viewer->peer) && rd_peer_is_user(&x->peer) && viewer->peer.uid == x->peer.uid;
}

void rd_describe_peer(FILE *f, const rd_session *x)
{
    const rd_peer *p = &x->peer;
    const char *blank = strrchr(p->text, ' ');
    if (p->local)
        fprintf(f, "uid=%" PRIu64 " pid=%" PRIu64, p->uid, p->pid);
    else
        fprintf(f, "address=%s", blank ? blank + 1 : "?");
    if (p->name[0])
        fprintf(f, " user=%s", x->owner->text);
}

void rd_describe_name(FILE *f, const rd_session *x) { fputs(x->name, f); }
