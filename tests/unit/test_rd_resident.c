/* The table of resident data: owners, names, quotas, time to live, references. Workers run within the call, on an engine of the
 * CPU, and the clock is a variable. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "daemon/state/resident.h"
#include "daemon/state/session.h"

enum { ME = 1000, OTHER = 1001, MIB = 1 << 20 };

static const uint64_t MS = 1000000;
static rd_resident *made_last;
static rd_session mine, theirs;

typedef struct server {
    rd_users users;
    rd_workers workers;
    rd_holdings holdings;
} server;

static int open_server(void **state)
{
    server *s = calloc(1, sizeof *s);
    rk_options o = {.backend = RP_BACKEND_CPU, .threads = 1};
    if (!s || rk_open(&s->holdings.engine, &o, NULL, 0))
        return -1;
    s->holdings.users = &s->users;
    s->holdings.workers = &s->workers;
    s->holdings.residents_until_ns = UINT64_MAX;
    s->workers.closed = true;
    s->users.cap_all[RD_HELD_RESIDENT_BYTES] = 8 * MIB;
    s->users.cap[RD_HELD_RESIDENT_BYTES] = 4 * MIB;
    *state = s;
    return 0;
}

static int close_server(void **state)
{
    server *s = *state;
    rd_residents_close(&s->holdings);
    bool left = s->users.first || rd_held(&s->users.charges, RD_HELD_RESIDENTS) ||
                rd_held(&s->users.charges, RD_HELD_RESIDENT_BYTES);
    rk_close(s->holdings.engine);
    free(s);
    return left ? -1 : 0;
}

static void made(rd_work *c) { made_last = (rd_resident *)c; }

static rp_err begin_as(server *s, uint64_t uid, rd_session *session, const rp_store *ask, rp_fault *f)
{
    return rd_resident_begin(&s->holdings, uid, session, ask, made, NULL, f);
}

static rp_store asked(const char *name, uint64_t bytes)
{
    return (rp_store){.dtype = RP_U8, .bytes = bytes, .name_len = (uint16_t)strlen(name), .name = name};
}

static rd_resident *begun(server *s, uint64_t uid, rd_session *session, rp_store ask)
{
    rp_fault f;
    assert_int_equal(begin_as(s, uid, session, &ask, &f), RP_OK);
    assert_int_equal(made_last->fault.code, RP_OK);
    assert_non_null(made_last->memory);
    rd_resident_release(made_last); /* the maker's */
    return made_last;
}

static void write_all(rd_resident *x)
{
    rp_fault f;
    assert_int_equal(rd_resident_claim(x, 0, x->bytes, &f), RP_OK);
    rd_resident_settle(x, 0, x->bytes, false);
}

static rd_resident *committed(server *s, uint64_t uid, rp_store ask, uint64_t now)
{
    rp_fault f;
    rd_resident *x = begun(s, uid, uid == ME ? &mine : &theirs, ask);
    write_all(x);
    assert_int_equal(rd_resident_commit(x, now, &f), RP_OK);
    return x;
}

static rd_resident *named(server *s, uint64_t uid, const char *name)
{
    return rd_resident_by_name(&s->users, uid, name, strlen(name));
}

/* The number of a user of tls ends with the daemon: its data could come back as another's. */
static void data_of_users_of_tls_are_not_kept(void **state)
{
    server *s = *state;
    rd_session remote = {0};
    rp_fault f;
    rd_user *alice = rd_user_get_named(&s->users, "alice");
    assert_non_null(alice);
    rd_resident *x = begun(s, alice->uid, &remote, asked("x", 8)), *y = begun(s, ME, &mine, asked("y", 8));
    write_all(x);
    write_all(y);
    s->holdings.keep = RD_KEEP_COPY;
    s->holdings.copied_cap = MIB;
    s->holdings.store_room = 8;
    assert_false(rd_resident_may_seal(x, &f));
    assert_true(rd_resident_may_seal(y, &f));
    rd_resident_drop(x);
    rd_resident_drop(y);
    rd_user_put(&s->users, alice);
}

static void only_its_user_meets_it(void **state)
{
    server *s = *state;
    rd_resident *x = committed(s, ME, asked("x", 8), 0), *y = committed(s, OTHER, asked("x", 16), 0);
    assert_ptr_equal(named(s, ME, "x"), x);
    assert_ptr_equal(named(s, OTHER, "x"), y);
    assert_null(named(s, 0, "x"));
    assert_null(named(s, ME, "xx"));
    assert_null(rd_resident_by_name(&s->users, ME, "x", 0));
    assert_ptr_equal(rd_resident_by_id(rd_user_find(&s->users, ME), x->id, 1), x);
    assert_null(rd_resident_by_id(rd_user_find(&s->users, OTHER), x->id, 1));
    assert_true(x->id && y->id && x->id != y->id);
}

static void what_is_written_is_its_sessions_alone(void **state)
{
    server *s = *state;
    rd_session second = {0};
    rd_resident *x = begun(s, ME, &mine, asked("x", 8));
    assert_ptr_equal(rd_resident_written(&s->users, ME, &mine, x->id), x);
    assert_null(rd_resident_written(&s->users, ME, &second, x->id));
    assert_null(rd_resident_written(&s->users, OTHER, &mine, x->id));
    assert_null(rd_resident_written(&s->users, ME, &mine, x->id ^ 1));
    assert_null(named(s, ME, "x"));
    assert_null(rd_resident_by_id(rd_user_find(&s->users, ME), x->id, 1));
    rd_residents_leave(&s->holdings, ME, &second);
    assert_int_equal(rd_held(&s->users.charges, RD_HELD_RESIDENTS), 1);
    rd_residents_leave(&s->holdings, ME, &mine);
    assert_int_equal(rd_held(&s->users.charges, RD_HELD_RESIDENTS), 0);
    assert_null(s->users.first);
}

static void a_session_that_goes_leaves_what_it_committed(void **state)
{
    server *s = *state;
    rd_resident *x = committed(s, ME, asked("x", 8), 0);
    begun(s, ME, &mine, asked("y", 8));
    rd_residents_leave(&s->holdings, ME, &mine);
    assert_ptr_equal(named(s, ME, "x"), x);
    assert_int_equal(rd_held(&s->users.charges, RD_HELD_RESIDENTS), 1);
}

static void every_byte_comes_once(void **state)
{
    server *s = *state;
    rp_fault f;
    rd_resident *x = begun(s, ME, &mine, asked("x", 100));
    assert_int_equal(rd_resident_commit(x, 0, &f), RP_SHAPE);
    assert_int_equal(f.index, 0);
    assert_int_equal(rd_resident_claim(x, 40, 60, &f), RP_OK);
    assert_int_equal(rd_resident_claim(x, 39, 2, &f), RP_SHAPE);
    assert_int_equal(f.index, 40);
    assert_int_equal(rd_resident_claim(x, 100, 1, &f), RP_SHAPE);
    assert_int_equal(f.limit, 100);
    assert_int_equal(rd_resident_claim(x, UINT64_MAX, 2, &f), RP_SHAPE);
    assert_int_equal(rd_resident_claim(x, 0, 40, &f), RP_OK);
    assert_int_equal(rd_resident_commit(x, 0, &f), RP_SHAPE); /* both are on their way */
    assert_int_equal(f.index, RP_NO_INDEX);
    rd_resident_settle(x, 0, 40, true); /* one got lost */
    rd_resident_settle(x, 40, 60, false);
    assert_int_equal(rd_resident_commit(x, 0, &f), RP_SHAPE);
    assert_int_equal(f.index, 0);
    assert_int_equal(rd_resident_claim(x, 0, 40, &f), RP_OK);
    rd_resident_settle(x, 0, 40, false);
    assert_int_equal(rd_resident_commit(x, 0, &f), RP_OK);
    assert_null(rd_resident_written(&s->users, ME, &mine, x->id));
}

static void a_name_is_taken_once(void **state)
{
    server *s = *state;
    rp_fault f;
    rp_store ask = asked("x", 8);
    rd_resident *late = begun(s, ME, &mine, ask), *x = committed(s, ME, ask, 0);
    assert_int_equal(begin_as(s, ME, &mine, &ask, &f), RP_EXISTS);
    assert_string_equal(f.field, "name");
    write_all(late);
    assert_int_equal(rd_resident_commit(late, 0, &f), RP_EXISTS);
    ask.replace = true;
    rd_resident *after = begun(s, ME, &mine, ask);
    write_all(after);
    assert_ptr_equal(named(s, ME, "x"), x);
    rd_resident_hold(x); /* a reduction is under way */
    assert_int_equal(rd_resident_commit(after, 0, &f), RP_OK);
    assert_ptr_equal(named(s, ME, "x"), after);
    assert_true(x->dropped);
    assert_int_equal(rd_held(&s->users.charges, RD_HELD_RESIDENTS), 3);
    rd_resident_release(x);
    assert_int_equal(rd_held(&s->users.charges, RD_HELD_RESIDENTS), 2);
}

static void dropped_in_use_it_is_freed_by_the_last(void **state)
{
    server *s = *state;
    rd_resident *x = committed(s, ME, asked("x", MIB), 0);
    rd_resident_hold(x);
    rd_resident_hold(x);
    rd_resident_drop(x);
    rd_resident_drop(x); /* again: nothing */
    assert_null(named(s, ME, "x"));
    rd_resident_release(x);
    assert_int_equal(rd_held(&s->users.charges, RD_HELD_RESIDENT_BYTES), MIB);
    rd_resident_release(x);
    assert_int_equal(rd_held(&s->users.charges, RD_HELD_RESIDENT_BYTES), 0);
    assert_null(s->users.first);
}

static void quotas(void **state)
{
    server *s = *state;
    rp_fault f;
    rp_store ask = asked("a", 4 * MIB + 1);
    assert_int_equal(begin_as(s, ME, &mine, &ask, &f), RP_TOO_LARGE);
    assert_int_equal(f.limit, 4 * MIB);
    begun(s, ME, &mine, asked("a", 3 * MIB));
    ask.bytes = MIB + 1;
    assert_int_equal(begin_as(s, ME, &mine, &ask, &f), RP_QUOTA);
    assert_true(f.limit == 4 * MIB && !strcmp(f.field, "resident"));
    begun(s, ME, &mine, asked("b", MIB));
    begun(s, OTHER, &theirs, asked("c", 4 * MIB));
    ask.bytes = 1;
    assert_int_equal(begin_as(s, 7, &mine, &ask, &f), RP_QUOTA); /* all have 8 MiB now */
    assert_int_equal(f.limit, 8 * MIB);
    assert_null(rd_user_find(&s->users, 7));
    rd_residents_leave(&s->holdings, OTHER, &theirs);
    begun(s, 7, &mine, ask);
}

static void time_to_live(void **state)
{
    server *s = *state;
    rp_store brief = asked("brief", 1), longer = asked("longer", 1);
    brief.ttl_ms = 10;
    longer.ttl_ms = 20;
    rd_resident *b = committed(s, ME, brief, 1000 * MS), *l = committed(s, OTHER, longer, 1000 * MS);
    committed(s, ME, asked("ever", 1), 1000 * MS);
    assert_true(b->until_ns == 1010 * MS && l->until_ns == 1020 * MS);
    rd_residents_expire(&s->holdings, 1010 * MS - 1);
    assert_non_null(named(s, ME, "brief"));
    assert_ptr_equal(rd_resident_by_id(b->user, b->id, 1010 * MS - 1), b);
    assert_null(rd_resident_by_id(b->user, b->id, 1010 * MS)); /* whether it is dropped yet or not */
    rd_residents_expire(&s->holdings, 1010 * MS);
    assert_null(named(s, ME, "brief"));
    assert_non_null(named(s, OTHER, "longer"));
    rd_resident_hold(l); /* in use when its time is over */
    rd_residents_expire(&s->holdings, UINT64_MAX - 1);
    assert_null(named(s, OTHER, "longer"));
    assert_int_equal(rd_held(&s->users.charges, RD_HELD_RESIDENTS), 2);
    rd_resident_release(l);
    assert_int_equal(rd_held(&s->users.charges, RD_HELD_RESIDENTS), 1);
    assert_non_null(named(s, ME, "ever"));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_server, close_server)

static rd_resident *found_while_made;

static const rd_users *looked_in;

static void made_and_looked_for(rd_work *w)
{
    made(w);
    found_while_made = rd_resident_written(looked_in, ME, &mine, made_last->id);
}

/* STORE has not been answered: the memory is being made, and a request that guesses the handle must not meet it. */
static void what_is_being_made_is_not_written(void **state)
{
    server *s = *state;
    int maker;
    rp_store ask = asked("x", 8);
    rp_fault f;
    looked_in = &s->users;
    assert_int_equal(rd_resident_begin(&s->holdings, ME, &mine, &ask, made_and_looked_for, &maker, &f), RP_OK);
    assert_null(found_while_made);
    assert_ptr_equal(made_last->maker, &maker);
    made_last->maker = NULL; /* as the answer does */
    assert_ptr_equal(rd_resident_written(&s->users, ME, &mine, made_last->id), made_last);
    rd_resident *x = made_last;
    rd_resident_drop(x);
    rd_resident_release(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(data_of_users_of_tls_are_not_kept),
        TEST(only_its_user_meets_it),
        TEST(what_is_written_is_its_sessions_alone),
        TEST(a_session_that_goes_leaves_what_it_committed),
        TEST(every_byte_comes_once),
        TEST(a_name_is_taken_once),
        TEST(dropped_in_use_it_is_freed_by_the_last),
        TEST(quotas),
        TEST(time_to_live),
        TEST(what_is_being_made_is_not_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
