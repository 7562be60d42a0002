// Runs one kernel on one memory image, and compares every byte with what is expected.
// One file, nothing else: the PTX, the image and the expected bytes are below.
//
//   nvcc -arch=@ARCH@ -Xptxas -O@LEVEL@ -o repro repro.cu -lcuda && ./repro
//   ./repro [--times N] [--copies N] [--device N] [--driver] [--opt 0..3] [FILE.ptx or FILE.cubin]
//
//@COMPILED@
//
// Exit codes: 0 every byte is as expected; 1 some are not, or the kernel could not be compiled or
// run; 2 wrong options; 3 something is missing here: a device, a file.

#include <cuda.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace {

enum Exit { kMatch = 0, kMismatch = 1, kUsage = 2, kMissing = 3 };

// A matrix, or registers of all lanes (rows are lanes), in the image.
struct Result {
    const char *name;
    const char *type;
    size_t bytes;  // of an element
    size_t start;  // byte of element [0, 0]
    size_t rows, columns, row_bytes, column_bytes;
};

struct Buffer {
    const char *name;
    size_t offset, size;
};

// Where an address lies in the entry's parameters, and to which byte of the image it points.
struct Pointer {
    size_t place, offset;
};

//@DATA@

#if defined(__CUDACC__) && @HAS_KERNEL@
//@KERNEL@

// The kernel as the ptxas of nvcc compiled it.
CUfunction built_in() {
    cudaFunction_t function;
    const cudaError_t result =
        cudaGetFuncBySymbol(&function, reinterpret_cast<const void *>(&compiled_by_nvcc));
    if (result != cudaSuccess) {
        std::printf("FAILED: cudaGetFuncBySymbol: %s\n", cudaGetErrorString(result));
        std::exit(kMismatch);
    }
    return reinterpret_cast<CUfunction>(function);
}
const char *const kBuilt = "the kernel that nvcc compiled";
#else
CUfunction built_in() { return nullptr; }
const char *const kBuilt = nullptr;
#endif

// Leaves the program where the driver reports an error: `code` says what that means.
void check(CUresult result, const char *what, int code) {
    if (result == CUDA_SUCCESS) return;
    const char *name = nullptr, *text = nullptr;
    cuGetErrorName(result, &name);
    cuGetErrorString(result, &text);
    std::printf("%s: %s failed: %s (%s)\n", code == kMissing ? "MISSING" : "FAILED", what,
                name ? name : "unknown error", text ? text : "no description");
    std::exit(code);
}

long number(const char *text) {
    char *end = nullptr;
    const long value = std::strtol(text, &end, 10);
    if (*text == '\0' || *end != '\0' || value < 0) {
        std::fprintf(stderr, "%s is no number; see the top of repro.cu\n", text);
        std::exit(kUsage);
    }
    return value;
}

std::string read_file(const char *path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) {
        std::fprintf(stderr, "%s cannot be read\n", path);
        std::exit(kMissing);
    }
    return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

double half(uint64_t bits) {
    const int exponent = static_cast<int>(bits >> 10 & 31);
    const double fraction = static_cast<double>(bits & 1023);
    double value;
    if (exponent == 31) {
        value = fraction != 0 ? NAN : HUGE_VAL;
    } else {
        value = exponent ? std::ldexp(1024 + fraction, exponent - 25) : std::ldexp(fraction, -24);
    }
    return bits >> 15 ? -value : value;
}

void print_value(const char *type, size_t size, uint64_t bits) {
    std::printf("0x%0*llx", static_cast<int>(2 * size), static_cast<unsigned long long>(bits));
    if (std::strcmp(type, "f16") == 0) {
        std::printf(" (%.5g)", half(bits));
    } else if (std::strcmp(type, "f32") == 0) {
        const uint32_t word = static_cast<uint32_t>(bits);
        float value;
        std::memcpy(&value, &word, sizeof value);
        std::printf(" (%.9g)", static_cast<double>(value));
    } else if (std::strcmp(type, "f64") == 0) {
        double value;
        std::memcpy(&value, &bits, sizeof value);
        std::printf(" (%.17g)", value);
    } else if (std::strcmp(type, "s32") == 0) {
        std::printf(" (%d)", static_cast<int>(static_cast<uint32_t>(bits)));
    }
}

uint64_t word_at(const unsigned char *bytes, size_t size) {
    uint64_t word = 0;
    for (size_t i = size; i-- > 0;) word = word << 8 | bytes[i];
    return word;
}

// Prints the differing elements of the results, then the other bytes that differ.
void print_differences(const unsigned char *actual) {
    const size_t most = 64;
    size_t found = 0;
    std::vector<bool> seen(kImageBytes, false);
    for (const Result &result : kResults) {
        for (size_t row = 0; row < result.rows; ++row) {
            for (size_t column = 0; column < result.columns; ++column) {
                const size_t at =
                    result.start + row * result.row_bytes + column * result.column_bytes;
                if (seen[at] || std::memcmp(actual + at, kExpected + at, result.bytes) == 0)
                    continue;
                for (size_t i = 0; i < result.bytes; ++i) seen[at + i] = true;
                if (++found > most) continue;
                std::printf("  %s[%zu, %zu]: expected ", result.name, row, column);
                print_value(result.type, result.bytes, word_at(kExpected + at, result.bytes));
                std::printf(", actual ");
                print_value(result.type, result.bytes, word_at(actual + at, result.bytes));
                std::printf("\n");
            }
        }
    }
    for (size_t at = 0; at < kImageBytes; ++at) {
        if (seen[at] || actual[at] == kExpected[at] || ++found > most) continue;
        const char *name = "the image";
        size_t offset = 0;
        for (const Buffer &buffer : kBuffers) {
            if (buffer.offset <= at && at < buffer.offset + buffer.size) {
                name = buffer.name;
                offset = buffer.offset;
            }
        }
        std::printf("  byte %zu of %s: expected 0x%02x, actual 0x%02x\n", at - offset, name,
                    kExpected[at], actual[at]);
    }
    if (found > most) std::printf("  ... and %zu more\n", found - most);
}

CUfunction load(const std::string &code, int level) {
    std::vector<char> log(1 << 16, '\0');
    CUjit_option options[] = {CU_JIT_OPTIMIZATION_LEVEL, CU_JIT_ERROR_LOG_BUFFER,
                              CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {reinterpret_cast<void *>(static_cast<uintptr_t>(level)), log.data(),
                      reinterpret_cast<void *>(static_cast<uintptr_t>(log.size() - 1))};
    // Machine code is an ELF file; a level means something for PTX alone.
    const bool is_elf = code.compare(0, 4, "\x7f" "ELF") == 0;
    CUmodule module;
    const CUresult result =
        cuModuleLoadDataEx(&module, code.c_str(), is_elf ? 0 : 3, options, values);
    if (result != CUDA_SUCCESS) std::printf("%s\n", log.data());
    check(result, "cuModuleLoadDataEx", kMismatch);
    CUfunction kernel;
    check(cuModuleGetFunction(&kernel, module, kEntry), "cuModuleGetFunction", kMismatch);
    return kernel;
}

// Writes the addresses that the entry's parameters hold.
void set_pointers(std::vector<unsigned char> &parameters, CUdeviceptr image) {
    for (const Pointer &one : kPointers) {
        const CUdeviceptr address = image + one.offset;
        std::memcpy(parameters.data() + one.place, &address, sizeof address);
    }
}

// Runs the kernel once on some copies of the image, and tells whether all came out as expected.
bool launch(CUfunction kernel, unsigned copies, long number_of_launch) {
    std::vector<unsigned char> images(copies * kImageBytes);
    std::vector<uint32_t> sms(copies, 0);
    for (size_t i = 0; i < copies; ++i)
        std::memcpy(images.data() + i * kImageBytes, kInput, kImageBytes);
    CUdeviceptr memory = 0, numbers = 0;
    check(cuMemAlloc(&memory, images.size()), "cuMemAlloc", kMissing);
    check(cuMemAlloc(&numbers, 4 * sms.size()), "cuMemAlloc", kMissing);
    check(cuMemcpyHtoD(memory, images.data(), images.size()), "cuMemcpyHtoD", kMismatch);
    check(cuMemcpyHtoD(numbers, sms.data(), 4 * sms.size()), "cuMemcpyHtoD", kMismatch);
    unsigned count = copies;
    if (kOwnParameters) {
        // An entry with parameters of its own: one grid for each copy.
        for (unsigned i = 0; i < copies; ++i) {
            std::vector<unsigned char> parameters = kParameters;
            set_pointers(parameters, memory + i * kImageBytes);
            std::vector<void *> arguments;
            for (const size_t place : kPlaces) arguments.push_back(parameters.data() + place);
            check(cuLaunchKernel(kernel, kGrid[0], kGrid[1], kGrid[2], kBlock[0], kBlock[1],
                                 kBlock[2], kSharedBytes, nullptr, arguments.data(), nullptr),
                  "cuLaunchKernel", kMismatch);
        }
    } else {
        void *arguments[] = {&memory, &numbers, &count};
        const unsigned blocks = (copies + kWarpsPerBlock - 1) / kWarpsPerBlock;
        check(cuLaunchKernel(kernel, blocks, 1, 1, 32 * kWarpsPerBlock, 1, 1, 0, nullptr,
                             arguments, nullptr),
              "cuLaunchKernel", kMismatch);
    }
    check(cuCtxSynchronize(), "the kernel", kMismatch);
    check(cuMemcpyDtoH(images.data(), memory, images.size()), "cuMemcpyDtoH", kMismatch);
    check(cuMemcpyDtoH(sms.data(), numbers, 4 * sms.size()), "cuMemcpyDtoH", kMismatch);
    check(cuMemFree(memory), "cuMemFree", kMismatch);
    check(cuMemFree(numbers), "cuMemFree", kMismatch);

    size_t wrong = 0, first = 0;
    for (size_t i = copies; i-- > 0;) {
        if (std::memcmp(images.data() + i * kImageBytes, kExpected, kImageBytes) != 0) {
            ++wrong;
            first = i;
        }
    }
    if (wrong == 0) {
        std::printf("launch %ld: every byte of %u image(s) is as expected\n", number_of_launch,
                    copies);
        return true;
    }
    std::printf("launch %ld: %zu of %u image(s) differ; image %zu", number_of_launch, wrong, copies,
                first);
    // An entry with parameters of its own reports no SM.
    if (!kOwnParameters) std::printf(", on SM %u", sms[first]);
    std::printf(":\n");
    print_differences(images.data() + first * kImageBytes);
    return false;
}

}  // namespace

int main(int argc, char **argv) {
    long times = 1, ordinal = 0, copies = kCopies, level = kLevel;
    std::string code, source = kBuilt ? kBuilt : "the PTX in repro.cu";
    bool by_driver = kBuilt == nullptr;
    for (int i = 1; i < argc; ++i) {
        long *option = nullptr;
        if (std::strcmp(argv[i], "--times") == 0) option = &times;
        if (std::strcmp(argv[i], "--copies") == 0) option = &copies;
        if (std::strcmp(argv[i], "--device") == 0) option = &ordinal;
        if (std::strcmp(argv[i], "--opt") == 0) option = &level;
        if (option != nullptr && i + 1 < argc) {
            *option = number(argv[++i]);
        } else if (std::strcmp(argv[i], "--driver") == 0) {
            by_driver = true;
            source = "the PTX in repro.cu";
        } else if (option != nullptr || std::strncmp(argv[i], "--", 2) == 0) {
            std::fprintf(stderr, "%s: see the top of repro.cu for the options\n", argv[i]);
            return kUsage;
        } else {
            source = argv[i];
            code = read_file(argv[i]);
        }
    }
    if (copies < 1 || times < 1) {
        std::fprintf(stderr, "--copies and --times must be at least 1\n");
        return kUsage;
    }
    by_driver = by_driver || !code.empty();
    if (code.empty())
        for (const char *part : kPtx) code += part;
#ifndef _WIN32
    // Else the driver may take machine code of its cache, made by another compiler.
    setenv("CUDA_CACHE_DISABLE", "1", 0);
#endif
    check(cuInit(0), "cuInit", kMissing);
    CUdevice device;
    check(cuDeviceGet(&device, static_cast<int>(ordinal)), "cuDeviceGet", kMissing);
    char name[256] = "";
    check(cuDeviceGetName(name, sizeof name, device), "cuDeviceGetName", kMissing);
    int driver = 0;
    check(cuDriverGetVersion(&driver), "cuDriverGetVersion", kMissing);
    const std::string at = by_driver ? ", -O" + std::to_string(level) : "";
    std::printf("%s, CUDA %d.%d, %s%s\n", name, driver / 1000, driver % 1000 / 10, source.c_str(),
                at.c_str());
    // The primary context: cuCtxCreate has another signature from CUDA 13 on.
    CUcontext context;
    check(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain", kMissing);
    check(cuCtxSetCurrent(context), "cuCtxSetCurrent", kMissing);
    CUfunction kernel = by_driver ? load(code, static_cast<int>(level)) : built_in();
    bool matches = true;
    for (long i = 1; i <= times; ++i)
        matches = launch(kernel, static_cast<unsigned>(copies), i) && matches;
    check(cuDevicePrimaryCtxRelease(device), "cuDevicePrimaryCtxRelease", kMismatch);
    return matches ? kMatch : kMismatch;
}
