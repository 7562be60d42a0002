// @ABOUT@
//
// Its one argument is PTX for the driver's compiler (kernel.ptx if none is given), or machine code.
// Exit codes: 0 every byte is as the PTX ISA says; 1 some are not, or the kernel was not compiled or
// did not end; 3 something is missing here: a GPU, a file.
#include <cuda.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

typedef std::vector<unsigned char> Bytes;
struct Pointer { size_t place, offset; };      // in the parameters: the address of memory + offset

static void check(CUresult result, const char *what, int code) {
    if (result == CUDA_SUCCESS) return;
    const char *text = nullptr;
    cuGetErrorString(result, &text);
    std::printf("%s failed: error %d, %s\n", what, (int)result, text ? text : "no description");
    std::exit(code);
}

static Bytes bytes_of(const char *path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) { std::printf("%s cannot be read\n", path); std::exit(3); }
    return Bytes(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

//@DATA@
static CUfunction loaded(const char *path) {
    Bytes code = bytes_of(path);
    code.push_back(0);
    CUjit_option option = CU_JIT_OPTIMIZATION_LEVEL;
    void *value = (void *)(size_t)kLevel;
    CUmodule module;
    CUfunction function;
    const bool is_ptx = std::memcmp(code.data(), "\x7f" "ELF", 4) != 0;  // else machine code
    check(cuModuleLoadDataEx(&module, code.data(), is_ptx ? 1 : 0, &option, &value), path, 1);
    check(cuModuleGetFunction(&function, module, kEntry), kEntry, 1);
    return function;
}

int main(int argc, char **argv) {
    setenv("CUDA_CACHE_DISABLE", "1", 0);  // it may hold machine code of another compiler
    CUdevice device;
    CUcontext context;
    CUdeviceptr memory;
    check(cuInit(0), "cuInit", 3);
    check(cuDeviceGet(&device, 0), "cuDeviceGet", 3);
    check(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain", 3);
    check(cuCtxSetCurrent(context), "cuCtxSetCurrent", 3);
    CUfunction kernel = loaded(argc > 1 ? argv[1] : "kernel.ptx");
    const Bytes input = bytes_of("input.bin"), expected = bytes_of("expected.bin");
    Bytes images;
    for (unsigned copy = 0; copy < kCopies; ++copy) images.insert(images.end(), input.begin(), input.end());
    check(cuMemAlloc(&memory, images.size()), "cuMemAlloc", 3);
    check(cuMemcpyHtoD(memory, images.data(), images.size()), "cuMemcpyHtoD", 1);
    Bytes parameters(kParameters, kParameters + sizeof kParameters);
    for (const Pointer &one : kPointers) {
        const CUdeviceptr address = memory + one.offset;
        std::memcpy(&parameters[one.place], &address, sizeof address);
    }
    std::vector<void *> arguments;
    for (size_t place : kPlaces) arguments.push_back(&parameters[place]);
    check(cuLaunchKernel(kernel, kGrid[0], kGrid[1], kGrid[2], kBlock[0], kBlock[1], kBlock[2],
                         kShared, nullptr, arguments.data(), nullptr), "cuLaunchKernel", 1);
    check(cuCtxSynchronize(), "the kernel", 1);
    check(cuMemcpyDtoH(images.data(), memory, images.size()), "cuMemcpyDtoH", 1);
    size_t wrong = 0;
    for (size_t at = 0; at < images.size(); at += 4) {
        unsigned want = 0, got = 0;
        std::memcpy(&want, &expected[at % kBytes], 4);
        std::memcpy(&got, &images[at], 4);
        if (want != got && ++wrong <= 16)
            std::printf("byte %zu: expected 0x%08x, actual 0x%08x\n", at % kBytes, want, got);
    }
    std::printf("%zu of %zu words are not as the PTX ISA says\n", wrong, images.size() / 4);
    return wrong ? 1 : 0;
}
