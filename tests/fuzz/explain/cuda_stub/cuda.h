// As much of CUDA's driver API as repro.cu uses, with the types and signatures of cuda.h of CUDA
// 13.0. A launch puts the bytes of the file that FAKE_RESULT names into every image.
#pragma once
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

typedef enum cudaError_enum { CUDA_SUCCESS = 0, CUDA_ERROR_INVALID_PTX = 218,
                              CUDA_ERROR_NO_DEVICE = 100, CUDA_ERROR_MISALIGNED = 716 } CUresult;
typedef int CUdevice;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef unsigned long long CUdeviceptr;
typedef enum CUjit_option_enum {
    CU_JIT_ERROR_LOG_BUFFER = 5, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6,
    CU_JIT_OPTIMIZATION_LEVEL = 7
} CUjit_option;

inline bool fake_mode(const char *mode) {
    const char *set = std::getenv("FAKE_DEVICE");
    return set != nullptr && std::strcmp(set, mode) == 0;
}
inline CUresult cuGetErrorName(CUresult error, const char **text) {
    *text = error == CUDA_ERROR_NO_DEVICE ? "CUDA_ERROR_NO_DEVICE" : "CUDA_ERROR";
    return CUDA_SUCCESS;
}
inline CUresult cuGetErrorString(CUresult, const char **text) {
    *text = "as the test wants it";
    return CUDA_SUCCESS;
}
inline CUresult cuInit(unsigned) {
    return fake_mode("gone") ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
}
inline CUresult cuDeviceGet(CUdevice *device, int ordinal) {
    *device = ordinal;
    return ordinal == 0 ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}
inline CUresult cuDeviceGetName(char *name, int size, CUdevice) {
    std::snprintf(name, size, "Fake Device");
    return CUDA_SUCCESS;
}
inline CUresult cuDriverGetVersion(int *version) {
    *version = 13000;
    return CUDA_SUCCESS;
}
inline CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice) {
    *context = nullptr;
    return CUDA_SUCCESS;
}
inline CUresult cuDevicePrimaryCtxRelease(CUdevice) { return CUDA_SUCCESS; }
inline CUresult cuCtxSetCurrent(CUcontext) { return CUDA_SUCCESS; }
inline CUresult cuCtxSynchronize(void) {
    return fake_mode("misaligned") ? CUDA_ERROR_MISALIGNED : CUDA_SUCCESS;
}
inline CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count,
                                   CUjit_option *options, void **values) {
    const char *text = static_cast<const char *>(image);
    *module = nullptr;
    if (std::strstr(text, ".entry ") == nullptr) {
        for (unsigned i = 0; i < count; ++i)
            if (options[i] == CU_JIT_ERROR_LOG_BUFFER)
                std::strcpy(static_cast<char *>(values[i]), "ptxas fatal: no kernel here");
        return CUDA_ERROR_INVALID_PTX;
    }
    return CUDA_SUCCESS;
}
inline CUresult cuModuleGetFunction(CUfunction *function, CUmodule, const char *) {
    *function = nullptr;
    return CUDA_SUCCESS;
}
inline CUresult cuMemAlloc(CUdeviceptr *pointer, size_t size) {
    *pointer = reinterpret_cast<uintptr_t>(std::malloc(size));
    return CUDA_SUCCESS;
}
inline CUresult cuMemFree(CUdeviceptr pointer) {
    std::free(reinterpret_cast<void *>(pointer));
    return CUDA_SUCCESS;
}
inline CUresult cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t size) {
    std::memcpy(reinterpret_cast<void *>(to), from, size);
    return CUDA_SUCCESS;
}
inline CUresult cuMemcpyDtoH(void *to, CUdeviceptr from, size_t size) {
    std::memcpy(to, reinterpret_cast<void *>(from), size);
    return CUDA_SUCCESS;
}
inline CUresult cuLaunchKernel(CUfunction, unsigned grid, unsigned, unsigned, unsigned block,
                               unsigned, unsigned, unsigned, CUstream, void **arguments, void **) {
    unsigned char *images = reinterpret_cast<unsigned char *>(
        *static_cast<CUdeviceptr *>(arguments[0]));
    // The first parameter of an entry with parameters of its own points so far into its one image.
    const char *inside = std::getenv("FAKE_OFFSET");
    if (inside != nullptr) images -= std::atoi(inside);
    const unsigned count = inside ? 1 : *static_cast<unsigned *>(arguments[2]);
    if (inside == nullptr && grid * (block / 32) < count) return CUDA_ERROR_MISALIGNED;
    std::FILE *file = std::fopen(std::getenv("FAKE_RESULT"), "rb");
    if (file == nullptr) return CUDA_ERROR_NO_DEVICE;
    std::fseek(file, 0, SEEK_END);
    const long size = std::ftell(file);
    for (unsigned i = 0; i < count; ++i) {
        std::rewind(file);
        if (std::fread(images + i * size, 1, size, file) != static_cast<size_t>(size)) std::abort();
    }
    std::fclose(file);
    return CUDA_SUCCESS;
}
