/* Reads ordinary events of a Chrome trace into columns: what `columns.EventBuilder` makes of them, only sooner.
 *
 * Whatever is not ordinary makes the whole text "not mine": Python reads it, and finds and names what is wrong. So
 * nothing is decided here but that a text is clean, and every doubt may be answered by NOT_MINE. Clean means: the
 * grammar of JSON (RFC 8259), UTF-8, no control character, no half surrogate, no escape that may be meant as a Windows
 * path, no number that a double may not hold, no key twice in an object, values of the types that the columns need.
 *
 * C99 as GCC and Clang compile it, and the standard library; no state outside of a context, which is one file's.
 */
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Told to Python, which loads no library of another version: change it with anything it calls or hands over. */
#define VERSION 4

#define PUBLIC __attribute__((visibility("default")))

typedef unsigned char byte;

/* How far a step came: it is through, the text ends within it, or it is for Python to read. */
enum { DONE, CUT, NOT_MINE };

#define TRY(step)                \
    do {                         \
        int status_ = (step);    \
        if (status_ != DONE)     \
            return status_;      \
    } while (0)

/* More than an event nests, and keys than it has in one object. */
enum { DEEPEST = 64, MOST_KEYS = 128 };
/* With an exponent of two digits so many digits stay far below the largest double, 1.8e308. */
enum { MOST_DIGITS = 200, EXACT_DIGITS = 19, MOST_EXPONENT_DIGITS = 2 };
enum { NODES = 1 << 16, EDGES = 1 << 17, MOST_PROBES = 512 };
enum { NO_ID = -1, FIRST_TEXT_ID = -2 };
#define LARGEST_TEXT ((int64_t)1 << 30)
#define MOST_TEXTS ((int32_t)1 << 28)

/* --- What Python hands over and gets back ------------------------------------------------------------------------- */

enum { TEXTS = 3, TIMES = 2, IDS = 8 };

/* One run of events. The arrays have room for ``room`` of them. A text is its code; in a column of ids, -2 - code. */
typedef struct {
    int32_t *texts[TEXTS]; /* ph, cat, name */
    double *times[TIMES];  /* ts, dur */
    int64_t *ids[IDS];     /* pid, tid, id; correlation, device, stream, bytes, Process Group Name */
    int64_t room;
    /* The last event with a comma right behind it: its end, and how many events there are up to it. */
    int64_t tight_end, tight_count;
    /* The last comma between two events. */
    int64_t comma, comma_count;
    /* Where the list is closed, -1 where it is not. */
    int64_t close, close_count;
} Rows;

/* --- Texts, each kept once: its code is the order of its first appearance ----------------------------------------- */

typedef struct {
    uint64_t hash;
    size_t start;
    size_t size;
} Text;

typedef struct {
    byte *bytes;
    size_t used, bytes_room;
    Text *texts;
    int32_t count, texts_room;
    int32_t *slots; /* code + 1, 0 where free */
    size_t slots_room;
} Pool;

static uint64_t word_at(const byte *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    return word;
}

static uint64_t mixed(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x9E3779B97F4A7C15);
    return hash ^ (hash >> 32);
}

static uint64_t hash_of(const byte *at, size_t size)
{
    uint64_t hash = mixed(UINT64_C(0x2545F4914F6CDD1D), size);
    for (; size >= 8; at += 8, size -= 8)
        hash = mixed(hash, word_at(at));
    if (size) {
        byte last[8] = {0};
        memcpy(last, at, size);
        hash = mixed(hash, word_at(last));
    }
    return hash;
}

/* memcmp, for texts too short to be worth a call. */
static int is_same(const byte *one, const byte *other, size_t size)
{
    if (size >= 8) {
        for (; size > 8; one += 8, other += 8, size -= 8)
            if (word_at(one) != word_at(other))
                return 0;
        return word_at(one + size - 8) == word_at(other + size - 8); /* reaches back into what was compared */
    }
    while (size--)
        if (one[size] != other[size])
            return 0;
    return 1;
}

static int is_text(const Pool *pool, int32_t code, const byte *at, size_t size)
{
    const Text *text = &pool->texts[code];
    return text->size == size && is_same(pool->bytes + text->start, at, size);
}

/* Room for one more of what there are ``used`` of; NULL, and ``items`` as they were, where there is no memory. */
static void *grown(void *items, size_t used, size_t more, size_t *room, size_t width)
{
    if (used + more <= *room)
        return items;
    size_t wanted = 2 * (used + more) + 64;
    void *larger = realloc(items, wanted * width);
    if (larger)
        *room = wanted;
    return larger;
}

static int rehash(Pool *pool)
{
    size_t room = pool->slots_room ? 2 * pool->slots_room : 1024;
    int32_t *slots = calloc(room, sizeof *slots);
    if (!slots)
        return 0;
    for (int32_t code = 0; code < pool->count; code++) {
        size_t slot = pool->texts[code].hash & (room - 1);
        while (slots[slot])
            slot = (slot + 1) & (room - 1);
        slots[slot] = code + 1;
    }
    free(pool->slots);
    pool->slots = slots;
    pool->slots_room = room;
    return 1;
}

/* The code of a text; -1 where it cannot be had. */
static int32_t code_of(Pool *pool, const byte *at, size_t size)
{
    uint64_t hash = hash_of(at, size);
    if (pool->count >= MOST_TEXTS || (2 * (size_t)pool->count >= pool->slots_room && !rehash(pool)))
        return -1;
    size_t slot = hash & (pool->slots_room - 1);
    for (int probes = 0; pool->slots[slot]; slot = (slot + 1) & (pool->slots_room - 1)) {
        int32_t code = pool->slots[slot] - 1;
        if (pool->texts[code].hash == hash && is_text(pool, code, at, size))
            return code;
        if (++probes == MOST_PROBES)
            return -1;
    }
    byte *bytes = grown(pool->bytes, pool->used, size + 1, &pool->bytes_room, 1);
    if (!bytes)
        return -1;
    pool->bytes = bytes;
    size_t texts_room = (size_t)pool->texts_room;
    Text *texts = grown(pool->texts, (size_t)pool->count, 1, &texts_room, sizeof *texts);
    if (!texts)
        return -1;
    pool->texts = texts;
    pool->texts_room = (int32_t)texts_room;
    memcpy(pool->bytes + pool->used, at, size);
    texts[pool->count] = (Text){hash, pool->used, size};
    pool->used += size;
    pool->slots[slot] = pool->count + 1;
    return pool->count++;
}

/* --- Keys: a tree of their combinations ---
 *
 * Millions of events have a few dozen combinations of keys. A node is what an object has had of keys so far, in order;
 * it was looked at once whether its last key is among those before. The way through the tree also tells which column a
 * value is for.
 */

enum { OF_EVENT, OF_ARGUMENTS, OF_OTHER, ROOTS };
enum {
    NO_FIELD,
    TEXT_FIELD,
    TIME_FIELD = TEXT_FIELD + TEXTS,
    ID_FIELD = TIME_FIELD + TIMES,
    ARGS_FIELD = ID_FIELD + IDS,
};
enum { CATEGORY_FIELD = TEXT_FIELD + 1, EVENT_IDS = 3 };

/* In the order of the fields. */
static const char *const NAMES[] = {
    "ph", "cat", "name", "ts", "dur", "pid", "tid", "id", "correlation", "device", "stream", "bytes",
    "Process Group Name", "args",
};

typedef struct {
    int32_t before; /* the node before, -1 for a root */
    int32_t key;
    int32_t next; /* the key that came after it the last time, 0 for none */
    int16_t count;
    int8_t root;
    int8_t field;
} Node;

typedef struct {
    Pool pool;
    Node *nodes;
    int32_t nodes_count;
    int32_t *edges;       /* nodes by the one before and their key, 0 where free */
    int32_t last[TEXTS];  /* the codes of the event before */
    int32_t has_other_ids;
} Context;

static void forget_keys(Context *context)
{
    memset(context->edges, 0, EDGES * sizeof *context->edges);
    for (int root = 0; root < ROOTS; root++)
        context->nodes[root] = (Node){-1, -1, 0, 0, (int8_t)root, NO_FIELD};
    context->nodes_count = ROOTS;
}

static int field_of(const Pool *pool, int root, int32_t key)
{
    int first_argument = ID_FIELD + EVENT_IDS;
    for (int field = TEXT_FIELD; field <= ARGS_FIELD && root != OF_OTHER; field++) {
        int in_arguments = field >= first_argument && field < ARGS_FIELD;
        const char *name = NAMES[field - TEXT_FIELD];
        if (in_arguments == (root == OF_ARGUMENTS) && is_text(pool, key, (const byte *)name, strlen(name)))
            return field;
    }
    return NO_FIELD;
}

/* Keys of an event beside ``id`` that tie it to others. */
static int is_other_id(const Pool *pool, int root, int32_t key)
{
    return root == OF_EVENT &&
           (is_text(pool, key, (const byte *)"id2", 3) || is_text(pool, key, (const byte *)"bind_id", 7));
}

/* The node that ``key`` leads to from ``from``; -1 where the key comes twice, or there is no room. */
static int32_t node_after(Context *context, int32_t from, int32_t key)
{
    Node *nodes = context->nodes;
    uint64_t hash = mixed(mixed(0, (uint64_t)from), (uint64_t)key);
    size_t edge = hash & (EDGES - 1);
    for (int probes = 0; context->edges[edge]; edge = (edge + 1) & (EDGES - 1)) {
        int32_t node = context->edges[edge];
        if (nodes[node].before == from && nodes[node].key == key)
            return node;
        if (++probes == MOST_PROBES)
            return -1;
    }
    if (context->nodes_count == NODES || nodes[from].count == MOST_KEYS)
        return -1;
    for (int32_t node = from; nodes[node].before >= 0; node = nodes[node].before)
        if (nodes[node].key == key)
            return -1;
    int8_t root = nodes[from].root;
    context->has_other_ids |= is_other_id(&context->pool, root, key);
    int32_t node = context->nodes_count++;
    nodes[node] = (Node){from, key, 0, (int16_t)(nodes[from].count + 1), root,
                         (int8_t)field_of(&context->pool, root, key)};
    context->edges[edge] = node;
    return node;
}

/* --- Tokens ------------------------------------------------------------------------------------------------------- */

typedef struct {
    Context *context;
    Rows *rows;
    int64_t row;
    const byte *at, *end;
    int depth;
    int is_named; /* whether the event has a name or a phase */
} Reader;

static int to_token(Reader *reader)
{
    const byte *at = reader->at;
    while (at < reader->end && (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t'))
        at++;
    reader->at = at;
    return at < reader->end ? DONE : CUT;
}

static int to_char(Reader *reader, byte wanted)
{
    TRY(to_token(reader));
    return *reader->at++ == wanted ? DONE : NOT_MINE;
}

static int word(Reader *reader, const char *letters)
{
    for (; *letters; letters++, reader->at++) {
        if (reader->at == reader->end)
            return CUT;
        if (*reader->at != (byte)*letters)
            return NOT_MINE;
    }
    return DONE;
}

/* One character beyond ASCII, as RFC 3629 has them: none spelled longer than it need be, no half surrogate. */
static int utf8(const byte **place, const byte *end)
{
    const byte *at = *place;
    byte first = *at++;
    int more = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : 1;
    if (first < 0xC2 || first > 0xF4)
        return NOT_MINE;
    for (int index = 0; index < more; index++, at++) {
        if (at == end)
            return CUT;
        byte least = 0x80, most = 0xBF;
        if (index == 0) {
            least = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
            most = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
        }
        if (*at < least || *at > most)
            return NOT_MINE;
    }
    *place = at;
    return DONE;
}

static int hex4(const byte **place, const byte *end, unsigned *value)
{
    const byte *at = *place;
    *value = 0;
    for (int index = 0; index < 4; index++, at++) {
        if (at == end)
            return CUT;
        byte lower = *at | 0x20;
        if (*at >= '0' && *at <= '9')
            *value = *value * 16 + (unsigned)(*at - '0');
        else if (lower >= 'a' && lower <= 'f')
            *value = *value * 16 + (unsigned)(lower - 'a' + 10);
        else
            return NOT_MINE;
    }
    *place = at;
    return DONE;
}

/* An escape, from its backslash on, which is never the first byte of the whole text. */
static int escape(const byte **place, const byte *end)
{
    const byte *at = *place;
    byte before = at[-1];
    if (end - at < 2)
        return CUT;
    byte letter = at[1];
    *place = at + 2;
    switch (letter) {
    case '"': case '\\': case '/':
        return DONE;
    case 'b': case 'f': case 'n': case 'r': case 't':
        return before == ':' ? NOT_MINE : DONE; /* a Windows path? */
    case 'u': {
        unsigned unit, second;
        TRY(hex4(place, end, &unit));
        if (unit < 0xD800 || unit > 0xDFFF)
            return DONE;
        if (end - *place < 2)
            return CUT;
        if (unit > 0xDBFF || (*place)[0] != '\\' || (*place)[1] != 'u')
            return NOT_MINE;
        *place += 2;
        TRY(hex4(place, end, &second));
        return second >= 0xDC00 && second <= 0xDFFF ? DONE : NOT_MINE;
    }
    default:
        return NOT_MINE;
    }
}

#define ONES UINT64_C(0x0101010101010101)
#define HIGHS (ONES * 0x80)

/* How many of the next bytes stand for themselves, from the eight bytes; a byte beyond ASCII does not. */
static int plain_bytes(uint64_t word)
{
    uint64_t quotes = word ^ (ONES * '"'), slashes = word ^ (ONES * '\\');
    /* The lowest mark is right; above it a borrow may have set more. */
    uint64_t marks = ((quotes - ONES) & ~quotes) | ((slashes - ONES) & ~slashes);
    marks |= ((word - ONES * 0x20) & ~word) | word;
    marks &= HIGHS;
    return marks ? __builtin_ctzll(marks) / 8 : 8;
}

/* A text, from behind its first quote to behind its last; ``size`` is that of what is between. */
static int text_token(Reader *reader, size_t *size, int *is_escaped)
{
    const byte *at = reader->at, *end = reader->end;
    *is_escaped = 0;
    for (;;) {
        while (end - at >= 8) {
            int plain = plain_bytes(word_at(at));
            at += plain;
            if (plain < 8)
                break;
        }
        if (at == end)
            return CUT;
        if (*at == '"')
            break;
        if (*at == '\\') {
            *is_escaped = 1;
            TRY(escape(&at, end));
        } else if (*at >= 0x80) {
            TRY(utf8(&at, end));
        } else if (*at < 0x20) {
            return NOT_MINE;
        } else {
            at++;
        }
    }
    *size = (size_t)(at - reader->at);
    reader->at = at + 1;
    return DONE;
}

/* Whether the text from here on is the known one; if so, go behind its last quote. */
static int is_next(Reader *reader, int32_t code)
{
    const Text *text = &reader->context->pool.texts[code];
    if ((size_t)(reader->end - reader->at) <= text->size || reader->at[text->size] != '"')
        return 0;
    if (!is_same(reader->at, reader->context->pool.bytes + text->start, text->size))
        return 0;
    reader->at += text->size + 1;
    return 1;
}

/* The code of the text from here on, behind its first quote. */
static int text_code(Reader *reader, int32_t *code)
{
    const byte *start = reader->at;
    size_t size;
    int is_escaped;
    TRY(text_token(reader, &size, &is_escaped));
    *code = code_of(&reader->context->pool, start, size);
    return *code < 0 ? NOT_MINE : DONE;
}

typedef struct {
    const byte *start;
    size_t size;
    uint64_t digits; /* all of them as one number, where ``is_exact`` */
    int scale;       /* times ten to the power of it */
    int is_exact, is_negative, is_whole;
} Number;

/* Eight digits as a number, the first of them in the lowest byte; -1 where they are not all digits. */
static int64_t eight_digits(uint64_t word)
{
    uint64_t values = word ^ (ONES * '0');
    if ((values | (values + ONES * (0x7F - 9))) & HIGHS)
        return -1;
    values = values * 10 + (values >> 8); /* pairs, in every second byte */
    values = ((values & UINT64_C(0x000000FF000000FF)) * (100 + (UINT64_C(1000000) << 32)) +
              ((values >> 16) & UINT64_C(0x000000FF000000FF)) * (1 + (UINT64_C(10000) << 32))) >> 32;
    return (int64_t)(uint32_t)values;
}

/* Go behind the digits from here on, and put them behind those of ``number``, which may be too many for it. */
static const byte *digits(const byte *at, const byte *end, uint64_t *number)
{
    uint64_t value = *number;
    int64_t eight;
    while (end - at >= 8 && (eight = eight_digits(word_at(at))) >= 0) {
        value = value * 100000000 + (uint64_t)eight;
        at += 8;
    }
    for (; at < end && (byte)(*at - '0') < 10; at++)
        value = value * 10 + (byte)(*at - '0');
    *number = value;
    return at;
}

/* How many digits there are from the first on that is not 0, a point left out. */
static int significant(const byte *at, const byte *end)
{
    int count = 0;
    for (; at < end; at++)
        count += *at != '.' && (count || *at != '0');
    return count;
}

/* The digits of an exponent, from behind its letter on. */
static int exponent(const byte **place, const byte *end, int *scale)
{
    const byte *at = *place, *start;
    uint64_t value = 0;
    if (at == end)
        return CUT;
    int is_negative = *at == '-';
    at += is_negative || *at == '+';
    start = at;
    at = digits(at, end, &value);
    if (at == end)
        return CUT;
    if (at == start || at - start > MOST_EXPONENT_DIGITS)
        return NOT_MINE;
    *scale += is_negative ? -(int)value : (int)value;
    *place = at;
    return DONE;
}

static int number_token(Reader *reader, Number *number)
{
    const byte *at = reader->at, *end = reader->end;
    uint64_t value = 0;
    int scale = 0, is_whole = 1, is_negative = *at == '-';
    const byte *start = at + is_negative;
    at = digits(start, end, &value);
    if (at == end)
        return CUT;
    if (at == start || (*start == '0' && at - start > 1))
        return NOT_MINE;
    if (*at == '.') {
        const byte *fraction = at + 1;
        at = digits(fraction, end, &value);
        if (at == end)
            return CUT;
        if (at == fraction || at - fraction > MOST_DIGITS)
            return NOT_MINE;
        scale = -(int)(at - fraction);
        is_whole = 0;
    }
    if (at - start > MOST_DIGITS)
        return NOT_MINE;
    int is_exact = at - start <= EXACT_DIGITS || significant(start, at) <= EXACT_DIGITS;
    if ((*at | 0x20) == 'e') {
        at++;
        is_whole = 0;
        TRY(exponent(&at, end, &scale));
    }
    *number = (Number){reader->at, (size_t)(at - reader->at), value, scale, is_exact, is_negative, is_whole};
    reader->at = at;
    return DONE;
}

/* --- Values ------------------------------------------------------------------------------------------------------- */

static const double POWERS[] = {
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11,
    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
};
enum { EXACT_POWER = 22, WHOLE_POWER = 19 };

/* The double nearest to the number, as Python's `float` gives it. */
static int as_double(const Number *number, double *value)
{
    int scale = number->scale;
    if (!number->is_exact)
        return NOT_MINE;
    /* Both are exact as doubles, so their product or quotient is rounded once (Clinger). */
    if (FLT_EVAL_METHOD == 0 && number->digits <= UINT64_C(1) << 53 && scale >= -EXACT_POWER && scale <= EXACT_POWER) {
        double whole = (double)number->digits;
        *value = scale < 0 ? whole / POWERS[-scale] : whole * POWERS[scale];
    } else {
#if defined(__SIZEOF_INT128__)
        __extension__ typedef unsigned __int128 Wide;
        if (number->digits >> 53 == 0 || scale < -WHOLE_POWER || scale > WHOLE_POWER)
            return NOT_MINE;
        uint64_t power = 1;
        for (int index = abs(scale); index; index--)
            power *= 10;
        Wide wide = scale < 0 ? (Wide)number->digits << 64 : (Wide)number->digits * power;
        int is_more = scale < 0 && wide % power != 0; /* than what is kept of it */
        wide = scale < 0 ? wide / power : wide;
        uint64_t high = (uint64_t)(wide >> 64);
        int surplus = (high ? 128 - __builtin_clzll(high) : 64 - __builtin_clzll((uint64_t)wide)) - DBL_MANT_DIG;
        if (surplus > 0) {
            Wide rest = wide & (((Wide)1 << surplus) - 1), half = (Wide)1 << (surplus - 1);
            wide >>= surplus;
            wide += rest > half || (rest == half && (is_more || (wide & 1)));
        } else {
            surplus = 0;
        }
        *value = ldexp((double)(uint64_t)wide, surplus - (scale < 0 ? 64 : 0));
#else
        return NOT_MINE;
#endif
    }
    if (number->is_negative && !(number->is_whole && number->digits == 0)) /* the whole number -0 is 0 */
        *value = -*value;
    return DONE;
}

/* A whole number as it is, or as the text that it is where no column holds it. */
static int as_id(Reader *reader, const Number *number, int64_t *id)
{
    int fits = number->is_exact && number->digits <= INT64_MAX;
    if (fits && (!number->is_negative || number->digits <= 1)) {
        *id = number->is_negative ? -(int64_t)number->digits : (int64_t)number->digits;
        return DONE;
    }
    int32_t code = code_of(&reader->context->pool, number->start, number->size);
    *id = FIRST_TEXT_ID - (int64_t)code;
    return code < 0 ? NOT_MINE : DONE;
}

static int object(Reader *reader, int root);
static int any_value(Reader *reader);

static int list(Reader *reader)
{
    if (++reader->depth > DEEPEST)
        return NOT_MINE;
    TRY(to_token(reader));
    if (*reader->at == ']') {
        reader->at++;
    } else {
        for (;;) {
            TRY(any_value(reader));
            TRY(to_token(reader));
            byte next = *reader->at++;
            if (next == ']')
                break;
            if (next != ',')
                return NOT_MINE;
            TRY(to_token(reader));
        }
    }
    reader->depth--;
    return DONE;
}

/* A value that no column needs; the reader is at its first byte. */
static int any_value(Reader *reader)
{
    Number number;
    size_t size;
    int is_escaped;
    switch (*reader->at) {
    case '"':
        reader->at++;
        return text_token(reader, &size, &is_escaped);
    case '{':
        reader->at++;
        return object(reader, OF_OTHER);
    case '[':
        reader->at++;
        return list(reader);
    case 't':
        return word(reader, "true");
    case 'f':
        return word(reader, "false");
    case 'n':
        return word(reader, "null");
    default:
        return number_token(reader, &number);
    }
}

static int is_number(byte first)
{
    return first == '-' || (first >= '0' && first <= '9');
}

static int id_value(Reader *reader, int index)
{
    int64_t *id = &reader->rows->ids[index][reader->row];
    if (*reader->at == '"') {
        int32_t code;
        reader->at++;
        TRY(text_code(reader, &code));
        *id = FIRST_TEXT_ID - (int64_t)code;
        return DONE;
    }
    if (is_number(*reader->at)) {
        Number number;
        TRY(number_token(reader, &number));
        if (number.is_whole)
            return as_id(reader, &number, id);
        return index < EVENT_IDS ? NOT_MINE : DONE;
    }
    return index < EVENT_IDS ? NOT_MINE : any_value(reader);
}

static int value(Reader *reader, int field)
{
    if (field == NO_FIELD)
        return any_value(reader);
    if (field < TIME_FIELD) {
        int32_t *code = &reader->rows->texts[field - TEXT_FIELD][reader->row];
        int32_t *last = &reader->context->last[field - TEXT_FIELD];
        if (*reader->at++ != '"')
            return NOT_MINE;
        reader->is_named |= field != CATEGORY_FIELD;
        if (!is_next(reader, *last))
            TRY(text_code(reader, last));
        *code = *last;
        return DONE;
    }
    if (field < ID_FIELD) {
        Number number;
        if (!is_number(*reader->at))
            return NOT_MINE;
        TRY(number_token(reader, &number));
        return as_double(&number, &reader->rows->times[field - TIME_FIELD][reader->row]);
    }
    if (field < ARGS_FIELD)
        return id_value(reader, field - ID_FIELD);
    if (*reader->at == 'n')
        return word(reader, "null");
    return *reader->at++ == '{' ? object(reader, OF_ARGUMENTS) : NOT_MINE;
}

static int key(Reader *reader, int32_t *node)
{
    Node *before = &reader->context->nodes[*node];
    if (before->next && is_next(reader, reader->context->nodes[before->next].key)) {
        *node = before->next;
        return DONE;
    }
    const byte *start = reader->at;
    size_t size;
    int is_escaped;
    TRY(text_token(reader, &size, &is_escaped));
    int32_t code = is_escaped ? -1 : code_of(&reader->context->pool, start, size);
    *node = code < 0 ? -1 : node_after(reader->context, *node, code);
    if (*node < 0)
        return NOT_MINE;
    before->next = *node;
    return DONE;
}

/* An object, from behind its first brace. */
static int object(Reader *reader, int root)
{
    int32_t node = root;
    if (++reader->depth > DEEPEST)
        return NOT_MINE;
    TRY(to_token(reader));
    if (*reader->at == '}') {
        reader->at++;
    } else {
        for (;;) {
            if (*reader->at++ != '"')
                return NOT_MINE;
            TRY(key(reader, &node));
            TRY(to_char(reader, ':'));
            TRY(to_token(reader));
            TRY(value(reader, reader->context->nodes[node].field));
            TRY(to_token(reader));
            byte next = *reader->at++;
            if (next == '}')
                break;
            if (next != ',')
                return NOT_MINE;
            TRY(to_token(reader));
        }
    }
    reader->depth--;
    return DONE;
}

static int event(Reader *reader)
{
    Rows *rows = reader->rows;
    if (reader->row == rows->room)
        return NOT_MINE;
    for (int index = 0; index < TEXTS; index++)
        rows->texts[index][reader->row] = 0; /* the code of the empty text */
    for (int index = 0; index < TIMES; index++)
        rows->times[index][reader->row] = NAN;
    for (int index = 0; index < IDS; index++)
        rows->ids[index][reader->row] = NO_ID;
    reader->depth = reader->is_named = 0;
    TRY(to_char(reader, '{'));
    TRY(object(reader, OF_EVENT));
    return reader->is_named ? DONE : NOT_MINE;
}

static int events(Reader *reader, const byte *text)
{
    Rows *rows = reader->rows;
    for (;;) {
        TRY(event(reader));
        reader->row++;
        const byte *end = reader->at;
        TRY(to_token(reader));
        int64_t place = reader->at - text;
        byte next = *reader->at++;
        if (next == ']') {
            rows->close = place;
            rows->close_count = reader->row;
            return DONE;
        }
        if (next != ',')
            return NOT_MINE;
        rows->comma = place;
        rows->comma_count = reader->row;
        if (text + place == end) {
            rows->tight_end = place;
            rows->tight_count = reader->row;
        }
    }
}

/* --- What Python calls -------------------------------------------------------------------------------------------- */

PUBLIC int32_t gputrace_version(void);
PUBLIC Context *gputrace_open(void);
PUBLIC void gputrace_close(Context *context);
PUBLIC int32_t gputrace_scan(Context *context, const byte *text, int64_t size, Rows *rows);
PUBLIC int32_t gputrace_other_ids(const Context *context);
PUBLIC int32_t gputrace_texts(const Context *context);
PUBLIC const byte *gputrace_text(const Context *context, int32_t code, int64_t *size);

int32_t gputrace_version(void)
{
    return VERSION;
}

void gputrace_close(Context *context)
{
    if (!context)
        return;
    free(context->pool.bytes);
    free(context->pool.texts);
    free(context->pool.slots);
    free(context->nodes);
    free(context->edges);
    free(context);
}

/* What is remembered of one file; NULL where there is no memory. */
Context *gputrace_open(void)
{
    Context *context = calloc(1, sizeof *context);
    if (!context)
        return NULL;
    context->nodes = malloc(NODES * sizeof *context->nodes);
    context->edges = malloc(EDGES * sizeof *context->edges);
    if (!context->nodes || !context->edges || code_of(&context->pool, (const byte *)"", 0) != 0) {
        gputrace_close(context);
        return NULL;
    }
    forget_keys(context);
    return context;
}

/* Read events, as they stand in a list behind its bracket, up to the end of the text or of the list.
 *
 * 0 where all are clean; the last one may be cut, and is not counted then. */
int32_t gputrace_scan(Context *context, const byte *text, int64_t size, Rows *rows)
{
    rows->tight_end = rows->tight_count = rows->comma = rows->comma_count = rows->close_count = 0;
    rows->close = -1;
    if (size < 0 || size > LARGEST_TEXT)
        return NOT_MINE;
    if (context->nodes_count > NODES / 2)
        forget_keys(context);
    Reader reader = {.context = context, .rows = rows, .at = text, .end = text + size};
    return events(&reader, text) == NOT_MINE ? NOT_MINE : DONE;
}

/* Whether any event so far had a key of `is_other_id`. */
int32_t gputrace_other_ids(const Context *context)
{
    return context->has_other_ids;
}

/* How many texts have a code. */
int32_t gputrace_texts(const Context *context)
{
    return context->pool.count;
}

/* A text as it is spelled in the file, without its quotes; valid until the next scan. */
const byte *gputrace_text(const Context *context, int32_t code, int64_t *size)
{
    if (code < 0 || code >= context->pool.count) {
        *size = 0;
        return NULL;
    }
    *size = (int64_t)context->pool.texts[code].size;
    return context->pool.bytes + context->pool.texts[code].start;
}
