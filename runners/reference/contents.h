/* Contents of images by their numbers, in integers: the device's side of strategies/contents.
 *
 * C99, CUDA C and C++ alike. The arrays are those of strategies/contents/device.py, which says what
 * they mean; wf_opened finds them in its words. One image is made by `lanes` lanes, each of which
 * calls, with a barrier of the lanes behind each call:
 *
 *     wf_words(c, number, image, noise, draws, lane, lanes);
 *     for (f = 0; f < c->count; f++) {
 *         wf_everywhere(c, f, number, image, noise, draws, lane, lanes);
 *         wf_placed(c, f, number, image, noise, draws, lane, lanes);
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
    WF_LEAVE = 0xFFFF, WF_REGISTERS = 128, WF_GOLDEN = 0x9E3779B9,
    WF_BITS = 0, WF_LINES, WF_POSITIONS, WF_TURNED, WF_PLACES, WF_WIDTH, WF_A, WF_B, WF_FIELDS
};

typedef struct {
    const wf_contents *contents;
    const uint8_t *image, *noise;
    const uint16_t *draws;
    const int32_t *filling;
    uint64_t mask;
    int32_t line, position;
} wf_element;

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

WF_FUNCTION void wf_block(const wf_contents *c, uint64_t number, uint32_t block, uint32_t stream,
                          uint32_t words[4]) {
    uint64_t members = (uint64_t)c->period * c->sharing, group = number / members;
    uint32_t shift = (uint32_t)(number % members) * (uint32_t)WF_GOLDEN;
    int i;
    words[0] = block;
    words[1] = stream;
    words[2] = (uint32_t)group;
    words[3] = (uint32_t)(group >> 32);
    wf_philox(words, c->seed);
    for (i = 0; i < 4; i++) words[i] += shift;
}

WF_FUNCTION void wf_words(const wf_contents *c, uint64_t number, uint8_t *image, uint8_t *noise,
                          uint16_t *draws, uint32_t lane, uint32_t lanes) {
    uint32_t block, blocks = c->image_bytes / 16, words[4], gap;
    int i;
    wf_block(c, number, 0, 2, words);
    gap = words[0];
    for (block = lane; block < blocks + 8; block += lanes) {
        if (block >= blocks) {
            wf_block(c, number, block - blocks, 1, words);
            for (i = 0; i < 8; i++)
                draws[(block - blocks) * 8 + i] = (uint16_t)(words[i / 2] >> i % 2 * 16);
            continue;
        }
        if (c->drawn[block]) wf_block(c, number, block, 0, words);
        else
            for (i = 0; i < 4; i++) words[i] = wf_gap(block * 4 + i) ^ gap;
        for (i = 0; i < 4; i++) {
            ((uint32_t *)image)[block * 4 + i] = words[i];
            ((uint32_t *)noise)[block * 4 + i] = words[i];
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
WF_CALLED uint64_t wf_sum(const wf_element *e, const uint64_t *s) {
    const wf_contents *c = e->contents;
    const int32_t *a = c->fillings + e->filling[WF_A] * WF_FIELDS;
    const int32_t *b = c->fillings + e->filling[WF_B] * WF_FIELDS;
    int kind = (int)s[0], depth = (int)s[1], run = (int)s[2], k;
    int64_t total = 0;
    for (k = 0; k < depth; k++) {
        uint64_t x = wf_read(c, e->image, a, e->line, k);
        uint64_t y = wf_read(c, e->image, b, e->position, run ? k / run * 2 * run + k % run : k);
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

WF_CALLED void wf_run(const wf_element *e, uint64_t *registers, const uint64_t *code, int count) {
    const uint64_t *constants = e->contents->constants;
    int i, j;
    for (i = 0; i < count; i++) {
        uint64_t instruction = code[i], v[3], result = 0;
        int patterns = (int)(instruction >> 7 & 1);
        int32_t limit, index;
        for (j = 0; j < 3; j++) {
            uint32_t operand = (uint32_t)(instruction >> (16 + 16 * j)) & 0xFFFF;
            v[j] = operand & 0x8000 ? constants[operand & 0x7FFF]
                                    : registers[operand % WF_REGISTERS];
        }
        switch (instruction & 127) {
        case 1: result = (uint64_t)e->line; break;
        case 2: result = (uint64_t)e->position; break;
        case 3: result = e->draws[v[0] & 63] * v[1] >> 16; break;
        case 4: result = wf_read(e->contents, e->noise, e->filling, e->line, e->position); break;
        case 5: result = wf_read(e->contents, e->noise, e->filling, e->line, (int32_t)v[0]); break;
        case 6:
        case 7:
            limit = (int32_t)v[2] - 1;
            index = (int64_t)v[0] < 0 ? 0 : (int64_t)v[0] > limit ? limit : (int32_t)v[0];
            result = constants[v[1] + index];
            break;
        case 8:
        case 9: result = v[0]; break;
        case 20: result = v[0] ? v[1] : v[2]; break;
        case 21:
            result = (int64_t)v[0] < (int64_t)v[1] ? v[1] : (int64_t)v[0] > (int64_t)v[2] ? v[2] : v[0];
            break;
        case 22: result = wf_sum(e, constants + v[0]); break;
        default:
            if (patterns) {
                v[0] &= e->mask;
                v[1] &= e->mask;
            }
            switch (instruction & 127) {
            case 10: result = v[0] + v[1]; break;
            case 11: result = v[0] - v[1]; break;
            case 12: result = v[0] * v[1]; break;
            case 13: result = v[0] & v[1]; break;
            case 14: result = v[0] | v[1]; break;
            case 15: result = v[0] ^ v[1]; break;
            case 16: result = v[0] << v[1]; break;
            case 17: result = patterns ? v[0] >> v[1] : (uint64_t)((int64_t)v[0] >> v[1]); break;
            case 18: result = v[0] == v[1]; break;
            case 19: result = (int64_t)v[0] < (int64_t)v[1]; break;
            }
        }
        registers[instruction >> 8 & 0xFF] = patterns ? result & e->mask : result;
    }
}

WF_FUNCTION uint64_t wf_operand(const wf_contents *c, const uint64_t *registers, uint64_t operand) {
    operand &= 0xFFFF;
    return operand & 0x8000 ? c->constants[operand & 0x7FFF] : registers[operand];
}

/* Start a fill: numbers of the image are computed, and the code behind them is returned. */
WF_FUNCTION const uint64_t *wf_start(wf_element *e, uint64_t *registers, const wf_contents *c,
                                     uint32_t f, uint64_t number, uint8_t *image,
                                     const uint8_t *noise, const uint16_t *draws) {
    const int32_t *program = c->programs + (f * c->period + (uint32_t)(number % c->period)) * 2;
    const uint64_t *code =
        c->code + c->starts[program[0] + (int32_t)(number / c->period % (uint32_t)program[1])];
    int bits;
    e->contents = c;
    e->image = image;
    e->noise = noise;
    e->draws = draws;
    e->filling = c->fillings + f * WF_FIELDS;
    e->line = e->position = 0;
    bits = e->filling[WF_BITS];
    e->mask = bits == 64 ? ~(uint64_t)0 : ((uint64_t)1 << (bits < 8 ? 8 : bits)) - 1;
    wf_run(e, registers, code + 1, (int)(code[0] & 0xFFFF));
    return code;
}

WF_FUNCTION void wf_everywhere(const wf_contents *c, uint32_t f, uint64_t number, uint8_t *image,
                               const uint8_t *noise, const uint16_t *draws, uint32_t lane,
                               uint32_t lanes) {
    uint64_t registers[WF_REGISTERS];
    wf_element e;
    const uint64_t *code = wf_start(&e, registers, c, f, number, image, noise, draws);
    uint64_t head = code[0];
    const int32_t *filling = e.filling;
    /* Two elements of 4 bits share a byte: one lane writes both. */
    uint32_t together = filling[WF_BITS] == 4 ? 2 : 1, positions = filling[WF_POSITIONS];
    uint32_t i, j, count = filling[WF_LINES] * positions;
    for (i = lane * together; i < count; i += lanes * together)
        for (j = i; j < i + together; j++) {
            e.line = (int32_t)(j / positions);
            e.position = (int32_t)(j % positions);
            if ((head >> 32 & 0xFFFF) == WF_LEAVE) {
                wf_write(c, image, filling, e.line, e.position,
                         wf_read(c, noise, filling, e.line, e.position));
                continue;
            }
            wf_run(&e, registers, code + 1 + (head & 0xFFFF), (int)(head >> 16 & 0xFFFF));
            wf_write(c, image, filling, e.line, e.position,
                     wf_operand(c, registers, head >> 32));
        }
}

WF_FUNCTION void wf_placed(const wf_contents *c, uint32_t f, uint64_t number, uint8_t *image,
                           const uint8_t *noise, const uint16_t *draws, uint32_t lane,
                           uint32_t lanes) {
    uint64_t registers[WF_REGISTERS];
    wf_element e;
    const uint64_t *code = wf_start(&e, registers, c, f, number, image, noise, draws);
    uint32_t line, count = (uint32_t)(code[0] >> 48), i;
    code += 1 + (code[0] & 0xFFFF) + (code[0] >> 16 & 0xFFFF);
    for (i = 0; i < count; i++) {
        uint64_t head = code[0];
        int single = (head >> 16 & 0xFFFF) == WF_LEAVE ? 0 : 1;
        for (line = lane; line < (single ? 1 : (uint32_t)e.filling[WF_LINES]); line += lanes) {
            e.line = (int32_t)line;
            wf_run(&e, registers, code + 1, (int)(head & 0xFFFF));
            wf_write(c, image, e.filling,
                     single ? (int32_t)wf_operand(c, registers, head >> 16) : e.line,
                     (int32_t)wf_operand(c, registers, head >> 32),
                     wf_operand(c, registers, head >> 48));
        }
        code += 1 + (head & 0xFFFF);
    }
}

#endif
