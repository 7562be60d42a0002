// Main loops as CUTLASS and FlashAttention write them for sm_90a, small; by nvcc 13.0.88:
// nvcc -arch=sm_90a --ptx warpgroup_kernels.cu
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ __forceinline__ uint32_t cast_smem(const void *p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}
__device__ __forceinline__ void cp16(void *s, const void *g) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n" ::"r"(cast_smem(s)), "l"(g) : "memory");
}
__device__ __forceinline__ int swizzled(int row, int chunk) {
  return row * 128 + ((chunk ^ (row & 7)) << 4);
}
__device__ __forceinline__ void arrive() { asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory"); }
__device__ __forceinline__ void commit() {
  asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory");
}
template <int N> __device__ __forceinline__ void wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(N) : "memory");
}
template <int N> __device__ __forceinline__ void fence_operands(float (&d)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

union GmmaDescriptor {
  uint64_t desc_;
  uint32_t reg32_[2];
  struct {
    uint16_t start_address_ : 14, : 2, leading_byte_offset_ : 14, : 2, stride_byte_offset_ : 14, : 2;
    uint8_t : 1, base_offset_ : 3, : 4;
    uint8_t : 6, layout_type_ : 2;
  } bitfield;
};
__device__ __forceinline__ uint64_t make_desc(const void *p, int leading) {
  GmmaDescriptor d;
  d.desc_ = 0;
  d.bitfield.start_address_ = cast_smem(p) >> 4;
  d.bitfield.leading_byte_offset_ = leading >> 4;
  d.bitfield.stride_byte_offset_ = 1024 >> 4;
  d.bitfield.layout_type_ = 1;
  return d.desc_;
}
__device__ __forceinline__ uint64_t advanced(uint64_t desc, uint32_t by) {
  GmmaDescriptor d;
  d.desc_ = desc;
  d.reg32_[0] += by;
  return d.desc_;
}

#define D8(d) "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
__device__ __forceinline__ void fma_ss(uint64_t a, uint64_t b, float (&d)[8], int scale) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %10, 0;\n"
               "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7}, "
               "%8, %9, p, 1, 1, 0, 0;\n}\n" : D8(d) : "l"(a), "l"(b), "r"(scale));
}
__device__ __forceinline__ void fma_ss_bf16(uint64_t a, uint64_t b, float (&d)[8], int scale) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %10, 0;\n"
               "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7}, "
               "%8, %9, p, 1, 1, 0, 0;\n}\n" : D8(d) : "l"(a), "l"(b), "r"(scale));
}
__device__ __forceinline__ void fma_rs(uint32_t const (&a)[4], uint64_t b, float (&d)[8]) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %13, 0;\n"
               "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7}, "
               "{%8, %9, %10, %11}, %12, p, 1, 1, 1;\n}\n"
               : D8(d) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(1));
}

// C = A B^T: A (64, 320), B (16, 320); three stages, K-major, 128-byte swizzle.
extern "C" __global__ void __launch_bounds__(128) gemm(const __half *A, const __half *B, float *C) {
  extern __shared__ __align__(1024) uint8_t smem[];
  constexpr int STAGES = 3, TILES = 5, STAGE = 16384, K = 64 * TILES;
  int t = threadIdx.x;
  auto load = [&](int tile, int stage) {
#pragma unroll 1
    for (int i = t; i < 640; i += 128) {
      int row = i >> 3, c = i & 7;
      const __half *from = row < 64 ? A + row * K : B + (row - 64) * K;
      cp16(smem + stage * STAGE + swizzled(row, c), from + tile * 64 + c * 8);
    }
    asm volatile("cp.async.commit_group;\n" ::: "memory");
  };
  float d[8];
  load(0, 0);
  load(1, 1);
  int scale = 0;
#pragma unroll 1
  for (int tile = 0; tile < TILES; ++tile) {
    asm volatile("cp.async.wait_group 1;\n" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
    __syncthreads();
    uint8_t *stage = smem + tile % STAGES * STAGE;
    uint64_t a = make_desc(stage, 16), b = make_desc(stage + 8192, 16);
    fence_operands(d);
    arrive();
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      fma_ss(advanced(a, 2 * k), advanced(b, 2 * k), d, scale);
      scale = 1;
    }
    commit();
    wait<0>();
    fence_operands(d);
    __syncthreads();
    if (tile + 2 < TILES) load(tile + 2, (tile + 2) % STAGES);
    else asm volatile("cp.async.commit_group;\n" ::: "memory");
  }
  int row = t / 32 * 16 + t % 32 / 4, column = t % 4 * 2;
#pragma unroll
  for (int i = 0; i < 8; ++i) C[(row + i / 2 % 2 * 8) * 16 + i / 4 * 8 + column + i % 2] = d[i];
}

// O = sum over tiles of relu(Q K^T) V: Q (128, 64), K (96, 64), V (96, 64) of which 16 columns; two
// warpgroups, S of the next tile in flight beside O of this one, P in registers, V MN-major.
extern "C" __global__ void __launch_bounds__(256, 1)
attention(const __nv_bfloat16 *Q, const __nv_bfloat16 *K, const __nv_bfloat16 *V, float *O) {
  extern __shared__ __align__(1024) uint8_t smem[];
  constexpr int TILES = 6;
  int t = threadIdx.x, group = t / 128;
  uint8_t *q = smem, *k = smem + 16384, *v = k + TILES * 2048;
#pragma unroll 1
  for (int i = t; i < 1024; i += 256)
    *(uint4 *)(q + swizzled(i >> 3, i & 7)) = ((const uint4 *)Q)[i];
#pragma unroll 1
  for (int i = t; i < 768; i += 256) {
    cp16(k + swizzled(i >> 3, i & 7), K + i * 8);
    cp16(v + swizzled(i >> 3, i & 7), V + i * 8);
  }
  asm volatile("cp.async.commit_group;\ncp.async.wait_all;\n" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
  __syncthreads();
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(240));
  float s[8], o[8] = {};
  uint64_t dq = make_desc(q + group * 8192, 16);
  auto multiply = [&](int tile) {
    fence_operands(s);
    arrive();
    uint64_t dk = make_desc(k + tile * 2048, 16);
#pragma unroll
    for (int i = 0; i < 4; ++i) fma_ss_bf16(advanced(dq, 2 * i), advanced(dk, 2 * i), s, i > 0);
    commit();
  };
  multiply(0);
#pragma unroll 1
  for (int tile = 0; tile < TILES; ++tile) {
    wait<0>();
    fence_operands(s);
    fence_operands(o);
    uint32_t p[4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
      asm("cvt.rn.relu.bf16x2.f32 %0, %1, %2;" : "=r"(p[i]) : "f"(s[2 * i + 1]), "f"(s[2 * i]));
    if (tile + 1 < TILES) multiply(tile + 1);
    arrive();
    fma_rs(p, make_desc(v + tile * 2048, 2048), o);
    commit();
  }
  wait<0>();
  fence_operands(o);
  int row = group * 64 + t % 128 / 32 * 16 + t % 32 / 4, column = t % 4 * 2;
#pragma unroll
  for (int i = 0; i < 8; ++i) O[(row + i / 2 % 2 * 8) * 16 + i / 4 * 8 + column + i % 2] = o[i];
}

__device__ __forceinline__ void mb_init(uint64_t *m, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%1], %0;\n" ::"r"(count), "r"(cast_smem(m)));
}
__device__ __forceinline__ void mb_expect(uint64_t *m, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%1], %0;\n" ::"r"(bytes), "r"(cast_smem(m)));
}
__device__ __forceinline__ void mb_arrive(uint64_t *m) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];\n" ::"r"(cast_smem(m)));
}
__device__ __forceinline__ void mb_wait(uint64_t *m, uint32_t phase) {
  asm volatile("{\n.reg .pred P1;\nLAB_WAIT:\n"
               "mbarrier.try_wait.parity.shared::cta.b64 P1, [%0], %1;\n@P1 bra DONE;\nbra LAB_WAIT;\n"
               "DONE:\n}" ::"r"(cast_smem(m)), "r"(phase));
}
__device__ __forceinline__ void bulk(void *s, const void *g, uint32_t bytes, uint64_t *m) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];\n"
               ::"r"(cast_smem(s)), "l"(g), "r"(bytes), "r"(cast_smem(m)) : "memory");
}
__device__ __forceinline__ uint32_t elect_one_sync() {
  uint32_t pred = 0, laneid = 0;
  asm volatile("{\n.reg .b32 %%rx;\n.reg .pred %%px;\nelect.sync %%rx|%%px, %2;\n"
               "@%%px mov.s32 %1, 1;\nmov.s32 %0, %%rx;\n}\n" : "+r"(laneid), "+r"(pred) : "r"(0xFFFFFFFF));
  return pred;
}

__device__ __forceinline__ uint64_t plain_desc(const void *p) {
  uint64_t d = (cast_smem(p) & 0x3FFFF) >> 4;
  return d | (uint64_t)(128 >> 4) << 16 | (uint64_t)(1024 >> 4) << 32;
}

// A producer warpgroup that copies in bulk, a consumer that multiplies; two stages, tiles of
// (64 + 16) x 64 as atoms of 8 x 8, 128 bytes each, packed.
extern "C" __global__ void __launch_bounds__(256, 1)
pipelined(const __half *A, const __half *B, float *C, int tiles) {
  extern __shared__ __align__(1024) uint8_t smem[];
  __shared__ __align__(8) uint64_t full[2], empty[2];
  int t = threadIdx.x, group = __shfl_sync(0xffffffff, t / 128, 0);
  if (t == 0) {
    for (int i = 0; i < 2; ++i) { mb_init(full + i, 1); mb_init(empty + i, 1); }
    asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
  }
  __syncthreads();
  if (group == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;\n" ::"n"(40));
    if (t / 32 == 0 && elect_one_sync()) {
#pragma unroll 1
      for (int tile = 0; tile < tiles; ++tile) {
        int s = tile % 2, phase = tile / 2 % 2;
        mb_wait(empty + s, phase ^ 1);
        mb_expect(full + s, 8192 + 2048);
        bulk(smem + s * 10240, A + tile * 4096, 8192, full + s);
        bulk(smem + s * 10240 + 8192, B + tile * 1024, 2048, full + s);
      }
    }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(232));
    float d[8];
#pragma unroll 1
    for (int tile = 0; tile < tiles; ++tile) {
      int s = tile % 2, phase = tile / 2 % 2;
      mb_wait(full + s, phase);
      uint64_t a = plain_desc(smem + s * 10240), b = plain_desc(smem + s * 10240 + 8192);
      fence_operands(d);
      asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory");
#pragma unroll
      for (int k = 0; k < 4; ++k) fma_ss(a + 16 * k, b + 16 * k, d, tile > 0 || k > 0);
      asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory");
      asm volatile("wgmma.wait_group.sync.aligned 0;\n" ::: "memory");
      fence_operands(d);
      if (t % 128 == 0) mb_arrive(empty + s);
    }
    int row = t % 128 / 32 * 16 + t % 32 / 4, column = t % 4 * 2;
#pragma unroll
    for (int i = 0; i < 8; ++i) C[(row + i / 2 % 2 * 8) * 16 + i / 4 * 8 + column + i % 2] = d[i];
  }
}
