/* Contents of images by their numbers, in integers: the device's side of strategies/contents.
 *
 * CUDA C++ and C++ alike. The arrays are those of strategies/contents/device.py, which says what
 * they mean; wf_opened finds them in its words. Images whose code is the same, wf_cycle(&contents)
 * apart, are made together, wf_batch(&contents) of them at most: each lane computes what is the same
 * for the matrices of an image of its own, then the `lanes` lanes make i.sets images at once. Each
 * calls, with a barrier of the lanes behind each of these calls:
 *
 *     i = wf_begun(&contents, memory, lane, lanes);
 *     wf_batched(&i, number, images);
 *     for (first = 0; first < images; first += i.sets) {
 *         image = first + i.set, or the first one, if there is none;
 *         wf_started(&i, image);
 *         for (f = 0; f < contents.count; f++) {
 *             if (wf_has_sums(&i, f)) wf_factors(&i, f);
 *             wf_everywhere(&i, f);
 *             if (wf_has_placed(&i, f)) wf_placed(&i, f);
 *         }
 *         wf_copied(&i, image, place, copy);
 *     }
 *
 * `memory` is wf_bytes(&contents) bytes, aligned to 16, shared by the lanes. Nothing depends on how
 * many lanes there are, or on their order.
 */
#ifndef WARPFUZZ_CONTENTS_H
#define WARPFUZZ_CONTENTS_H

#include <stdint.h>

#ifdef __CUDACC__
#define WF_FUNCTION static __device__ __forceinline__
/* What is called is given no address of a struct, which would then have to lie in memory. */
#define WF_CALLED static __device__ __noinline__
#define WF_MEMBER __device__ __forceinline__
#define WF_SOME _Pragma("unroll 1")
/* What nobody writes: the compiler may load it once, or early. */
#define WF_GET(at) __ldg(at)
/* What is not read again here. */
#define WF_STORE(at, b) __stcs((uint4 *)(at), make_uint4((b).words[0], (b).words[1], (b).words[2], (b).words[3]))
#define WF_EACH(n) _Pragma("unroll") for (int t = 0; t < (n); t++)
/* Elements of which a lane works on so many at once. */
#define WF_MANY(n) n
#else
#define WF_FUNCTION static inline
#define WF_CALLED static inline
#define WF_MEMBER
#define WF_SOME
#define WF_GET(at) (*(at))
#define WF_STORE(at, b) (*(at) = (b))
#define WF_EACH(n) for (int t = 0; t < (n); t++)
#define WF_MANY(n) 1
#endif

#define WF_READ_ONLY 0x80000000u

struct alignas(16) wf_block { uint32_t words[4]; };

struct wf_contents {
    uint64_t seed;
    uint32_t period, sharing, image_bytes, count, drawn, gaps, turns, scalars, factors;
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
    c.factors = (uint32_t)words[5];
    c.blocks = (const uint32_t *)(words + words[6]);
    c.fillings = (const int32_t *)(words + words[7]);
    c.starts = (const int32_t *)(words + words[8]);
    c.code = words + words[9];
    c.constants = words + words[10];
    c.places = (const uint32_t *)(words + words[11]);
    return c;
}

/* Signed, as A and B of a filling are so many rows before it. */
enum : int64_t {
    WF_LEAVE = 0xFFFF, WF_DRAW_BLOCKS = 8, WF_DRAWS = 1, WF_GAPS, WF_GOLDEN = 0x9E3779B9, WF_BATCH = 8, WF_BATCHED = 512, WF_SMALL = 12 << 10,
    WF_BITS = 0, WF_LINES, WF_COUNT, WF_COLUMNS, WF_TURNED, WF_PLACES, WF_NUMBERS, WF_PARTS, WF_A, WF_B,
    WF_RECIPROCAL, WF_FIRST = 12, WF_BLOCKS, WF_FIELDS,
    WF_SLOT = 0, WF_SCALAR, WF_LAST,
    WF_SLOTS = 16, WF_NOWHERE = 1023
};

/* What a lane knows of an image; code of images has one of its own for each lane. */
struct wf_image {
    wf_contents contents;
    /* Among those of the image, and of all. */
    uint32_t lane, lanes, lane_of_all, all_lanes;
    /* Which of the images that are made at once, and how many. */
    uint32_t set, sets;
    const int32_t *starts;
    /* Random words, the image, of each of a batch its group (two words), its shift and its gap, numbers. */
    wf_block *base, *image, *heads;
    uint64_t *all_scalars, *scalars;
    uint8_t *factors;
};

/* Images after which the same code makes one. */
WF_FUNCTION uint32_t wf_cycle(const wf_contents *c) { return c->period * c->turns; }

/* Images of which the scalars are kept at once. */
WF_FUNCTION uint32_t wf_batch(const wf_contents *c) {
    uint32_t most = c->scalars ? WF_BATCHED / c->scalars : WF_BATCH;
    return most < 1 ? 1 : most < WF_BATCH ? most : WF_BATCH;
}

/* Bytes of the memory that an image is made in, and of what those of a batch have. */
WF_FUNCTION uint32_t wf_set_bytes(const wf_contents *c) { return (2 * c->drawn + WF_DRAW_BLOCKS) * 16 + c->factors; }

WF_FUNCTION uint32_t wf_batch_bytes(const wf_contents *c) { return wf_batch(c) * 16 + (wf_batch(c) * c->scalars + 1) / 2 * 16; }

/* Images that are made at once: two, each by half of the lanes, where they are small. */
WF_FUNCTION uint32_t wf_sets(const wf_contents *c) { return 2 * wf_set_bytes(c) + wf_batch_bytes(c) <= WF_SMALL ? 2 : 1; }

/* Bytes of the memory that images are made in. */
WF_FUNCTION uint32_t wf_bytes(const wf_contents *c) { return wf_sets(c) * wf_set_bytes(c) + wf_batch_bytes(c); }

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

WF_FUNCTION wf_image wf_begun(const wf_contents *c, void *memory, uint32_t lane, uint32_t lanes) {
    wf_image i;
    i.contents = *c;
    i.lane_of_all = lane;
    i.all_lanes = lanes;
    i.sets = lanes % 2 ? 1 : wf_sets(c);
    i.lanes = lanes / i.sets;
    i.set = lane / i.lanes;
    i.lane = lane % i.lanes;
    i.starts = c->starts;
    i.base = (wf_block *)((uint8_t *)memory + i.set * wf_set_bytes(c));
    i.image = i.base + c->drawn + WF_DRAW_BLOCKS;
    i.factors = (uint8_t *)(i.image + c->drawn);
    i.heads = (wf_block *)((uint8_t *)memory + i.sets * wf_set_bytes(c));
    i.scalars = i.all_scalars = (uint64_t *)(i.heads + wf_batch(c));
    return i;
}

/* Random words of a stream for images of a group. */
WF_FUNCTION wf_block wf_words(const wf_image *i, wf_block head, uint32_t block, uint32_t stream) {
    wf_block made = {{block, stream, head.words[0], head.words[1]}};
    wf_philox(made.words, i->contents.seed);
    WF_EACH(4) made.words[t] += head.words[2];
    return made;
}

WF_FUNCTION uint32_t wf_word(const wf_image *i, uint32_t word) { return ((const uint32_t *)i->base)[word]; }

/* Elements of a filling are numbered in the order of memory. */
WF_FUNCTION uint32_t wf_line(const int32_t *f, uint32_t number, int of_position) {
    uint32_t row = (uint32_t)(number * WF_GET((const uint64_t *)(f + WF_RECIPROCAL)) >> 40);
    return (WF_GET(f + WF_TURNED) != 0) != of_position ? number - row * (uint32_t)WF_GET(f + WF_COLUMNS) : row;
}

WF_FUNCTION uint32_t wf_number(const int32_t *f, uint32_t line, uint32_t position) {
    return WF_GET(f + WF_TURNED) ? position * (uint32_t)WF_GET(f + WF_COLUMNS) + line : line * (uint32_t)WF_GET(f + WF_COLUMNS) + position;
}

WF_FUNCTION uint32_t wf_size(const int32_t *f) { return WF_GET(f + WF_BITS) < 8 ? 1 : (uint32_t)WF_GET(f + WF_BITS) / 8; }

WF_FUNCTION uint32_t wf_place(const uint32_t *places, const int32_t *f, uint32_t number) {
    return WF_GET(places + (uint32_t)WF_GET(f + WF_PLACES) + (WF_GET(f + WF_BITS) == 4 ? number >> 1 : number));
}

/* Reads and writes an element whose bytes lie apart: `bytes` are those of the image, or of its noise. */
WF_CALLED uint64_t wf_parts(const uint8_t *bytes, const uint32_t *places, uint32_t size) {
    uint64_t raw = 0;
    for (uint32_t part = 0; part < size; part++) {
        raw |= (uint64_t)bytes[places[part] & ~WF_READ_ONLY] << 8 * part;
    }
    return raw;
}

WF_CALLED void wf_write_parts(uint8_t *image, const uint32_t *places, uint32_t size, uint64_t raw) {
    for (uint32_t part = 0; part < size; part++)
        if (!(places[part] & WF_READ_ONLY)) image[places[part]] = (uint8_t)(raw >> 8 * part);
}

WF_FUNCTION const uint32_t *wf_places(const uint32_t *places, const int32_t *f, uint32_t number) {
    return places + (uint32_t)WF_GET(f + WF_PLACES) + number * wf_size(f);
}

/* The random patterns of elements. */
template <typename T, int N>
WF_FUNCTION void wf_noise(const wf_image *i, const int32_t *f, const uint32_t *numbers, T *patterns) {
    const uint32_t *places = i->contents.places;
    uint32_t bits = (uint32_t)WF_GET(f + WF_BITS), mask = 0xFFFFFFFFu >> (32 - (bits == 1 ? 8 : bits < 32 ? bits : 32)), at[N];
    if (WF_GET(f + WF_PARTS)) {
        WF_EACH(N) patterns[t] = (T)wf_parts((const uint8_t *)i->base, wf_places(places, f, numbers[t]), wf_size(f));
        return;
    }
    WF_EACH(N) at[t] = wf_place(places, f, numbers[t]) & ~WF_READ_ONLY;
    WF_EACH(N) patterns[t] = wf_word(i, at[t] >> 2) >> (at[t] % 4 * 8 + (bits == 4 ? numbers[t] % 2 * 4 : 0)) & mask;
    if (sizeof(T) == 8 && bits == 64) WF_EACH(N) patterns[t] |= (T)((uint64_t)wf_word(i, (at[t] >> 2) + 1) << 32);
}

/* Reads an element of an image. */
WF_FUNCTION uint64_t wf_raw(const uint8_t *image, const uint32_t *places, const int32_t *f, uint32_t number) {
    uint32_t size = wf_size(f), at;
    if (WF_GET(f + WF_PARTS)) return wf_parts(image, wf_places(places, f, number), size);
    at = wf_place(places, f, number) & ~WF_READ_ONLY;
    if (size == 2) return *(const uint16_t *)(image + at);
    if (size == 4) return *(const uint32_t *)(image + at);
    if (size == 8) return *(const uint64_t *)(image + at);
    return WF_GET(f + WF_BITS) == 4 ? image[at] >> number % 2 * 4 & 15 : image[at];
}

/* Writes those of N elements that are wanted; of 4 bits, all of the byte. */
template <typename T, int N>
WF_FUNCTION void wf_write(const wf_image *i, const int32_t *f, const uint32_t *numbers, const int *is_wanted, const T *raw) {
    uint32_t size = wf_size(f), at[N];
    uint8_t *image = (uint8_t *)i->image;
    int wanted[N];
    if (WF_GET(f + WF_PARTS)) {
        WF_EACH(N) if (is_wanted[t]) wf_write_parts(image, wf_places(i->contents.places, f, numbers[t]), size, raw[t]);
        return;
    }
    WF_EACH(N) {
        at[t] = wf_place(i->contents.places, f, numbers[t]);
        wanted[t] = is_wanted[t] && !(at[t] & WF_READ_ONLY);
    }
    if (size == 1) WF_EACH(N) { if (wanted[t]) image[at[t]] = (uint8_t)raw[t]; }
    else if (size == 2) WF_EACH(N) { if (wanted[t]) *(uint16_t *)(image + at[t]) = (uint16_t)raw[t]; }
    else if (size == 4) WF_EACH(N) { if (wanted[t]) *(uint32_t *)(image + at[t]) = (uint32_t)raw[t]; }
    else WF_EACH(N) { if (wanted[t]) *(uint64_t *)(image + at[t]) = raw[t]; }
}

WF_FUNCTION int wf_length(uint64_t value) {
#ifdef __CUDACC__
    return 64 - __clzll((long long)value);
#else
    return value ? 64 - __builtin_clzll(value) : 0;
#endif
}

/* Minus a sum in units of 2^scale, as the nearest pattern, ties to even; it has 64 bits. */
WF_CALLED uint64_t wf_nearest_wide(int64_t total, const uint64_t *figures) {
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

/* The same where a pattern has at most 32 bits: a lowest bit that says whether there are more is enough. */
WF_FUNCTION uint32_t wf_nearest(int64_t total, const uint64_t *figures) {
    int scale = (int)WF_GET(figures), fraction = (int)WF_GET(figures + 3), bias = (int)WF_GET(figures + 4);
    uint32_t sign = total >= 0 ? (uint32_t)WF_GET(figures + 5) : 0, infinity = (uint32_t)(2 * bias + 1) << fraction;
    uint64_t value = total < 0 ? 0 - (uint64_t)total : (uint64_t)total;
    int length = wf_length(value), top = length - 1 + scale, up = top < 1 - bias ? 1 - bias : top;
    uint64_t highest = value << ((64 - length) & 63);
    uint32_t whole = (uint32_t)(highest >> 32) | ((uint32_t)highest != 0);
    uint32_t drop = (uint32_t)(31 - fraction + up - top), kept = drop < 32 ? whole >> drop : 0, rest = drop > 32 ? 0 : whole << (32 - drop);
    kept += rest > 0x80000000u - (kept & 1);
    kept += (uint32_t)(up + bias - 1) << fraction;
    return sign | (!value ? 0 : up > bias || kept > infinity ? infinity : kept);
}

WF_FUNCTION uint64_t wf_upper(uint64_t x, uint64_t y) {
    uint64_t x0 = x & 0xFFFFFFFFu, x1 = x >> 32, y0 = y & 0xFFFFFFFFu, y1 = y >> 32;
    uint64_t middle = x1 * y0 + (x0 * y0 >> 32), other = x0 * y1 + (middle & 0xFFFFFFFFu);
    return x1 * y1 + (middle >> 32) + (other >> 32);
}

/* The numbers at `s` are those of `_sum` in device.py; `own`: 0 of A, 1 of B. A float in units of its window. */
struct wf_window_of_floats { uint32_t shift, ignored, field, mask, sign; };

WF_FUNCTION wf_window_of_floats wf_floats(const uint64_t *s, uint32_t own) {
    const uint64_t *w = s + 3 + 5 * own;
    const wf_window_of_floats floats = {(uint32_t)WF_GET(w), (uint32_t)WF_GET(w + 1), (uint32_t)WF_GET(w + 2), (uint32_t)WF_GET(w + 3), (uint32_t)WF_GET(w + 4)};
    return floats;
}

WF_FUNCTION int32_t wf_float(uint32_t raw, const wf_window_of_floats &w) {
    uint32_t one = 1u << w.shift, field = (raw >> w.shift) - w.field;
    int32_t value = (int32_t)(((raw & (one - 1)) | one) >> w.ignored << (field & w.mask));
    /* A field below the window's borrows from the sign. */
    return field >> w.sign & 1 ? -value : value;
}

/* A factor of a sum: an integer, bits, or a float. */
WF_FUNCTION int32_t wf_factor(uint32_t raw, const uint64_t *s, uint32_t own) {
    uint32_t kind = (uint32_t)WF_GET(s), sign = (uint32_t)WF_GET(s + 3 + own);
    if (kind == 0) return (int32_t)((raw ^ sign) - sign);
    return kind < 3 ? (int32_t)raw : wf_float(raw, wf_floats(s, own));
}

/* The same of f64: the upper half of a product of two. */
WF_FUNCTION int64_t wf_product(const uint64_t *pair, const uint64_t *s) {
    uint64_t significands[2], x;
    int places = 0;
    WF_EACH(2) {
        const uint64_t *w = s + 3 + 5 * t;
        uint64_t one = (uint64_t)1 << w[0];
        significands[t] = (pair[t] & (one - 1)) | one;
        places += (int)(((pair[t] >> w[0]) - w[2]) & w[3]);
    }
    x = wf_upper(significands[0] << 11, significands[1] << 11) >> (int)(s[14] + s[15] - places);
    return (pair[0] ^ pair[1]) >> 63 ? -(int64_t)x : (int64_t)x;
}

/* Factors of sums lie line by line, each a word further on than its numbers need: in other banks. */
struct wf_sums {
    const uint64_t *numbers;
    const int32_t *a, *b;
    uint32_t depth, run, pitch[2], lines, is_wide;
};

WF_FUNCTION wf_sums wf_sums_of(const int32_t *f, const uint64_t *numbers) {
    wf_sums s;
    s.numbers = numbers;
    s.depth = (uint32_t)numbers[1];
    s.run = (uint32_t)numbers[2];
    s.a = f + WF_GET(f + WF_A) * WF_FIELDS;
    s.b = f + WF_GET(f + WF_B) * WF_FIELDS;
    s.pitch[0] = s.depth + 1;
    s.pitch[1] = (s.run ? 2 * s.depth : s.depth) + 1;
    s.lines = (uint32_t)WF_GET(s.a + WF_LINES);
    s.is_wide = numbers[0] == 3;
    return s;
}

/* Sums of products of two lines of factors, four at a time where there are no runs. */
template <typename F, typename Term>
WF_FUNCTION int64_t wf_products(const F *own, const F *other, uint32_t depth, uint32_t run, Term term) {
    int64_t total = 0;
    uint32_t k = 0, left = run;
    if (!run)
        WF_SOME for (; k + 4 <= depth; k += 4, own += 4, other += 4) {
            F x[4], y[4];
            WF_EACH(4) x[t] = own[t];
            WF_EACH(4) y[t] = other[t];
            WF_EACH(4) total += term(x[t], y[t]);
        }
    WF_SOME for (; k < depth; k++) {
        total += term(*own++, *other++);
        if (run && --left == 0) left = run, other += run;
    }
    return total;
}

WF_FUNCTION int wf_ones(uint32_t bits) {
#ifdef __CUDACC__
    return __popc(bits);
#else
    return __builtin_popcount(bits);
#endif
}

/* The sum for an element of C. */
WF_CALLED uint64_t wf_sum(const uint8_t *image, const uint8_t *factors, const uint32_t *places, const int32_t *f, uint32_t number, const uint64_t *numbers) {
    const wf_sums s = wf_sums_of(f, numbers);
    uint32_t kind = (uint32_t)numbers[0], line = wf_line(f, number, 0), position = wf_line(f, number, 1);
    uint32_t own = line * s.pitch[0], other = s.lines * s.pitch[0] + position * s.pitch[1];
    const int16_t *x = (const int16_t *)factors + own, *y = (const int16_t *)factors + other;
    if (kind == 3)
        return wf_nearest(wf_products((const int32_t *)factors + own, (const int32_t *)factors + other, s.depth, s.run, [](int32_t a, int32_t b) { return (int64_t)a * b; }), numbers + 13);
    if (kind == 0) return (uint64_t)wf_products(x, y, s.depth, s.run, [](int32_t a, int32_t b) { return a * b; });
    if (kind == 1) return (uint64_t)wf_products(x, y, s.depth, s.run, [](int32_t a, int32_t b) { return wf_ones((uint32_t)(a & b)); });
    if (kind == 2) return (uint64_t)wf_products(x, y, s.depth, s.run, [](int32_t a, int32_t b) { return wf_ones((uint32_t)(a ^ b)); });
    int64_t total = 0;
    uint32_t left = s.run, at = 0;
    WF_SOME for (uint32_t k = 0; k < s.depth; k++, at++) {
        uint64_t pair[2] = {wf_raw(image, places, s.a, wf_number(s.a, line, k)), wf_raw(image, places, s.b, wf_number(s.b, position, at))};
        total += wf_product(pair, numbers);
        if (s.run && --left == 0) left = s.run, at += s.run;
    }
    return wf_nearest_wide(total, numbers + 13);
}

/* Random patterns and a mask, plus a number, of all elements in a word; no sum is carried on. */
struct wf_window {
    uint32_t mask, plus, tops;
    WF_MEMBER uint32_t of(uint32_t word) const {
        uint32_t x = word & mask;
        return ((x & ~tops) + (plus & ~tops)) ^ ((x ^ plus) & tops);
    }
};

WF_FUNCTION wf_window wf_window_of(const int32_t *f, uint32_t mask, uint32_t plus) {
    uint32_t bits = WF_GET(f + WF_BITS) == 1 ? 8 : (uint32_t)WF_GET(f + WF_BITS);   /* 4, 8, 16 or 32, or 64 */
    uint32_t all = bits == 4 ? 0x11111111 : bits == 8 ? 0x01010101 : bits == 16 ? 0x00010001 : 1;
    uint32_t kept = bits < 32 ? (1u << bits) - 1 : ~0u;
    wf_window w = {(mask & kept) * all, (plus & kept) * all, all << (bits - 1)};
    return w;
}

template <typename T> struct wf_sign;
template <> struct wf_sign<uint32_t> { typedef int32_t type; };
template <> struct wf_sign<uint64_t> { typedef int64_t type; };

/* N elements of a filling that a lane computes together, so that code is decoded once for them. */
template <typename T, int N>
struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) wf_values { T of[N]; };

/* IMAGE: of code of images, for which nothing random lies in memory yet. */
template <typename T, int N, int IMAGE>
struct wf_elements {
    const wf_image *image;
    const int32_t *filling;
    uint32_t first, count;
    wf_values<T, N> *slots;
    wf_values<T, N> last;
    wf_block head;

    /* The place of one of them in the list of what is filled; neighbours stay in one lane. */
    WF_MEMBER uint32_t place(int t) const { return first + t / 2 * 2 * image->lanes + t % 2; }

    WF_MEMBER uint32_t number(int t) const {
        uint32_t at = place(t) < count ? place(t) : count - 1;
        return WF_GET(filling + WF_NUMBERS) < 0 ? at : WF_GET(image->contents.places + (uint32_t)WF_GET(filling + WF_NUMBERS) + at);
    }

    /* Of what is placed there is one, by its line. */
    WF_MEMBER uint32_t line(int t) const { return N == 1 ? first : wf_line(filling, number(t), 0); }

    WF_MEMBER uint32_t draw(uint32_t number) const {
        number &= 63;
        uint32_t word = IMAGE ? 0 : wf_word(image, image->contents.drawn * 4 + number / 2);
        if (IMAGE) {
            wf_block block = wf_words(image, head, number / 8, WF_DRAWS);
            word = number & 4 ? number & 2 ? block.words[3] : block.words[2] : number & 2 ? block.words[1] : block.words[0];
        }
        return word >> number % 2 * 16 & 0xFFFF;
    }

    WF_MEMBER wf_values<T, N> operand(uint32_t which) const {
        if (which >> 12 == WF_LAST) return last;
        if (which >> 12 == WF_SLOT) return slots[which];
        uint64_t value = which & 0x8000 ? WF_GET(image->contents.constants + (which & 0x7FFF)) : image->scalars[which & 0xFFF];
        wf_values<T, N> same;
        WF_EACH(N) same.of[t] = (T)value;
        return same;
    }
};

/* Executes code. */
template <typename T, int N, int IMAGE>
WF_FUNCTION void wf_run(wf_elements<T, N, IMAGE> &e, const uint64_t *code, int count) {
    typedef typename wf_sign<T>::type S;
    const wf_image *i = e.image;
    const uint64_t *constants = i->contents.constants;
    uint64_t next = count > 0 ? WF_GET(code) : 0;
    for (; count > 0; count--) {
        uint64_t instruction = next;
        next = count > 1 ? WF_GET(++code) : 0;
        uint32_t what = (uint32_t)instruction & 31, to = (uint32_t)instruction >> 6 & 1023;
        uint32_t second = (uint32_t)(instruction >> 32) & 0xFFFF, third = (uint32_t)(instruction >> 48);
        wf_values<T, N> z = e.last;
        if (what == 20 || what == 21) z = e.operand(third);
        wf_values<T, N> y = e.operand(what >= 10 ? second : WF_LAST << 12);
        wf_values<T, N> x = e.operand((uint32_t)instruction >> 16);
        switch (what) {
        case 1: WF_EACH(N) x.of[t] = e.line(t); break;
        case 2: WF_EACH(N) x.of[t] = wf_line(e.filling, e.number(t), 1); break;
        case 3: WF_EACH(N) x.of[t] = e.draw((uint32_t)x.of[t]) * (second + 1) >> 16; break;
        case 4:
        case 5: {
            uint32_t numbers[N];
            if (what == 4) WF_EACH(N) numbers[t] = e.number(t);
            else WF_EACH(N) numbers[t] = wf_number(e.filling, e.line(t), (uint32_t)x.of[t]);
            wf_noise<T, N>(i, e.filling, numbers, x.of);
            break;
        }
        case 6:
        case 7:
            WF_EACH(N) {
                S at = (S)x.of[t] < 0 ? 0 : (S)x.of[t] > (S)third ? (S)third : (S)x.of[t];
                x.of[t] = (T)WF_GET(constants + second + (uint32_t)at);
            }
            break;
        case 8: WF_EACH(N) x.of[t] = (T)wf_sum((const uint8_t *)i->image, i->factors, i->contents.places, e.filling, e.number(t), constants + second); break;
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

/* Begins with images that follow each other wf_cycle apart: where their code is, and their scalars. */
WF_FUNCTION void wf_batched(wf_image *i, uint64_t number, uint32_t images) {
    const wf_contents *c = &i->contents;
    i->starts = c->starts + (uint32_t)(number % wf_cycle(c)) * (1 + c->count);
    for (uint32_t image = i->lane_of_all; image < images; image += i->all_lanes) {
        uint64_t n = number + (uint64_t)image * wf_cycle(c), turn = n / c->period, group = turn / c->sharing;
        uint32_t member = (uint32_t)(n - group * c->sharing * c->period);
        const uint64_t *code = c->code + i->starts[0];
        wf_elements<uint64_t, 1, 1> e;
        e.head.words[0] = (uint32_t)group;
        e.head.words[1] = (uint32_t)(group >> 32);
        e.head.words[2] = member * (uint32_t)WF_GOLDEN;
        e.head.words[3] = wf_words(i, e.head, 0, WF_GAPS).words[0];
        i->heads[image] = e.head;
        i->scalars = i->all_scalars + image * c->scalars;
        e.image = i;
        e.slots = (wf_values<uint64_t, 1> *)i->scalars;
        e.filling = 0;
        e.first = e.count = 0;
        e.last.of[0] = 0;
        wf_run<uint64_t, 1, 1>(e, code + 1, (int)code[0]);
    }
}

/* Random words of an image, and behind them those of its draws. */
WF_FUNCTION wf_block wf_started_block(const wf_image *i, wf_block head, uint32_t b) {
    int is_drawn = b < i->contents.drawn;
    return wf_words(i, head, is_drawn ? WF_GET(i->contents.blocks + b) : b - i->contents.drawn, is_drawn ? 0 : WF_DRAWS);
}

WF_FUNCTION void wf_keep_block(const wf_image *i, uint32_t b, wf_block block) {
    i->base[b] = block;
    if (b < i->contents.drawn) i->image[b] = block;
}

/* Begins one of them with its random words. */
WF_FUNCTION void wf_started(wf_image *i, uint32_t image) {
    const wf_contents *c = &i->contents;
    wf_block head = i->heads[image];
    i->scalars = i->all_scalars + image * c->scalars;
    uint32_t all = c->drawn + WF_DRAW_BLOCKS, first = i->lane;
    /* Two at once, because each round of Philox waits for the one before. */
    for (; first + i->lanes < all; first += 2 * i->lanes) {
        wf_block both[2];
        WF_EACH(2) both[t] = wf_started_block(i, head, first + t * i->lanes);
        WF_EACH(2) wf_keep_block(i, first + t * i->lanes, both[t]);
    }
    if (first < all) wf_keep_block(i, first, wf_started_block(i, head, first));
}

/* Where the code of a fill is. */
WF_FUNCTION const uint64_t *wf_code(const wf_image *i, uint32_t f) { return i->contents.code + i->starts[1 + f]; }

/* What a fill's third number of 16 bits says. */
enum { WF_NARROW = 1, WF_SUMS = 2, WF_MASKED = 4 };

WF_FUNCTION uint32_t wf_flags(const uint64_t *code) { return (uint32_t)(code[0] >> 32) & 0xFFFF; }

WF_FUNCTION int wf_has_sums(const wf_image *i, uint32_t f) { return (wf_flags(wf_code(i, f)) & WF_SUMS) != 0; }

/* Takes A and B apart for sums. */
WF_FUNCTION void wf_factors(const wf_image *i, uint32_t f) {
    const uint64_t *code = wf_code(i, f);
    while ((*++code & 31) != 8) {}
    const wf_sums s = wf_sums_of(i->contents.fillings + f * WF_FIELDS, i->contents.constants + (*code >> 32 & 0xFFFF));
    uint32_t start = 0;
    if (s.numbers[0] == 4) return;
    WF_EACH(2) {
        const int32_t *one = t ? s.b : s.a;
        uint32_t count = (uint32_t)WF_GET(one + WF_LINES) * (s.pitch[t] - 1);
        for (uint32_t n = i->lane; n < count; n += i->lanes) {
            uint32_t raw = (uint32_t)wf_raw((const uint8_t *)i->image, i->contents.places, one, n);
            int32_t factor = wf_factor(raw, s.numbers, t);
            uint32_t at = start + wf_line(one, n, 0) * s.pitch[t] + wf_line(one, n, 1);
            if (s.is_wide) ((int32_t *)i->factors)[at] = factor;
            else ((int16_t *)i->factors)[at] = (int16_t)factor;
        }
        start += (uint32_t)WF_GET(one + WF_LINES) * s.pitch[t];
    }
}

template <typename T, int N>
WF_FUNCTION void wf_filled(const wf_image *i, const int32_t *f, const uint64_t *code) {
    wf_values<T, N> slots[WF_SLOTS];
    wf_elements<T, N, 0> e;
    e.image = i;
    e.filling = f;
    e.count = (uint32_t)WF_GET(f + WF_COUNT);
    e.slots = slots;
    WF_EACH(N) e.last.of[t] = 0;
    for (e.first = i->lane * 2; e.first < e.count; e.first += i->lanes * N) {
        wf_run<T, N, 0>(e, code + 1, (int)(code[0] & 0xFFFF));
        wf_values<T, N> x = e.operand((uint32_t)(code[0] >> 16) & 0xFFFF);
        uint32_t numbers[N];
        int wanted[N];
        WF_EACH(N) {
            numbers[t] = e.number(t);
            wanted[t] = e.place(t) < e.count;
        }
        /* Two elements of 4 bits share a byte: one lane writes both. */
        if (WF_GET(f + WF_BITS) == 4)
            WF_EACH(N) {
                x.of[t] = (x.of[t] & 15) | x.of[t + 1 < N ? t + 1 : t] << 4;
                wanted[t] = wanted[t] && t % 2 == 0;
            }
        wf_write<T, N>(i, f, numbers, wanted, x.of);
    }
}

/* The value of an operand that is the same for all elements. */
WF_FUNCTION uint32_t wf_same(const wf_image *i, uint32_t which) {
    return (uint32_t)(which & 0x8000 ? WF_GET(i->contents.constants + (which & 0x7FFF)) : i->scalars[which & 0xFFF]);
}

/* Fills whole blocks with random patterns, masked, plus a number. */
WF_FUNCTION void wf_masked(const wf_image *i, const int32_t *f, uint32_t mask, uint32_t plus) {
    const wf_window w = wf_window_of(f, mask, plus);
    for (uint32_t b = i->lane; b < (uint32_t)WF_GET(f + WF_BLOCKS); b += i->lanes) {
        wf_block block = i->base[(uint32_t)WF_GET(f + WF_FIRST) + b];
        WF_EACH(4) block.words[t] = w.of(block.words[t]);
        i->image[(uint32_t)WF_GET(f + WF_FIRST) + b] = block;
    }
}

WF_FUNCTION void wf_everywhere(const wf_image *i, uint32_t f) {
    const uint64_t *code = wf_code(i, f);
    const int32_t *filling = i->contents.fillings + f * WF_FIELDS;
    uint32_t flags = wf_flags(code), count = (uint32_t)code[0] & 0xFFFF;
    if ((code[0] >> 16 & 0xFFFF) == WF_LEAVE) return;
    if (flags & WF_MASKED && WF_GET(filling + WF_BLOCKS))
        wf_masked(i, filling, count ? wf_same(i, (uint32_t)(code[2] >> 32) & 0xFFFF) : 0,
                  count == 2 ? 0 : wf_same(i, (uint32_t)(count ? code[3] >> 32 : code[0] >> 16) & 0xFFFF));
    else if (flags & WF_NARROW) wf_filled<uint32_t, 8>(i, filling, code);
    else wf_filled<uint64_t, 2>(i, filling, code);
}

WF_FUNCTION int wf_has_placed(const wf_image *i, uint32_t f) { return wf_code(i, f)[0] >> 48 != 0; }

WF_FUNCTION void wf_placed(const wf_image *i, uint32_t f) {
    const uint64_t *code = wf_code(i, f);
    uint32_t count = (uint32_t)(code[0] >> 48);
    wf_values<uint64_t, 1> slots[WF_SLOTS];
    wf_elements<uint64_t, 1, 0> e;
    e.image = i;
    e.filling = i->contents.fillings + f * WF_FIELDS;
    e.count = 0;
    e.slots = slots;
    e.last.of[0] = 0;
    code += 1 + (code[0] & 0xFFFF);
    for (uint32_t placed = 0; placed < count; placed++) {
        uint64_t head = code[0];
        uint32_t line = (uint32_t)(head >> 16) & 0xFFFF, lines = line == WF_LEAVE ? (uint32_t)WF_GET(e.filling + WF_LINES) : 1;
        for (e.first = i->lane; e.first < lines; e.first += i->lanes) {
            wf_run<uint64_t, 1, 0>(e, code + 1, (int)(head & 0xFFFF));
            uint64_t at = line == WF_LEAVE ? e.first : e.operand(line).of[0];
            uint64_t position = e.operand((uint32_t)(head >> 32) & 0xFFFF).of[0], value = e.operand((uint32_t)(head >> 48)).of[0];
            uint32_t number = wf_number(e.filling, (uint32_t)at, (uint32_t)position);
            if (WF_GET(e.filling + WF_BITS) == 4) {
                uint64_t pair = ((const uint8_t *)i->image)[wf_place(i->contents.places, e.filling, number) & ~WF_READ_ONLY];
                value = number % 2 ? (pair & 15) | (value & 15) << 4 : (pair & 240) | (value & 15);
            }
            int is_wanted = 1;
            wf_write<uint64_t, 1>(i, e.filling, &number, &is_wanted, &value);
        }
        code += 1 + (head & 0xFFFF);
    }
}

/* What a lane has t turns later, or now, if there is none. */
WF_FUNCTION uint32_t wf_or_first(const wf_image *i, uint32_t first, uint32_t t, uint32_t count) {
    return first + t * i->lanes < count ? first + t * i->lanes : first;
}

/* Puts an image where it belongs, twice. */
WF_FUNCTION void wf_copied(const wf_image *i, uint32_t which, void *image, void *copy) {
    const wf_contents *c = &i->contents;
    uint32_t gap = i->heads[which].words[3];
    const uint32_t *gaps = c->blocks + c->drawn;
    /* Where some go is loaded before any of them is stored. */
    for (uint32_t first = i->lane; first < c->drawn; first += 4 * i->lanes) {
        uint32_t at[4];
        wf_block blocks[4];
        WF_EACH(4) at[t] = WF_GET(c->blocks + wf_or_first(i, first, t, c->drawn));
        WF_EACH(4) blocks[t] = i->image[wf_or_first(i, first, t, c->drawn)];
        WF_EACH(4) if (first + t * i->lanes < c->drawn) {
            WF_STORE((wf_block *)image + at[t], blocks[t]);
            WF_STORE((wf_block *)copy + at[t], blocks[t]);
        }
    }
    for (uint32_t first = i->lane; first < c->gaps; first += 2 * i->lanes) {
        uint32_t at[2];
        WF_EACH(2) at[t] = WF_GET(gaps + wf_or_first(i, first, t, c->gaps));
        WF_EACH(2) if (first + t * i->lanes < c->gaps) {
            wf_block block;
            for (uint32_t word = 0; word < 4; word++) block.words[word] = wf_gap(at[t] * 4 + word) ^ gap;
            WF_STORE((wf_block *)image + at[t], block);
            WF_STORE((wf_block *)copy + at[t], block);
        }
    }
}

#endif
