// The reference on the device: an interpreter of programs that the encoder beside it wrote down as
// words of 32 bits (encoding.py says what each instruction means). One warp works on one image; on a
// processor, where a C++ compiler builds the same text for the tests, one thread does the work of its
// lanes. All numbers are integers: nothing here depends on how a device adds or multiplies floats.

#include "contents.h"

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

#ifdef __CUDACC__
#define HERE static __device__ __forceinline__
#define APART static __device__ __noinline__
#define LANES 32u
#define LANE (threadIdx.x & 31u)
#define MEET() __syncwarp()
#define ANY(x) __any_sync(0xffffffffu, x)
#define LEADING(x) (sizeof(x) == 8 ? __clzll((i64)(x)) : __clz((int)(x)))
#define ONES(x) (u32)__popc(x)
#define UNROLL _Pragma("unroll")
#define ROLLED _Pragma("unroll 1")
#else
#define HERE static inline
#define APART static
#ifndef LANES   // a test has 32 of them in one thread
#define LANES 1u
#define LANE 0u
#define MEET()
#define ANY(x) (x)
#endif
#define LEADING(x) (sizeof(x) == 8 ? __builtin_clzll(x) : __builtin_clz((u32)(x)))
#define ONES(x) (u32)__builtin_popcount(x)
#define UNROLL
#define ROLLED
#endif
// On a device twice: loads from shared memory are quicker where the compiler knows of it.
#ifdef __CUDACC__
#define TWICE(call) do { if (__isShared(work)) { __builtin_assume(__isShared(work)); call; } else call; } while (0)
#else
#define TWICE(call) call
#endif
#define EACH(i, n) for (u32 i = LANE; i < (n); i += LANES)

// Loads some items of a lane before any of them is stored: the compiler cannot know that none is
// loaded where another was stored, and a warp would wait for each.
template <typename T, u32 N, typename From, typename To>
HERE void at_once(u32 count, From from, To to) {
  for (u32 first = LANE; first < count; first += N * LANES) {
    T some[N];
    UNROLL
    for (u32 i = 0; i < N; i++) some[i] = from(first + i * LANES < count ? first + i * LANES : first);
    UNROLL
    for (u32 i = 0; i < N; i++) if (first + i * LANES < count) to(first + i * LANES, some[i]);
  }
}

template <typename T>
HERE void copied(const u8 *from, u8 *to, u32 size) {
  at_once<T, 4>((u32)(size / sizeof(T)), [=](u32 i) { return ((const T *)from)[i]; }, [=](u32 i, T x) { ((T *)to)[i] = x; });
}

struct alignas(16) Sixteen { u64 low, high; };

// Loads what is not wanted again past the first-level cache, and leaves that to registers that have no room.
HERE Sixteen passing(const u8 *at) {
#ifdef __CUDACC__
  ulonglong2 x = __ldcg((const ulonglong2 *)at);
  Sixteen y = {x.x, x.y};
  return y;
#else
  return *(const Sixteen *)at;
#endif
}

// Floats. A format is a word: its size in bits << 16 | bits of the exponent << 8 | bits of the
// fraction. What the size has room for beyond them are low bits that are ignored (tf32).

enum { RN, RZ, RM, RP, RNA, TO_BE_FLUSHED = 8 };   // roundings, as in encoding.py; the last one beside another
enum { TO_INFINITY, TO_LARGEST, AS_IEEE };    // what becomes of a number that is too large
enum { FINITE, INFINITE, NOT_A_NUMBER };

HERE u32 width(u32 format) { return format >> 16; }
HERE u32 exponent_bits(u32 format) { return format >> 8 & 255; }
HERE u32 fraction_bits(u32 format) { return format & 255; }
HERE int bias(u32 format) { return (1 << (exponent_bits(format) - 1)) - 1; }
HERE u64 infinity(u32 format) { return ((1ull << exponent_bits(format)) - 1) << fraction_bits(format); }
HERE u64 sign_bit(u32 format) { return 1ull << (width(format) - 1); }

HERE u32 unordered(u64 x, u32 format) { return (x & (sign_bit(format) - 1)) > infinity(format); }

template <typename T>
struct Number {
  u32 kind, negative;
  T significand;     // value = significand * 2^exponent
  int exponent;
};

// T holds the patterns of the format: u32, or u64 for f64.
template <typename T>
HERE Number<T> number(T bits, u32 format) {
  Number<T> x;
  u32 ignored = width(format) - 1 - exponent_bits(format) - fraction_bits(format);
  T magnitude = (bits & (T)(sign_bit(format) - 1)) >> ignored, unit = (T)1 << fraction_bits(format);
  T fraction = magnitude & (unit - 1);
  int field = (int)(magnitude >> fraction_bits(format));
  x.negative = (bits & (T)sign_bit(format)) != 0;
  x.kind = field < (1 << exponent_bits(format)) - 1 ? FINITE : fraction ? NOT_A_NUMBER : INFINITE;
  x.significand = field ? fraction | unit : fraction;
  x.exponent = (field ? field : 1) - bias(format) - (int)fraction_bits(format);
  return x;
}

// The pattern of significand * 2^exponent, rounded once. A lowest bit that stands for a rest below it
// does no harm where the significand has two bits more than the format. The format has no ignored bits.
// `most` is the first pattern that is no number, `highest` the exponent of the largest number. `rounding`
// with TO_BE_FLUSHED gives some subnormal where the number is tiny after it was rounded as if exponents had
// no end: that is what .ftz makes zero (measured on H200, 2026-11-23).
template <typename T>
HERE T rounded_below(u32 negative, T significand, int exponent, u32 format, u32 rounding, u32 overflow, T most, int highest) {
  const int bits = 8 * sizeof(T);
  T sign = negative ? (T)sign_bit(format) : 0;
  if (!significand) return sign;
  int top = exponent + bits - 1 - LEADING(significand);
  int least = 1 - bias(format);
  if (rounding & TO_BE_FLUSHED) {   // as many bits in the next lower binade; what is below that stays tiny
    if (top < --least) return sign;
    rounding &= TO_BE_FLUSHED - 1;
  }
  int drop = (top > least ? top : least) - (int)fraction_bits(format) - exponent;
  T kept = drop <= 0 ? significand << -drop : drop < bits ? significand >> drop : 0;
  if (rounding != RZ && drop > 0) {
    T half = (T)1 << ((drop < bits ? drop : bits) - 1);
    T rest = drop < bits ? significand & (2 * half - 1) : drop == bits ? significand : 1;
    kept += rounding == RN ? rest > half || (rest == half && (kept & 1))
          : rounding == RNA ? rest >= half
          : rest && negative == (rounding == RM);
  }
  T pattern = most;
  if (top <= highest)   // a carry out of the fraction counts the exponent up
    pattern = top < least ? kept : kept + ((T)(top + bias(format) - 1) << fraction_bits(format));
  if (pattern < most) return sign | pattern;
  u32 inward = rounding == RZ || (rounding == RM && !negative) || (rounding == RP && negative);
  return sign | (most - (overflow == TO_LARGEST || (overflow == AS_IEEE && inward)));
}

template <typename T>
HERE T rounded(u32 negative, T significand, int exponent, u32 format, u32 rounding, u32 overflow) {
  return rounded_below<T>(negative, significand, exponent, format, rounding, overflow, (T)infinity(format), bias(format));
}

struct Wide { u64 high, low; };

HERE Wide product_of(u64 x, u64 y) {
  u64 a = x >> 32, b = (u32)x, c = y >> 32, d = (u32)y;
  u64 middle = a * d + (b * d >> 32), other = b * c + (u32)middle;
  Wide w;
  w.high = a * c + (middle >> 32) + (other >> 32);
  w.low = other << 32 | (u32)(b * d);
  return w;
}

HERE Wide to_left(Wide w, u32 n) {
  if (n >= 64) w.high = w.low, w.low = 0, n -= 64;
  if (n) w.high = w.high << n | w.low >> (64 - n), w.low <<= n;
  return w;
}

// To the right, and whatever is lost sets the lowest bit.
HERE Wide to_right(Wide w, u32 n) {
  u64 lost = 0;
  if (n >= 128) lost = w.high | w.low, w.high = w.low = 0, n = 0;
  if (n >= 64) lost = w.low, w.low = w.high, w.high = 0, n -= 64;
  if (n) lost |= w.low << (64 - n), w.low = w.low >> n | w.high << (64 - n), w.high >>= n;
  w.low |= lost != 0;
  return w;
}

// Puts the highest bit of a wide number that is not zero at bit 126, and corrects its exponent.
HERE Wide normal(Wide w, int *exponent) {
  int n = (w.high ? LEADING(w.high) : 64 + LEADING(w.low)) - 1;
  *exponent -= n;
  return n < 0 ? to_right(w, 1) : to_left(w, (u32)n);
}

// a * b + c, rounded once as IEEE 754 has it; `nan` where that is no number.
APART u64 fused(u64 a_bits, u32 a_format, u64 b_bits, u64 c_bits, u32 format, u32 rounding, u64 nan) {
  Number<u64> a = number(a_bits, a_format), b = number(b_bits, a_format), c = number(c_bits, format);
  u32 negative = a.negative ^ b.negative;
  if (a.kind == NOT_A_NUMBER || b.kind == NOT_A_NUMBER || c.kind == NOT_A_NUMBER) return nan;
  if (a.kind == INFINITE || b.kind == INFINITE) {
    if (!a.significand || !b.significand || (c.kind == INFINITE && c.negative != negative)) return nan;
    return infinity(format) | (negative ? sign_bit(format) : 0);
  }
  if (c.kind == INFINITE) return infinity(format) | (c.negative ? sign_bit(format) : 0);
  Wide p = product_of(a.significand, b.significand), q = {0, c.significand}, sum;
  int e = a.exponent + b.exponent, f = c.exponent;
  u32 is_zero = !(p.high | p.low);
  if (is_zero && !q.low) {
    if (negative != c.negative) negative = (rounding & 7) == RM;
    return negative ? sign_bit(format) : 0;
  }
  if (is_zero) sum = normal(q, &f), e = f, negative = c.negative;
  else {
    p = normal(p, &e);
    sum = p;
    if (q.low) {
      q = normal(q, &f);
      if (f > e || (f == e && (q.high > p.high || (q.high == p.high && q.low > p.low)))) {
        Wide w = p; p = q; q = w;
        int g = e; e = f; f = g;
        u32 n = negative; negative = c.negative; c.negative = n;
      }
      q = to_right(q, (u32)(e - f) < 128u ? (u32)(e - f) : 128u);
      if (negative == c.negative) sum.low = p.low + q.low, sum.high = p.high + q.high + (sum.low < p.low);
      else sum.low = p.low - q.low, sum.high = p.high - q.high - (p.low < q.low);
      if (!(sum.high | sum.low)) return (rounding & 7) == RM ? sign_bit(format) : 0;
      sum = normal(sum, &e);
    }
  }
  return rounded(negative, sum.high | (sum.low != 0), e + 64, format, rounding, AS_IEEE);
}

enum { F16 = 16 << 16 | 5 << 8 | 10, BF16 = 16 << 16 | 8 << 8 | 7, F32 = 32 << 16 | 8 << 8 | 23, F64 = 64 << 16 | 11 << 8 | 52 };

HERE u64 loaded(const u8 *at, u32 index, u32 bits) {
  if (bits == 16) return ((const u16 *)at)[index];
  if (bits == 32) return ((const u32 *)at)[index];
  return bits == 64 ? ((const u64 *)at)[index] : at[index];
}

HERE void stored(u8 *at, u32 index, u32 bits, u64 value) {
  if (bits == 16) ((u16 *)at)[index] = (u16)value;
  else if (bits == 32) ((u32 *)at)[index] = (u32)value;
  else ((u64 *)at)[index] = value;
}

HERE u64 flushed(u64 bits, u32 format) { return bits & infinity(format) << (width(format) - 1 - exponent_bits(format) - fraction_bits(format)) ? bits : bits & sign_bit(format); }

HERE u64 converted(u64 bits, u32 from, u32 to, u32 rounding, u32 overflow, u64 nan) {
  Number<u64> x = number(bits, from);
  if (x.kind == NOT_A_NUMBER) return nan;
  if (x.kind == INFINITE) return infinity(to) | (x.negative ? sign_bit(to) : 0);
  return rounded(x.negative, x.significand, x.exponent, to, rounding, overflow);
}

// Dot products of blocks. The words of the instruction, in their order; `apart` says that each output
// has a line of B of its own, not each column:

struct Dot {
  u32 m, n, log_k, apart, a, b, c, d, scratch, a_format, b_format, c_format, format, d_format, members, blocks;
  u32 fraction, zero_exponent, normalised, limited, rounding, overflow, negative_zero, low_bits_rounded;
  u32 a_flushed, b_flushed, c_flushed, d_flushed, separate, last, addition, narrowing, nan, quick, in_order, sums, parts;
  u32 cut, own_exponents;   // low bits of the accumulator that sums lack; whether subnormals of 8 bits count as in their format
  u32 indices;   // where the program has the bit of the index of each element of A; 0: metadata place none, or B's lines are what they choose
};

// A multiplicand: its significand and exponent, or what stands for one. Two of these markers, or one
// and an exponent, sum to less than any exponent of a product.

enum { ZERO = -2000, INFINITE_FACTOR = -4000, NAN_FACTOR = -8000 };

struct Factor { int significand, exponent; };

HERE Factor made(int significand, int exponent) {
  Factor x = {significand, exponent};
  return x;
}

// An element of 8 or 4 bits, with as many bits of a fraction as f16. One of 8 bits that needs fewer has two
// bits of padding above its sign, and none of these has infinities or NaNs. `own`: whether a subnormal one
// keeps the least exponent of its format; else it counts, and is flushed, as f16 has it: only those of e5m2 are subnormal there.
HERE Factor narrow_factor(u32 bits, u32 format, u32 flush, u32 own) {
  u32 e = exponent_bits(format), f = fraction_bits(format), is_padded = e + f < 7 && width(format) == 8;
  u32 sign = is_padded ? 5 : width(format) - 1, magnitude = (bits & ((1u << sign) - 1)) >> (sign - e - f);
  u32 field = magnitude >> f, fraction = magnitude & ((1u << f) - 1), negative = bits >> sign & 1;
  int exponent = (int)(field ? field : 1) - bias(format), s = (int)(field ? fraction | 1u << f : fraction) << (fraction_bits(F16) - f);
  if (e == 5 && field == 31) s = 1, exponent = fraction ? NAN_FACTOR : INFINITE_FACTOR;
  else if (e == 4 && magnitude == 127) s = 1, exponent = NAN_FACTOR;
  else if (!s || (flush && !field && (own || e == 5))) s = 0, exponent = ZERO;
  else if (!own && e < 5) for (; s < 1024; exponent--) s <<= 1;
  return made(negative ? -s : s, exponent);
}

HERE Factor factor(u32 bits, u32 format, u32 flush, u32 round_low, u32 own) {
  if (width(format) <= 8) return narrow_factor(bits, format, flush, own);
  u32 ignored = width(format) - 1 - exponent_bits(format) - fraction_bits(format);
  if (round_low && (bits >> ignored & (u32)infinity(format)) != (u32)infinity(format)) bits += 1u << (ignored - 1);
  Number<u32> x = number(bits, format);
  u32 s = flush && x.significand >> fraction_bits(format) == 0 ? 0 : x.significand;
  int e = s ? x.exponent + (int)fraction_bits(format) : ZERO;
  if (x.kind != FINITE) s = 1, e = x.kind == INFINITE ? INFINITE_FACTOR : NAN_FACTOR;
  return made(x.negative ? -(int)s : (int)s, e);
}

// What is special of a row of A or a column of B: a bit for each of its factors.

struct Specials { u32 nan, infinite, zero, negative; };

HERE u32 special_sum(Specials a, Specials b, u32 block, u32 up, u32 down, u32 before, u32 format) {
  u32 nan = (u32)sign_bit(format) - 1, most = (u32)infinity(format);
  u32 invalid = a.nan | b.nan | (a.infinite & b.zero) | (a.zero & b.infinite);
  u32 infinite = (a.infinite | b.infinite) & block, negative = a.negative ^ b.negative;
  Number<u32> x = number(before, format);
  down |= (infinite & negative) || (x.kind == INFINITE && x.negative);
  up |= (infinite & ~negative) || (x.kind == INFINITE && !x.negative);
  if ((invalid & block) || x.kind == NOT_A_NUMBER || (up && down)) return nan;
  return most | (down ? (u32)sign_bit(format) : 0);
}

// The pattern of sum * 2^exponent; of zero that of +0.
HERE u32 sum_rounded(i64 sum, int exponent, u32 format, u32 rounding, u32 overflow) {
  u64 magnitude = sum < 0 ? (u64)-sum : (u64)sum;
  // 32 bits are enough for a result of 24, if the lowest says whether there is more.
  int excess = magnitude >> 32 ? 32 - LEADING(magnitude) : 0;
  u32 high = (u32)(magnitude >> excess) | ((magnitude & ((1ull << excess) - 1)) != 0);
  return rounded(sum < 0, high, exponent + excess, format, rounding, overflow);
}

// What comes out of a block. A format that has fewer bits than the accumulator is a shorter one.
HERE u32 block_end(i64 sum, int exponent, u32 format, const Dot &r) {
  u32 shorter = format - (r.cut << 16) - r.cut;
  u32 bits = sum_rounded(sum, exponent, shorter, r.rounding, r.overflow) << r.cut;
  if (bits & (u32)(sign_bit(format) - 1)) return bits;
  return r.negative_zero ? (u32)sign_bit(format) : 0;
}

HERE u32 to_the_right(u32 x, u32 n) {
#ifdef __CUDACC__   // there, all bits are lost beyond 31
  asm("shr.u32 %0, %0, %1;" : "+r"(x) : "r"(n));
  return x;
#else
  return n < 32 ? x >> n : 0;
#endif
}

HERE int signed_to_the_right(int x, u32 n) {
#ifdef __CUDACC__   // the same, but for the sign
  asm("shr.s32 %0, %0, %1;" : "+r"(x) : "r"(n));
  return x;
#else
  return x >> (n < 31 ? n : 31);
#endif
}

HERE u32 to_the_left_of_32(u32 x, u32 n) {
#ifdef __CUDACC__   // the same
  asm("shl.b32 %0, %0, %1;" : "+r"(x) : "r"(n));
  return x;
#else
  return n < 32 ? x << n : 0;
#endif
}

// The low half of a product, and its high half: all bits if it is negative, or none.
HERE int signed_product(int x, int y, u32 *high) {
#ifdef __CUDACC__   // the compiler else multiplies numbers of 64 bits
  int low;
  asm("{.reg .s64 p; mul.wide.s32 p, %2, %3; mov.b64 {%0, %1}, p;}" : "=r"(low), "=r"(*high) : "r"(x), "r"(y));
  return low;
#else
  *high = (u32)((i64)x * y >> 32);
  return x * y;
#endif
}

HERE i64 aligned(u64 significand, u32 shift) { return (i64)(significand >> (shift < 63 ? shift : 63)); }

// Which products of a block are 2^128 or more, a bit for each: those of one sign.
HERE u32 too_large(const Factor *a, const Factor *b, u32 count, u32 fractions, u32 negative) {
  u32 found = 0;
  for (u32 k = 0; k < count; k++) {
    int p = a[k].significand * b[k].significand, e = a[k].exponent + b[k].exponent;
    u32 magnitude = p < 0 ? (u32)-p : (u32)p;
    found |= (u32)(p && (p < 0) == negative && e + 63 - LEADING((u64)magnitude) - (int)fractions >= 128) << k;
  }
  return found;
}

// The sum of one block where nothing is known of the figures.
APART u32 any_block(const Factor *a, const Factor *b, u32 count, u32 before, const u32 *words, u32 fractions) {
  const Dot &r = *(const Dot *)words;
  Number<u32> c = number(before, r.format);
  int own = c.exponent + (int)fraction_bits(r.format);
  int largest = c.significand ? own : (int)r.zero_exponent;
  for (u32 k = 0; k < count; k++) {
    int p = a[k].significand * b[k].significand, e = a[k].exponent + b[k].exponent;
    u32 magnitude = p < 0 ? (u32)-p : (u32)p;
    if (!p) e = (int)r.zero_exponent;
    else if (r.normalised) e += (int)(magnitude >> (fractions + 1));
    largest = e > largest ? e : largest;
  }
  i64 sum = aligned((u64)c.significand << r.fraction, fraction_bits(r.format) + (u32)(largest - own));
  if (c.negative) sum = -sum;
  for (u32 k = 0; k < count; k++) {
    int p = a[k].significand * b[k].significand, e = a[k].exponent + b[k].exponent;
    i64 term = aligned((u64)(p < 0 ? -p : p) << r.fraction, fractions + (u32)(largest - e));
    sum += p < 0 ? -term : term;
  }
  return block_end(sum, largest - (int)r.fraction, r.format, r);
}

// The pattern of magnitude * 2^exponent, rounded once as sums of products are: f32 towards zero, f16 to
// the nearest. `ceiling` is what becomes of a number that is too large, `zero` of one that is 0.
template <u32 FORMAT>
HERE u32 quickly_rounded(u32 negative, u32 magnitude, int exponent, u32 ceiling, u32 zero) {
  const int least = 1 - bias(FORMAT);
  u32 up = (u32)LEADING(magnitude | 1), significand = magnitude << up;
  int above = exponent + 31 - (int)up - least;   // binades above the lowest one of normal numbers
  u32 binade = above > 0 ? (u32)above : 0, drop = 31 - fraction_bits(FORMAT) + binade - (u32)above;
  u32 kept = to_the_right(significand, drop);
  if (FORMAT == F16) kept += to_the_left_of_32(significand, 32 - drop) + (kept & 1) > 1u << 31;
  u32 pattern = kept + (binade << fraction_bits(FORMAT));   // no exponent of a sum is above 511
  if (pattern >= (u32)infinity(FORMAT)) pattern = ceiling;
  if (!magnitude) pattern = 0;
  return pattern ? pattern | negative << (width(FORMAT) - 1) : zero;
}

// The same for blocks of one length where terms fit into 32 bits, zero has an exponent below that of
// every accumulator (so that it always counts: either the accumulator is zero, or it is larger), and
// the exponent of a product is the sum of those of its factors. Significands of A were shifted so far
// that those of products have the block's fraction bits.
struct alignas(16) Factors { Factor first, second; };

template <int LENGTH, u32 FORMAT>
HERE u32 quick_block(const Factors *a, const Factors *b, u32 before, int zero_exponent, int fraction, u32 ceiling, u32 zero) {
  Number<u32> c = number(before, FORMAT);
  int own = c.exponent + (int)fraction_bits(FORMAT), largest = zero_exponent;
  if (c.significand && own > largest) largest = own;
  int p[LENGTH], e[LENGTH];   // products; a negative one is 1 less, so that a shift rounds it towards zero, too
  u32 minus[LENGTH];   // all bits of those, or none
  UNROLL
  for (int k = 0; k < LENGTH; k += 2) {
    Factors x = a[k / 2], y = b[k / 2];
    UNROLL
    for (int i = 0; i < 2; i++) {
      Factor u = i ? x.second : x.first, v = i ? y.second : y.first;
      p[k + i] = signed_product(u.significand, v.significand, &minus[k + i]);
      p[k + i] = (int)((u32)p[k + i] + minus[k + i]);
      e[k + i] = u.exponent + v.exponent;
      largest = e[k + i] > largest ? e[k + i] : largest;
    }
  }
  u32 sum = 0;
  UNROLL
  for (int k = 0; k < LENGTH; k++) sum += (u32)signed_to_the_right(p[k], (u32)(largest - e[k])) - minus[k];
  // Fewer than fraction + 2 bits; those below the block's fraction bits are lost.
  int lift = fraction - (int)fraction_bits(FORMAT), shift = largest - own;
  u32 term = to_the_right(lift < 0 ? c.significand : c.significand << lift, (u32)(lift < 0 ? shift - lift : shift));
  i64 total = (i64)(int)sum + (c.negative ? -(int)term : (int)term);
  u32 magnitude = total < 0 ? 0 - (u32)total : (u32)total;
  return quickly_rounded<FORMAT>(total < 0, magnitude, largest - fraction, ceiling, zero);
}

// Where a dot product keeps its words, the orders of k behind them, and what it decoded.
struct Scratch {
  u32 *words;
  Factor *a, *b;
  Specials *specials;
  u8 *chosen;   // which element of a line of B each element of A meets, of a sparse A; B lies across then, k by k
};

HERE Scratch scratch_of(const Dot &r, u8 *work) {
  u32 pitch = (1u << r.log_k) + 2, lines = r.apart ? r.m * r.n : r.n;
  Scratch s;
  s.words = (u32 *)(work + r.scratch);
  s.a = (Factor *)(s.words + (sizeof(Dot) / 4 + (1u << r.log_k) + r.blocks + 3) / 4 * 4);
  s.b = s.a + r.m * pitch;
  s.specials = (Specials *)(s.b + (r.indices ? (r.n << r.log_k) * 2 : lines * pitch));
  s.chosen = (u8 *)(s.specials + r.m + lines);
  return s;
}

template <int LENGTH>
HERE void load_factors(const Factor *from, Factors *to) {
  UNROLL
  for (int i = 0; i < LENGTH / 2; i++) to[i] = ((const Factors *)from)[i];
}

// What is special of those elements of a column of B that a row of A meets.
HERE Specials specials_met(const Factor *of_b, u32 n, const u8 *chosen, u32 k) {
  Specials s = {0, 0, 0, 0};
  for (u32 i = 0; i < k; i++) {
    Factor x = of_b[chosen[i] * n];
    u32 bit = 1u << i;
    if (x.exponent == NAN_FACTOR) s.nan |= bit;
    if (x.exponent == INFINITE_FACTOR) s.infinite |= bit;
    if (x.exponent == ZERO) s.zero |= bit;
    if (x.significand < 0) s.negative |= bit;
  }
  return s;
}

// Adds one block to the sums of a lane, whose outputs are LANES apart. They are of the same column, and
// have a line of B in common, but where they are of several LINES, or each meets (2) elements of its own. A LENGTH of 0 stands for any, and any
// format. `from` and `to` are where sums are before and after it, in `work`; a sum that is no number becomes `nan`.
struct Sums { u32 from, to, nan; };

template <int LENGTH, u32 FORMAT, int LINES>
HERE void add_some(u32 scratch, u8 *work, u32 start, u32 count, u32 found, Sums sums) {
  const Dot &r = *(const Dot *)(work + scratch);
  const Scratch s = scratch_of(r, work);
  u32 pitch = (1u << r.log_k) + 2, format = LENGTH ? FORMAT : r.format, size = r.m * r.n, n = r.n, apart = r.apart;
  u32 mask = (u32)((1ull << (start + count)) - (1ull << start)), most = (u32)infinity(format);
  u32 fractions = 2 * (width(r.a_format) == 8 ? fraction_bits(F16) : fraction_bits(r.a_format));
  const u32 log_n = 31 - LEADING(n);   // n is 8, 16 or 32
  u32 row = LANE >> log_n, column = LANE & (n - 1), rows = LANES >> log_n, columns = LINES ? LANES & (n - 1) : 0;
  const int zero_exponent = (int)r.zero_exponent, fraction = (int)r.fraction;
  const u32 ceiling = most - (r.overflow == TO_LARGEST || (FORMAT == F32 && r.overflow == AS_IEEE));
  const u32 zero = r.negative_zero ? (u32)sign_bit(format) : 0;
  const u32 *from = (const u32 *)(work + sums.from);
  u32 *to = (u32 *)(work + sums.to);
  const Specials none = {0, 0, 0, 0};
  Factors own[LENGTH ? LENGTH / 2 : 1];
  Specials common = none;
  if (!LINES) load_factors<LENGTH>(s.b + column * pitch + start, own);
  if (!LINES && found) common = s.specials[r.m + column];
  for (u32 output = LANE; output < size; output += LANES) {
    u32 before = from[output], line = apart ? output : column, up = 0, down = 0;
    const Factor *left = s.a + row * pitch + start, *right = s.b + line * pitch + start;
    if (LINES == 1) load_factors<LENGTH>(right, own);
    const u8 *chosen = s.chosen + (row << r.log_k);
    Factor some[LINES == 2 && !LENGTH ? 32 : 1];
    if constexpr (LINES == 2) {
      const Factor *of_b = s.b + column;
      if constexpr (LENGTH) {
        UNROLL
        for (int i = 0; i < LENGTH / 2; i++) {
          own[i].first = of_b[chosen[start + 2 * i] * n];
          own[i].second = of_b[chosen[start + 2 * i + 1] * n];
        }
      }
      else {
        for (u32 i = 0; i < count; i++) some[i] = of_b[chosen[start + i] * n];
        right = some;
      }
    }
    u32 special = (before & most) == most;
    if (found) {
      const Specials *x = s.specials + row;
      if (LINES == 1) common = s.specials[r.m + line];
      if (LINES == 2) common = specials_met(s.b + column, n, chosen, 1u << r.log_k);
      special |= (x->nan | x->infinite | common.nan | common.infinite) & mask;
    }
    if (!LENGTH && r.limited) up = too_large(left, right, count, fractions, 0), down = too_large(left, right, count, fractions, 1);
    if (up || down || special) {
      before = special_sum(found ? s.specials[row] : none, common, mask, up, down, before, format);
      if (unordered(before, format)) before = sums.nan;
    }
    else if constexpr (LENGTH) before = quick_block<LENGTH, FORMAT>((const Factors *)left, own, before, zero_exponent, fraction, ceiling, zero);
    else before = any_block(left, right, count, before, s.words, fractions);
    to[output] = before;
    row += rows;
    if (LINES) {
      column += columns;
      if (column >= n) column -= n, row++;
    }
  }
}

template <int LENGTH, u32 FORMAT>
APART void add_block(u32 scratch, u8 *work, u32 start, u32 count, u32 found, Sums sums) {
  const Dot &r = *(const Dot *)(work + scratch);
  if (r.indices) TWICE((add_some<LENGTH, FORMAT, 2>(scratch, work, start, count, found, sums)));
  else if (!LENGTH || r.apart || LANES & (r.n - 1)) TWICE((add_some<LENGTH, FORMAT, 1>(scratch, work, start, count, found, sums)));
  else TWICE((add_some<LENGTH, FORMAT, 0>(scratch, work, start, count, found, sums)));
}

template <u32 FORMAT>
HERE void add_any(u32 scratch, u8 *work, u32 start, u32 count, u32 found, Sums sums) {
  switch (((const Dot *)(work + scratch))->quick ? count : 0) {
    case 16: add_block<16, FORMAT>(scratch, work, start, count, found, sums); break;
    case 8: add_block<8, FORMAT>(scratch, work, start, count, found, sums); break;
    case 4: add_block<4, FORMAT>(scratch, work, start, count, found, sums); break;
    default: add_block<0, 0>(scratch, work, start, count, found, sums);
  }
}

// Decodes a multiplicand, line after line, k in the order of the blocks. A FORMAT of 0 stands for any.
template <u32 FORMAT>
HERE u32 decoded(const u32 *members, const u8 *from, u32 lines, u32 log_k, u32 any, u32 flush, u32 round_low, u32 own, u32 shift, Factor *to) {
  const u32 format = FORMAT ? FORMAT : any, k = 1u << log_k;
  u32 found = 0, member = members[LANE & (k - 1)];
  at_once<u32, 4>(lines << log_k, [=](u32 i) {
    // The same for all of a lane: k is at most 32.
    u32 place = LANES == 1 ? members[i & (k - 1)] : member;
    return (u32)loaded(from, (i >> log_k) << log_k | place, width(format));
  }, [=, &found](u32 i, u32 bits) {
    Factor x = factor(bits, format, flush, round_low, own);
    found |= x.exponent <= INFINITE_FACTOR;
    x.significand = (int)((u32)x.significand << shift);
    to[(i >> log_k) * (k + 2) + (i & (k - 1))] = x;
  });
  return found;
}

// An element of 16 bits without its sign, as if its highest exponent were one of numbers. A significand of
// `none` or less is 0: of 0, or of what is subnormal and flushed, shifted as significands are.
template <u32 FORMAT>
HERE Factor factor_of_half(u32 magnitude, u32 negative, u32 none, u32 shift) {
  int above = (int)(magnitude >> fraction_bits(FORMAT)) - 1, binade = above > 0 ? above : 0;
  u32 s = (magnitude << shift) - ((u32)binade << (fraction_bits(FORMAT) + shift));
  int e = binade + 1 - bias(FORMAT);
  if (s <= none) s = 0, e = ZERO;
  return made(negative ? -(int)s : (int)s, e);
}

// That, or what stands for an infinity or a NaN.
template <u32 FORMAT>
HERE Factor special_or(u32 bits, Factor x) {
  u32 magnitude = bits & 0x7fff;
  if (magnitude < (u32)infinity(FORMAT)) return x;
  return made(bits >> 15 & 1 ? -1 : 1, magnitude > (u32)infinity(FORMAT) ? NAN_FACTOR : INFINITE_FACTOR);
}

// Decodes elements of 16 bits that lie in the order of the blocks, two at once, eight before any is stored.
// Infinities and NaNs are looked for apart: most matrices have none.
template <u32 FORMAT>
HERE u32 decoded_in_order(const u8 *from, u32 lines, u32 log_k, u32 flush, u32 shift, Factor *to) {
  const u32 half = 1u << (log_k - 1), count = lines * half, none = flush ? ((1u << fraction_bits(FORMAT)) - 1) << shift : 0;
  u32 found = 0;
  for (u32 first = LANE; first < count; first += 4 * LANES) {
    u32 some[4], most = 0;
    Factors x[4];
    UNROLL
    for (u32 i = 0; i < 4; i++) some[i] = ((const u32 *)from)[first + i * LANES < count ? first + i * LANES : first];
    UNROLL
    for (u32 i = 0; i < 4; i++) {
      u32 low = some[i] & 0x7fff, high = some[i] >> 16 & 0x7fff;
      x[i].first = factor_of_half<FORMAT>(low, some[i] & 0x8000, none, shift);
      x[i].second = factor_of_half<FORMAT>(high, some[i] & 0x80000000, none, shift);
      most = low > most ? low : most;
      most = high > most ? high : most;
    }
    if (most >= (u32)infinity(FORMAT)) {
      found = 1;
      UNROLL
      for (u32 i = 0; i < 4; i++) {
        x[i].first = special_or<FORMAT>(some[i], x[i].first);
        x[i].second = special_or<FORMAT>(some[i] >> 16, x[i].second);
      }
    }
    UNROLL
    for (u32 i = 0; i < 4; i++) {
      u32 at = first + i * LANES;
      if (at < count) ((Factors *)to)[(at >> (log_k - 1)) * (half + 1) + (at & (half - 1))] = x[i];
    }
  }
  return found;
}

HERE u32 decoded_any(const Dot &r, const u32 *members, const u8 *from, u32 lines, u32 format, u32 flush, u32 shift, Factor *to) {
  if (r.in_order && format == F16) return decoded_in_order<F16>(from, lines, r.log_k, flush, shift, to);
  if (r.in_order && format == BF16) return decoded_in_order<BF16>(from, lines, r.log_k, flush, shift, to);
  if (format == F16) return decoded<F16>(members, from, lines, r.log_k, format, flush, 0, 0, shift, to);
  if (format == BF16) return decoded<BF16>(members, from, lines, r.log_k, format, flush, 0, 0, shift, to);
  return decoded<0>(members, from, lines, r.log_k, format, flush, r.low_bits_rounded, r.own_exponents, shift, to);
}

// Decodes a B of which metadata choose: twice as deep, and k by k.
HERE u32 decoded_across(const Dot &r, const u8 *from, Factor *to) {
  u32 log_n = 31 - LEADING(r.n), log_depth = r.log_k + 1, found = 0;
  EACH(i, r.n << log_depth) {
    u32 bits = (u32)loaded(from, ((i & (r.n - 1)) << log_depth) + (i >> log_n), width(r.b_format));
    to[i] = factor(bits, r.b_format, r.b_flushed, 0, r.own_exponents);
    found |= to[i].exponent <= INFINITE_FACTOR;
  }
  return found;
}

// Of lines that follow each other. k is even.
HERE void find_specials(const Factor *factors, u32 lines, u32 k, Specials *to) {
  EACH(line, lines) {
    Specials s = {0, 0, 0, 0};
    const Factors *own = (const Factors *)(factors + line * (k + 2));
    for (u32 i = 0; i < k / 2; i++) {
      Factors both = own[i];
      UNROLL
      for (u32 j = 0; j < 2; j++) {
        Factor x = j ? both.second : both.first;
        u32 bit = 1u << (2 * i + j);
        if (x.exponent == NAN_FACTOR) s.nan |= bit;
        if (x.exponent == INFINITE_FACTOR) s.infinite |= bit;
        if (x.exponent == ZERO) s.zero |= bit;
        if (x.significand < 0) s.negative |= bit;
      }
    }
    to[line] = s;
  }
}

// An element of C as sums are.
HERE u64 addend(const Dot &r, const u8 *work, u32 index) {
  u64 c = loaded(work + r.c, index, width(r.c_format));
  if (r.c_flushed) c = flushed(c, r.c_format);
  return r.c_format == r.format ? c : converted(c, r.c_format, r.format, RN, AS_IEEE, sign_bit(r.format) - 1);
}

// What few products need, apart: sums from a C of another format, or none where C is added last; sums of
// parts, each rounded; and D from sums. An output is always that of the same lane.
APART void sums_from_c(const u32 *words, u8 *work, u32 *sums) {
  const Dot &r = *(const Dot *)words;
  EACH(i, r.m * r.n) sums[i] = r.last ? 0 : (u32)addend(r, work, i);
}

APART void parts_joined(const u32 *words, u32 *sums, u32 *parts) {
  const Dot &r = *(const Dot *)words;
  const u64 one = (u64)bias(r.format) << fraction_bits(r.format), nan = sign_bit(r.format) - 1;
  EACH(i, r.m * r.n) {
    sums[i] = (u32)fused(sums[i], r.format, one, parts[i], r.format, r.addition, nan);
    parts[i] = 0;
  }
}

APART void d_from_sums(const u32 *words, u8 *work, const u32 *sums) {
  const Dot &r = *(const Dot *)words;
  const u64 one = (u64)bias(r.format) << fraction_bits(r.format), nan = sign_bit(r.format) - 1, none = sign_bit(r.d_format) - 1;
  EACH(i, r.m * r.n) {
    u64 d = sums[i];
    if (r.last) d = fused(d, r.format, one, addend(r, work, i), r.format, r.addition, nan);
    if (r.d_format != r.format) d = converted(d, r.format, r.d_format, r.narrowing, r.overflow, none);
    if (r.d_flushed) d = flushed(d, r.d_format);
    stored(work + r.d, i, width(r.d_format), (d & none) > infinity(r.d_format) ? r.nan : (u32)d);
  }
}

HERE void dot_products(const u32 *words, const u32 *code, u8 *work) {
  // Its words are read often, and quickly where images lie.
  const Dot &given = *(const Dot *)words;
  const u32 scratch = given.scratch;
  u32 *own = (u32 *)(work + scratch);
  EACH(i, sizeof(Dot) / 4) own[i] = words[i];
  EACH(i, (1u << given.log_k) + given.blocks) own[sizeof(Dot) / 4 + i] = code[given.members + i];
  MEET();
  const Dot &r = *(const Dot *)(work + scratch);
  const u32 *members = own + sizeof(Dot) / 4, *ends = members + (1u << r.log_k);
  const u32 lines = r.apart ? r.m * r.n : r.n, nan = (u32)sign_bit(r.format) - 1;
  u32 fractions = 2 * (width(r.a_format) == 8 ? fraction_bits(F16) : fraction_bits(r.a_format));
  u32 shift = r.quick ? r.fraction - fractions : 0;
  const Scratch s = scratch_of(r, work);
  u32 found = 0;
  ROLLED   // by the same instructions: both have one format, mostly
  for (u32 b = 0; b < (r.indices ? 1 : 2); b++)
    found |= decoded_any(r, members, work + (b ? r.b : r.a), b ? lines : r.m, b ? r.b_format : r.a_format, b ? r.b_flushed : r.a_flushed, b ? 0 : shift, b ? s.b : s.a);
  if (r.indices) {
    found |= decoded_across(r, work + r.b, s.b);
    EACH(i, r.m << r.log_k) {
      u32 k = members[i & ((1u << r.log_k) - 1)], bit = code[r.indices + (i >> r.log_k << r.log_k) + k];
      s.chosen[i] = (u8)(k / 2 * 4 + (work[bit >> 3] >> (bit & 7) & 3));
    }
  }
  // C that is as sums are is read where it is added to. Sums that are D are made where that goes.
  const u32 from_c = !r.last && width(r.format) == 32 && r.c_format == r.format && !r.c_flushed, to_d = r.sums == r.d;
  u32 *sums = (u32 *)(work + r.sums), *parts = (u32 *)(work + r.parts);
  if (!from_c) sums_from_c(own, work, sums);
  if (r.separate) EACH(i, r.m * r.n) parts[i] = 0;
  found = ANY(found);
  MEET();
  if (found) {
    find_specials(s.a, r.indices ? r.m : r.m + lines, 1u << r.log_k, s.specials);
    MEET();
  }
  for (u32 block = 0, start = 0; block < r.blocks; start = ends[block++]) {
    u32 count = ends[block] - start, is_part = r.separate && block, place = is_part ? r.parts : r.sums;
    Sums some = {!block && from_c ? r.c : place, place, to_d && block == r.blocks - 1 ? r.nan : nan};
    if (r.format == F32) add_any<F32>(scratch, work, start, count, found, some);
    else add_any<F16>(scratch, work, start, count, found, some);
    if (is_part) parts_joined(own, sums, parts);
  }
  if (!to_d) d_from_sums(own, work, sums);
}

APART void all_dot_products(const u32 *words, const u32 *code, u8 *work) { TWICE(dot_products(words, code, work)); }

// Products of scaled blocks: as truncated sums, all terms and C at once. A term is the exact sum of a group of
// products times the significands of its two scales; it counts with the exponent of these, and, where it is not
// aligned by them alone, with that of its largest product. Words; behind them, in a table, the address of the
// first scale of each row of A and of each column of B:
struct ScaledDot {
  u32 m, n, k, a, b, c, d, a_format, b_format, apart, scales, with_fraction, group, by_scales, fraction, zero_exponent, rounding, nan, table;
};

struct Scale { u32 significand; int exponent; u32 is_nan; };   // value = significand / 8 * 2^exponent

HERE Scale scale_of(u32 bits, u32 with_fraction) {
  Scale s = {8, (int)bits - 127, bits == 255};   // ue8m0
  if (with_fraction) {   // ue4m3: the highest bit is padding
    u32 field = bits >> 3 & 15;
    s.significand = (field ? 8 : 0) | (bits & 7);
    s.exponent = (int)(field ? field : 1) - 7;
    s.is_nan = (bits & 127) == 127;
  }
  return s;
}

HERE u32 narrow_at(const u8 *at, u32 index, u32 bits) { return bits == 8 ? at[index] : at[index / 2] >> 4 * (index & 1) & 15; }

struct Term { i64 significand; int exponent, counts; };   // value = significand * 2^exponent

// One term, from its first k on; its bits of `special`: 1 a NaN, 2 and 4 an infinity above and below.
HERE Term scaled_term(const ScaledDot &r, const u8 *a, const u8 *b, Scale x, Scale y, u32 first, u32 *special) {
  u32 significand = x.significand * y.significand;
  Term t = {0, 0, (int)r.zero_exponent};
  int lowest = 0, highest = 0;
  u32 some = 0;
  for (u32 k = first; k < r.k && k < first + r.group; k++) {
    Factor u = narrow_factor(narrow_at(a, k, width(r.a_format)), r.a_format, 0, 1);
    Factor v = narrow_factor(narrow_at(b, k, width(r.b_format)), r.b_format, 0, 1);
    u32 infinite = u.exponent == INFINITE_FACTOR || v.exponent == INFINITE_FACTOR, none = !u.significand || !v.significand;
    if (u.exponent == NAN_FACTOR || v.exponent == NAN_FACTOR || (infinite && (none || !significand))) *special |= 1;
    else if (infinite) *special |= (u.significand < 0) == (v.significand < 0) ? 2 : 4;
    else if (!none) {
      // Elements have 3 bits of a fraction at most.
      i64 p = (i64)(u.significand / 128) * (v.significand / 128);
      int e = u.exponent + v.exponent;
      if (!some || e > highest) highest = e;
      if (!some) lowest = e;
      if (e < lowest) t.significand *= 1ll << (lowest - e), lowest = e;
      t.significand += p * (1ll << (e - lowest));
      some = 1;
    }
  }
  if (x.is_nan || y.is_nan) *special |= 1;
  if (some && significand) t.counts = x.exponent + y.exponent + (r.by_scales ? 0 : highest);
  t.significand *= significand;
  t.exponent = lowest - 6 + x.exponent + y.exponent - 6;   // below the points of elements, and of scales
  return t;
}

// A term on a grid whose unit is 2^unit, truncated.
HERE i64 on_grid(i64 significand, int exponent, int unit) {
  i64 magnitude = significand < 0 ? -significand : significand;
  int up = exponent - unit;
  if (!magnitude) return 0;
  magnitude = up >= 0 ? magnitude << up : aligned((u64)magnitude, (u32)-up);
  return significand < 0 ? -magnitude : magnitude;
}

APART void scaled_products(const u32 *words, const u32 *code, u8 *work) {
  const ScaledDot &r = *(const ScaledDot *)words;
  EACH(i, r.m * r.n) {
    u32 row = i / r.n, column = i % r.n, line = r.apart ? i : column, special = 0;
    const u8 *a = work + r.a + row * r.k * width(r.a_format) / 8, *b = work + r.b + line * r.k * width(r.b_format) / 8;
    const u8 *of_a = work + code[r.table + row], *of_b = work + code[r.table + r.m + column];
    Number<u32> c = number((u32)loaded(work + r.c, i, 32), F32);
    int largest = c.significand ? c.exponent + (int)fraction_bits(F32) : (int)r.zero_exponent;
    i64 sum = 0;
    if (c.kind == NOT_A_NUMBER) special = 1;
    if (c.kind == INFINITE) special = c.negative ? 4 : 2;
    for (u32 pass = 0; pass < 2; pass++) {   // what is largest is known before anything is truncated
      int unit = largest - (int)r.fraction;
      if (pass) sum = on_grid(c.negative ? -(i64)c.significand : c.significand, c.exponent, unit);
      for (u32 k = 0; k < r.k; k += r.group) {
        u32 block = k * r.scales / r.k;
        Term t = scaled_term(r, a, b, scale_of(of_a[block], r.with_fraction), scale_of(of_b[block], r.with_fraction), k, &special);
        if (pass) sum += on_grid(t.significand, t.exponent, unit);
        else if (t.counts > largest) largest = t.counts;
      }
      if (special) break;
    }
    u32 d = sum_rounded(sum, largest - (int)r.fraction, F32, r.rounding, TO_INFINITY);
    if (!(d & 0x7fffffff)) d = 0;
    if (special) d = special == 2 ? (u32)infinity(F32) : special == 4 ? (u32)(infinity(F32) | sign_bit(F32)) : r.nan;
    stored(work + r.d, i, 32, d);
  }
}

// The other products. Their words: m, n, k, addresses of A, B, C and D, and what the type needs.

struct Product { u32 m, n, k, a, b, c, d, x, y, z, u, v, w; };

// x: the order, 1 for pairs; y, z: formats of C and D; u: whether each output has a line of B of its own.
APART void scalar_products(const u32 *words, u8 *work) {
  const Product &r = *(const Product *)words;
  const u64 nan = sign_bit(F32) - 1, one = (u64)bias(F32) << fraction_bits(F32);
  EACH(i, r.m * r.n) {
    u32 row = i / r.n, line = r.u ? i : i % r.n;
    u64 c = loaded(work + r.c, i, width(r.y)), sum = 0;
    if (r.y == F16) c = converted(c, F16, F32, RN, AS_IEEE, nan);
    if (r.x) sum = c;
    for (u32 k = 0; k < r.k; k++) {
      u64 a = loaded(work + r.a, row * r.k + k, 16), b = loaded(work + r.b, line * r.k + k, 16);
      if (!r.x) sum = fused(a, F16, b, sum, F32, RN, nan);
      else {
        u64 pair = fused(a, F16, b, (a ^ b) & sign_bit(F16) ? sign_bit(F32) : 0, F32, RN, nan);
        k++;
        a = loaded(work + r.a, row * r.k + k, 16), b = loaded(work + r.b, line * r.k + k, 16);
        pair = fused(a, F16, b, pair, F32, RN, nan);
        sum = fused(pair, F32, one, sum, F32, RN, nan);
      }
    }
    if (!r.x) sum = fused(sum, F32, one, c, F32, RN, nan);
    stored(work + r.d, i, width(r.z), r.z == F16 ? converted(sum, F32, F16, RN, AS_IEEE, sign_bit(F16) - 1) : sum);
  }
}

HERE u32 is_nan(u64 bits) { return (bits & (sign_bit(F64) - 1)) > infinity(F64); }

// words: rounding, then 2 bits for each place of the order in which NaNs are looked for (1 a, 2 b, 3 c;
// 0 ends it), then what an invalid operation gives, then the canonical NaN.
APART u64 double_sum(u64 a, u64 b, u64 c, u32 rounding, const u32 *nan) {
  const u64 quiet = 1ull << (fraction_bits(F64) - 1);
  if (is_nan(a) || is_nan(b) || is_nan(c)) {
    if (!nan[0]) return nan[3] | (u64)nan[4] << 32;
    for (u32 order = nan[0]; order; order >>= 2) {
      u64 one = (order & 3) == 1 ? a : (order & 3) == 2 ? b : c;
      if (is_nan(one)) return one | quiet;
    }
  }
  return fused(a, F64, b, c, F64, rounding, nan[1] | (u64)nan[2] << 32);
}

// x: rounding; y: bit 0 falling k, bit 1 separate, bits 2 to 5 flushed A, B, C and D; z on: NaNs.
APART void double_products(const u32 *words, u8 *work) {
  const Product &r = *(const Product *)words;
  const u64 one = (u64)bias(F64) << fraction_bits(F64);
  EACH(i, r.m * r.n) {
    u32 row = i / r.n, column = i % r.n;
    u64 sum = loaded(work + r.c, i, 64);
    if (r.y & 16) sum = flushed(sum, F64);
    for (u32 step = 0; step < r.k; step++) {
      u32 k = r.y & 1 ? r.k - 1 - step : step;
      u64 a = loaded(work + r.a, row * r.k + k, 64), b = loaded(work + r.b, column * r.k + k, 64);
      if (r.y & 4) a = flushed(a, F64);
      if (r.y & 8) b = flushed(b, F64);
      if (r.y & 2) sum = double_sum(double_sum(a, b, (a ^ b) & sign_bit(F64), r.x, &r.z), one, sum, r.x, &r.z);
      else sum = double_sum(a, b, sum, r.x, &r.z);
    }
    stored(work + r.d, i, 64, r.y & 32 ? flushed(sum, F64) : sum);
  }
}

// The sum of four products of the bytes of two words. signs: bit 0 signed A, bit 1 signed B.
HERE int four_products(u32 a, u32 b, u32 signs) {
  int sum = 0;
#ifdef __CUDACC__
  switch (signs) {
    case 0: asm("dp4a.u32.u32 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(b), "r"(0)); break;
    case 1: asm("dp4a.s32.u32 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(b), "r"(0)); break;
    case 2: asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(b), "r"(0)); break;
    default: asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(b), "r"(0));
  }
#else
  for (u32 up = 0; up < 32; up += 8) {
    int x = (int)(a << up), y = (int)(b << up);
    sum += (signs & 1 ? x >> 24 : (int)((u32)x >> 24)) * (signs & 2 ? y >> 24 : (int)((u32)y >> 24));
  }
#endif
  return sum;
}

// x: bits of an element; y: bit 0 signed A, bit 1 signed B; z: whether sums are clamped; u: whether
// each output has a line of B of its own. Of single bits (x is 1), y is 1 for xor and 0 for and.
// Elements of 4 bits are the upper halves of bytes: their products are 256 times as large.
HERE void integer_sums(const u32 *words, u8 *work) {
  const Product &r = *(const Product *)words;
  const u32 upper = 0xf0f0f0f0, length = r.k * r.x / 32;
  EACH(i, r.m * r.n) {
    u32 row = i / r.n, line = r.u ? i : i % r.n;
    const u32 *left = (const u32 *)(work + r.a) + row * length, *right = (const u32 *)(work + r.b) + line * length;
    i64 sum = (int)loaded(work + r.c, i, 32);
    for (u32 word = 0; word < length; word++) {
      u32 a = left[word], b = right[word];
      if (r.x == 1) sum += ONES(r.y ? a ^ b : a & b);
      else if (r.x == 8) sum += four_products(a, b, r.y);
      else sum += (four_products(a & upper, b & upper, r.y) + four_products(a << 4 & upper, b << 4 & upper, r.y)) >> 8;
    }
    if (r.z) sum = sum > 0x7fffffffll ? 0x7fffffffll : sum < -0x80000000ll ? -0x80000000ll : sum;
    stored(work + r.d, i, 32, (u32)sum);
  }
}

APART void integer_products(const u32 *words, u8 *work) { TWICE(integer_sums(words, work)); }

// Elements: operation, their bits, format (0 of integers), source, destination, count, constant (low, high).

enum { AND, OR, XOR, MULTIPLY, ADD };

APART void elementwise(const u32 *words, u8 *work) {
  u32 operation = words[0], bits = words[1], format = words[2];
  u64 constant = words[6] | (u64)words[7] << 32;
  EACH(i, words[5]) {
    u64 x = loaded(work + words[3], i, bits), y;
    if (format) {
      u64 nan = bits == 64 ? 0xfff8ull << 48 : sign_bit(format) - 1, one = (u64)bias(format) << fraction_bits(format);
      u64 zero = (x ^ constant) & sign_bit(format);
      if (bits == 64 && is_nan(x)) y = x | 1ull << 51;
      else if (bits == 64 && is_nan(constant)) y = constant | 1ull << 51;
      else y = operation == MULTIPLY ? fused(x, format, constant, zero, format, RN, nan)
                                     : fused(x, format, one, constant, format, RN, nan);
    }
    else y = operation == AND ? x & constant : operation == OR ? x | constant : operation == XOR ? x ^ constant
           : operation == MULTIPLY ? x * constant : x + constant;
    stored(work + words[4], i, bits, y);
  }
}

// What each element of a row of A meets of which metadata place the elements that are stored. Words: bytes of a unit, units of a stored row,
// rows, columns, B, where it goes, and for each unit of each row the bit where its index is. Units and columns are powers of two.
HERE void choose(const u32 *words, const u32 *code, u8 *work) {
  u32 size = words[0], units = words[1], columns = words[3], log_units = 31 - LEADING(units), log_columns = 31 - LEADING(columns);
  const u8 *b = work + words[4];
  EACH(i, words[2] << (log_units + log_columns)) {
    u32 unit = i & (units - 1), column = i >> log_units & (columns - 1), row = i >> (log_units + log_columns);
    u32 bit = code[words[6] + (row << log_units) + unit], index = work[bit >> 3] >> (bit & 7) & 3;
    u32 from = (column << log_units) * 2 + unit / 2 * 4 + index;
    if (size == 2) ((u16 *)(work + words[5]))[i] = ((const u16 *)b)[from];
    else work[words[5] + i] = b[from];
  }
}

// Moves: a unit in bytes, a count, where the first addresses lie, and a table of pairs of those behind them.

template <typename T>
HERE void moved(const u32 *pairs, u32 count, const u8 *from, u8 *to) {
  at_once<T, 4>(count, [=](u32 i) { return *(const T *)(from + pairs[2 * i]); }, [=](u32 i, T x) { *(T *)(to + pairs[2 * i + 1]) = x; });
}

HERE void move_all(const u32 *w, const u32 *code, u8 *work) {
  u32 unit = w[0], count = w[1];
  const u32 *pairs = code + w[4];
  const u8 *from = work + w[2];
  u8 *to = work + w[3];
  if (unit == 16) moved<Sixteen>(pairs, count, from, to);
  else if (unit == 8) moved<u64>(pairs, count, from, to);
  else if (unit == 4) moved<u32>(pairs, count, from, to);
  else if (unit == 2) moved<u16>(pairs, count, from, to);
  else moved<u8>(pairs, count, from, to);
}

HERE void copy_all(u32 from, u32 to, u32 size, u8 *work) {
  u32 all = from | to | size;
  if (!(all & 15)) copied<Sixteen>(work + from, work + to, size);
  else if (!(all & 3)) copied<u32>(work + from, work + to, size);
  else copied<u8>(work + from, work + to, size);
}

APART void move_somewhere(const u32 *w, const u32 *code, u8 *work) { TWICE(move_all(w, code, work)); }
APART void copy_somewhere(const u32 *w, u8 *work) { TWICE(copy_all(w[0], w[1], w[2], work)); }

// Code of lanes: instructions that each lane takes on a way of its own, on registers of its own. Their
// words: number | sources << 8 | words << 16, a parameter, where the result goes, and for each source
// where it is, and how it is taken. An address is that of a register's first lane, and has in its low
// bits the class of the register; 8 there says that it is the place of a constant among the words.

enum {
  STOP, GO, UNLESS, WHEN, COPY_OF, LANE_NUMBER, SUM, DIFFERENCE, PRODUCT, UPPER_PRODUCT, QUOTIENT, REMAINDER,
  LEAST, GREATEST, CLAMPED, BOTH, EITHER, ONE_OF, LEFT, RIGHT, JOINED, COMPARED, CHOSEN, CARRIED, BORROWED,
  POPULATION, HIGHEST_BIT, REVERSED, NTH_BIT, TABLE, PERMUTED, FIELD,
  FUSED, FLUSHED, CONVERTED, SATURATED, RECTIFIED, EXTREME, COMPARED_FLOATS, TO_INTEGER, FROM_INTEGER, FROM_E4M3, INTEGRAL
};
enum { PREDICATE, HALF, WORD, DOUBLE_WORD, CONSTANT = 8 };   // classes of registers
enum { LESS = 1, EQUAL = 2, GREATER = 4, UNORDERED = 8 };     // outcomes of comparisons
enum { E4M3 = 8 << 16 | 4 << 8 | 3 };

HERE u64 held(const u32 *code, const u8 *work, u32 address, u32 lane) {
  if (address & CONSTANT) return code[address >> 4] | (u64)code[(address >> 4) + 1] << 32;
  const u8 *at = work + (address & ~15u);
  return (address & 3) == DOUBLE_WORD ? ((const u64 *)at)[lane] : ((const u32 *)at)[lane];
}

HERE void keep(u8 *work, u32 address, u32 lane, u64 value) {
  u8 *at = work + (address & ~15u);
  u32 kind = address & 3;
  if (kind == DOUBLE_WORD) ((u64 *)at)[lane] = value;
  else ((u32 *)at)[lane] = (u32)value & (kind == WORD ? 0xffffffffu : kind == HALF ? 0xffffu : 1u);
}

// Some bits of a number, signed or not: where they start | how many << 8 | signed << 16.
HERE u64 part_of(u64 x, u32 how) {
  u32 unused = 64 - (how >> 8 & 127);
  x = x >> (how & 63) << unused;
  return how >> 16 ? (u64)((i64)x >> unused) : x >> unused;
}

HERE u64 low_bits(u32 count) { return count < 64 ? (1ull << count) - 1 : ~0ull; }
HERE u64 to_the_left(u64 x, u64 by) { return by < 64 ? x << by : 0; }

// The n-th bit that is set from a base on, up or down (PTX ISA, fns).
HERE u64 nth_bit(u32 mask, int base, int offset) {
  int step = offset < 0 ? -1 : 1;
  u32 left = offset < 0 ? 0 - (u32)offset : (u32)offset;
  if (!offset) return mask >> base & 1 ? (u64)base : 0xffffffffu;
  for (int i = base; i >= 0 && i < 32; i += step)
    if ((mask >> i & 1) && --left == 0) return (u64)i;
  return 0xffffffffu;
}

HERE u64 permuted(u64 bytes, u32 selector) {
  u64 result = 0;
  for (u32 i = 0; i < 4; i++) {
    u32 one = selector >> 4 * i & 15, byte = (u32)(bytes >> 8 * (one & 7)) & 255;
    result |= (u64)(one & 8 ? (byte >> 7) * 255 : byte) << 8 * i;
  }
  return result;
}

// A bit field, as the page on bfe has it. p: bits of the register | signed << 8.
HERE u64 field(u64 x, u32 position, u32 length, u32 p) {
  u32 bits = p & 255, above = position < bits ? bits - position : 0, count = length < above ? length : above;
  u32 last = position + length - 1 < bits - 1 ? position + length - 1 : bits - 1;
  u64 sign = (p >> 8) && length && (x >> last & 1) ? ~0ull : 0;
  return count ? (x >> position & low_bits(count)) | (sign & ~low_bits(count)) : sign;
}

// A float as an integer of the same order; both zeros are 0.
HERE i64 ordered(u64 x, u32 format) {
  i64 magnitude = (i64)(x & (sign_bit(format) - 1));
  return x & sign_bit(format) ? -magnitude : magnitude;
}

// What is left of a finite number whose exponent is negative, as an integer.
HERE u64 whole(Number<u64> x, u32 rounding) {
  u32 drop = x.exponent < -63 ? 63 : (u32)-x.exponent;   // no significand has more than 53 bits
  u64 half = 1ull << (drop - 1), rest = x.significand & low_bits(drop), size = x.significand >> drop;
  if (rounding == RN) return size + (rest > half || (rest == half && (size & 1)));
  return size + (rounding != RZ && rest && x.negative == (rounding == RM));
}

// v: bits of the integer | signed << 8. A NaN becomes 0, or of f64 and to 64 bits the highest bit alone.
HERE u64 to_integer(u64 pattern, u32 format, u32 rounding, u32 v) {
  u32 bits = v & 255, is_signed = v >> 8;
  Number<u64> x = number(pattern, format);
  if (x.kind == NOT_A_NUMBER) return format == F64 || bits == 64 ? 1ull << (bits - 1) : 0;
  u64 most = low_bits(bits - is_signed), size = ~0ull;
  if (x.negative) most = is_signed ? most + 1 : 0;
  if (x.kind == FINITE && x.exponent < 0) size = whole(x, rounding);
  else if (x.kind == FINITE && x.exponent < 64 && x.significand << x.exponent >> x.exponent == x.significand) size = x.significand << x.exponent;
  if (size > most) size = most;
  return x.negative ? 0 - size : size;
}

// A float without its fraction; zeros keep their sign.
HERE u64 integral(u64 pattern, u32 format, u32 rounding) {
  Number<u64> x = number(pattern, format);
  if (x.kind == NOT_A_NUMBER) return sign_bit(format) - 1;
  if (x.kind == INFINITE || x.exponent >= 0) return pattern;
  return rounded<u64>(x.negative, whole(x, rounding), 0, format, RN, AS_IEEE);
}

// An element of e4m3 as f16; infinities there are none.
HERE u64 from_e4m3(u64 x) {
  u32 field = (u32)x >> 3 & 15, fraction = (u32)x & 7;
  if ((x & 127) == 127) return 0x7fff;
  return rounded<u32>(x >> 7 & 1, field ? fraction | 8 : fraction, (int)(field ? field : 1) - 10, F16, RN, AS_IEEE);
}

// p: format of the source | rounding << 24 | TO_BE_FLUSHED << 24 | whether all that is too large becomes the largest << 28.
HERE u64 converted_to(u64 pattern, u32 p, u32 to) {
  u32 from = p & 0xffffff, rounding = p >> 24 & 15, finite = p >> 28;
  Number<u64> x = number(pattern, from);
  u64 most = to == E4M3 ? 127 : infinity(to);
  if (x.kind == NOT_A_NUMBER) return sign_bit(to) - 1;
  if (x.kind == INFINITE) return (x.negative ? sign_bit(to) : 0) | (most - finite);
  return rounded_below<u64>(x.negative, x.significand, x.exponent, to, rounding, finite ? TO_LARGEST : AS_IEEE, most, bias(to) + (to == E4M3));
}

HERE u64 outcome(i64 x, i64 y, u32 mask) { return (mask & (x < y ? LESS : x == y ? EQUAL : GREATER)) != 0; }

APART void run_lane(const u32 *code, u32 at, u8 *work, u32 lane) {
  for (;;) {
    const u32 *w = code + at;
    u32 what = w[0] & 255, sources = w[0] >> 8 & 255, p = w[1], format = p & 0xffffff;
    u64 v[3] = {0, 0, 0}, r = 0;
    UNROLL
    for (u32 i = 0; i < 3; i++)
      if (i < sources) {
        u32 how = w[4 + 2 * i];
        v[i] = held(code, work, w[3 + 2 * i], lane);
        if (how == 32u << 8) v[i] = (u32)v[i];   // most are whole
        else if (how != 64u << 8) v[i] = part_of(v[i], how);
      }
    at += w[0] >> 16;
    switch (what) {
      case STOP: return;
      case GO: at = p; continue;
      case UNLESS: if (!v[0]) at = p; continue;
      case WHEN: if (v[0]) at = p; continue;
      case COPY_OF: r = v[0]; break;
      case LANE_NUMBER: r = lane; break;
      case SUM: r = v[0] + v[1]; break;
      case DIFFERENCE: r = v[0] - v[1]; break;
      case PRODUCT: r = v[0] * v[1]; break;
      case UPPER_PRODUCT:   // of 64 bits; p: signed
        r = product_of(v[0], v[1]).high;
        if (p) r -= ((i64)v[0] < 0 ? v[1] : 0) + ((i64)v[1] < 0 ? v[0] : 0);
        break;
      case QUOTIENT: r = !v[1] ? 0 : p ? (u64)((i64)v[0] / (i64)v[1]) : v[0] / v[1]; break;
      case REMAINDER: r = v[1] ? v[0] % v[1] : 0; break;
      case LEAST: r = (p ? v[0] < v[1] : (i64)v[0] < (i64)v[1]) ? v[0] : v[1]; break;      // p: unsigned
      case GREATEST: r = (p ? v[0] > v[1] : (i64)v[0] > (i64)v[1]) ? v[0] : v[1]; break;
      case CLAMPED: {   // p: bits | signed << 8 | of an unsigned number << 9
        u32 is_signed = p >> 8 & 1;
        u64 most = low_bits((p & 255) - is_signed), least = is_signed ? ~most : 0;
        if (p >> 9 || (i64)v[0] >= 0) r = v[0] < most ? v[0] : most;
        else r = (i64)v[0] > (i64)least ? v[0] : least;
        break;
      }
      case BOTH: r = v[0] & v[1]; break;
      case EITHER: r = v[0] | v[1]; break;
      case ONE_OF: r = v[0] ^ v[1]; break;
      case LEFT: r = to_the_left(v[0], v[1]); break;
      case RIGHT: r = p ? (u64)((i64)v[0] >> (v[1] < 63 ? v[1] : 63)) : v[1] < 64 ? v[0] >> v[1] : 0; break;   // p: signed
      case JOINED: r = v[0] | v[1] << p; break;
      case COMPARED: r = p >> 8 ? outcome((i64)(v[0] ^ 1ull << 63), (i64)(v[1] ^ 1ull << 63), p & 255) : outcome((i64)v[0], (i64)v[1], p); break;
      case CHOSEN: r = v[2] ? v[0] : v[1]; break;
      case CARRIED: r = v[0] + v[1]; r = p == 64 ? (r < v[0]) | (r + v[2] < r) : (r + v[2]) >> 32; break;   // p: bits
      case BORROWED: r = v[0] < v[1] || (v[0] == v[1] && v[2]); break;
      case POPULATION: r = ONES((u32)v[0]) + ONES((u32)(v[0] >> 32)); break;
      case HIGHEST_BIT: r = v[0] ? 63u - (u32)LEADING(v[0]) : ~0ull; break;
      case REVERSED: for (u32 i = 0; i < p; i++) r |= (v[0] >> i & 1) << (p - 1 - i); break;
      case NTH_BIT: r = nth_bit((u32)v[0], (int)v[1], (int)(u32)v[2]); break;
      case TABLE:
        for (u32 i = 0; i < 8; i++)
          if (p >> i & 1) r |= (i & 4 ? v[0] : ~v[0]) & (i & 2 ? v[1] : ~v[1]) & (i & 1 ? v[2] : ~v[2]);
        break;
      case PERMUTED: r = permuted(v[0] | v[1] << 32, (u32)v[2]); break;
      case FIELD: r = field(v[0], (u32)v[1], (u32)v[2], p); break;
      case FUSED: r = fused(v[0], format, v[1], v[2], format, p >> 24, sign_bit(format) - 1); break;   // p: rounding << 24, too
      case FLUSHED: r = flushed(v[0], format); break;
      case CONVERTED: r = converted_to(v[0], p, (u32)v[1]); break;
      case SATURATED: {
        u64 one = (u64)bias(format) << fraction_bits(format);
        if (!unordered(v[0], format) && !(v[0] & sign_bit(format))) r = v[0] < one ? v[0] : one;
        break;
      }
      case RECTIFIED: r = unordered(v[0], format) ? sign_bit(format) - 1 : v[0] & sign_bit(format) ? 0 : v[0]; break;
      case EXTREME: {   // p: greatest << 24 | a NaN counts << 25; -0 is below +0
        i64 x = ordered(v[0], format) - (v[0] >> (width(format) - 1) & 1), y = ordered(v[1], format) - (v[1] >> (width(format) - 1) & 1);
        u32 no = unordered(v[0], format), nor = unordered(v[1], format);
        if (no || nor) r = (no && nor) || p >> 25 ? sign_bit(format) - 1 : v[no];
        else r = (x < y) != (p >> 24 & 1) ? v[0] : v[1];
        break;
      }
      case COMPARED_FLOATS:   // p: outcomes << 24
        if (unordered(v[0], format) || unordered(v[1], format)) r = p >> 24 & UNORDERED ? 1 : 0;
        else r = outcome(ordered(v[0], format), ordered(v[1], format), p >> 24);
        break;
      case TO_INTEGER: r = to_integer(v[0], format, p >> 24, (u32)v[1]); break;
      case FROM_INTEGER: {   // p: rounding << 24 | unsigned << 28
        u32 negative = !(p >> 28) && (i64)v[0] < 0;
        r = rounded<u64>(negative, negative ? 0 - v[0] : v[0], 0, format, p >> 24 & 7, AS_IEEE);
        break;
      }
      case INTEGRAL: r = integral(v[0], format, p >> 24); break;
      case FROM_E4M3: r = from_e4m3(v[0]); break;
    }
    keep(work, w[2], lane, r);
  }
}

// What lanes do together. Words: what, where it goes, and three sources. Nobody reads what is written.

enum { UP, DOWN, ACROSS, INDEXED, IN_RANGE = 4, BALLOT = 8, MATCH, ADDED, LEAST_OF, GREATEST_OF, ALL_OF, ANY_OF, ODD_OF };

APART void together(const u32 *w, const u32 *code, u8 *work) {
  EACH(lane, 32) {
    u64 own = held(code, work, w[2], lane), r = 0;
    if (w[0] < BALLOT) {
      u32 offset = (u32)held(code, work, w[3], lane) & 31, limits = (u32)held(code, work, w[4], lane);
      u32 segment = limits >> 8 & 31, first = lane & segment, last = first | (limits & 31 & ~segment), mode = w[0] & 3;
      int from = mode == UP ? (int)(lane - offset) : (int)(mode == DOWN ? lane + offset : mode == ACROSS ? lane ^ offset : first | (offset & ~segment));
      u32 inside = mode == UP ? from >= (int)last : from <= (int)last;
      r = w[0] & IN_RANGE ? inside : held(code, work, w[2], inside ? (u32)from : lane);
    }
    else for (u32 i = 0; i < 32; i++) {
      u64 other = held(code, work, w[2], i);
      i64 x = (i64)part_of(r, w[3]), y = (i64)part_of(other, w[3]);   // as signed numbers, or not
      switch (w[0]) {
        case BALLOT: r |= other << i; break;
        case MATCH: r |= (u64)(other == own) << i; break;
        case ADDED: r += other; break;
        case LEAST_OF: if (!i || y < x) r = other; break;
        case GREATEST_OF: if (!i || y > x) r = other; break;
        case ALL_OF: r = i ? r & other : other; break;
        case ANY_OF: r |= other; break;
        case ODD_OF: r ^= other; break;
      }
    }
    keep(work, w[1], lane, r);
  }
}

enum { END, MOVE, COPY, WIDEN, FILL, DOT, SCALAR_DOT, DOUBLES, INTEGERS, ELEMENTWISE, PACK, BRANCH, JUMP, LOOP, NEXT, CHOOSE, LANES_ALONE, LANES_TOGETHER, SCALED_DOT };

// Each instruction is its number, how many words it has in all, and its words.
HERE void execute(const u32 *code, u8 *work) {
  u32 turns = 0;   // of 8 loops at most, one in the other, each of at most 15 (oracle.program.steps)
  for (u32 at = 0;;) {
    const u32 *w = code + at + 2;
    u32 what = code[at];
    at += code[at + 1];
    switch (what) {
      case END: return;
      case MOVE: move_somewhere(w, code, work); break;
      case COPY: copy_somewhere(w, work); break;
      case WIDEN:   // bits of an element, count, pairs: the bit where it starts, and a byte
        EACH(i, w[1]) {
          u32 bit = code[w[2] + 2 * i], value = work[bit >> 3] >> (bit & 7);
          if ((bit & 7) + w[0] > 8) value |= (u32)work[(bit >> 3) + 1] << (8 - (bit & 7));
          work[code[w[2] + 2 * i + 1]] = (u8)(value & ((1u << w[0]) - 1));
        }
        break;
      case FILL:    // address, count of words, the one of even places, that of odd ones
        EACH(i, w[1]) ((u32 *)(work + w[0]))[i] = w[2 + (i & 1)];
        break;
      case DOT: all_dot_products(w, code, work); break;
      case SCALAR_DOT: scalar_products(w, work); break;
      case SCALED_DOT: scaled_products(w, code, work); break;
      case DOUBLES: double_products(w, work); break;
      case INTEGERS: integer_products(w, work); break;
      case ELEMENTWISE: elementwise(w, work); break;
      case PACK:    // format, two addresses of f32 and that of the pair, words of each
        EACH(i, w[4]) {
          u32 low = (u32)converted(loaded(work + w[1], i, 32), F32, w[0], RN, AS_IEEE, 0x7fff);
          u32 high = (u32)converted(loaded(work + w[2], i, 32), F32, w[0], RN, AS_IEEE, 0x7fff);
          stored(work + w[3], i, 32, low | high << 16);
        }
        break;
      case LANES_ALONE:   // their code follows
        EACH(lane, 32) run_lane(code, (u32)(w - code), work, lane);
        break;
      case LANES_TOGETHER: together(w, code, work); break;
      case CHOOSE: choose(w, code, work); break;
      case BRANCH:  // address of a word, mask, where to go on if it is zero
        if (!(loaded(work + w[0], 0, 32) & w[1])) at = w[2];
        break;
      case JUMP: at = w[0]; break;
      case LOOP: {  // counter, address of a word, mask (with none the address is the count), end
        u32 count = w[2] ? (u32)loaded(work + w[1], 0, 32) & w[2] : w[1];
        turns = (turns & ~(15u << 4 * w[0])) | count << 4 * w[0];
        if (!count) at = w[3];
        break;
      }
      case NEXT:    // counter, where the body begins
        turns -= 1u << 4 * w[0];
        if (turns >> 4 * w[0] & 15) at = w[1];
        break;
    }
    MEET();
  }
}

// Makes images from their numbers, and copies of them, in some memory. Those that the same code makes
// are made one after the other, `batch` at a time, or fewer: `part` of `parts`.
HERE void fill_some(const wf_contents *contents, u64 first, u32 count, u32 batch, void *memory, u8 *images, u8 *copies, u32 part, u32 parts) {
  wf_image made = wf_begun(contents, memory, LANE, LANES);
  u32 size = contents->image_bytes, cycle = wf_cycle(contents), most = wf_batch(contents);
  if (batch > most) batch = most;
  u32 codes = count < cycle ? count : cycle, each = ((count + cycle - 1) / cycle + batch - 1) / batch;
  for (; part < codes * each; part += parts) {
    u32 code = part / each, begin = code + (part - code * each) * batch * cycle;
    if (begin >= count) continue;
    u32 some = (count - begin + cycle - 1) / cycle;
    if (some > batch) some = batch;
    wf_batched(&made, first + begin, some);
    MEET();
    for (u32 next = 0; next < some; next += made.sets) {
      u32 i = next + made.set < some ? next + made.set : next;
      wf_started(&made, i);
      MEET();
      for (u32 f = 0; f < contents->count; f++) {
        if (wf_has_sums(&made, f)) {
          wf_factors(&made, f);
          MEET();
        }
        wf_everywhere(&made, f);
        MEET();
        if (wf_has_placed(&made, f)) {
          wf_placed(&made, f);
          MEET();
        }
      }
      u64 place = (u64)(begin + i * cycle) * size;
      wf_copied(&made, i, images + place, copies + place);
      MEET();
    }
  }
}

// What is computed anew from a number behind this: registers that are kept across calls are few.
#ifdef __CUDACC__
#define FORGET(number) asm volatile("" : "+r"(number))
#else
#define FORGET(number)
#endif

// Executes the program on an image, and says whether another made something else of it.
HERE u32 differs(const u32 *code, const u8 *images, const u8 *results, u32 image, u32 image_bytes, u8 *work) {
  const u8 *before = images + (u64)image * image_bytes;
  at_once<Sixteen, 6>(image_bytes / 16, [=](u32 i) { return passing(before + 16 * i); }, [=](u32 i, Sixteen x) { ((Sixteen *)work)[i] = x; });
  MEET();
  execute(code, work);
  FORGET(image);
  const u8 *result = results + (u64)image * image_bytes;
  u32 found = 0;
  at_once<Sixteen, 6>(image_bytes / 16, [=](u32 i) { return passing(result + 16 * i); }, [=, &found](u32 i, Sixteen y) {
    Sixteen x = ((const Sixteen *)work)[i];
    found |= x.low != y.low || x.high != y.high;
  });
  found = ANY(found);
  MEET();
  return found;
}

#ifdef __CUDACC__

// Makes images from `first` on, each twice: for the interpreter, and for the program under test.
// The warps of a block make images of one class, mostly, and have instructions in common. `memory` is
// for warps whose images are too large for shared memory, or null.
extern "C" __global__ void __launch_bounds__(128, 5) fill(const u64 *words, u64 first, u64 count, u32 batch, u8 *images, u8 *copies, u8 *memory) {
  extern __shared__ __align__(16) u8 own[];
  const wf_contents contents = wf_opened((const uint64_t *)words);
  u32 size = wf_bytes(&contents), warp = threadIdx.x / 32, warps = blockDim.x / 32, part = blockIdx.x * warps + warp;
  u8 *mine = memory ? memory + (u64)part * size : own + warp * size;
  fill_some(&contents, first, (u32)count, batch, mine, images, copies, part, gridDim.x * warps);
}

// Executes the program on images and compares what it makes with what another made, a warp for each of
// some. `shared_words` of the program are copied behind the memory of the warps of a block: all of them,
// or none. `found` is the number of images that differ, then how many could be listed at most, then their
// numbers.
extern "C" __global__ void __launch_bounds__(128, 4) compare(const u32 *code, const u8 *images, const u8 *results, u32 image_bytes, u32 work_bytes, u32 shared_words, u64 first, u32 count, u8 *memory, u64 *found) {
  extern __shared__ __align__(16) u8 own[];
  u32 warp = threadIdx.x / 32, warps = blockDim.x / 32, part = blockIdx.x * warps + warp;
  if (shared_words) {
    u32 *copy = (u32 *)(own + warps * work_bytes);
    for (u32 i = threadIdx.x; i < shared_words; i += blockDim.x) copy[i] = code[i];
    __syncthreads();
    code = copy;
  }
  for (u32 i = part; i < count; i += gridDim.x * warps) {
    // Twice, as above.
    u32 is_wrong = memory ? differs(code, images, results, i, image_bytes, memory + (u64)part * work_bytes)
                          : differs(code, images, results, i, image_bytes, own + warp * work_bytes);
    if (is_wrong && LANE == 0) {
      u64 place = atomicAdd(found, 1ull);
      if (place < found[1]) found[2 + place] = first + i;
    }
  }
}

#else

extern "C" void fill_images(const uint64_t *words, u64 first, u64 count, u8 *images, u8 *copies) {
  const wf_contents contents = wf_opened(words);
  u64 *memory = new u64[wf_bytes(&contents) / 8 + 1];
  fill_some(&contents, first, (u32)count, WF_BATCH, memory + ((u64)memory & 8) / 8, images, copies, 0, 1);
  delete[] memory;
}

extern "C" void compare_images(const u32 *code, const u8 *images, const u8 *results, u64 image_bytes, u64 first, u64 count, u8 *work, u64 *found) {
  for (u64 i = 0; i < count; i++)
    if (differs(code, images, results, (u32)i, (u32)image_bytes, work) && found[0]++ < found[1])
      found[1 + found[0]] = first + i;
}

extern "C" void run_images(const u32 *code, u8 *images, u64 image_bytes, u64 count, u8 *work) {
  for (u64 i = 0; i < count; i++) {
    copied<Sixteen>(images + i * image_bytes, work, (u32)image_bytes);
    execute(code, work);
    copied<Sixteen>(work, images + i * image_bytes, (u32)image_bytes);
  }
}

#endif
