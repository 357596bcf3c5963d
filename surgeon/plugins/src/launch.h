// What the operators' launchers share.
#pragma once

#include <map>
#include <mutex>
#include <tuple>

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

// How many blocks of the kernel the device holds at once; 0 where it takes none such. Asked once per device and shape.
template <class Kernel>
cudaError_t resident_blocks(Kernel* kernel, int threads, size_t shared, int& count)
{
    static std::mutex mutex;
    static std::map<std::tuple<int, Kernel*, size_t>, int> known;
    int id = 0, most = 0;
    cudaError_t status = cudaGetDevice(&id);
    if (status != cudaSuccess)
        return status;
    std::lock_guard<std::mutex> const lock(mutex);
    auto const key = std::make_tuple(id, kernel, shared);
    auto const found = known.find(key);
    if (found != known.end())
        return count = found->second, cudaSuccess;
    cudaFuncAttributes has{};
    status = cudaFuncGetAttributes(&has, kernel);
    if (status == cudaSuccess)
        status = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, id);
    most -= int(has.sharedSizeBytes);
    // The same for every shape: another's launches must not lower it.
    if (status == cudaSuccess)
        status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most);
    count = 0;
    if (status == cudaSuccess && shared <= size_t(most))
        status = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&count, kernel, threads, shared);
    if (status == cudaSuccess)
        known[key] = count *= device().multiprocessors;
    return status;
}

// Where there are no tickets, the workspace is set to 0 for them; where there is none either, a launch does without.
inline cudaError_t zeroed_tickets(unsigned*& tickets, void* workspace, cudaStream_t on)
{
    if (tickets || !workspace)
        return cudaSuccess;
    tickets = static_cast<unsigned*>(workspace);
    return cudaMemsetAsync(workspace, 0, sizeof *tickets, on);
}

struct StagedPlan
{
    int lanes; // threads that share a row; 0: this mapping does not pay
};

template <class Kernel, class... Arguments>
cudaError_t launch_staged(Kernel* kernel, StagedPlan const& plan, int64_t rows, int64_t length, int64_t element_bytes,
    cudaStream_t on, Arguments const&... arguments)
{
    int64_t const a_block = kStagedThreads / plan.lanes, blocks = ceil_div(rows, a_block);
    size_t const shared = size_t(ceil_div(a_block * length * element_bytes, int64_t(kVectorBytes))) * kVectorBytes;
    if (blocks > kMostBlocks)
        return cudaErrorInvalidValue;
    kernel<<<unsigned(blocks), kStagedThreads, shared, on>>>(arguments...);
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
