/* Copies ordinary events of a Chrome trace with other times, processes, threads and ids: what `timeline.rewriting` does,
 * only sooner.
 *
 * The events were read strictly before, so that a value nobody asks for is only passed over here. Whatever is not ordinary
 * makes the whole text "not mine", and Python rewrites it: every doubt may be answered so. A file may have changed since
 * it was read: no text, whatever it holds, may lead beyond its own end or that of the room for the new one.
 *
 * C99 as GCC and Clang compile it, and the standard library; no state at all.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define PUBLIC __attribute__((visibility("default")))

typedef unsigned char byte;

enum { DONE, NOT_MINE };

#define TRY(step)              \
    do {                       \
        if ((step) != DONE)    \
            return NOT_MINE;   \
    } while (0)

/* --- What Python hands over and gets back ------------------------------------------------------------------------- */

/* Some text; NULL where there is none. */
typedef struct {
    const byte *at;
    int64_t size;
} Span;

/* A process and a thread as they are spelled in the file, empty where an event names none, and their new numbers. */
typedef struct {
    Span pid, tid;
    Span new_pid, new_tid;
    int64_t lane;
} Track;

/* What is changed. ``slots`` are filled here: a table of the tracks, of a power of two, more than twice as many. */
typedef struct {
    int64_t delta_ns, drift_ppt, about_ns;
    int64_t add;
    const int64_t *known; /* sorted, NULL where numbers are only moved */
    int64_t known_count;
    Span prefix; /* as JSON spells it */
    const Span *gpu_lanes, *launch_flows;
    int64_t gpu_lanes_count, launch_flows_count;
    Span id_phases; /* a letter each */
    const Track *tracks;
    int64_t tracks_count;
    int32_t *slots; /* place + 1, 0 where free */
    int64_t slots_count;
} Plan;

/* How large the new text is, and how many events were written; of them arrows, and metadata that was left out. */
typedef struct {
    int64_t size;
    int64_t events, metadata;
    int64_t starts, steps, ends;
} Written;

/* --- Limits ------------------------------------------------------------------------------------------------------- */

#define LARGEST_TIME ((int64_t)1 << 62)
#define LARGEST_DRIFT ((int64_t)1 << 60)
#define PART_PER_TRILLION ((int64_t)1000000000000)
#define BELOW_END ((int64_t)1000000000000000)
#define LARGEST_WHOLE ((int64_t)4000000000000000) /* in us, so that two of them fit as ns: those since 1970 are 1.8e15 */
enum { WHOLE_DIGITS = 16, NS_DIGITS = 3, BELOW_DIGITS = 15, ID_DIGITS = 19, HEX_DIGITS = 16 };
enum { LONGEST_NUMBER = 24 };
/* By how much an event may grow, prefixes left out: two times, two ids, a process and a thread with their keys. */
enum { MOST_GROWTH = 8 * (LONGEST_NUMBER + 8) };

enum { ON_HOST, ON_GPU, ANYWHERE, FLOW_END, LANES };

/* --- Tracks ------------------------------------------------------------------------------------------------------- */

static int is_same(Span one, Span other)
{
    return one.size == other.size && (one.size == 0 || memcmp(one.at, other.at, (size_t)one.size) == 0);
}

static uint64_t hash_of(Span pid, Span tid, int64_t lane)
{
    uint64_t hash = UINT64_C(0xCBF29CE484222325) ^ (uint64_t)lane;
    for (int64_t index = 0; index < pid.size; index++)
        hash = (hash ^ pid.at[index]) * UINT64_C(0x100000001B3);
    hash = (hash ^ 0xFF) * UINT64_C(0x100000001B3);
    for (int64_t index = 0; index < tid.size; index++)
        hash = (hash ^ tid.at[index]) * UINT64_C(0x100000001B3);
    return hash ^ (hash >> 32);
}

static int is_track(const Track *track, Span pid, Span tid, int64_t lane)
{
    return track->lane == lane && is_same(track->pid, pid) && is_same(track->tid, tid);
}

/* NULL where there is none. */
static const Track *track_of(const Plan *plan, Span pid, Span tid, int64_t lane)
{
    uint64_t last = (uint64_t)plan->slots_count - 1;
    for (uint64_t slot = hash_of(pid, tid, lane) & last; plan->slots[slot]; slot = (slot + 1) & last) {
        const Track *track = &plan->tracks[plan->slots[slot] - 1];
        if (is_track(track, pid, tid, lane))
            return track;
    }
    return NULL;
}

/* --- Reading ------------------------------------------------------------------------------------------------------ */

enum { PHASE, CATEGORY, TIME, DURATION, PROCESS, THREAD, ID, BOUND_ID, SCOPE, FIELDS, OTHER = FIELDS, ODD };

/* An event: from its opening brace to behind its closing one, and where its fields' values are, in order. */
typedef struct {
    const byte *start, *end;
    Span fields[FIELDS];
    int order[FIELDS];
    int count;
} Event;

typedef struct {
    const Plan *plan;
    const byte *at, *end;
    byte *to, *to_end;
    const Track *last[LANES];
    int is_raw;           /* whether escapes of four digits stand for nothing that could be spelled without */
    int is_escaped;       /* whether there were any */
    Written *written;
} Splice;

#define ONES UINT64_C(0x0101010101010101)
#define HIGHS (ONES * 0x80)

/* How many of the next eight bytes, up to seven, are neither a quote nor a backslash; 8 where all are. */
static int plain_bytes(const byte *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    uint64_t quotes = word ^ (ONES * '"'), slashes = word ^ (ONES * '\\');
    /* The lowest mark is right; above it a borrow may have set more. */
    uint64_t marks = (((quotes - ONES) & ~quotes) | ((slashes - ONES) & ~slashes)) & HIGHS;
    return marks ? __builtin_ctzll(marks) / 8 : 8;
}

/* From behind a text's first quote to behind its last; NULL where it does not end. */
static const byte *behind_text(Splice *splice, const byte *at)
{
    const byte *end = splice->end;
    for (;;) {
        while (end - at >= 8) {
            int plain = plain_bytes(at);
            at += plain;
            if (plain < 8)
                break;
        }
        if (at == end)
            return NULL;
        if (*at == '"')
            return at + 1;
        if (*at == '\\') {
            if (end - at < 2)
                return NULL;
            at++;
            splice->is_escaped |= *at == 'u';
        }
        at++;
    }
}

/* What an object or a list is told by. */
static const byte MARKS[256] = {['"'] = 1, ['{'] = 2, ['['] = 2, ['}'] = 3, [']'] = 3};

/* From behind the first bracket of an object or a list to behind its last. */
static const byte *behind_brackets(Splice *splice, const byte *at)
{
    const byte *end = splice->end;
    for (int64_t depth = 1; at < end;) {
        switch (MARKS[*at++]) {
        case 0:
            break;
        case 1:
            at = behind_text(splice, at);
            if (!at)
                return NULL;
            break;
        case 2:
            depth++;
            break;
        default:
            if (--depth == 0)
                return at;
        }
    }
    return NULL;
}

static int is_space(byte letter)
{
    return letter == ' ' || letter == '\n' || letter == '\r' || letter == '\t';
}

static const byte *behind_value(Splice *splice, const byte *at)
{
    if (*at == '"')
        return behind_text(splice, at + 1);
    if (*at == '{' || *at == '[')
        return behind_brackets(splice, at + 1);
    while (at < splice->end && *at != ',' && *at != '}' && !is_space(*at))
        at++;
    return at;
}

static int to_token(Splice *splice)
{
    while (splice->at < splice->end && is_space(*splice->at))
        splice->at++;
    return splice->at < splice->end ? DONE : NOT_MINE;
}

static int is_word(const byte *at, int64_t size, const char *word)
{
    return size == (int64_t)strlen(word) && memcmp(at, word, (size_t)size) == 0;
}

/* Which field a key is of. What spells a printable letter by an escape is not taken, see `gputrace_splice`. */
static int field_of(const byte *at, int64_t size)
{
    switch (size) {
    case 1:
        return *at == 's' ? SCOPE : OTHER;
    case 2:
        return is_word(at, 2, "ts") ? TIME : is_word(at, 2, "ph") ? PHASE : is_word(at, 2, "id") ? ID : OTHER;
    case 3:
        return is_word(at, 3, "cat") ? CATEGORY : is_word(at, 3, "pid") ? PROCESS : is_word(at, 3, "tid") ? THREAD
             : is_word(at, 3, "dur") ? DURATION : is_word(at, 3, "id2") ? ODD : OTHER;
    case 7:
        return is_word(at, 7, "bind_id") ? BOUND_ID : OTHER;
    default:
        return OTHER;
    }
}

/* One key and its value. */
static int member(Splice *splice, Event *event)
{
    TRY(to_token(splice));
    if (*splice->at++ != '"')
        return NOT_MINE;
    const byte *start = splice->at;
    splice->at = behind_text(splice, start);
    if (!splice->at)
        return NOT_MINE;
    int field = field_of(start, splice->at - 1 - start);
    TRY(to_token(splice));
    if (*splice->at++ != ':')
        return NOT_MINE;
    TRY(to_token(splice));
    start = splice->at;
    splice->at = behind_value(splice, start);
    if (!splice->at || splice->at == start || field == ODD)
        return NOT_MINE;
    if (field == OTHER)
        return DONE;
    if (event->fields[field].at)
        return NOT_MINE;
    event->fields[field] = (Span){start, splice->at - start};
    event->order[event->count++] = field;
    return DONE;
}

static int read_event(Splice *splice, Event *event)
{
    memset(event, 0, sizeof *event);
    TRY(to_token(splice));
    event->start = splice->at;
    if (*splice->at++ != '{')
        return NOT_MINE;
    for (;;) {
        TRY(member(splice, event));
        TRY(to_token(splice));
        byte next = *splice->at++;
        if (next == '}')
            break;
        if (next != ',')
            return NOT_MINE;
    }
    event->end = splice->at;
    return DONE;
}

/* The text within the quotes of a value; one that is missing is empty. */
static int inner(Span value, Span *text)
{
    *text = (Span){NULL, 0};
    if (!value.at)
        return DONE;
    if (*value.at != '"' || memchr(value.at, '\\', (size_t)value.size))
        return NOT_MINE;
    *text = (Span){value.at + 1, value.size - 2};
    return DONE;
}

static int is_among(Span text, const Span *words, int64_t count)
{
    for (int64_t index = 0; index < count; index++)
        if (is_same(text, words[index]))
            return 1;
    return 0;
}

/* --- Times -------------------------------------------------------------------------------------------------------- */

/* A number of microseconds, not negative: its whole nanoseconds, and its digits below them. */
typedef struct {
    int64_t ns;
    Span below;
} Time;

static int is_digit(byte letter)
{
    return (byte)(letter - '0') < 10;
}

static int time_of(Span value, Time *time)
{
    const byte *at = value.at, *end = value.at + value.size;
    int64_t ns = 0;
    for (; at < end && is_digit(*at); at++) {
        if (at - value.at == WHOLE_DIGITS)
            return NOT_MINE;
        ns = ns * 10 + (*at - '0');
    }
    if (at == value.at || ns > LARGEST_WHOLE)
        return NOT_MINE;
    int missing = NS_DIGITS;
    if (at < end && *at == '.') {
        at++;
        for (; at < end && missing && is_digit(*at); at++, missing--)
            ns = ns * 10 + (*at - '0');
        if (missing == NS_DIGITS)
            return NOT_MINE;
    }
    while (missing--)
        ns *= 10;
    time->below.at = at;
    while (at < end && is_digit(*at))
        at++;
    time->below.size = at - time->below.at;
    time->ns = ns;
    return at == end ? DONE : NOT_MINE;
}

/* The time on the timeline, which is not negative. */
static int moved(const Plan *plan, int64_t time_ns, int64_t *new_ns)
{
    int64_t stretched = 0;
    if (plan->drift_ppt) {
#if defined(__SIZEOF_INT128__)
        __extension__ typedef __int128 Wide;
        Wide product = ((Wide)time_ns - plan->about_ns) * plan->drift_ppt;
        Wide quotient;
        if (product >= INT64_MIN && product <= INT64_MAX) /* divided sooner */
            quotient = (int64_t)product / PART_PER_TRILLION;
        else
            quotient = product / PART_PER_TRILLION;
        quotient -= quotient * PART_PER_TRILLION > product;
        if (quotient < -LARGEST_TIME || quotient > LARGEST_TIME)
            return NOT_MINE;
        stretched = (int64_t)quotient;
#else
        return NOT_MINE;
#endif
    }
    if (__builtin_add_overflow(time_ns, plan->delta_ns, new_ns) || __builtin_add_overflow(*new_ns, stretched, new_ns))
        return NOT_MINE;
    return *new_ns < 0 ? NOT_MINE : DONE;
}

/* The digits below the ns in units of 1e-15 of it. */
static int below_of(const Time *time, int64_t *below)
{
    if (time->below.size > BELOW_DIGITS)
        return NOT_MINE;
    int64_t value = 0;
    for (int64_t index = 0; index < BELOW_DIGITS; index++)
        value = value * 10 + (index < time->below.size ? time->below.at[index] - '0' : 0);
    *below = value;
    return DONE;
}

/* --- Writing: whoever calls has seen to it that there is room ----------------------------------------------------- */

static byte *put(byte *to, const byte *at, int64_t size)
{
    if (size)
        memcpy(to, at, (size_t)size);
    return to + size;
}

static byte *put_word(byte *to, const char *word)
{
    return put(to, (const byte *)word, (int64_t)strlen(word));
}

static byte *put_number(byte *to, uint64_t number, unsigned base)
{
    byte digits[LONGEST_NUMBER], *at = digits + sizeof digits;
    do {
        *--at = (byte) "0123456789abcdef"[number % base];
        number /= base;
    } while (number);
    return put(to, at, digits + sizeof digits - at);
}

static byte *put_signed(byte *to, int64_t number)
{
    if (number >= 0)
        return put_number(to, (uint64_t)number, 10);
    *to++ = '-';
    return put_number(to, 0 - (uint64_t)number, 10);
}

/* Nanoseconds, and digits below them, as microseconds. */
static byte *put_time(byte *to, int64_t ns, Span below)
{
    to = put_number(to, (uint64_t)ns / 1000, 10);
    unsigned rest = (unsigned)(ns % 1000);
    if (!rest && !below.size)
        return to;
    *to++ = '.';
    *to++ = (byte)('0' + rest / 100);
    *to++ = (byte)('0' + rest / 10 % 10);
    *to++ = (byte)('0' + rest % 10);
    return put(to, below.at, below.size);
}

/* --- Ids ---------------------------------------------------------------------------------------------------------- */

static int new_number(const Plan *plan, uint64_t old, int64_t *number)
{
    int64_t value = (int64_t)old; /* as viewers keep it */
    if (plan->known) {
        int64_t low = 0, high = plan->known_count;
        while (low < high) {
            int64_t middle = low + (high - low) / 2;
            if (plan->known[middle] < value)
                low = middle + 1;
            else
                high = middle;
        }
        value = low;
    }
    return __builtin_add_overflow(value, plan->add, number) ? NOT_MINE : DONE;
}

static int is_hex(Span text, int is_bare, uint64_t *number)
{
    int64_t start = text.size > 2 && text.at[0] == '0' && (text.at[1] | 0x20) == 'x' ? 2 : 0;
    if ((!start && !is_bare) || text.size == start || text.size > start + HEX_DIGITS)
        return 0;
    *number = 0;
    for (int64_t index = start; index < text.size; index++) {
        byte letter = text.at[index], lower = letter | 0x20;
        if (is_digit(letter))
            *number = *number * 16 + (uint64_t)(letter - '0');
        else if (lower >= 'a' && lower <= 'f')
            *number = *number * 16 + (uint64_t)(lower - 'a' + 10);
        else
            return 0;
    }
    return 1;
}

static int put_id_text(const Plan *plan, Span text, int binds, byte **to)
{
    uint64_t old;
    int64_t number;
    *(*to)++ = '"';
    if (is_hex(text, binds, &old)) {
        TRY(new_number(plan, old, &number));
        *to = put_word(*to, number < 0 ? "-0x" : "0x");
        *to = put_number(*to, number < 0 ? 0 - (uint64_t)number : (uint64_t)number, 16);
    } else {
        *to = put(*to, plan->prefix.at, plan->prefix.size);
        *to = put(*to, text.at, text.size);
    }
    *(*to)++ = '"';
    return DONE;
}

static int put_id(const Plan *plan, Span value, int binds, byte **to)
{
    if (*value.at == '"')
        return put_id_text(plan, (Span){value.at + 1, value.size - 2}, binds, to);
    const byte *end = value.at + value.size;
    int is_negative = *value.at == '-';
    const byte *start = value.at + is_negative, *at = start;
    uint64_t old = 0;
    for (; at < end && is_digit(*at); at++) {
        if (at - start == ID_DIGITS)
            return NOT_MINE;
        old = old * 10 + (uint64_t)(*at - '0');
    }
    if (at == start || at != end)
        return NOT_MINE;
    int64_t number;
    TRY(new_number(plan, is_negative ? 0 - old : old, &number));
    *to = put_signed(*to, number);
    return DONE;
}

/* --- Events ------------------------------------------------------------------------------------------------------- */

static Span named(Span value)
{
    return value.at && value.size == 4 && memcmp(value.at, "null", 4) == 0 ? (Span){NULL, 0} : value;
}

/* As `vocabulary.lane_of` has it. */
static int64_t lane_of(const Plan *plan, Span category, Span phase)
{
    byte letter = phase.size == 1 ? *phase.at : 0;
    if (is_among(category, plan->gpu_lanes, plan->gpu_lanes_count))
        return ON_GPU;
    if (letter == 'X' || letter == 'B')
        return ON_HOST;
    return letter == 'f' && is_among(category, plan->launch_flows, plan->launch_flows_count) ? FLOW_END : ANYWHERE;
}

static int find_track(Splice *splice, const Event *event, Span phase, const Track **found)
{
    const Plan *plan = splice->plan;
    Span category, pid = named(event->fields[PROCESS]), tid = named(event->fields[THREAD]);
    TRY(inner(event->fields[CATEGORY], &category));
    int64_t lane = lane_of(plan, category, phase);
    const Track **last = &splice->last[lane];
    if (!*last || !is_track(*last, pid, tid, lane))
        *last = track_of(plan, pid, tid, lane);
    *found = *last;
    return *last ? DONE : NOT_MINE;
}

/* The new time and duration, where the event has them. */
static int put_moment(Splice *splice, const Event *event, int field, byte **to)
{
    const Plan *plan = splice->plan;
    const Span nothing = {NULL, 0};
    Time time, duration;
    int64_t new_ns, below, more, end_ns;
    TRY(time_of(event->fields[TIME], &time));
    TRY(moved(plan, time.ns, &new_ns));
    if (field == TIME) {
        *to = put_time(*to, new_ns, plan->drift_ppt ? nothing : time.below);
        return DONE;
    }
    TRY(time_of(event->fields[DURATION], &duration));
    TRY(below_of(&time, &below));
    TRY(below_of(&duration, &more));
    TRY(moved(plan, time.ns + duration.ns + (below + more >= BELOW_END), &end_ns));
    if (end_ns < new_ns)
        return NOT_MINE;
    *to = put_time(*to, end_ns - new_ns, nothing);
    return DONE;
}

static int is_replaced(const Plan *plan, const Event *event, int field, Span phase)
{
    switch (field) {
    case TIME: case PROCESS: case THREAD: case BOUND_ID:
        return 1;
    case DURATION:
        return plan->drift_ppt && event->fields[TIME].at;
    case ID:
        return phase.size == 1 && memchr(plan->id_phases.at, *phase.at, (size_t)plan->id_phases.size);
    case SCOPE: /* an instant of the whole trace, which is one of its process among others */
        return phase.size == 1 && (*phase.at == 'i' || *phase.at == 'I') &&
               is_word(event->fields[SCOPE].at, event->fields[SCOPE].size, "\"g\"");
    default:
        return 0;
    }
}

static int write_event(Splice *splice, const Event *event, Span phase)
{
    const Plan *plan = splice->plan;
    const Track *track;
    TRY(find_track(splice, event, phase, &track));
    if (splice->to_end - splice->to < event->end - event->start + MOST_GROWTH + 2 * plan->prefix.size)
        return NOT_MINE;
    byte *to = splice->written->events ? put_word(splice->to, ",\n") : splice->to;
    const byte *from = event->start;
    for (int index = 0; index < event->count; index++) {
        int field = event->order[index];
        Span value = event->fields[field];
        if (!is_replaced(plan, event, field, phase))
            continue;
        to = put(to, from, value.at - from);
        from = value.at + value.size;
        if (field == PROCESS)
            to = put(to, track->new_pid.at, track->new_pid.size);
        else if (field == THREAD)
            to = put(to, track->new_tid.at, track->new_tid.size);
        else if (field == SCOPE)
            to = put_word(to, "\"p\"");
        else if (field == TIME || field == DURATION)
            TRY(put_moment(splice, event, field, &to));
        else
            TRY(put_id(plan, value, field == BOUND_ID, &to));
    }
    to = put(to, from, event->end - 1 - from);
    if (!event->fields[PROCESS].at)
        to = put(put_word(to, ",\"pid\":"), track->new_pid.at, track->new_pid.size);
    if (!event->fields[THREAD].at)
        to = put(put_word(to, ",\"tid\":"), track->new_tid.at, track->new_tid.size);
    *to++ = '}';
    splice->to = to;
    return DONE;
}

static int splice_event(Splice *splice)
{
    Written *written = splice->written;
    Event event;
    Span phase;
    TRY(read_event(splice, &event));
    if (splice->is_escaped && !splice->is_raw)
        return NOT_MINE;
    TRY(inner(event.fields[PHASE], &phase));
    byte letter = phase.size == 1 ? *phase.at : 0;
    if (letter == 'M') {
        written->metadata++;
        return DONE;
    }
    TRY(write_event(splice, &event, phase));
    written->events++;
    written->starts += letter == 's';
    written->steps += letter == 't';
    written->ends += letter == 'f';
    return DONE;
}

static int splice_events(Splice *splice)
{
    if (to_token(splice) != DONE)
        return DONE; /* there is nothing */
    for (;;) {
        TRY(splice_event(splice));
        if (to_token(splice) != DONE)
            return DONE;
        if (*splice->at++ != ',')
            return NOT_MINE;
    }
}

/* --- What Python calls -------------------------------------------------------------------------------------------- */

PUBLIC int32_t gputrace_splice_ready(const Plan *plan);
PUBLIC int32_t gputrace_splice(const Plan *plan, const byte *text, int64_t size, int32_t is_raw, byte *to,
                               int64_t room, Written *written);

/* Fill the table of tracks, of which no two are the same; 0 where the plan can be carried out here. */
int32_t gputrace_splice_ready(const Plan *plan)
{
    uint64_t last = (uint64_t)plan->slots_count - 1;
    if (plan->slots_count < 2 || ((uint64_t)plan->slots_count & last) || plan->tracks_count >= plan->slots_count / 2)
        return NOT_MINE;
    if (plan->delta_ns < -LARGEST_TIME || plan->delta_ns > LARGEST_TIME || plan->about_ns < -LARGEST_TIME ||
        plan->about_ns > LARGEST_TIME || plan->drift_ppt < -LARGEST_DRIFT || plan->drift_ppt > LARGEST_DRIFT)
        return NOT_MINE;
    memset(plan->slots, 0, (size_t)plan->slots_count * sizeof *plan->slots);
    for (int64_t index = 0; index < plan->tracks_count; index++) {
        const Track *track = &plan->tracks[index];
        if (track->new_pid.size > LONGEST_NUMBER || track->new_tid.size > LONGEST_NUMBER)
            return NOT_MINE;
        uint64_t slot = hash_of(track->pid, track->tid, track->lane) & last;
        while (plan->slots[slot])
            slot = (slot + 1) & last;
        plan->slots[slot] = (int32_t)(index + 1);
    }
    return DONE;
}

/* Rewrite whole events, parted by commas, into ``to``; 0 where all could be.
 *
 * Text with escapes of four digits is taken only if it ``is_raw``: if they stand for no printable character. */
int32_t gputrace_splice(const Plan *plan, const byte *text, int64_t size, int32_t is_raw, byte *to, int64_t room,
                        Written *written)
{
    memset(written, 0, sizeof *written);
    if (size < 0 || room < 0)
        return NOT_MINE;
    Splice splice = {.plan = plan, .at = text, .end = text + size, .to = to, .to_end = to + room,
                     .is_raw = is_raw, .written = written};
    TRY(splice_events(&splice));
    written->size = splice.to - to;
    return DONE;
}
