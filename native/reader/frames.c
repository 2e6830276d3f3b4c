/* Frames from and to the harness. Outgoing frames are gathered, so that many small answers travel as one. */
#include <asm/ioctls.h>

#include "reader.h"

static uint8_t incoming[sizeof(struct Header) + MOST_REQUEST_BYTES + 1];
static size_t incoming_bytes;
static uint8_t outgoing[2 * (sizeof(struct Header) + MOST_DATA_BYTES)];
static size_t outgoing_bytes;

/* Time when the harness was last heard, and how long it may be silent. */
uint64_t heard_ns, patience_ns = 30 * SECOND_NS;

/* Time for which a frame may stay incomplete: a slow line carries the longest one in less. */
#define INCOMPLETE_LIMIT_NS (20 * SECOND_NS)

/* Numbers of the next frames. */
static uint32_t next_incoming, next_outgoing;
/* Time when the first bytes of an incomplete frame came; NEVER if there is none. */
static uint64_t begun_ns = NEVER;

static bool is_mute;

/* Returns the CRC-32 of zlib. Half a byte at a time: a whole table would be a quarter of a page. */
static uint32_t checksum_of(const void *data, size_t bytes)
{
    static const uint32_t table[16] = {
        0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
        0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c, 0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c,
    };
    const uint8_t *next = data;
    uint32_t sum = 0xffffffff;
    for (size_t index = 0; index < bytes; index++) {
        sum ^= next[index];
        sum = sum >> 4 ^ table[sum & 15];
        sum = sum >> 4 ^ table[sum & 15];
    }
    return ~sum;
}

/* The reader is ending: nobody waits for more. */
void send_nothing_more(void)
{
    is_mute = true;
}

/* Notes whether more has come from the harness, without reading it. */
static void listen(void)
{
    static int known_bytes;
    int bytes = 0;
    if (CALL(ioctl, 0, FIONREAD, &bytes) >= 0 && bytes != known_bytes)
        heard_ns = now_ns();
    known_bytes = bytes;
}

void flush(void)
{
    size_t sent = is_mute ? outgoing_bytes : 0;
    while (sent < outgoing_bytes) {
        long written = CALL(write, 1, outgoing + sent, outgoing_bytes - sent);
        if (written > 0) {
            sent += (size_t)written;
            continue;
        }
        struct Poll poll = {.fd = 1, .events = POLL_OUT};
        struct timespec wait = {.tv_sec = 1};
        if (written == -EAGAIN)
            CALL(ppoll, &poll, 1, &wait);
        /* The pipe is full. The harness may be busy and still send signs of life. */
        listen();
        if ((written != -EAGAIN && written != -EINTR) || now_ns() - heard_ns > patience_ns)
            end_all();
    }
    outgoing_bytes = 0;
}

void send(uint32_t number, uint8_t kind, const void *data, size_t bytes)
{
    if (kind != EVENT_SAMPLES)
        send_samples(); /* samples come before frames that are later than they are */
    struct Header header = {
        .bytes = (uint32_t)bytes,
        .number = number,
        .frame = next_outgoing++,
        .content_checksum = checksum_of(data, bytes),
        .kind = kind,
    };
    header.checksum = checksum_of(&header, offsetof(struct Header, checksum));
    if (outgoing_bytes + sizeof header + bytes > sizeof outgoing)
        flush();
    memcpy(outgoing + outgoing_bytes, &header, sizeof header);
    memcpy(outgoing + outgoing_bytes + sizeof header, data, bytes);
    outgoing_bytes += sizeof header + bytes;
}

void reply(uint32_t number, const void *data, size_t bytes)
{
    send(number, REPLY_DONE, data, bytes);
}

/* Replies that the request is done, or with the error of a system call. */
void reply_result(uint32_t number, long result)
{
    uint32_t error = (uint32_t)-result;
    if (result < 0)
        send(number, REPLY_ERROR, &error, sizeof error);
    else
        reply(number, NULL, 0);
}

/* Tells the harness that one of its frames was damaged, and ends all. */
static _Noreturn void end_for(uint32_t damage)
{
    send(0, EVENT_BROKEN, &damage, sizeof damage);
    flush();
    end_all();
}

void end_if_incomplete(void)
{
    if (begun_ns != NEVER && now_ns() - begun_ns > INCOMPLETE_LIMIT_NS)
        end_for(DAMAGE_INCOMPLETE);
}

/* Ends all if the header is not the next one that was sent. */
static void check_header(const struct Header *header)
{
    if (header->checksum != checksum_of(header, offsetof(struct Header, checksum)))
        end_for(DAMAGE_HEADER);
    if (header->bytes > MOST_REQUEST_BYTES)
        end_for(DAMAGE_LENGTH);
    if (header->frame != next_incoming)
        end_for(DAMAGE_ORDER);
}

/* Reads from the harness, and answers all complete requests. */
void receive(void)
{
    long count = CALL(read, 0, incoming + incoming_bytes, sizeof incoming - 1 - incoming_bytes);
    if (count == -EAGAIN || count == -EINTR)
        return;
    if (count <= 0)
        end_all();
    heard_ns = now_ns();
    incoming_bytes += (size_t)count;

    size_t used = 0;
    struct Header header;
    while (incoming_bytes - used >= sizeof header) {
        memcpy(&header, incoming + used, sizeof header);
        check_header(&header);
        uint8_t *data = incoming + used + sizeof header, *end = data + header.bytes;
        if (end > incoming + incoming_bytes)
            break;
        if (header.content_checksum != checksum_of(data, header.bytes))
            end_for(DAMAGE_CONTENT);
        next_incoming++;
        begun_ns = NEVER;
        /* Texts end with a 0, which takes the place of the next header for that time. */
        uint8_t next = *end;
        *end = 0;
        answer(&header, (char *)data);
        *end = next;
        used += sizeof header + header.bytes;
    }
    incoming_bytes -= used;
    memmove(incoming, incoming + used, incoming_bytes);
    if (!incoming_bytes)
        begun_ns = NEVER;
    else if (begun_ns == NEVER)
        begun_ns = now_ns();
}
