#include "launch.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>

namespace surgeon
{

namespace
{

// The grid kernel: shares of 64 KiB, one in the registers and one in the shared memory of each block. Rows of
// more than 4 MiB are faster read twice.
constexpr int kShareThreads = 512, kShareVectors = kShareThreads * kSharePacks, kShareStages = 1;
constexpr int kMostStageMemory = 200 << 10, kMostShares = 64;

} // namespace

RowsPlan plan_rows(Type type, int64_t rows, int64_t length, Device const& on)
{
    int64_t const vectors = window_vectors(length, vector_elements(type));
    auto const whole_warps = [](int64_t threads) { return int(ceil_div(threads, int64_t(32)) * 32); };
    if (vectors <= 128)
        return RowsPlan{4, next_power_of_two(ceil_div(vectors, int64_t(4))), 256, 1, 0, 0};
    if (vectors <= 256)
        return RowsPlan{8, 32, 256, 1, 0, 0};
    int blocks = on.clusters ? next_power_of_two(ceil_div(vectors, int64_t(2 * kTileVectors))) : 1;
    bool const one_wave = rows * blocks <= on.multiprocessors;
    if (on.clusters && one_wave) // spread the few rows over the multiprocessors
        while (blocks < kMostBlocksInCluster && 2 * rows * blocks <= on.multiprocessors && vectors / blocks > 512)
            blocks *= 2;
    int64_t const shares = ceil_div(vectors, int64_t(kShareVectors));
    bool const over_grid = on.clusters && (!one_wave || blocks > kMostBlocksInCluster) && vectors > kTileVectors
        && shares <= std::min(kMostShares, on.multiprocessors) && rows * shares < kMostBlocks / 2;
    if (over_grid)
        return RowsPlan{0, kShareThreads, kShareThreads, int(shares), kShareStages, kShareVectors};
    int64_t const share = ceil_div(vectors, int64_t(blocks));
    if (share > 2 * kTileVectors || blocks > kMostBlocksInCluster)
        return RowsPlan{kTilePacks, kTileThreads, kTileThreads, 0, 0, 0};
    int const packs = share > kTileVectors ? 16 : 8;
    int const threads = whole_warps(ceil_div(share, int64_t(packs)));
    return RowsPlan{packs, threads, threads, blocks, 0, 0};
}

namespace
{

// Rows that begin inside a vector. They are taken element by element there: only where the row's ends weigh more.
StagedPlan plan_staged_rows(Type type, int64_t length)
{
    int const vec = vector_elements(type);
    if (length % vec == 0 || window_vectors(length, vec) > 64)
        return StagedPlan{0};
    return StagedPlan{std::min(next_power_of_two(ceil_div(length, int64_t(16))), 32)};
}

struct Chunks
{
    int count, vectors; // of a row, of a chunk
};

Chunks chunks_of(int64_t vectors)
{
    int64_t const tiles = ceil_div(vectors, int64_t(kTileVectors));
    int64_t const tiles_a_chunk = ceil_div(tiles, int64_t(kMostChunks));
    return Chunks{int(ceil_div(tiles, tiles_a_chunk)), int(tiles_a_chunk) * kTileVectors};
}

// Blocks of the grid kernel that the device holds at once; asked once per type, device and launch shape.
template <class T>
cudaError_t resident_blocks(int threads, size_t shared, int& blocks)
{
    static std::mutex mutex;
    static std::map<std::tuple<int, int, size_t>, int> known;
    int id = 0;
    cudaError_t status = cudaGetDevice(&id);
    if (status != cudaSuccess)
        return status;
    std::lock_guard<std::mutex> const lock(mutex);
    auto const found = known.find(std::make_tuple(id, threads, shared));
    if (found != known.end())
        return blocks = found->second, cudaSuccess;
    auto* const kernel = instance_norm_grid_kernel<T>;
    status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kMostStageMemory);
    if (status == cudaSuccess)
        status = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads, shared);
    if (status != cudaSuccess)
        return status;
    blocks *= device().multiprocessors;
    known[std::make_tuple(id, threads, shared)] = blocks;
    return cudaSuccess;
}

template <class T>
cudaError_t launch_over_grid(RowsPlan const& plan, T const* x, T* y, int64_t rows, int64_t length,
    InstanceNormParams const& params, void* workspace, bool stream, cudaStream_t on)
{
    int const shares = plan.blocks;
    int64_t const items = rows * shares;
    size_t const shared = size_t(plan.stages) * plan.share * kVectorBytes;
    int resident = 0;
    cudaError_t status = resident_blocks<T>(plan.threads, shared, resident);
    if (status != cudaSuccess)
        return status;
    if (shares > resident || items > kMostBlocks - resident || workspace == nullptr)
        return cudaErrorInvalidConfiguration;
    status = cudaMemsetAsync(workspace, 0xff, size_t(items) * sizeof(uint4), on);
    if (status != cudaSuccess)
        return status;
    cudaLaunchAttribute cooperative{};
    cooperative.id = cudaLaunchAttributeCooperative;
    cooperative.val.cooperative = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(unsigned(std::min<int64_t>(items, resident)));
    config.blockDim = dim3(plan.threads);
    config.dynamicSmemBytes = shared;
    config.stream = on;
    config.attrs = &cooperative;
    config.numAttrs = 1;
    return cudaLaunchKernelEx(&config, instance_norm_grid_kernel<T>, x, y, rows, length, shares, plan.share,
        plan.stages, static_cast<uint4*>(workspace), params, stream);
}

template <class T, int R>
cudaError_t launch_rows(RowsPlan const& plan, T const* x, T* y, int64_t rows, int64_t length,
    InstanceNormParams const& params, bool stream, cudaStream_t on)
{
    int64_t const blocks = plan.blocks > 1 ? rows * plan.blocks : ceil_div(rows, int64_t(plan.threads / plan.lanes));
    if (blocks > kMostBlocks)
        return cudaErrorInvalidValue;
    if (plan.blocks == 1)
    {
        instance_norm_rows_kernel<T, R, false>
            <<<unsigned(blocks), plan.threads, 0, on>>>(x, y, rows, length, plan.lanes, params, stream);
        return cudaGetLastError();
    }
#if CUDART_VERSION >= 11080
    if constexpr (R >= 8)
    {
        cudaLaunchAttribute cluster{};
        cluster.id = cudaLaunchAttributeClusterDimension;
        cluster.val.clusterDim.x = plan.blocks;
        cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
        cudaLaunchConfig_t config{};
        config.gridDim = dim3(unsigned(blocks));
        config.blockDim = dim3(plan.threads);
        config.stream = on;
        config.attrs = &cluster;
        config.numAttrs = 1;
        return cudaLaunchKernelEx(
            &config, instance_norm_rows_kernel<T, R, true>, x, y, rows, length, plan.lanes, params, stream);
    }
#endif
    return cudaErrorInvalidValue;
}

template <class T>
cudaError_t launch_in_two_passes(T const* x, T* y, int64_t rows, int64_t length, InstanceNormParams const& params,
    void* workspace, cudaStream_t on)
{
    int64_t const vectors = window_vectors(length, kVectorBytes / sizeof(T));
    int64_t const tiles = ceil_div(vectors, int64_t(kTileVectors));
    Chunks const chunks = chunks_of(vectors);
    if (rows * tiles > kMostBlocks || workspace == nullptr)
        return cudaErrorInvalidValue;
    auto* const of_rows = static_cast<Moments*>(workspace);
    Moments* const of_chunks = of_rows + rows;
    constexpr int kMergeThreads = 128, kRowsABlock = kMergeThreads / 32;
    instance_norm_moments_kernel<T><<<unsigned(rows * chunks.count), kTileThreads, 0, on>>>(
        x, of_chunks, rows * length, length, chunks.count, chunks.vectors);
    instance_norm_merge_kernel<kMergeThreads><<<unsigned(ceil_div(rows, int64_t(kRowsABlock))), kMergeThreads, 0, on>>>(
        of_chunks, of_rows, rows, chunks.count);
    instance_norm_apply_kernel<T>
        <<<unsigned(rows * tiles), kTileThreads, 0, on>>>(x, of_rows, y, rows * length, length, int(tiles), params);
    return cudaGetLastError();
}

} // namespace

cudaError_t launch_instance_norm(RowsPlan const& plan, Type type, void const* x, void* y, int64_t rows,
    int64_t length, InstanceNormParams const& params, void* workspace, cudaStream_t on)
{
    if (length >= (int64_t(1) << 31) - 16)
        return cudaErrorInvalidValue;
    bool const stream = streams(2 * rows * length * size_of(type));
    return with_type(type, [&](auto tag) {
        using T = typename decltype(tag)::type;
        auto const* const in = static_cast<T const*>(x);
        auto* const out = static_cast<T*>(y);
        StagedPlan const staged = plan_staged_rows(type, length);
        if (plan.blocks == 1 && plan.stages == 0 && staged.lanes > 0)
            return launch_staged(instance_norm_staged_rows_kernel<T>, staged, rows, length, sizeof(T), on, in, out,
                rows, int(length), staged.lanes, params, stream);
        if (plan.stages > 0)
            return launch_over_grid<T>(plan, in, out, rows, length, params, workspace, stream, on);
        if (plan.blocks == 0)
            return launch_in_two_passes<T>(in, out, rows, length, params, workspace, on);
        switch (plan.packs)
        {
        case 4: return launch_rows<T, 4>(plan, in, out, rows, length, params, stream, on);
        case 8: return launch_rows<T, 8>(plan, in, out, rows, length, params, stream, on);
        case 16: return launch_rows<T, 16>(plan, in, out, rows, length, params, stream, on);
        }
        return cudaErrorInvalidValue;
    });
}

size_t instance_norm_workspace_bytes(int64_t rows, int64_t length)
{
    int64_t const vectors = window_vectors(length, vector_elements(Type::kFloat));
    if (vectors <= kTileVectors)
        return 0;
    int64_t const parts = std::max(int64_t(chunks_of(vectors).count) + 1, ceil_div(vectors, int64_t(kShareVectors)));
    return size_t(rows * parts) * sizeof(Moments);
}

} // namespace surgeon
