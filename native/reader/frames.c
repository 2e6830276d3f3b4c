/* Frames from and to the harness. Outgoing frames are gathered, so that many small answers travel as one. */
#include <asm/ioctls.h>

#include "reader.h"

static uint8_t incoming[sizeof(struct Header) + MOST_REQUEST_BYTES + 1];
static size_t incoming_bytes;
static uint8_t outgoing[2 * (sizeof(struct Header) + MOST_DATA_BYTES)];
static size_t outgoing_bytes;

/* Time when the harness was last heard, and how long it may be silent. */
uint64_t heard_ns, patience_ns = 30 * SECOND_NS;

static bool is_mute;

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
    struct Header header = {.bytes = (uint32_t)bytes, .number = number, .kind = kind};
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
        if (header.bytes > MOST_REQUEST_BYTES)
            end_all();
        uint8_t *data = incoming + used + sizeof header, *end = data + header.bytes;
        if (end > incoming + incoming_bytes)
            break;
        /* Texts end with a 0, which takes the place of the next header for that time. */
        uint8_t next = *end;
        *end = 0;
        answer(&header, (char *)data);
        *end = next;
        used += sizeof header + header.bytes;
    }
    incoming_bytes -= used;
    memmove(incoming, incoming + used, incoming_bytes);
}
