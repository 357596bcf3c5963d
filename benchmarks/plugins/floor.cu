// What a kernel costs at least on tensors that stay in the L2 cache: launches, copies, and copies that do what a norm
// must do. Microseconds of one of 20 launches in turn: in a stream; in a stream, each beginning while the one before
// ends; as nodes of a graph.
//
//   nvcc -std=c++17 -O3 -arch=native benchmarks/plugins/floor.cu -o floor && ./floor
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include <cuda_runtime.h>

#define CHECK(call)                                                                                                    \
    do                                                                                                                 \
    {                                                                                                                  \
        cudaError_t const status_ = (call);                                                                            \
        if (status_ != cudaSuccess)                                                                                    \
        {                                                                                                              \
            std::printf("%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(status_));                                \
            std::exit(3);                                                                                              \
        }                                                                                                              \
    } while (0)

namespace
{

__device__ void await_predecessors()
{
    asm volatile("griddepcontrol.wait;" ::: "memory");
}

__global__ void empty_kernel()
{
    await_predecessors();
}

// N vectors of a thread on their way at once, in blocks that stay.
template <int N>
__global__ void copy_kernel(uint4 const* x, uint4* y, int count)
{
    await_predecessors();
    int const step = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += N * step)
    {
        uint4 v[N];
#pragma unroll
        for (int k = 0; k < N; ++k)
            if (i + k * step < count)
                v[k] = x[i + k * step];
#pragma unroll
        for (int k = 0; k < N; ++k)
            if (i + k * step < count)
                y[i + k * step] = v[k];
    }
}

// The block has looked at all that it copies before it writes any of it: from registers, or AGAIN from memory.
template <int N, bool AGAIN>
__global__ void meet_kernel(uint4 const* x, uint4* y, int count)
{
    await_predecessors();
    int const first = blockIdx.x * blockDim.x * N + threadIdx.x;
    uint4 v[N] = {};
#pragma unroll
    for (int k = 0; k < N; ++k)
        if (first + k * blockDim.x < count)
            v[k] = __ldcg(x + first + k * blockDim.x);
    bool odd = false;
#pragma unroll
    for (int k = 0; k < N; ++k)
        odd = odd || v[k].x == 0x12345678;
    if (__syncthreads_or(odd))
        return;
#pragma unroll
    for (int k = 0; k < N; ++k)
        if (first + k * blockDim.x < count)
            y[first + k * blockDim.x] = AGAIN ? __ldcg(x + first + k * blockDim.x) : v[k];
}

// The same of blockDim.x neighbouring columns of W, by blockDim.y threads with N channels each: the memory's part of
// L2Norm by columns, without its arithmetic.
template <class W, int N>
__global__ void columns_kernel(W const* x, W* y, int columns, int plane, int channels)
{
    await_predecessors();
    int const column = blockIdx.x * blockDim.x + threadIdx.x, image = column / plane;
    size_t const base = size_t(image) * channels * plane + (column - image * plane);
    W v[N] = {};
#pragma unroll
    for (int k = 0; k < N; ++k)
        if (column < columns)
            v[k] = x[base + size_t(threadIdx.y + k * blockDim.y) * plane];
    bool odd = false;
#pragma unroll
    for (int k = 0; k < N; ++k)
        odd = odd || v[k].x == 0x12345678;
    if (__syncthreads_or(odd))
        return;
#pragma unroll
    for (int k = 0; k < N; ++k)
        if (column < columns)
            y[base + size_t(threadIdx.y + k * blockDim.y) * plane] = v[k];
}

cudaStream_t on;
bool early = false;

template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), int grid, dim3 block, size_t shared, Arguments... arguments)
{
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t const config{dim3(grid), block, shared, on, &attribute, early ? 1u : 0u};
    CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(shared)));
    CHECK(cudaLaunchKernelEx(&config, kernel, arguments...));
}

float microseconds(std::function<void()> const& f)
{
    constexpr int kWarmUp = 5, kTimes = 25, kLaunches = 20;
    cudaEvent_t from, to;
    CHECK(cudaEventCreate(&from));
    CHECK(cudaEventCreate(&to));
    std::vector<float> times;
    for (int i = -kWarmUp; i < kTimes; ++i)
    {
        float ms = 0;
        CHECK(cudaEventRecord(from, on));
        f();
        CHECK(cudaEventRecord(to, on));
        CHECK(cudaEventSynchronize(to));
        CHECK(cudaEventElapsedTime(&ms, from, to));
        if (i >= 0)
            times.push_back(ms * 1e3f / kLaunches);
    }
    std::sort(times.begin(), times.end());
    return times[kTimes / 2];
}

void row(std::string const& what, double megabytes, std::function<void()> const& f)
{
    auto const twenty = [&] {
        for (int i = 0; i < 20; ++i)
            f();
    };
    early = false;
    float const in_turn = microseconds(twenty);
    cudaGraph_t graph;
    cudaGraphExec_t replayed;
    CHECK(cudaStreamBeginCapture(on, cudaStreamCaptureModeThreadLocal));
    twenty();
    CHECK(cudaStreamEndCapture(on, &graph));
    CHECK(cudaGraphInstantiate(&replayed, graph, 0));
    float const nodes = microseconds([&] { CHECK(cudaGraphLaunch(replayed, on)); });
    early = true;
    float const begun_early = microseconds(twenty);
    std::printf("| %s | %.1f | %.2f | %.2f | %.2f |\n", what.c_str(), megabytes, in_turn, begun_early, nodes);
    std::fflush(stdout);
}

} // namespace

int main()
{
    constexpr size_t kMost = 64 << 20;
    constexpr int kImages = 8, kChannels = 512, kPlane = 1444, kMultiprocessors = 132;
    uint4 *x = nullptr, *y = nullptr;
    CHECK(cudaStreamCreate(&on));
    CHECK(cudaMalloc(&x, kMost));
    CHECK(cudaMalloc(&y, kMost));
    CHECK(cudaMemset(x, 1, kMost));
    std::printf("| what | MB | in a stream | begun early | in a graph |\n| --- | ---: | ---: | ---: | ---: |\n");
    row("empty", 0, [] { launch(empty_kernel, kMultiprocessors, 512, 0); });
    row("empty, 226 KB of shared memory", 0, [] { launch(empty_kernel, kMultiprocessors, 512, 226 << 10); });
    for (int bytes : {4 << 20, kImages * kChannels * kPlane * 2, 16 << 20})
    {
        int const count = bytes / 16;
        double const mb = bytes / 1e6;
        row("cudaMemcpyAsync", mb, [=] { CHECK(cudaMemcpyAsync(y, x, bytes, cudaMemcpyDeviceToDevice, on)); });
        row("copy", mb, [=] { launch(copy_kernel<8>, 4 * kMultiprocessors, 512, 0, x, y, count); });
        auto const meet = [=](auto kernel, int threads, char const* what) {
            row(what, mb, [=] { launch(kernel, (count + 8 * threads - 1) / (8 * threads), threads, 0, x, y, count); });
        };
        meet(meet_kernel<8, false>, 128, "copy, blocks of 16 KB meet");
        meet(meet_kernel<8, false>, 512, "copy, blocks of 64 KB meet");
        meet(meet_kernel<8, true>, 512, "looked at, and copied, blocks of 64 KB");
    }
    double const mb = kImages * kChannels * kPlane * 2 / 1e6;
    auto const columns = [&](auto word, auto packs, int width, int height, char const* what) {
        using W = decltype(word);
        int const plane = kPlane * 2 / int(sizeof(W)), all = kImages * plane;
        row(what, mb, [=] {
            launch(columns_kernel<W, decltype(packs)::value>, (all + width - 1) / width, dim3(width, height), 0,
                reinterpret_cast<W const*>(x), reinterpret_cast<W*>(y), all, plane, kChannels);
        });
    };
    using std::integral_constant;
    columns(uint2{}, integral_constant<int, 32>{}, 22, 16, "8x512x1444 halves, 22 columns of 8 bytes by 16");
    columns(uint2{}, integral_constant<int, 16>{}, 22, 32, "8x512x1444 halves, 22 columns of 8 bytes by 32");
    columns(uint2{}, integral_constant<int, 16>{}, 11, 32, "8x512x1444 halves, 11 columns of 8 bytes by 32");
    columns(uint4{}, integral_constant<int, 16>{}, 11, 32, "8x512x1440 halves, 11 columns of 16 bytes by 32");
    columns(uint4{}, integral_constant<int, 8>{}, 8, 64, "8x512x1440 halves, 8 columns of 16 bytes by 64");
    return 0;
}
