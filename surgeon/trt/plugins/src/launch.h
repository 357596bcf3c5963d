// What the operators' launchers share.
#pragma once

#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>

#include "operators.h"
#include "plans.h"

namespace surgeon
{

constexpr int64_t kMostBlocks = (int64_t(1) << 31) - 1;

template <class T>
struct Tag
{
    using type = T;
};

template <class F>
cudaError_t with_type(Type type, F const& f)
{
    switch (type)
    {
    case Type::kFloat: return f(Tag<float>{});
    case Type::kHalf: return f(Tag<__half>{});
    case Type::kBfloat16: return f(Tag<__nv_bfloat16>{});
    }
    return cudaErrorInvalidValue;
}

inline int vector_elements(Type type)
{
    return int(kVectorBytes / size_of(type));
}

// 0 where there are none.
inline int bytes_of_one(Scalars const& s)
{
    return s.data ? int(size_of(s.type)) : 0;
}

inline Scalars scalars(Tensor const& t)
{
    return Scalars{t.data, t.type};
}

// What ask(device, count) says of a launch: asked once for each key and device.
template <class Key, class Ask>
cudaError_t remembered(Key const& key, int& count, Ask const& ask)
{
    static std::mutex mutex;
    static std::map<std::pair<int, Key>, int> known;
    int id = 0;
    cudaError_t status = cudaGetDevice(&id);
    if (status != cudaSuccess)
        return status;
    std::lock_guard<std::mutex> const lock(mutex);
    auto const found = known.find({id, key});
    if (found != known.end())
        return count = found->second, cudaSuccess;
    status = ask(id, count);
    if (status == cudaSuccess)
        known[{id, key}] = count;
    return status;
}

// Lets a block of the kernel have the most dynamic shared memory that there is; the same for every shape: another's
// launches must not lower it.
template <class Kernel>
cudaError_t allow_most_shared(Kernel* kernel, int device, int& most)
{
    cudaFuncAttributes has{};
    cudaError_t status = cudaFuncGetAttributes(&has, kernel);
    if (status == cudaSuccess)
        status = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    most -= int(has.sharedSizeBytes);
    if (status == cudaSuccess)
        status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most);
    return status;
}

// How many blocks of the kernel the device holds at once; 0 where it takes none such.
template <class Kernel>
cudaError_t resident_blocks(Kernel* kernel, int threads, size_t shared, int& count)
{
    return remembered(std::make_tuple(kernel, threads, shared), count, [&](int id, int& blocks) {
        int most = 0;
        cudaError_t status = allow_most_shared(kernel, id, most);
        blocks = 0;
        if (status == cudaSuccess && shared <= size_t(most))
            status = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads, shared);
        blocks *= device().multiprocessors;
        return status;
    });
}

// Of a block's shared memory: the system's part, and the kernel's own barriers.
constexpr int64_t kReservedOfBlock = (1 << 10) + 640;

inline int64_t most_shared_of_block() { return device().shared_bytes - kReservedOfBlock; }

// Begins while the kernel before it ends, where the device can: await_predecessors().
struct KernelLaunch
{
    cudaLaunchAttribute attributes[2]{};
    cudaLaunchConfig_t config;

    KernelLaunch(dim3 grid, dim3 block, size_t shared, int cluster, cudaStream_t on)
        : config{grid, block, shared, on, attributes, 0}
    {
        if (device().clusters)
        {
            attributes[config.numAttrs].id = cudaLaunchAttributeClusterDimension;
            attributes[config.numAttrs++].val.clusterDim = {unsigned(cluster), 1, 1};
        }
        if (device().early)
        {
            attributes[config.numAttrs].id = cudaLaunchAttributeProgrammaticStreamSerialization;
            attributes[config.numAttrs++].val.programmaticStreamSerializationAllowed = 1;
        }
    }
    KernelLaunch(KernelLaunch const&) = delete;
};

template <class... Parameters, class... Arguments>
cudaError_t launch_kernel(void (*kernel)(Parameters...), int64_t blocks, dim3 block, size_t shared, cudaStream_t on,
    Arguments const&... arguments)
{
    if (blocks > kMostBlocks)
        return cudaErrorInvalidValue;
    KernelLaunch const launch(unsigned(blocks), block, shared, 1, on);
    return cudaLaunchKernelEx(&launch.config, kernel, arguments...);
}

// How many blocks of the kernel, or clusters of `cluster` blocks, the device holds at once; 0 where it takes none such.
template <class Kernel>
cudaError_t resident(Kernel* kernel, int threads, size_t shared, int cluster, int& count)
{
    if (cluster == 1)
        return resident_blocks(kernel, threads, shared, count);
    return remembered(std::make_tuple(kernel, threads, shared, cluster), count, [&](int id, int& clusters) {
        int most = 0;
        cudaError_t status = allow_most_shared(kernel, id, most);
        clusters = 0;
        if (status == cudaSuccess && shared <= size_t(most))
        {
            KernelLaunch const launch(cluster, threads, shared, cluster, nullptr);
            if (cluster > kMostBlocksInCluster)
                status = cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
            if (status == cudaSuccess
                && cudaOccupancyMaxActiveClusters(&clusters, kernel, &launch.config) != cudaSuccess)
            {
                clusters = 0;
                cudaGetLastError(); // a device without room for such a cluster
            }
        }
        return status;
    });
}

// As many clusters as the device holds, and no more than there are items for.
template <class... Parameters, class... Arguments>
cudaError_t launch_resident(void (*kernel)(Parameters...), int blocks, int threads, size_t shared, int64_t items,
    cudaStream_t on, Arguments const&... arguments)
{
    int clusters = 0;
    cudaError_t const status = resident(kernel, threads, shared, blocks, clusters);
    if (status != cudaSuccess)
        return status;
    if (clusters == 0)
        return cudaErrorInvalidConfiguration;
    KernelLaunch const launch(unsigned(std::min<int64_t>(clusters, items)) * blocks, threads, shared, blocks, on);
    return cudaLaunchKernelEx(&launch.config, kernel, arguments...);
}

// Of a launch that draws: where there are no tickets, the workspace is set to 0 for them; where there is none either,
// it does without, as others do.
inline cudaError_t ready_tickets(unsigned*& tickets, bool draws, void* workspace, cudaStream_t on)
{
    if (!draws)
        tickets = nullptr;
    if (!draws || tickets || !workspace)
        return cudaSuccess;
    tickets = static_cast<unsigned*>(workspace);
    return cudaMemsetAsync(workspace, 0, sizeof *tickets, on);
}

// Rows that a block takes in shared memory as one span: each by a thread as 32-bit words, or by some lanes as vectors.
constexpr int kMostWordBytes = 400, kMostBytesOfLane = 272, kMostLanesOfRow = 32,
              kMostStagedBytes = kMostLanesOfRow * kMostBytesOfLane;

// The lanes that share a row; 1 for words.
inline int staged_lanes(int64_t bytes, int most_word_bytes = kMostWordBytes)
{
    if (bytes <= most_word_bytes)
        return 1;
    int lanes = 8;
    while (lanes < kMostLanesOfRow && bytes > lanes * kMostBytesOfLane)
        lanes *= 2;
    return lanes;
}

template <class T, class... Arguments>
using StagedKernel = void(T const*, T*, int64_t, int, int, Arguments..., bool);

template <class T, class... Arguments>
struct StagedKernels
{
    StagedKernel<T, Arguments...>*words, *turning, *vectors;
};

// Of `threads` a block, or half of that again and again, so many that there is a block for every multiprocessor, but no
// fewer than `least`.
template <class BlocksOf>
int spread_threads(int threads, int least, BlocksOf const& blocks_of)
{
    while (threads > least && blocks_of(threads) < device().multiprocessors)
        threads /= 2;
    return threads;
}

// Rows by so many lanes each; invalid configuration where the device has too little shared memory, of which the kernel
// has `beside` bytes for more than rows.
template <class T, class... Arguments>
cudaError_t launch_staged(StagedKernels<T, Arguments...> const& kernels, T const* x, T* y, int64_t rows, int64_t length,
    int lanes, size_t beside, bool stream, cudaStream_t on, Arguments... arguments)
{
    constexpr int VEC = kVectorBytes / sizeof(T), kWarp = 32;
    bool const whole = length % VEC == 0;
    // So many rows that a block's begin on a sector, or the longest on a vector.
    int const threads = spread_threads(std::min(std::max(16 * lanes, 128), kMostStagedThreads),
        std::max(lanes * (whole ? 1 : VEC), kWarp), [&](int some) { return ceil_div(rows, int64_t(some / lanes)); });
    int64_t const a_block = threads / lanes, blocks = ceil_div(rows, a_block);
    size_t const shared = size_t(ceil_div(a_block * length, int64_t(VEC))) * kVectorBytes + beside;
    auto* const kernel = lanes > 1 ? kernels.vectors : whole ? kernels.turning : kernels.words;
    int count = 0;
    cudaError_t const status = resident_blocks(kernel, threads, shared, count);
    if (status != cudaSuccess)
        return status;
    if (count == 0 || blocks > kMostBlocks)
        return cudaErrorInvalidConfiguration;
    // Not early, and the kernels do not wait: either cost up to 0.2 of a copy.
    kernel<<<unsigned(blocks), threads, shared, on>>>(x, y, rows, int(length), lanes, arguments..., stream);
    return cudaGetLastError();
}

// f(Period<T, length>{}) of rows of LENGTH or more elements and at most MOST_BYTES.
template <class T, int MOST_BYTES, int LENGTH = 1, class F>
cudaError_t with_period(int64_t length, F const& f)
{
    if constexpr (LENGTH * sizeof(T) > MOST_BYTES)
        return cudaErrorInvalidValue;
    else
        return length > LENGTH ? with_period<T, MOST_BYTES, LENGTH + 1>(length, f) : f(Period<T, LENGTH>{});
}

// Of rows, and of L2Norm's images, that threads take some at a time.
constexpr int kMostPeriodBytes = 52, kMostImagePeriodBytes = 32;

// The operators that have no plan of their own for the tests to choose.
cudaError_t l2norm_rows(Type type, void const* x, Scalars weight, void* y, int64_t rows, int64_t length, Norm norm,
    cudaStream_t on);
cudaError_t l2norm_small_images(Type type, void const* x, Scalars weight, void* y, int64_t outer, int64_t channels,
    int64_t inner, Norm norm, cudaStream_t on);
cudaError_t l2norm(Type type, void const* x, Scalars weight, void* y, int64_t outer, int64_t channels, int64_t inner,
    Norm norm, void* workspace, unsigned* tickets, cudaStream_t on);
cudaError_t leaky_relu(Attributes const& a, Tensor const& x, Tensor const& y, cudaStream_t on);
cudaError_t prelu(Tensor const& x, Tensor const& slope, Tensor const& y, cudaStream_t on);

// InstanceNorm's, for rows of up to `length` elements of any type.
size_t instance_norm_workspace_bytes(int64_t rows, int64_t length);

} // namespace surgeon
