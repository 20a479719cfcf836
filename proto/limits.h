/* Every cap of the protocol, each with its reason. Caps that an administrator may change are defaults here. */
#ifndef RP_LIMITS_H
#define RP_LIMITS_H

/* Element bytes in one message. Larger arrays travel in several. 1 MiB messages measured fastest (RP_CHUNK_HINT), so a message
 * above this size only adds latency and memory. Also caps the cells of one reply. */
#define RP_MAX_DATA (4u << 20)

/* Element bytes of one REDUCE_AT whose rows lie apart, where the CPU reduces them part by part. Each range leaves a state of
 * each of its columns to be merged, so ranges of 4 MiB take up to twice as long (tests/bench/tuning/cpu-columns.md). Whole
 * columns of up to this size leave none. A longer range could occupy a reader for a second while the others are busy. */
#define RP_MAX_STRIDED (256u << 20)

/* Longest body: data plus the longest fixed part (the 64-byte spec). */
#define RP_MAX_BODY (RP_MAX_DATA + 64u)

/* What a client should put into one APPEND: 1 MiB messages measured fastest on ipc, and four in flight overlap. */
#define RP_CHUNK_HINT (1u << 20)

/* Data and results of a small request. One core reduces 64 KiB in some 6 us, a GPU in little more than a launch, and the way to
 * the daemon alone takes 8 to 42 us. So libreduce reduces such arrays where they are. There is nothing to weigh: the daemon
 * would take the CPU, too, in the thread that received them (its option small-bytes). They have a queue of their own. */
#define RP_SMALL_BYTES 65536u

/* Quantiles of one request. */
#define RP_MAX_QUANTILES 64u

/* Elements that largest and smallest give: a cell of 4 MiB. */
#define RP_MAX_TOP (RP_MAX_DATA / 16u)

/* Edges of a histogram: half a MiB of each message. */
#define RP_MAX_EDGES 65536u

/* Names that travel: of clients and servers, shown in logs and status; of resident data. */
#define RP_MAX_NAME 64u

/* Echoed by PING: enough for a time stamp and a nonce. */
#define RP_MAX_PING 64u

/* Text of an error reply and the name of its field: one terminal line. */
#define RP_MAX_FIELD 24u
#define RP_MAX_TEXT 160u

/* Entries of a QUERY reply and bytes of one key or text: a status screen, not a database. */
#define RP_MAX_ENTRIES 256u
#define RP_MAX_KEY 48u
#define RP_MAX_VALUE 256u

/* Requests of one session in flight; the next one gets BUSY. Covers 4 streams of 8 chunks and their control. */
#define RP_MAX_INFLIGHT 64u

/* Streams open at once in one session: a stream holds up to some 100 KiB of states. */
#define RP_MAX_STREAMS 32u

/* Separate extents a stream remembers while chunks arrive out of order; in-order clients need one. */
#define RP_MAX_EXTENTS 64u

/* Connected sessions in all: bounds the daemon's memory at some 10 KiB each. */
#define RP_MAX_SESSIONS 4096u

/* Secret of a session that its fdpass channel must know: 128 bits cannot be guessed. */
#define RP_TOKEN 16u

/* The fdpass socket is the ipc socket's path and this. */
#define RP_SIDE_SUFFIX ".side"

/* Files and arenas of one session: each is a descriptor or a mapping of the daemon. Some for each thread of a program. */
#define RP_MAX_SHARES 64u

/* Files of one user, and of all together: descriptors are what connections need, too. */
#define RP_MAX_USER_FILES 256u
#define RP_MAX_FILES 1024u

/* Arenas of one user, and of all together: each is a descriptor and a mapping of the daemon. */
#define RP_MAX_USER_ARENAS 512u
#define RP_MAX_ARENAS 2048u

/* Resident arrays of one user, and of all together: one reply of LIST has all of a user. Their bytes are settings of the
 * daemon. */
#define RP_MAX_USER_RESIDENTS 1024u
#define RP_MAX_RESIDENTS 4096u

/* Dimensions of a resident array whose shape is kept. More than arrays have in practice. */
#define RP_MAX_DIMS 16u

/* Longest time to live: as for deadlines, 24 days. Without one data stay until they are dropped. */
#define RP_MAX_TTL_MS 0x7fffffffu

/* A device's IPC handle: a cudaIpcMemHandle_t. */
#define RP_DEVICE_HANDLE 64u

/* A GPU's identity, as CUDA has it. */
#define RP_UUID 16u

/* Devices of one daemon: a number of them fits into five bits of STORE's flags. Machines have up to 16 GPUs. */
#define RP_MAX_GPUS 30u

/* Allocations of other processes on the device that are mapped, of one user and of all together: each takes addresses and
 * entries of its page tables. */
#define RP_MAX_USER_DEVICES 128u
#define RP_MAX_DEVICES 256u

/* Fdpass channels without an ATTACH so far: with one more, the oldest of them is closed. */
#define RP_MAX_UNAUTHENTICATED 64u

/* Descriptors of one user that wait to be closed, which may hang: with more, the user's fdpass channels are closed instead of
 * read. As many as files that a user may pass. */
#define RP_MAX_USER_CLOSING RP_MAX_USER_FILES

/* Elements of one result: counts stay far below 2^63 when states merge. */
#define RP_MAX_COUNT (UINT64_C(1) << 60)

/* States of the groups of one request by key. Enough for 10^7 sums of f32, 3 x 10^6 of f64. A group has its state and what
 * precedes it. The CPU reads all keys again for each 10^6 sums of floats or, if many of these have elements of very different
 * sizes, for each 32 MiB of states. */
#define RP_MAX_GROUPS_BYTES (1u << 30)
#define RP_MAX_STREAM_GROUPS_BYTES \
    (256u << 10) /* of their states in a stream: each chunk gives them all, and the loop merges them */
#define RP_GROUP_SIZE 32u

/* Longest deadline: 24 days, what fits the field as a signed number of milliseconds. */
#define RP_MAX_DEADLINE_MS 0x7fffffffu

#endif
