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

// Where there are no tickets, the workspace is set to 0 for them; where there is none either, a launch does without.
inline cudaError_t zeroed_tickets(unsigned*& tickets, void* workspace, cudaStream_t on)
{
    if (tickets || !workspace)
        return cudaSuccess;
    tickets = static_cast<unsigned*>(workspace);
    return cudaMemsetAsync(workspace, 0, sizeof *tickets, on);
}

constexpr int kMostWordBytesALane = 272, kMostWordBytes = 32 * kMostWordBytesALane;

struct WordsPlan
{
    int lanes; // that share a row's words in shared memory; 0 for longer rows
    bool turns;
};

// The fewest lanes with which a bank of the shared memory serves a warp at most three times at once.
inline int word_lanes(int64_t bytes, bool turns)
{
    constexpr int kMostConflicts = 3, kBanks = 32;
    for (int lanes = 1; lanes < 32; lanes *= 2)
    {
        int hits[kBanks] = {}, most = 0;
        for (int t = 0; t < 32; ++t)
        {
            int64_t const group = t / lanes, begin = ceil_div(group * bytes, int64_t(4)) + t % lanes;
            most = std::max(most, ++hits[(begin + (turns ? group * lanes : 0)) % kBanks]);
        }
        if (bytes <= kMostWordBytesALane * lanes && most <= kMostConflicts)
            return lanes;
    }
    return 32;
}

// A block has some 32 KiB. Rows that begin on vectors take turns, others where it spares three lanes of four.
inline WordsPlan plan_words(Type type, int64_t length)
{
    constexpr int kMostWholeVectors = 128;
    int64_t const bytes = length * size_of(type);
    bool const whole = length % vector_elements(type) == 0;
    if (bytes > (whole ? kMostWholeVectors * kVectorBytes : kMostWordBytes))
        return WordsPlan{0, false};
    int const lanes = word_lanes(bytes, false), turning = word_lanes(bytes, true);
    return whole || 4 * turning <= lanes ? WordsPlan{turning, true} : WordsPlan{lanes, false};
}

template <class T, class... Arguments>
using WordsKernel = void(T const*, T*, int64_t, int, int, Arguments..., bool);

// `kernel` takes rows in shared memory as words; `turning` each row's from another one on.
template <class T, class... Arguments>
cudaError_t launch_words(WordsKernel<T, Arguments...>* kernel, WordsKernel<T, Arguments...>* turning,
    WordsPlan const& plan, T const* x, T* y, int64_t rows, int64_t length, bool stream, cudaStream_t on, Arguments... arguments)
{
    constexpr int VEC = kVectorBytes / sizeof(T);
    int const threads = std::max(128, plan.lanes * VEC); // so many rows that a block's begin on a vector
    int64_t const a_block = threads / plan.lanes, blocks = ceil_div(rows, a_block);
    size_t const shared = size_t(ceil_div(a_block * length, int64_t(VEC))) * kVectorBytes;
    auto* const chosen = plan.turns ? turning : kernel;
    int count = 0;
    cudaError_t const status = resident_blocks(chosen, threads, shared, count);
    if (status != cudaSuccess)
        return status;
    if (count == 0 || blocks > kMostBlocks)
        return cudaErrorInvalidConfiguration;
    chosen<<<unsigned(blocks), threads, shared, on>>>(x, y, rows, int(length), plan.lanes, arguments..., stream);
    return cudaGetLastError();
}

// The operators that have no plan of their own for the tests to choose.
cudaError_t l2norm(Type type, void const* x, Scalars weight, void* y, int64_t outer, int64_t channels, int64_t inner,
    Norm norm, void* workspace, unsigned* tickets, cudaStream_t on);
cudaError_t leaky_relu(Attributes const& a, Tensor const& x, Tensor const& y, cudaStream_t on);
cudaError_t prelu(Tensor const& x, Tensor const& slope, Tensor const& y, cudaStream_t on);

// InstanceNorm's, for rows of up to `length` elements of any type.
size_t instance_norm_workspace_bytes(int64_t rows, int64_t length);

} // namespace surgeon
