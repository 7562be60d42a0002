/* Contents of images by their numbers, in integers: the device's side of strategies/contents.
 *
 * CUDA C++ and C++ alike. The arrays are those of strategies/contents/device.py, which says what
 * they mean; wf_opened finds them in its words. Images are made one after the other by `lanes`
 * lanes, each of which calls, with a barrier of the lanes behind each of these calls:
 *
 *     i = wf_begun(&contents, number, memory, lane, lanes);
 *     wf_words(&i);
 *     wf_started(&i);
 *     for (f = 0; f < contents.count; f++) {
 *         wf_everywhere(&i, f);
 *         if (wf_has_placed(&i, f)) wf_placed(&i, f);
 *     }
 *     wf_copied(&i, image, copy);
 *
 * and for the next image wf_next(&i), which says whether wf_words is to be called again, and so on
 * from wf_started. `memory` is wf_bytes(&contents) bytes, aligned to 16, shared by the lanes. Nothing
 * depends on how many lanes there are, or on their order.
 */
#ifndef WARPFUZZ_CONTENTS_H
#define WARPFUZZ_CONTENTS_H

#include <stdint.h>

#ifdef __CUDACC__
#define WF_FUNCTION static __device__ __forceinline__
/* What is called is given no address of a struct, which would then have to lie in memory. */
#define WF_CALLED static __device__ __noinline__
#define WF_MEMBER __device__ __forceinline__
#define WF_EACH(n) _Pragma("unroll") for (int t = 0; t < (n); t++)
#else
#define WF_FUNCTION static inline
#define WF_CALLED static inline
#define WF_MEMBER
#define WF_EACH(n) for (int t = 0; t < (n); t++)
#endif

#define WF_READ_ONLY 0x80000000u

struct alignas(16) wf_block { uint32_t words[4]; };

struct wf_contents {
    uint64_t seed;
    uint32_t period, sharing, image_bytes, count, drawn, gaps, turns, scalars;
    const uint32_t *blocks;
    const int32_t *fillings, *starts;
    const uint64_t *code, *constants;
    const uint32_t *places;
};

/* The contents in DeviceContents.words. */
WF_FUNCTION wf_contents wf_opened(const uint64_t *words) {
    wf_contents c;
    c.seed = words[0];
    c.period = (uint32_t)words[1];
    c.sharing = (uint32_t)(words[1] >> 32);
    c.image_bytes = (uint32_t)words[2];
    c.count = (uint32_t)(words[2] >> 32);
    c.drawn = (uint32_t)words[3];
    c.gaps = (uint32_t)(words[3] >> 32);
    c.turns = (uint32_t)words[4];
    c.scalars = (uint32_t)(words[4] >> 32);
    c.blocks = (const uint32_t *)(words + words[5]);
    c.fillings = (const int32_t *)(words + words[6]);
    c.starts = (const int32_t *)(words + words[7]);
    c.code = words + words[8];
    c.constants = words + words[9];
    c.places = (const uint32_t *)(words + words[10]);
    return c;
}

enum {
    WF_LEAVE = 0xFFFF, WF_OTHER_BLOCKS = 9, WF_GOLDEN = 0x9E3779B9,
    WF_BITS = 0, WF_LINES, WF_COUNT, WF_COLUMNS, WF_TURNED, WF_PLACES, WF_NUMBERS, WF_PARTS, WF_A, WF_B,
    WF_RECIPROCAL, WF_FIELDS = 12,
    WF_SLOT = 0, WF_SCALAR, WF_LAST,
    WF_SLOTS = 16, WF_NOWHERE = 1023
};

/* What a lane knows of an image. */
struct wf_image {
    wf_contents contents;
    uint64_t group;
    uint32_t turn, slot, member, turn_of_group;
    wf_block *base, *image;
    uint64_t *scalars;
    uint32_t lane, lanes, shift;
};

/* Bytes of the memory that an image is made in. */
WF_FUNCTION uint32_t wf_bytes(const wf_contents *c) {
    return (2 * c->drawn + WF_OTHER_BLOCKS) * 16 + (c->scalars + 1) / 2 * 16;
}

/* Random123, philox.h: Philox4x32-10. */
WF_FUNCTION void wf_philox(uint32_t x[4], uint64_t key) {
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    WF_EACH(10) {
        uint64_t p = (uint64_t)0xD2511F53u * x[0], q = (uint64_t)0xCD9E8D57u * x[2];
        uint32_t x1 = x[1], x3 = x[3];
        x[0] = (uint32_t)(q >> 32) ^ x1 ^ k0;
        x[1] = (uint32_t)q;
        x[2] = (uint32_t)(p >> 32) ^ x3 ^ k1;
        x[3] = (uint32_t)p;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

/* MurmurHash3, fmix32. */
WF_FUNCTION uint32_t wf_gap(uint32_t word) {
    word = (word ^ word >> 16) * 0x85EBCA6Bu;
    word = (word ^ word >> 13) * 0xC2B2AE35u;
    return word ^ word >> 16;
}

WF_FUNCTION wf_image wf_begun(const wf_contents *c, uint64_t number, void *memory, uint32_t lane, uint32_t lanes) {
    wf_image i;
    uint64_t turn = number / c->period;
    i.contents = *c;
    i.slot = (uint32_t)(number - turn * c->period);
    i.turn = (uint32_t)(turn % c->turns);
    i.group = turn / c->sharing;
    i.turn_of_group = (uint32_t)(turn - i.group * c->sharing);
    i.member = i.turn_of_group * c->period + i.slot;
    i.shift = i.member * (uint32_t)WF_GOLDEN;
    i.base = (wf_block *)memory;
    i.image = i.base + c->drawn + WF_OTHER_BLOCKS;
    i.scalars = (uint64_t *)(i.image + c->drawn);
    i.lane = lane;
    i.lanes = lanes;
    return i;
}

/* Goes on to the next image, and returns whether it is of another group. */
WF_FUNCTION int wf_next(wf_image *i) {
    const wf_contents *c = &i->contents;
    i->member++;
    if (++i->slot == c->period) {
        i->slot = 0;
        if (++i->turn == c->turns) i->turn = 0;
        if (++i->turn_of_group == c->sharing) i->turn_of_group = i->member = 0, i->group++;
    }
    i->shift = i->member * (uint32_t)WF_GOLDEN;
    return i->member == 0;
}

/* The words that the images of a group have in common: of blocks that are drawn, the draws, the gap. */
WF_FUNCTION void wf_words(const wf_image *i) {
    const wf_contents *c = &i->contents;
    for (uint32_t b = i->lane; b < c->drawn + WF_OTHER_BLOCKS; b += i->lanes) {
        uint32_t other = b - c->drawn;
        wf_block block;
        block.words[0] = b < c->drawn ? c->blocks[b] : other & 7;
        block.words[1] = b < c->drawn ? 0 : 1 + other / 8;
        block.words[2] = (uint32_t)i->group;
        block.words[3] = (uint32_t)(i->group >> 32);
        wf_philox(block.words, c->seed);
        i->base[b] = block;
    }
}

WF_FUNCTION uint32_t wf_word(const wf_image *i, uint32_t word) {
    return ((const uint32_t *)i->base)[word] + i->shift;
}

WF_FUNCTION uint32_t wf_draw(const wf_image *i, uint32_t number) {
    number &= 63;
    return wf_word(i, i->contents.drawn * 4 + number / 2) >> number % 2 * 16 & 0xFFFF;
}

/* Elements of a filling are numbered in the order of memory. */
WF_FUNCTION uint32_t wf_line(const int32_t *f, uint32_t number, int of_position) {
    uint32_t row = (uint32_t)(number * *(const uint64_t *)(f + WF_RECIPROCAL) >> 40);
    return (f[WF_TURNED] != 0) != of_position ? number - row * (uint32_t)f[WF_COLUMNS] : row;
}

WF_FUNCTION uint32_t wf_number(const int32_t *f, uint32_t line, uint32_t position) {
    return f[WF_TURNED] ? position * (uint32_t)f[WF_COLUMNS] + line : line * (uint32_t)f[WF_COLUMNS] + position;
}

WF_FUNCTION uint32_t wf_size(const int32_t *f) { return f[WF_BITS] < 8 ? 1 : (uint32_t)f[WF_BITS] / 8; }

WF_FUNCTION uint32_t wf_place(const uint32_t *places, const int32_t *f, uint32_t number) {
    return places[(uint32_t)f[WF_PLACES] + (f[WF_BITS] == 4 ? number >> 1 : number)];
}

/* Reads and writes an element whose bytes lie apart: `bytes` are those of the image, or of its noise. */
WF_CALLED uint64_t wf_parts(const uint8_t *bytes, uint32_t shift, const uint32_t *places, uint32_t size) {
    uint64_t raw = 0;
    for (uint32_t part = 0; part < size; part++) {
        uint32_t at = places[part] & ~WF_READ_ONLY, word = ((const uint32_t *)bytes)[at >> 2] + shift;
        raw |= (uint64_t)(word >> at % 4 * 8 & 255) << 8 * part;
    }
    return raw;
}

WF_CALLED void wf_write_parts(uint8_t *image, const uint32_t *places, uint32_t size, uint64_t raw) {
    for (uint32_t part = 0; part < size; part++)
        if (!(places[part] & WF_READ_ONLY)) image[places[part]] = (uint8_t)(raw >> 8 * part);
}

WF_FUNCTION const uint32_t *wf_places(const uint32_t *places, const int32_t *f, uint32_t number) {
    return places + (uint32_t)f[WF_PLACES] + number * wf_size(f);
}

/* The random pattern of an element. */
template <typename T>
WF_FUNCTION T wf_noise(const wf_image *i, const int32_t *f, uint32_t number) {
    int bits = f[WF_BITS];
    if (f[WF_PARTS])
        return (T)wf_parts((const uint8_t *)i->base, i->shift, wf_places(i->contents.places, f, number), wf_size(f));
    uint32_t at = wf_place(i->contents.places, f, number) & ~WF_READ_ONLY, word = wf_word(i, at >> 2);
    if (sizeof(T) == 8 && bits == 64) return (T)((uint64_t)wf_word(i, (at >> 2) + 1) << 32 | word);
    word >>= at % 4 * 8 + (bits == 4 ? number % 2 * 4 : 0);
    return word & (0xFFFFFFFFu >> (32 - (bits == 1 ? 8 : bits)));
}

/* Reads elements of a line together: a device has the loads of all of them on their way. */
enum { WF_READ = 4 };

WF_FUNCTION void wf_read(const uint8_t *image, const uint32_t *places, const int32_t *f, uint32_t line, const uint32_t *positions, uint64_t *found) {
    uint32_t size = wf_size(f), numbers[WF_READ], at[WF_READ];
    WF_EACH(WF_READ) numbers[t] = wf_number(f, line, positions[t]);
    if (f[WF_PARTS]) {
        WF_EACH(WF_READ) found[t] = wf_parts(image, 0, wf_places(places, f, numbers[t]), size);
        return;
    }
    WF_EACH(WF_READ) at[t] = wf_place(places, f, numbers[t]) & ~WF_READ_ONLY;
    if (size == 2) WF_EACH(WF_READ) found[t] = *(const uint16_t *)(image + at[t]);
    else if (size == 4) WF_EACH(WF_READ) found[t] = *(const uint32_t *)(image + at[t]);
    else if (size == 8) WF_EACH(WF_READ) found[t] = *(const uint64_t *)(image + at[t]);
    else {
        WF_EACH(WF_READ) found[t] = image[at[t]];
        if (f[WF_BITS] == 4) WF_EACH(WF_READ) found[t] = found[t] >> numbers[t] % 2 * 4 & 15;
    }
}

/* Writes an element; of 4 bits, all of its byte. */
WF_FUNCTION void wf_write(const wf_image *i, const int32_t *f, uint32_t number, uint64_t raw) {
    uint32_t size = wf_size(f), at;
    if (f[WF_PARTS]) {
        wf_write_parts((uint8_t *)i->image, wf_places(i->contents.places, f, number), size, raw);
        return;
    }
    at = wf_place(i->contents.places, f, number);
    if (at & WF_READ_ONLY) return;
    uint8_t *image = (uint8_t *)i->image + at;
    if (size == 1) *image = (uint8_t)raw;
    else if (size == 2) *(uint16_t *)image = (uint16_t)raw;
    else if (size == 4) *(uint32_t *)image = (uint32_t)raw;
    else *(uint64_t *)image = raw;
}

WF_FUNCTION int wf_length(uint64_t value) {
#ifdef __CUDACC__
    return 64 - __clzll((long long)value);
#else
    return value ? 64 - __builtin_clzll(value) : 0;
#endif
}

/* Minus a sum in units of 2^scale, as the nearest pattern, ties to even. */
WF_FUNCTION uint64_t wf_nearest(int64_t total, const uint64_t *figures) {
    int scale = (int)figures[0], fraction = (int)figures[3], bias = (int)figures[4];
    uint64_t sign = total >= 0 ? figures[5] : 0, infinity = (uint64_t)(2 * bias + 1) << fraction;
    uint64_t value = total < 0 ? 0 - (uint64_t)total : (uint64_t)total, low;
    int length = wf_length(value), exponent = length - 1 + scale, drop;
    if (!value) return sign;
    if (exponent < 1 - bias) exponent = 1 - bias;
    drop = exponent - fraction - scale;
    if (drop > 63) return sign;
    if (drop <= 0) value <<= -drop;
    else {
        low = value & (((uint64_t)1 << drop) - 1);
        value >>= drop;
        if (low > (uint64_t)1 << (drop - 1) || (low == (uint64_t)1 << (drop - 1) && (value & 1)))
            value++;
    }
    value += (uint64_t)(exponent + bias - 1) << fraction;
    return sign | (exponent > bias || value > infinity ? infinity : value);
}

WF_FUNCTION uint64_t wf_upper(uint64_t x, uint64_t y) {
    uint64_t x0 = x & 0xFFFFFFFFu, x1 = x >> 32, y0 = y & 0xFFFFFFFFu, y1 = y >> 32;
    uint64_t middle = x1 * y0 + (x0 * y0 >> 32), other = x0 * y1 + (middle & 0xFFFFFFFFu);
    return x1 * y1 + (middle >> 32) + (other >> 32);
}

/* A product of floats of so many bits, in units of its window. */
WF_FUNCTION int64_t wf_product(const uint64_t *pair, const int32_t *bits, const uint64_t *s) {
    uint64_t significands[2], minus = 0, x;
    int is_double = s[0] == 4, places = 0;
    WF_EACH(2) {
        const uint64_t *w = s + 3 + 4 * t;
        uint64_t one = (uint64_t)1 << w[0], field = (pair[t] >> w[0]) - w[2];
        significands[t] = ((pair[t] & (one - 1)) | one) >> w[1];
        places += (int)(field & w[3]);
        /* A field below the window's borrows from the sign, but of f64. */
        minus ^= is_double ? pair[t] >> 63 : field >> (bits[t] - 1 - (int)w[0]) & 1;
    }
    if (!is_double) x = significands[0] * significands[1] << places;
    else x = wf_upper(significands[0] << 11, significands[1] << 11) >> (int)(s[12] + s[13] - places);
    return minus ? -(int64_t)x : (int64_t)x;
}

/* The numbers at `s` are those of `_sum` in device.py. */
WF_CALLED uint64_t wf_sum(const uint8_t *image, const uint32_t *places, const int32_t *fillings, const int32_t *filling, uint32_t number, const uint64_t *s) {
    const int32_t *a = fillings + filling[WF_A] * WF_FIELDS, *b = fillings + filling[WF_B] * WF_FIELDS;
    uint32_t line = wf_line(filling, number, 0), position = wf_line(filling, number, 1);
    uint32_t kind = (uint32_t)s[0], depth = (uint32_t)s[1], run = (uint32_t)s[2];
    int32_t widths[2] = {a[WF_BITS], b[WF_BITS]};
    int64_t total = 0;
    for (uint32_t begin = 0; begin < depth; begin += WF_READ) {
        uint32_t own[WF_READ], others[WF_READ];
        uint64_t x[WF_READ], y[WF_READ];
        WF_EACH(WF_READ) {
            own[t] = begin + t < depth ? begin + t : depth - 1;
            others[t] = run ? own[t] / run * 2 * run + own[t] % run : own[t];
        }
        wf_read(image, places, a, line, own, x);
        wf_read(image, places, b, position, others, y);
        WF_EACH(WF_READ) {
            uint64_t pair[2] = {x[t], y[t]}, bits = kind == 1 ? x[t] & y[t] : x[t] ^ y[t];
            if (begin + t >= depth) continue;
            if (kind == 0) total += (int64_t)((x[t] ^ s[3]) - s[3]) * (int64_t)((y[t] ^ s[4]) - s[4]);
            else if (kind < 3)
                for (; bits; bits &= bits - 1) total++;
            else total += wf_product(pair, widths, s);
        }
    }
    return kind < 3 ? (uint64_t)total : wf_nearest(total, s + 11);
}

template <typename T> struct wf_sign;
template <> struct wf_sign<uint32_t> { typedef int32_t type; };
template <> struct wf_sign<uint64_t> { typedef int64_t type; };

/* N elements of a filling that a lane computes together, so that code is decoded once for them. */
template <typename T, int N>
struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) wf_values { T of[N]; };

template <typename T, int N>
struct wf_elements {
    const wf_image *image;
    const int32_t *filling;
    uint32_t first, count;
    wf_values<T, N> *slots;
    wf_values<T, N> last;

    /* The place of one of them in the list of what is filled; neighbours stay in one lane. */
    WF_MEMBER uint32_t place(int t) const { return first + t / 2 * 2 * image->lanes + t % 2; }

    WF_MEMBER uint32_t number(int t) const {
        uint32_t at = place(t) < count ? place(t) : count - 1;
        return filling[WF_NUMBERS] < 0 ? at : image->contents.places[(uint32_t)filling[WF_NUMBERS] + at];
    }

    /* Of what is placed there is one, by its line. */
    WF_MEMBER uint32_t line(int t) const { return N == 1 ? first : wf_line(filling, number(t), 0); }

    WF_MEMBER wf_values<T, N> operand(uint32_t which) const {
        if (which >> 12 == WF_LAST) return last;
        if (which >> 12 == WF_SLOT) return slots[which];
        const uint64_t *from = which & 0x8000 ? image->contents.constants + (which & 0x7FFF) : image->scalars + (which & 0xFFF);
        wf_values<T, N> same;
        WF_EACH(N) same.of[t] = (T)*from;
        return same;
    }
};

/* Executes code. */
template <typename T, int N>
WF_FUNCTION void wf_run(wf_elements<T, N> &e, const uint64_t *code, int count) {
    typedef typename wf_sign<T>::type S;
    const wf_image *i = e.image;
    const uint64_t *constants = i->contents.constants;
    for (; count > 0; count--, code++) {
        uint64_t instruction = *code;
        uint32_t what = (uint32_t)instruction & 31, to = (uint32_t)instruction >> 6 & 1023;
        uint32_t second = (uint32_t)(instruction >> 32) & 0xFFFF, third = (uint32_t)(instruction >> 48);
        wf_values<T, N> z = e.last;
        if (what == 20 || what == 21) z = e.operand(third);
        wf_values<T, N> y = e.operand(what >= 10 ? second : WF_LAST << 12);
        wf_values<T, N> x = e.operand((uint32_t)instruction >> 16);
        switch (what) {
        case 1: WF_EACH(N) x.of[t] = e.line(t); break;
        case 2: WF_EACH(N) x.of[t] = wf_line(e.filling, e.number(t), 1); break;
        case 3: WF_EACH(N) x.of[t] = wf_draw(i, (uint32_t)x.of[t]) * (second + 1) >> 16; break;
        case 4: WF_EACH(N) x.of[t] = wf_noise<T>(i, e.filling, e.number(t)); break;
        case 5:
            WF_EACH(N) x.of[t] = wf_noise<T>(i, e.filling, wf_number(e.filling, e.line(t), (uint32_t)x.of[t]));
            break;
        case 6:
        case 7:
            WF_EACH(N) {
                S at = (S)x.of[t] < 0 ? 0 : (S)x.of[t] > (S)third ? (S)third : (S)x.of[t];
                x.of[t] = (T)constants[second + (uint32_t)at];
            }
            break;
        case 8: WF_EACH(N) x.of[t] = (T)wf_sum((const uint8_t *)i->image, i->contents.places, i->contents.fillings, e.filling, e.number(t), constants + second); break;
        case 10: WF_EACH(N) x.of[t] += y.of[t]; break;
        case 11: WF_EACH(N) x.of[t] -= y.of[t]; break;
        case 12: WF_EACH(N) x.of[t] *= y.of[t]; break;
        case 13: WF_EACH(N) x.of[t] &= y.of[t]; break;
        case 14: WF_EACH(N) x.of[t] |= y.of[t]; break;
        case 15: WF_EACH(N) x.of[t] ^= y.of[t]; break;
        case 16: WF_EACH(N) x.of[t] <<= y.of[t] & (8 * sizeof(T) - 1); break;
        case 17: WF_EACH(N) x.of[t] >>= y.of[t] & (8 * sizeof(T) - 1); break;
        case 18: WF_EACH(N) x.of[t] = x.of[t] == y.of[t]; break;
        case 19: WF_EACH(N) x.of[t] = (S)x.of[t] < (S)y.of[t]; break;
        case 20: WF_EACH(N) x.of[t] = x.of[t] ? y.of[t] : z.of[t]; break;
        case 21: WF_EACH(N) x.of[t] = (S)x.of[t] < (S)y.of[t] ? y.of[t] : (S)x.of[t] > (S)z.of[t] ? z.of[t] : x.of[t]; break;
        case 22: WF_EACH(N) x.of[t] = (T)((S)x.of[t] >> (y.of[t] & (8 * sizeof(T) - 1))); break;
        }
        if (instruction & 32) {
            T mask = third >= 8 * sizeof(T) ? ~(T)0 : ((T)1 << third) - 1;
            WF_EACH(N) x.of[t] &= mask;
        }
        e.last = x;
        if (to != WF_NOWHERE) e.slots[to] = x;
    }
}

/* Where the code of a fill is. */
WF_FUNCTION const uint64_t *wf_code(const wf_image *i, uint32_t f) {
    const wf_contents *c = &i->contents;
    return c->code + c->starts[(i->turn * c->period + i->slot) * (1 + c->count) + f];
}

/* Begins an image with its random words, and computes its scalars: each lane does, alike. */
WF_FUNCTION void wf_started(const wf_image *i) {
    const uint64_t *code = wf_code(i, 0);
    wf_elements<uint64_t, 1> e;
    for (uint32_t b = i->lane; b < i->contents.drawn; b += i->lanes) {
        wf_block block = i->base[b];
        WF_EACH(4) block.words[t] += i->shift;
        i->image[b] = block;
    }
    e.image = i;
    e.slots = (wf_values<uint64_t, 1> *)i->scalars;
    e.filling = 0;
    e.first = e.count = 0;
    e.last.of[0] = 0;
    wf_run<uint64_t, 1>(e, code + 1, (int)code[0]);
}

template <typename T, int N>
WF_FUNCTION void wf_filled(const wf_image *i, const int32_t *f, const uint64_t *code) {
    wf_values<T, N> slots[WF_SLOTS];
    wf_elements<T, N> e;
    e.image = i;
    e.filling = f;
    e.count = (uint32_t)f[WF_COUNT];
    e.slots = slots;
    WF_EACH(N) e.last.of[t] = 0;
    for (e.first = i->lane * 2; e.first < e.count; e.first += i->lanes * N) {
        wf_run<T, N>(e, code + 1, (int)(code[0] & 0xFFFF));
        wf_values<T, N> x = e.operand((uint32_t)(code[0] >> 16) & 0xFFFF);
        /* Two elements of 4 bits share a byte: one lane writes both. */
        WF_EACH(N) {
            if (e.place(t) >= e.count || (f[WF_BITS] == 4 && t % 2)) continue;
            wf_write(i, f, e.number(t), f[WF_BITS] == 4 ? (x.of[t] & 15) | x.of[t + 1 < N ? t + 1 : t] << 4 : x.of[t]);
        }
    }
}

WF_FUNCTION void wf_everywhere(const wf_image *i, uint32_t f) {
    const uint64_t *code = wf_code(i, 1 + f);
    const int32_t *filling = i->contents.fillings + f * WF_FIELDS;
    if ((code[0] >> 16 & 0xFFFF) == WF_LEAVE) return;
    if (code[0] >> 32 & 1) wf_filled<uint32_t, 8>(i, filling, code);
    else wf_filled<uint64_t, 2>(i, filling, code);
}

WF_FUNCTION int wf_has_placed(const wf_image *i, uint32_t f) { return wf_code(i, 1 + f)[0] >> 48 != 0; }

WF_FUNCTION void wf_placed(const wf_image *i, uint32_t f) {
    const uint64_t *code = wf_code(i, 1 + f);
    uint32_t count = (uint32_t)(code[0] >> 48);
    wf_values<uint64_t, 1> slots[WF_SLOTS];
    wf_elements<uint64_t, 1> e;
    e.image = i;
    e.filling = i->contents.fillings + f * WF_FIELDS;
    e.count = 0;
    e.slots = slots;
    e.last.of[0] = 0;
    code += 1 + (code[0] & 0xFFFF);
    for (uint32_t placed = 0; placed < count; placed++) {
        uint64_t head = code[0];
        uint32_t line = (uint32_t)(head >> 16) & 0xFFFF, lines = line == WF_LEAVE ? (uint32_t)e.filling[WF_LINES] : 1;
        for (e.first = i->lane; e.first < lines; e.first += i->lanes) {
            wf_run<uint64_t, 1>(e, code + 1, (int)(head & 0xFFFF));
            uint64_t at = line == WF_LEAVE ? e.first : e.operand(line).of[0];
            uint64_t position = e.operand((uint32_t)(head >> 32) & 0xFFFF).of[0], value = e.operand((uint32_t)(head >> 48)).of[0];
            uint32_t number = wf_number(e.filling, (uint32_t)at, (uint32_t)position);
            if (e.filling[WF_BITS] == 4) {
                uint64_t pair = ((const uint8_t *)i->image)[wf_place(i->contents.places, e.filling, number) & ~WF_READ_ONLY];
                value = number % 2 ? (pair & 15) | (value & 15) << 4 : (pair & 240) | (value & 15);
            }
            wf_write(i, e.filling, number, value);
        }
        code += 1 + (head & 0xFFFF);
    }
}

/* Puts an image where it belongs, twice. */
WF_FUNCTION void wf_copied(const wf_image *i, void *image, void *copy) {
    const wf_contents *c = &i->contents;
    uint32_t gap = wf_word(i, (c->drawn + WF_OTHER_BLOCKS - 1) * 4);
    for (uint32_t b = i->lane; b < c->drawn + c->gaps; b += i->lanes) {
        uint32_t at = c->blocks[b];
        wf_block block;
        if (b < c->drawn) block = i->image[b];
        else WF_EACH(4) block.words[t] = wf_gap(at * 4 + t) ^ gap;
        ((wf_block *)image)[at] = block;
        ((wf_block *)copy)[at] = block;
    }
}

#endif
