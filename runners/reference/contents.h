/* Contents of images by their numbers, in integers: the device's side of strategies/contents.
 *
 * C99, CUDA C and C++ alike. The arrays are those of strategies/contents/device.py, which says what
 * they mean; wf_opened finds them in its words. One image is made by `lanes` lanes, each of which
 * calls, with a barrier of the lanes behind each call:
 *
 *     i = wf_begun(&contents, number, image, noise, draws, lane, lanes);
 *     wf_words(&i);
 *     for (f = 0; f < contents.count; f++) {
 *         wf_everywhere(&i, f);
 *         wf_placed(&i, f);
 *     }
 *
 * `image` and `noise` are image_bytes bytes, aligned to 4, `draws` 64 numbers of 16 bits, all of
 * them shared by the lanes. Nothing depends on how many lanes there are, or on their order.
 */
#ifndef WARPFUZZ_CONTENTS_H
#define WARPFUZZ_CONTENTS_H

#include <stdint.h>

#ifdef __CUDACC__
#define WF_FUNCTION static __device__ __forceinline__
#define WF_CALLED static __device__ __noinline__
#else
#define WF_FUNCTION static inline
#define WF_CALLED static
#endif

#define WF_READ_ONLY 0x80000000u

typedef struct {
    uint64_t seed;
    uint32_t period, sharing, image_bytes, count;
    const uint8_t *drawn;
    const int32_t *fillings, *programs, *starts;
    const uint64_t *code, *constants;
    const uint32_t *places;
} wf_contents;

/* The contents in DeviceContents.words. */
WF_FUNCTION wf_contents wf_opened(const uint64_t *words) {
    wf_contents c;
    c.seed = words[0];
    c.period = (uint32_t)words[1];
    c.sharing = (uint32_t)(words[1] >> 32);
    c.image_bytes = (uint32_t)words[2];
    c.count = (uint32_t)(words[2] >> 32);
    c.drawn = (const uint8_t *)(words + words[3]);
    c.fillings = (const int32_t *)(words + words[4]);
    c.programs = (const int32_t *)(words + words[5]);
    c.starts = (const int32_t *)(words + words[6]);
    c.code = words + words[7];
    c.constants = words + words[8];
    c.places = (const uint32_t *)(words + words[9]);
    return c;
}

enum {
    WF_LEAVE = 0xFFFF, WF_REGISTERS = 128, WF_TOGETHER = 2, WF_GOLDEN = 0x9E3779B9,
    WF_BITS = 0, WF_LINES, WF_POSITIONS, WF_TURNED, WF_PLACES, WF_WIDTH, WF_A, WF_B, WF_FIELDS
};

#define WF_EACH for (t = 0; t < (int)WF_TOGETHER; t++)

/* What a lane knows of an image. */
typedef struct {
    const wf_contents *contents;
    uint64_t group, turn;
    uint32_t shift, slot;
    uint8_t *image, *noise;
    uint16_t *draws;
    uint32_t lane, lanes;
} wf_image;

/* Elements of a filling that a lane computes together, so that code is decoded once for them. */
typedef struct {
    const wf_image *image;
    const int32_t *filling;
    uint64_t mask;
    int32_t line[WF_TOGETHER], position[WF_TOGETHER];
    uint64_t registers[WF_REGISTERS][WF_TOGETHER];
} wf_elements;

/* Random123, philox.h: Philox4x32-10. */
WF_FUNCTION void wf_philox(uint32_t x[4], uint64_t key) {
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    int round;
    for (round = 0; round < 10; round++) {
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

WF_FUNCTION wf_image wf_begun(const wf_contents *c, uint64_t number, uint8_t *image,
                              uint8_t *noise, uint16_t *draws, uint32_t lane, uint32_t lanes) {
    wf_image i;
    i.contents = c;
    i.turn = number / c->period;
    i.slot = (uint32_t)(number - i.turn * c->period);
    i.group = i.turn / c->sharing;
    i.shift = (uint32_t)(number - i.group * c->sharing * c->period) * (uint32_t)WF_GOLDEN;
    i.image = image;
    i.noise = noise;
    i.draws = draws;
    i.lane = lane;
    i.lanes = lanes;
    return i;
}

WF_FUNCTION void wf_block(const wf_image *i, uint32_t block, uint32_t stream, uint32_t words[4]) {
    int w;
    words[0] = block;
    words[1] = stream;
    words[2] = (uint32_t)i->group;
    words[3] = (uint32_t)(i->group >> 32);
    wf_philox(words, i->contents->seed);
    for (w = 0; w < 4; w++) words[w] += i->shift;
}

WF_FUNCTION void wf_words(const wf_image *i) {
    const wf_contents *c = i->contents;
    uint32_t block, blocks = c->image_bytes / 16, words[4], gap;
    int w;
    wf_block(i, 0, 2, words);
    gap = words[0];
    for (block = i->lane; block < blocks + 8; block += i->lanes) {
        if (block >= blocks) {
            wf_block(i, block - blocks, 1, words);
            for (w = 0; w < 8; w++)
                i->draws[(block - blocks) * 8 + w] = (uint16_t)(words[w / 2] >> w % 2 * 16);
            continue;
        }
        if (c->drawn[block]) wf_block(i, block, 0, words);
        else
            for (w = 0; w < 4; w++) words[w] = wf_gap(block * 4 + w) ^ gap;
        for (w = 0; w < 4; w++) {
            ((uint32_t *)i->image)[block * 4 + w] = words[w];
            ((uint32_t *)i->noise)[block * 4 + w] = words[w];
        }
    }
}

/* Bytes of an element, and where the places of its first one are told. */
WF_FUNCTION uint32_t wf_place(const int32_t *f, int32_t line, int32_t position, uint32_t *size) {
    int32_t bits = f[WF_BITS], row = f[WF_TURNED] ? position : line;
    int32_t column = f[WF_TURNED] ? line : position;
    *size = bits < 8 ? 1 : bits / 8;
    return f[WF_PLACES] + row * f[WF_WIDTH] + (bits == 4 ? column / 2 : column * *size);
}

WF_FUNCTION uint64_t wf_read(const wf_contents *c, const uint8_t *bytes, const int32_t *f,
                             int32_t line, int32_t position) {
    uint32_t size, i, at = wf_place(f, line, position, &size);
    uint64_t raw = 0;
    for (i = 0; i < size; i++) raw |= (uint64_t)bytes[c->places[at + i] & ~WF_READ_ONLY] << 8 * i;
    return f[WF_BITS] == 4 ? raw >> position % 2 * 4 & 15 : raw;
}

WF_FUNCTION void wf_write(const wf_contents *c, uint8_t *bytes, const int32_t *f, int32_t line,
                          int32_t position, uint64_t raw) {
    uint32_t size, i, at = wf_place(f, line, position, &size);
    if (f[WF_BITS] == 4) {
        uint8_t *byte = bytes + (c->places[at] & ~WF_READ_ONLY);
        int shift = position % 2 * 4;
        if (c->places[at] & WF_READ_ONLY) return;
        *byte = (uint8_t)((*byte & ~(15 << shift)) | (raw & 15) << shift);
    } else
        for (i = 0; i < size; i++)
            if (!(c->places[at + i] & WF_READ_ONLY))
                bytes[c->places[at + i]] = (uint8_t)(raw >> 8 * i);
}

WF_FUNCTION int wf_length(uint64_t value) {
    int bits = 0;
    while (value >> bits && ++bits < 64) {}
    return bits;
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

/* The numbers at `s` are those of `_sum` in device.py. */
WF_CALLED uint64_t wf_sum(const wf_elements *e, int t, const uint64_t *s) {
    const wf_contents *c = e->image->contents;
    const uint8_t *image = e->image->image;
    const int32_t *a = c->fillings + e->filling[WF_A] * WF_FIELDS;
    const int32_t *b = c->fillings + e->filling[WF_B] * WF_FIELDS;
    int kind = (int)s[0], depth = (int)s[1], run = (int)s[2], k;
    int64_t total = 0;
    for (k = 0; k < depth; k++) {
        uint64_t x = wf_read(c, image, a, e->line[t], k);
        uint64_t y = wf_read(c, image, b, e->position[t], run ? k / run * 2 * run + k % run : k);
        if (kind == 0) total += (int64_t)((x ^ s[3]) - s[3]) * (int64_t)((y ^ s[4]) - s[4]);
        else if (kind < 3)
            for (x = kind == 1 ? x & y : x ^ y; x; x &= x - 1) total++;
        else {
            uint64_t significands[2], raw[2], minus = 0;
            int places = 0, i;
            raw[0] = x;
            raw[1] = y;
            for (i = 0; i < 2; i++) {
                const uint64_t *w = s + 3 + 4 * i;
                const int32_t *f = i ? b : a;
                uint64_t one = (uint64_t)1 << w[0], field = (raw[i] >> w[0]) - w[2];
                significands[i] = ((raw[i] & (one - 1)) | one) >> w[1];
                places += (int)(field & w[3]);
                /* A field below the window's borrows from the sign, but of f64. */
                minus ^= kind == 4 ? raw[i] >> 63 : field >> (f[WF_BITS] - 1 - (int)w[0]) & 1;
            }
            if (kind == 3) x = significands[0] * significands[1] << places;
            else x = wf_upper(significands[0] << 11, significands[1] << 11)
                     >> (int)(s[12] + s[13] - places);
            total += minus ? -(int64_t)x : (int64_t)x;
        }
    }
    return kind < 3 ? (uint64_t)total : wf_nearest(total, s + 11);
}

WF_CALLED void wf_run(wf_elements *e, const uint64_t *code, int count) {
    const wf_image *image = e->image;
    const wf_contents *c = image->contents;
    int i, j, t;
    for (i = 0; i < count; i++) {
        uint64_t instruction = code[i], v[3][WF_TOGETHER], r[WF_TOGETHER];
        int patterns = (int)(instruction >> 7 & 1);
        uint64_t mask = patterns ? e->mask : ~(uint64_t)0;
        for (j = 0; j < 3; j++) {
            uint32_t operand = (uint32_t)(instruction >> (16 + 16 * j)) & 0xFFFF;
            if (operand & 0x8000) {
                uint64_t one = c->constants[operand & 0x7FFF];
                WF_EACH v[j][t] = one;
            } else WF_EACH v[j][t] = e->registers[operand % WF_REGISTERS][t];
        }
        switch (instruction & 127) {
        case 1: WF_EACH r[t] = (uint64_t)e->line[t]; break;
        case 2: WF_EACH r[t] = (uint64_t)e->position[t]; break;
        case 3: WF_EACH r[t] = image->draws[v[0][t] & 63] * v[1][t] >> 16; break;
        case 4:
            WF_EACH r[t] = wf_read(c, image->noise, e->filling, e->line[t], e->position[t]);
            break;
        case 5:
            WF_EACH r[t] = wf_read(c, image->noise, e->filling, e->line[t], (int32_t)v[0][t]);
            break;
        case 6:
        case 7:
            WF_EACH {
                int32_t limit = (int32_t)v[2][t] - 1;
                int64_t at = (int64_t)v[0][t];
                r[t] = c->constants[v[1][t] + (uint64_t)(at < 0 ? 0 : at > limit ? limit : at)];
            }
            break;
        case 8:
        case 9: WF_EACH r[t] = v[0][t]; break;
        case 20: WF_EACH r[t] = v[0][t] ? v[1][t] : v[2][t]; break;
        case 21:
            WF_EACH {
                int64_t low = (int64_t)v[1][t], high = (int64_t)v[2][t], x = (int64_t)v[0][t];
                r[t] = (uint64_t)(x < low ? low : x > high ? high : x);
            }
            break;
        case 22: WF_EACH r[t] = wf_sum(e, t, c->constants + v[0][t]); break;
        default:
            WF_EACH {
                v[0][t] &= mask;
                v[1][t] &= mask;
            }
            switch (instruction & 127) {
            case 10: WF_EACH r[t] = v[0][t] + v[1][t]; break;
            case 11: WF_EACH r[t] = v[0][t] - v[1][t]; break;
            case 12: WF_EACH r[t] = v[0][t] * v[1][t]; break;
            case 13: WF_EACH r[t] = v[0][t] & v[1][t]; break;
            case 14: WF_EACH r[t] = v[0][t] | v[1][t]; break;
            case 15: WF_EACH r[t] = v[0][t] ^ v[1][t]; break;
            case 16: WF_EACH r[t] = v[0][t] << v[1][t]; break;
            case 17:
                if (patterns) WF_EACH r[t] = v[0][t] >> v[1][t];
                else WF_EACH r[t] = (uint64_t)((int64_t)v[0][t] >> v[1][t]);
                break;
            case 18: WF_EACH r[t] = v[0][t] == v[1][t]; break;
            default: WF_EACH r[t] = (int64_t)v[0][t] < (int64_t)v[1][t]; break;
            }
        }
        WF_EACH e->registers[instruction >> 8 & 0x7F][t] = r[t] & mask;
    }
}

WF_FUNCTION uint64_t wf_operand(const wf_elements *e, int t, uint64_t operand) {
    operand &= 0xFFFF;
    return operand & 0x8000 ? e->image->contents->constants[operand & 0x7FFF]
                            : e->registers[operand][t];
}

/* Where the code of a fill is. */
WF_FUNCTION const uint64_t *wf_code(const wf_image *i, uint32_t f) {
    const wf_contents *c = i->contents;
    const int32_t *program = c->programs + (f * c->period + i->slot) * 2;
    return c->code + c->starts[program[0] + (int32_t)(i->turn % (uint32_t)program[1])];
}

/* Starts a fill: computes numbers of the image. */
WF_FUNCTION void wf_start(wf_elements *e, const wf_image *i, uint32_t f, const uint64_t *code) {
    int bits, t;
    e->image = i;
    e->filling = i->contents->fillings + f * WF_FIELDS;
    WF_EACH e->line[t] = e->position[t] = 0;
    bits = e->filling[WF_BITS];
    e->mask = bits == 64 ? ~(uint64_t)0 : ((uint64_t)1 << (bits < 8 ? 8 : bits)) - 1;
    wf_run(e, code + 1, (int)(code[0] & 0xFFFF));
}

WF_FUNCTION void wf_everywhere(const wf_image *i, uint32_t f) {
    const wf_contents *c = i->contents;
    const uint64_t *code = wf_code(i, f);
    const int32_t *filling = c->fillings + f * WF_FIELDS;
    uint64_t head = code[0];
    int stays = (head >> 32 & 0xFFFF) == WF_LEAVE, t;
    uint32_t positions = (uint32_t)filling[WF_POSITIONS], first;
    uint32_t count = (uint32_t)filling[WF_LINES] * positions;
    wf_elements e;
    wf_start(&e, i, f, code);
    /* Two elements of 4 bits share a byte: one lane writes both. */
    for (first = i->lane * WF_TOGETHER; first < count; first += i->lanes * WF_TOGETHER) {
        uint32_t line = first / positions, position = first - line * positions;
        WF_EACH {
            e.line[t] = (int32_t)line;
            e.position[t] = (int32_t)position;
            if (first + t + 1 < count && ++position == positions) {
                position = 0;
                line++;
            }
        }
        if (!stays) wf_run(&e, code + 1 + (head & 0xFFFF), (int)(head >> 16 & 0xFFFF));
        WF_EACH {
            uint64_t raw = stays ? wf_read(c, i->noise, filling, e.line[t], e.position[t])
                                 : wf_operand(&e, t, head >> 32);
            wf_write(c, i->image, filling, e.line[t], e.position[t], raw);
        }
    }
}

WF_FUNCTION void wf_placed(const wf_image *i, uint32_t f) {
    const uint64_t *code = wf_code(i, f);
    uint32_t line, lines, count = (uint32_t)(code[0] >> 48), placed;
    wf_elements e;
    int t;
    if (!count) return;
    wf_start(&e, i, f, code);
    code += 1 + (code[0] & 0xFFFF) + (code[0] >> 16 & 0xFFFF);
    for (placed = 0; placed < count; placed++) {
        uint64_t head = code[0];
        int single = (head >> 16 & 0xFFFF) != WF_LEAVE;
        lines = single ? 1 : (uint32_t)e.filling[WF_LINES];
        for (line = i->lane; line < lines; line += i->lanes) {
            WF_EACH e.line[t] = (int32_t)line;
            wf_run(&e, code + 1, (int)(head & 0xFFFF));
            wf_write(i->contents, i->image, e.filling,
                     single ? (int32_t)wf_operand(&e, 0, head >> 16) : e.line[0],
                     (int32_t)wf_operand(&e, 0, head >> 32), wf_operand(&e, 0, head >> 48));
        }
        code += 1 + (head & 0xFFFF);
    }
}

#endif
