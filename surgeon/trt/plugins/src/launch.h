// What the operators' launchers share.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

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

struct ClusterLaunch
{
    cudaLaunchAttribute attributes[2]{};
    cudaLaunchConfig_t config{};

    // Together: either all clusters become resident, or the launch waits; it fails where they never could.
    ClusterLaunch(int grid, int threads, size_t shared, int blocks, cudaStream_t on, bool together = false)
    {
        attributes[0].id = cudaLaunchAttributeClusterDimension;
        attributes[0].val.clusterDim.x = blocks;
        attributes[0].val.clusterDim.y = attributes[0].val.clusterDim.z = 1;
        attributes[1].id = cudaLaunchAttributeCooperative;
        attributes[1].val.cooperative = 1;
        config.gridDim = dim3(grid);
        config.blockDim = dim3(threads);
        config.dynamicSmemBytes = shared;
        config.stream = on;
        config.attrs = attributes;
        config.numAttrs = together ? 2 : 1;
    }
    ClusterLaunch(ClusterLaunch const&) = delete;
};

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
            ClusterLaunch const launch(cluster, threads, shared, cluster, nullptr);
            if (cluster > kMostBlocksInCluster)
                status = cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
            if (status == cudaSuccess && cudaOccupancyMaxActiveClusters(&clusters, kernel, &launch.config) != cudaSuccess)
            {
                clusters = 0;
                cudaGetLastError(); // a device without room for such a cluster
            }
        }
        return status;
    });
}

// As many clusters as the device holds, and no more than there are items for.
template <bool TOGETHER = false, class... Parameters, class... Arguments>
cudaError_t launch_resident(void (*kernel)(Parameters...), int blocks, int threads, size_t shared, int64_t items,
    cudaStream_t on, Arguments const&... arguments)
{
    int clusters = 0;
    cudaError_t const status = resident(kernel, threads, shared, blocks, clusters);
    if (status != cudaSuccess)
        return status;
    if (clusters == 0)
        return cudaErrorInvalidConfiguration;
    ClusterLaunch const launch(
        int(std::min<int64_t>(clusters, items)) * blocks, threads, shared, blocks, on, TOGETHER);
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

// The less of two, or something less than both where they are near.
inline double least(double a, double b, double soft)
{
    return 2 * a * b / (a + b + std::sqrt((a - b) * (a - b) + 4 * soft * a * b));
}

// What a copy makes of x on a multiprocessor.
constexpr double kBytesOfNs = 16;

// Shares of x that a multiprocessor's blocks bring, work on and send.
struct ShareFlow
{
    double bytes;         // of a share
    int resident, stages; // blocks of a multiprocessor, shares that each has
    double work;          // ns that a block takes for one, besides its way
};

// The part of a copy's speed that they reach, `most` at best. More shares than are worked on must be on their way. What
// limits is memory, as many shares as there are in the time that one takes for its way and work, or the blocks' work.
// This and the work of the mappings' plans, but for words, are fitted to 20,000 timings of 210 shapes, fp32 and fp16.
inline double speed_of(ShareFlow const& f, double most)
{
    constexpr double kWay = 720, kSoft = 0.0135, kSoftOfFew = 0.043;
    double const shares = f.resident * f.stages, ways = shares * f.bytes / (f.work + kWay) / kBytesOfNs;
    return std::min(least(ways, most, kSoft + kSoftOfFew / (shares * shares)),
        f.resident * f.bytes / f.work / kBytesOfNs);
}

// How often shared memory turns to one of its banks for the 32-bit words that a warp asks for at once.
inline int turns_at_banks(std::vector<int> words)
{
    constexpr int kBanks = 32;
    std::sort(words.begin(), words.end());
    words.erase(std::unique(words.begin(), words.end()), words.end());
    int turns[kBanks] = {};
    for (int word : words)
        ++turns[word % kBanks];
    return *std::max_element(turns, turns + kBanks);
}

// What MAKE(shape...) says for this device, asked once for each shape: it takes longer than a launch.
template <auto MAKE, class... Shape>
auto const& planned_once(Shape... shape)
{
    static std::mutex mutex;
    static std::map<std::tuple<int, bool, int64_t, Shape...>, decltype(MAKE(shape...))> known; // whose places stay
    Device const& on = device();
    auto const key = std::make_tuple(on.multiprocessors, on.clusters, on.shared_bytes, shape...);
    std::lock_guard<std::mutex> const lock(mutex);
    auto const found = known.find(key);
    return found != known.end() ? found->second : known[key] = MAKE(shape...);
}

// x as [packs][elements] for tensor copies: each pack is x again, `step` elements after the one before, so that a box
// of all packs by `columns` may begin at any vector. Nothing behind the last element is asked for. Of each copy whole
// lines of `into_l2` bytes, 128 or 256, come into the L2 cache. With one pack there is no map of one less.
cudaError_t tensor_maps(ChannelMaps& maps, Type type, void const* x, int64_t elements, int64_t step, int packs,
    int columns, int64_t into_l2);

// Of the counter, which is alone in its vector; what clusters exchange follows it.
constexpr int kTicketWords = kVectorBytes / sizeof(unsigned);

// Of memory behind the counter, 0 before and after a launch.
size_t exchange_bytes();

// Of rows, and of L2Norm's images, that threads take some at a time.
constexpr int kMostPeriodBytes = 52, kMostImagePeriodBytes = 32;

// The operators that have no plan of their own for the tests to choose.
cudaError_t l2norm_rows(Type type, void const* x, Scalars weight, void* y, int64_t rows, int64_t length, Norm norm,
    void* workspace, unsigned* tickets, cudaStream_t on);
cudaError_t l2norm_small_images(Type type, void const* x, Scalars weight, void* y, int64_t outer, int64_t channels,
    int64_t inner, Norm norm, cudaStream_t on);
cudaError_t l2norm(Type type, void const* x, Scalars weight, void* y, int64_t outer, int64_t channels, int64_t inner,
    Norm norm, void* workspace, unsigned* tickets, int tactic, cudaStream_t on);
int l2norm_tactics(Type type, int64_t outer, int64_t channels, int64_t inner, bool weighted);
cudaError_t leaky_relu(Attributes const& a, Tensor const& x, Tensor const& y, cudaStream_t on);
cudaError_t prelu(Tensor const& x, Tensor const& slope, Tensor const& y, cudaStream_t on);

// InstanceNorm's, for rows of up to `length` elements of any type.
size_t instance_norm_workspace_bytes(int64_t rows, int64_t length);

} // namespace surgeon
