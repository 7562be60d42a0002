// @ABOUT@
//
// Exit codes: 0 every byte is as the PTX ISA says; 1 some are not, or the kernel did not end; 3 no GPU.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

//@KERNEL@

struct Words { size_t at; unsigned value, count; };  // the same 32 bits from a byte of memory on
//@DATA@

static void check(cudaError_t result, const char *what, int code) {
    if (result == cudaSuccess) return;
    std::printf("%s failed: %s\n", what, cudaGetErrorString(result));
    std::exit(code);
}

static void write(std::vector<unsigned char> &bytes, const std::vector<Words> &words) {
    for (const Words &one : words)
        for (unsigned i = 0; i < one.count; ++i)
            std::memcpy(&bytes[one.at + 4 * i], &one.value, 4);
}

int main() {
    std::vector<unsigned char> image(kBytes), expected;
    write(image, kBefore);
    write(expected = image, kChanged);
    unsigned char *memory = nullptr;
    check(cudaMalloc(&memory, kBytes), "cudaMalloc", 3);
    check(cudaMemcpy(memory, image.data(), kBytes, cudaMemcpyHostToDevice), "cudaMemcpy", 1);
    kernel<<<1, 32>>>(memory);
    check(cudaGetLastError(), "the launch", 1);
    check(cudaDeviceSynchronize(), "the kernel", 1);
    check(cudaMemcpy(image.data(), memory, kBytes, cudaMemcpyDeviceToHost), "cudaMemcpy", 1);
    unsigned wrong = 0;
    for (size_t at = 0; at < kBytes; at += 4) {
        unsigned want, got;
        std::memcpy(&want, &expected[at], 4);
        std::memcpy(&got, &image[at], 4);
        if (want != got && ++wrong <= 16)
            std::printf("byte %zu: expected 0x%08x, actual 0x%08x\n", at, want, got);
    }
    std::printf("%u of %zu words are not as the PTX ISA says\n", wrong, kBytes / 4);
    return wrong ? 1 : 0;
}
