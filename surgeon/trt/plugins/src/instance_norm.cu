#include "launch.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

namespace surgeon
{

namespace
{

// Six blocks with shares of up to 34 KiB are resident at once, three of up to 72 KiB; of up to 104 KiB one, with two
// stages. Fewer bytes in flight were slower.
constexpr int kSmallShare = (34 << 10) / kVectorBytes, kLargeShare = (72 << 10) / kVectorBytes,
              kLargestShare = (104 << 10) / kVectorBytes;

// Of rows of halves, several of which a block takes where there are many; else each has a block.
constexpr int64_t kMostStagedHalves = 11776;

// The longer periods of fewer threads cost more than what the L2 cache brings soon.
constexpr int kMostPeriodBytesInCache = 32;

// How the blocks that share a row keep it: see RowsPlan.
void plan_shares(RowsPlan& plan, Type type, int64_t length, int blocks)
{
    int const share = share_vectors(length, vector_elements(type), blocks);
    plan.blocks = share <= kLargestShare ? blocks : 0;
    plan.stages = plan.blocks == 0 ? 0 : share <= kLargeShare ? 1 : 2;
}

} // namespace

RowsPlan plan_rows(Type type, int64_t rows, int64_t length, Device const& on)
{
    int64_t const vectors = window_vectors(length, vector_elements(type));
    RowsPlan plan{0, 0, 0, 0, 0};
    if (vectors <= 256)
        plan = RowsPlan{8, 32, 256, 1, 0};
    else if (vectors <= 2 * kTileVectors)
    {
        int const packs = vectors > kTileVectors ? 16 : 8, threads = int(ceil_div(vectors, int64_t(packs * 32)) * 32);
        plan = RowsPlan{packs, threads, threads, 1, 0};
    }
    // Shared memory is faster than registers for rows up to some length, and for all rows of halves.
    bool const clusters = on.clusters && kStAsync;
    int64_t const bytes = length * size_of(type);
    bool const halves = clusters && size_of(type) == 2, stream = 2 * rows * bytes > on.l2_bytes;
    plan.staged = bytes <= (halves && stream ? kMostStagedHalves : kMostStagedBytes);
    plan.periods = bytes <= (stream ? kMostPeriodBytes : kMostPeriodBytesInCache);
    bool const shared = !plan.staged && halves;
    int blocks = shared && vectors > kSmallShare ? 2 : 1;
    while (clusters && vectors > kTileVectors && blocks < kMostBlocksOfRow && vectors / blocks > kSmallShare)
        blocks *= 2;
    // Few rows are spread over the multiprocessors.
    int const spread = clusters ? kMostBlocksInCluster : 1;
    while (blocks < spread && 2 * rows * blocks <= on.multiprocessors && vectors / blocks > 512)
        blocks *= 2;
    if (blocks > 1 || shared)
        plan_shares(plan, type, length, blocks);
    return plan;
}

namespace
{

struct Chunks
{
    int count, vectors; // of a row, of a chunk
};

constexpr int kChunksOfMultiprocessor = 3;

// Long chunks, as long as there are a few for every multiprocessor.
Chunks chunks_of(int64_t rows, int64_t vectors)
{
    int64_t const rounds = ceil_div(vectors, int64_t(kMomentVectors)),
                  few = rows * rounds / (kChunksOfMultiprocessor * std::max(device().multiprocessors, 1)),
                  a_chunk = std::max({std::min(few, int64_t(kMostMomentRounds)),
                      ceil_div(rounds, int64_t(kMostChunks)), int64_t(1)});
    return Chunks{int(ceil_div(rounds, a_chunk)), int(a_chunk) * kMomentVectors};
}

// No fewer than the chunks of all rows, for these rows and for fewer or shorter ones, which may have more.
int64_t most_chunks(int64_t rows, int64_t vectors)
{
    int64_t const rounds = ceil_div(vectors, int64_t(kMomentVectors));
    return rows * (ceil_div(rounds, int64_t(kMostMomentRounds)) + 1)
        + 2 * kChunksOfMultiprocessor * std::max(device().multiprocessors, 1);
}

template <class T, int STAGES, int WARPS, int BLOCKS>
cudaError_t launch_over_cluster(int blocks, T const* x, T* y, int64_t rows, int64_t length,
    InstanceNormParams const& params, bool stream, cudaStream_t on)
{
    constexpr int threads = WARPS * 32 + 32;
    int const per = share_vectors(length, kVectorBytes / sizeof(T), blocks);
    size_t const shared = size_t(STAGES) * per * kVectorBytes + size_t(2) * blocks * WARPS * sizeof(Moments);
    return launch_resident(instance_norm_cluster_kernel<T, STAGES, WARPS, BLOCKS>, blocks, threads, shared, rows, on, x,
        y, rows, length, per, params, stream);
}

template <class T>
cudaError_t launch_over_cluster(RowsPlan const& plan, T const* x, T* y, int64_t rows, int64_t length,
    InstanceNormParams const& params, bool stream, cudaStream_t on)
{
    if (plan.stages == 2)
        return launch_over_cluster<T, 2, 7, 1>(plan.blocks, x, y, rows, length, params, stream, on);
    if (share_vectors(length, kVectorBytes / sizeof(T), plan.blocks) <= kSmallShare + kLineVectors)
        return launch_over_cluster<T, 1, 3, 6>(plan.blocks, x, y, rows, length, params, stream, on);
    return launch_over_cluster<T, 1, 7, 3>(plan.blocks, x, y, rows, length, params, stream, on);
}

template <class T, int R>
cudaError_t launch_rows(RowsPlan const& plan, T const* x, T* y, int64_t rows, int64_t length,
    InstanceNormParams const& params, bool stream, cudaStream_t on)
{
    int64_t const blocks = ceil_div(rows, int64_t(plan.threads / plan.lanes));
    return launch_kernel(instance_norm_rows_kernel<T, R>, blocks, plan.threads, 0, on, x, y, rows, length,
        plan.lanes, params, stream);
}

// Blocks of up to `threads` periods each, of which few threads have none.
ChannelPeriods deal_periods(InstanceNormParams const& params, int rows_of_period, int threads)
{
    constexpr int kMostHops = 16, kBusy = 15; // of 16
    int64_t const channels = params.scale.data ? params.channels : 1,
                  repeat = channels / std::gcd(channels, int64_t(rows_of_period));
    if (repeat <= threads)
        return ChannelPeriods{threads / repeat * repeat, 1, int(threads / repeat * repeat)};
    ChannelPeriods best{};
    double most = 0;
    for (int hops = 1; hops <= kMostHops && most * kMostHops < kBusy; ++hops)
    {
        int64_t const hop = hops * repeat, parts = ceil_div(hop, int64_t(threads));
        double const busy = double(hop) / double(parts * threads);
        if (busy > most)
            best = ChannelPeriods{hop, int(parts), int(ceil_div(hop, parts))};
        most = std::max(most, busy);
    }
    return best;
}

template <class T>
cudaError_t launch_periods(T const* x, T* y, int64_t rows, int64_t length, InstanceNormParams const& params,
    bool stream, cudaStream_t on)
{
    return with_period<T, kMostPeriodBytes>(length, [&](auto period) {
        using P = decltype(period);
        constexpr int kWarp = 32;
        int64_t const periods = ceil_div(rows, int64_t(P::ROWS));
        int const threads
            = spread_threads(P::THREADS, kWarp, [&](int some) { return ceil_div(periods, int64_t(some)); });
        ChannelPeriods const g = deal_periods(params, P::ROWS, threads);
        int64_t const blocks = ceil_div(periods, kPeriodsOfChannels<P> * g.hop) * g.parts;
        size_t const shared = size_t(kPeriodsOfChannels<P>) * g.a_part * P::VECTORS * kVectorBytes
            + ChannelsOfPeriods<T, P::ROWS>::bytes(threads);
        return launch_kernel(instance_norm_periods_kernel<T, P::LENGTH>, blocks, threads, shared, on, x, y,
            rows, g, params, stream);
    });
}

template <class T>
cudaError_t launch_in_two_passes(T const* x, T* y, int64_t rows, int64_t length, InstanceNormParams const& params,
    void* workspace, cudaStream_t on)
{
    int64_t const vectors = window_vectors(length, kVectorBytes / sizeof(T));
    int64_t const tiles = ceil_div(vectors, int64_t(kTileVectors));
    Chunks const chunks = chunks_of(rows, vectors);
    if (rows * tiles > kMostBlocks || workspace == nullptr)
        return cudaErrorInvalidValue;
    auto* const of_rows = static_cast<Moments*>(workspace);
    Moments* const of_chunks = of_rows + rows;
    constexpr int kMergeThreads = 128, kRowsABlock = kMergeThreads / 32;
    launch_kernel(instance_norm_moments_kernel<T>, rows * chunks.count, kTileThreads, 0, on, x, of_chunks,
        rows * length, length, chunks.count, chunks.vectors);
    launch_kernel(instance_norm_merge_kernel<kMergeThreads>, ceil_div(rows, int64_t(kRowsABlock)), kMergeThreads, 0, on,
        of_chunks, of_rows, rows, length, chunks.count);
    launch_kernel(instance_norm_apply_kernel<T>, rows * tiles, kTileThreads, 0, on, x, of_rows, y, rows * length,
        length, int(tiles), params);
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
        if (plan.periods)
            return launch_periods(in, out, rows, length, params, stream, on);
        cudaError_t status = cudaErrorInvalidConfiguration; // so far nothing has been launched
        if (plan.blocks > 0 && plan.stages > 0)
            status = launch_over_cluster<T>(plan, in, out, rows, length, params, stream, on);
        else if (plan.staged)
            status = launch_staged<T, InstanceNormParams>(
                {instance_norm_staged_kernel<T, PlainWords>, instance_norm_staged_kernel<T, TurningWords>,
                    instance_norm_staged_kernel<T, RowVectors>},
                in, out, rows, length, staged_lanes(length * sizeof(T)), 0, stream, on, params);
        if (status != cudaErrorInvalidConfiguration)
            return status;
        switch (plan.packs)
        {
        case 0: return launch_in_two_passes<T>(in, out, rows, length, params, workspace, on);
        case 8: return launch_rows<T, 8>(plan, in, out, rows, length, params, stream, on);
        case 16: return launch_rows<T, 16>(plan, in, out, rows, length, params, stream, on);
        }
        return cudaErrorInvalidValue;
    });
}

size_t instance_norm_workspace_bytes(int64_t rows, int64_t length)
{
    int64_t const vec = vector_elements(Type::kFloat), vectors = window_vectors(length, vec);
    if (vectors <= kTileVectors)
        return 0;
    return size_t(rows + most_chunks(rows, vectors)) * sizeof(Moments);
}

} // namespace surgeon
