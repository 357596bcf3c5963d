#include "operators.h"
#include "plans.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>

namespace surgeon
{

namespace
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

constexpr int64_t kPadVectorsABlock = 1024; // 16 KiB
constexpr int kMostStagedVectors = 384; // of a row: 48 KiB a block

// The grid kernel: shares of 64 KiB, one in the registers and one in the shared memory of each block. Rows of
// more than 4 MiB are faster read twice.
constexpr int kShareThreads = 512, kShareVectors = kShareThreads * kSharePacks, kShareStages = 1;
constexpr int kMostStageMemory = 200 << 10, kMostShares = 64;

int vector_elements(Type type)
{
    return int(kVectorBytes / size_of(type));
}

Scalars scalars(Tensor const& t)
{
    return Scalars{t.data, t.type};
}

} // namespace

// ---------------------------------------------------------------------------------------------------- L2Norm

ColumnsPlan plan_columns(Type type, int64_t outer, int64_t channels, int64_t inner)
{
    int const element = int(size_of(type));
    int pack = kVectorBytes;
    while (pack > element && (inner * element) % pack != 0)
        pack = pack == 16 ? 8 : element;
    bool const wide = pack == kVectorBytes;
    int const usual = wide ? 8 : 16, most = wide ? 16 : 32, crowded = wide ? 64 : 16;
    int packs = std::min(next_power_of_two(channels), usual);
    int y = next_power_of_two(ceil_div(channels, int64_t(packs)));
    if (y > crowded && packs < most)
    {
        packs *= 2;
        y /= 2;
    }
    // Small blocks where all are resident at once: some write while others still read.
    bool const one_wave = outer * inner * element / pack * y <= int64_t(device().multiprocessors) * 1024;
    int const threads = y == 1 ? 256 : y > 8 ? 512 : one_wave ? 64 : 128;
    return ColumnsPlan{pack, packs, std::max(threads / y, 1), y};
}

namespace
{

template <class T, int VEC, int R, bool ALONE>
cudaError_t launch_columns(ColumnsPlan const& plan, T const* x, Scalars weight, T* y, int64_t outer, int64_t channels,
    int64_t inner, Norm norm, bool stream, cudaStream_t on)
{
    int64_t const columns = outer * inner / VEC, blocks = ceil_div(columns, int64_t(plan.x));
    if (blocks > kMostBlocks)
        return cudaErrorInvalidValue;
    size_t const shared = (size_t(kept_weights(int(channels))) + (ALONE ? 0 : size_t(plan.x) * (plan.y + 2) * VEC)) * sizeof(float);
    l2norm_columns_kernel<T, VEC, R, ALONE><<<unsigned(blocks), dim3(plan.x, plan.y), shared, on>>>(
        x, weight, y, columns, inner / VEC, int(channels), norm, stream);
    return cudaGetLastError();
}

// Only the combinations that plan_columns() makes are compiled.
template <class T, int VEC>
cudaError_t launch_columns(ColumnsPlan const& plan, T const* x, Scalars weight, T* y, int64_t outer, int64_t channels,
    int64_t inner, Norm norm, bool stream, cudaStream_t on)
{
    constexpr bool WIDE = VEC * sizeof(T) == kVectorBytes;
    auto const go = [&](auto packs, auto alone) {
        return launch_columns<T, VEC, decltype(packs)::value, decltype(alone)::value>(
            plan, x, weight, y, outer, channels, inner, norm, stream, on);
    };
    bool const alone = plan.y == 1;
    std::integral_constant<int, 8> const eight{};
    std::integral_constant<int, 16> const sixteen{};
    switch (plan.packs)
    {
    case 1: return alone ? go(std::integral_constant<int, 1>{}, std::true_type{}) : cudaErrorInvalidValue;
    case 2: return alone ? go(std::integral_constant<int, 2>{}, std::true_type{}) : cudaErrorInvalidValue;
    case 4: return alone ? go(std::integral_constant<int, 4>{}, std::true_type{}) : cudaErrorInvalidValue;
    case 8:
        if constexpr (WIDE)
            return alone ? go(eight, std::true_type{}) : go(eight, std::false_type{});
        else
            return alone ? go(eight, std::true_type{}) : cudaErrorInvalidValue;
    case 16:
        if constexpr (WIDE)
            return go(sixteen, std::false_type{});
        else
            return alone ? go(sixteen, std::true_type{}) : go(sixteen, std::false_type{});
    case 32:
        if constexpr (!WIDE)
            return go(std::integral_constant<int, 32>{}, std::false_type{});
    }
    return cudaErrorInvalidValue;
}

template <class T>
cudaError_t launch_long_columns(T const* x, Scalars weight, T* y, int64_t outer, int64_t channels, int64_t inner,
    Norm norm, cudaStream_t on)
{
    dim3 const block = inner == 1 ? dim3(1, 512) : dim3(32, 16);
    int64_t const columns = outer * inner, blocks = ceil_div(columns, int64_t(block.x));
    if (blocks > kMostBlocks)
        return cudaErrorInvalidValue;
    l2norm_long_columns_kernel<T><<<unsigned(blocks), block, block.x * block.y * sizeof(float), on>>>(
        x, weight, y, columns, inner, channels, norm);
    return cudaGetLastError();
}

template <class T, int R>
cudaError_t launch_l2norm_rows(RowsPlan const& plan, T const* x, Scalars weight, T* y, int64_t rows, int64_t length,
    Norm norm, bool stream, cudaStream_t on)
{
    int64_t const blocks = ceil_div(rows, int64_t(plan.threads / plan.lanes));
    if (blocks > kMostBlocks)
        return cudaErrorInvalidValue;
    l2norm_rows_kernel<T, R><<<unsigned(blocks), plan.threads, 0, on>>>(
        x, weight, y, rows, int(length), plan.lanes, norm, stream);
    return cudaGetLastError();
}

} // namespace

cudaError_t launch_l2norm_columns(ColumnsPlan const& plan, Type type, void const* x, Scalars weight, void* y,
    int64_t outer, int64_t channels, int64_t inner, Norm norm, cudaStream_t on)
{
    bool const stream = streams(2 * outer * channels * inner * size_of(type));
    return with_type(type, [&](auto tag) {
        using T = typename decltype(tag)::type;
        auto const* const in = static_cast<T const*>(x);
        auto* const out = static_cast<T*>(y);
        if (int64_t(plan.packs) * plan.y < channels)
            return launch_long_columns<T>(in, weight, out, outer, channels, inner, norm, on);
        switch (plan.pack_bytes / sizeof(T))
        {
        case 1: return launch_columns<T, 1>(plan, in, weight, out, outer, channels, inner, norm, stream, on);
        case 8 / sizeof(T):
            return launch_columns<T, 8 / sizeof(T)>(plan, in, weight, out, outer, channels, inner, norm, stream, on);
        case 16 / sizeof(T):
            return launch_columns<T, 16 / sizeof(T)>(plan, in, weight, out, outer, channels, inner, norm, stream, on);
        }
        return cudaErrorInvalidValue;
    });
}

ClusterColumnsPlan plan_cluster_columns(int64_t channels, int64_t inner, int x, int packs, Device const& on)
{
    ClusterColumnsPlan plan{packs, x, 256 / x, 0};
    if (!on.clusters || inner < 2)
        return plan;
    int64_t const reach = int64_t(kMostBlocksInCluster) * packs;
    while (plan.x * plan.y < 512 && reach * plan.y < channels)
        plan.y *= 2;
    if (reach * plan.y >= channels)
        plan.blocks = next_power_of_two(ceil_div(channels, int64_t(packs) * plan.y));
    return plan;
}

namespace
{

template <class T, int R>
cudaError_t launch_cluster_columns(ClusterColumnsPlan const& plan, T const* x, Scalars weight, T* y, int64_t outer,
    int64_t channels, int64_t inner, Norm norm, bool stream, cudaStream_t on)
{
    constexpr int VEC = kVectorBytes / sizeof(T);
    int const tile = (plan.x - (inner % VEC ? 2 : 0)) * VEC;
    int64_t const tiles = ceil_div(inner, int64_t(tile)), blocks = outer * tiles * plan.blocks;
    if (blocks > kMostBlocks)
        return cudaErrorInvalidValue;
    cudaLaunchAttribute cluster{};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = plan.blocks;
    cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(unsigned(blocks));
    config.blockDim = dim3(plan.x, plan.y);
    config.dynamicSmemBytes = size_t(plan.y + 2) * VEC * (plan.x + 4) * sizeof(float);
    config.stream = on;
    config.attrs = &cluster;
    config.numAttrs = 1;
    return cudaLaunchKernelEx(&config, l2norm_cluster_columns_kernel<T, R>, x, weight, y, outer * channels * inner, inner,
        int(channels), tile, int(tiles), norm, stream);
}

} // namespace

cudaError_t launch_l2norm_cluster_columns(ClusterColumnsPlan const& plan, Type type, void const* x, Scalars weight,
    void* y, int64_t outer, int64_t channels, int64_t inner, Norm norm, cudaStream_t on)
{
    bool const stream = streams(2 * outer * channels * inner * size_of(type));
    return with_type(type, [&](auto tag) {
        using T = typename decltype(tag)::type;
        auto const* const in = static_cast<T const*>(x);
        auto* const out = static_cast<T*>(y);
        switch (plan.packs)
        {
        case 4: return launch_cluster_columns<T, 4>(plan, in, weight, out, outer, channels, inner, norm, stream, on);
        case 8: return launch_cluster_columns<T, 8>(plan, in, weight, out, outer, channels, inner, norm, stream, on);
        }
        return cudaErrorInvalidValue;
    });
}

// Rows that begin inside a vector, and rows so short that a thread's vectors would lie far apart.
StagedPlan plan_staged_rows(Kind kind, Type type, int64_t length)
{
    int const vec = vector_elements(type);
    int64_t const vectors = window_vectors(length, vec);
    if (kind == Kind::kSurgeonInstanceNorm) // element by element there: only where the row's ends weigh more
        return StagedPlan{length % vec == 0 || vectors > 64 ? 0 : std::min(next_power_of_two(ceil_div(length, int64_t(16))), 32)};
    if (vectors > kMostStagedVectors || (length % vec == 0 && vectors >= 16))
        return StagedPlan{0};
    return StagedPlan{std::min(next_power_of_two(ceil_div(vectors, int64_t(2))), 32)};
}

namespace
{

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

constexpr int kMostColumnThreads = 512;

// The channels go over a cluster where a thread of the other kernel would move single elements.
ClusterColumnsPlan plan_l2norm(Type type, int64_t channels, int64_t inner, Device const& on)
{
    int64_t const bytes = inner * size_of(type);
    if (channels < 32 || bytes < 256 || bytes % (type == Type::kFloat ? 16 : 8) == 0)
        return ClusterColumnsPlan{0, 0, 0, 0};
    return plan_cluster_columns(channels, inner, type == Type::kFloat && bytes >= 2048 ? 32 : 16, 8, on);
}

cudaError_t l2norm(Type type, void const* x, Scalars weight, void* y, int64_t outer, int64_t channels, int64_t inner,
    Norm norm, cudaStream_t on)
{
    if (inner > 1)
    {
        ClusterColumnsPlan const spread = plan_l2norm(type, channels, inner, device());
        if (spread.blocks > 0)
            return launch_l2norm_cluster_columns(spread, type, x, weight, y, outer, channels, inner, norm, on);
        ColumnsPlan plan = plan_columns(type, outer, channels, inner);
        if (plan.x * plan.y > kMostColumnThreads)
            plan = ColumnsPlan{plan.pack_bytes, 1, 32, 1}; // too many channels for the registers
        return launch_l2norm_columns(plan, type, x, weight, y, outer, channels, inner, norm, on);
    }
    RowsPlan const plan = plan_rows(type, outer, channels, Device{});
    StagedPlan const staged = plan_staged_rows(Kind::kSurgeonL2Norm, type, channels);
    bool const stream = streams(2 * outer * channels * size_of(type));
    return with_type(type, [&](auto tag) {
        using T = typename decltype(tag)::type;
        auto const* const in = static_cast<T const*>(x);
        auto* const out = static_cast<T*>(y);
        if (staged.lanes > 0)
            return launch_staged(l2norm_staged_rows_kernel<T>, staged, outer, channels, sizeof(T), on, in, weight, out,
                outer, int(channels), staged.lanes, norm, stream);
        if (plan.blocks != 1)
            return launch_long_columns<T>(in, weight, out, outer, channels, 1, norm, on);
        switch (plan.packs)
        {
        case 4: return launch_l2norm_rows<T, 4>(plan, in, weight, out, outer, channels, norm, stream, on);
        case 8: return launch_l2norm_rows<T, 8>(plan, in, weight, out, outer, channels, norm, stream, on);
        case 16: return launch_l2norm_rows<T, 16>(plan, in, weight, out, outer, channels, norm, stream, on);
        }
        return cudaErrorInvalidValue;
    });
}

} // namespace

// ---------------------------------------------------------------------------------------------- InstanceNorm

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

struct Chunks
{
    int count, vectors; // of a row, of a chunk
};

Chunks chunks_of(int64_t vectors)
{
    int64_t const tiles = ceil_div(vectors, int64_t(kTileVectors)), tiles_a_chunk = ceil_div(tiles, int64_t(kMostChunks));
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
    int64_t const vectors = window_vectors(length, kVectorBytes / sizeof(T)), tiles = ceil_div(vectors, int64_t(kTileVectors));
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
        StagedPlan const staged = plan_staged_rows(Kind::kSurgeonInstanceNorm, type, length);
        if (plan.blocks == 1 && plan.stages == 0 && staged.lanes > 0)
            return launch_staged(instance_norm_staged_rows_kernel<T>, staged, rows, length, sizeof(T), on, in, out, rows,
                int(length), staged.lanes, params, stream);
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

// ------------------------------------------------------------------------------------------------------- Pad

namespace
{

struct RawAxis
{
    int64_t in, begin, end;
    bool plain() const { return begin == 0 && end == 0; }
};

template <class U>
PadGeometry<U> pad_geometry(std::vector<RawAxis> const& axes, PadMode mode)
{
    using Index = std::make_signed_t<U>;
    PadGeometry<U> g{};
    g.rank = int(axes.size());
    g.mode = mode;
    g.elements = 1;
    g.in_elements = 1;
    for (int i = 0; i < g.rank; ++i)
    {
        RawAxis const& a = axes[g.rank - 1 - i];
        int64_t const crop = std::max<int64_t>(-a.begin, 0), crop_end = std::max<int64_t>(-a.end, 0);
        U const out = U(a.in + a.begin + a.end);
        g.axes[i] = PadAxis<U>{FastDiv<U>(out), Index(std::max<int64_t>(a.begin, 0)), Index(a.in - crop - crop_end),
            Index(crop), g.in_elements};
        g.in_elements *= Index(a.in);
        g.elements *= out;
    }
    return g;
}

template <class T, class U, int ROWS, int PACKS>
cudaError_t launch_pad_kernel(T const* x, T* y, PadGeometry<U> const& g, cudaStream_t on)
{
    int64_t const vectors = std::max<int64_t>(int64_t(g.axes[0].size) / int64_t(kVectorBytes / sizeof(T)), 1);
    int const lanes = std::clamp(next_power_of_two(ceil_div(vectors, int64_t(PACKS))), 4, 32);
    int64_t const segments = ceil_div(vectors, int64_t(lanes) * PACKS), rows = int64_t(g.elements / g.axes[0].out.d);
    int64_t const blocks = ceil_div(rows * segments, int64_t(kPadThreads / lanes) * ROWS);
    if (blocks > kMostBlocks)
        return cudaErrorInvalidValue;
    bool const stream = streams((int64_t(g.in_elements) + int64_t(g.elements)) * int64_t(sizeof(T)));
    pad_kernel<T, U, ROWS, PACKS>
        <<<unsigned(blocks), kPadThreads, 0, on>>>(x, y, g, FastDiv<U>(U(segments)), U(rows * segments), lanes, stream);
    return cudaGetLastError();
}

PadBlocks pad_blocks(std::vector<RawAxis> const& axes, PadMode mode, int vec)
{
    PadBlocks g{};
    g.rank = int(axes.size());
    g.mode = mode;
    g.rows = 1;
    int64_t stride = 1;
    for (int i = g.rank - 1; i >= 0; --i)
    {
        RawAxis const& a = axes[i];
        int64_t const crop = std::max<int64_t>(-a.begin, 0), crop_end = std::max<int64_t>(-a.end, 0);
        uint64_t const out = uint64_t(a.in + a.begin + a.end);
        g.axes[i] = PadAxis<uint64_t>{FastDiv<uint64_t>(out), std::max<int64_t>(a.begin, 0), a.in - crop - crop_end, crop, stride};
        stride *= a.in;
        g.rows *= i < g.rank - 1 ? out : 1;
    }
    g.in_elements = stride;
    int64_t const size = g.axes[g.rank - 1].size, width = int64_t(g.axes[g.rank - 1].out.d);
    int64_t const vectors = std::max<int64_t>(size / vec, 1);
    g.rows_a_block = int(std::clamp<int64_t>(kPadVectorsABlock * vec / width, 1, kPadThreads));
    g.segment = int(std::min<int64_t>(vectors, g.rows_a_block > 1 ? vectors : kPadVectorsABlock));
    g.vectors = FastDiv<uint32_t>(uint32_t(g.segment));
    g.border = FastDiv<uint32_t>(uint32_t(std::min<int64_t>(width, width - size + 2 * (vec - 1))));
    return g;
}

template <class T>
cudaError_t launch_pad_blocks(T const* x, T* y, int64_t elements, PadBlocks const& g, cudaStream_t on)
{
    PadAxis<uint64_t> const& last = g.axes[g.rank - 1];
    int64_t const blocks = ceil_div(int64_t(g.rows), int64_t(g.rows_a_block));
    int64_t const vectors = last.size / int64_t(kVectorBytes / sizeof(T));
    int64_t const segments = std::max<int64_t>(1, ceil_div(vectors, int64_t(g.segment)));
    if (blocks > kMostBlocks || segments > 65535 || last.out.d >= (uint64_t(1) << 31))
        return cudaErrorInvalidValue;
    bool const stream = streams((g.in_elements + elements) * int64_t(sizeof(T)));
    pad_blocks_kernel<T><<<dim3(unsigned(blocks), unsigned(segments)), kPadThreads, 0, on>>>(x, y, g, stream);
    return cudaGetLastError();
}

std::vector<RawAxis> pad_axes(Attributes const& a, Tensor const& x)
{
    std::vector<RawAxis> axes;
    auto const add = [&](RawAxis const& axis) {
        if (!axes.empty() && axes.back().plain() && axis.plain())
            axes.back().in *= axis.in;
        else
            axes.push_back(axis);
    };
    auto const axis_of = [&](int i) { return RawAxis{x.dims[i], a.pads[i], a.pads[i + x.rank]}; };
    if (x.layout == Layout::kChannelsLast8)
        for (int i : {0, 2, 3, 1})
            add(axis_of(i));
    else
        for (int i = 0; i < x.rank; ++i)
            add(axis_of(i));
    return axes;
}

} // namespace

PadPlan plan_pad(Attributes const& a, Tensor const& x, Tensor const& y)
{
    constexpr int64_t kNarrow = int64_t(1) << 30; // a reflection has twice its extent for a period
    bool const wide = std::max(x.elements(), y.elements()) > kNarrow;
    RawAxis const last = pad_axes(a, x).back();
    if (size_of(x.type) == 4 || last.plain())
        return PadPlan{0, 0, wide};
    return last.in * size_of(x.type) <= 8 * kVectorBytes ? PadPlan{2, 1, wide} : PadPlan{1, 4, wide};
}

cudaError_t launch_pad(PadPlan const& plan, Attributes const& a, Tensor const& x, Tensor const& y, cudaStream_t on)
{
    std::vector<RawAxis> const axes = pad_axes(a, x);
    auto const launch = [&](auto tag) {
        using T = typename decltype(tag)::type;
        auto const* const in = static_cast<T const*>(x.data);
        auto* const out = static_cast<T*>(y.data);
        if (plan.rows == 0)
            return launch_pad_blocks(in, out, y.elements(), pad_blocks(axes, PadMode(a.mode), kVectorBytes / sizeof(T)), on);
        if (plan.wide)
            return launch_pad_kernel<T, uint64_t, 1, 2>(in, out, pad_geometry<uint64_t>(axes, PadMode(a.mode)), on);
        PadGeometry<uint32_t> const g = pad_geometry<uint32_t>(axes, PadMode(a.mode));
        switch (plan.rows * 10 + plan.packs)
        {
        case 12: return launch_pad_kernel<T, uint32_t, 1, 2>(in, out, g, on);
        case 21: return launch_pad_kernel<T, uint32_t, 2, 1>(in, out, g, on);
        case 14: return launch_pad_kernel<T, uint32_t, 1, 4>(in, out, g, on);
        }
        return cudaErrorInvalidValue;
    };
    return size_of(x.type) == 4 ? launch(Tag<float>{}) : launch(Tag<__half>{}); // bits are moved, not interpreted
}

namespace
{

// -------------------------------------------------------------------------------------- LeakyRelu and PRelu

constexpr int kElementwisePacks = 4, kElementwiseThreads = 256;

template <class T>
unsigned elementwise_blocks(int64_t elements)
{
    int64_t const a_block = int64_t(kElementwiseThreads) * kElementwisePacks * (kVectorBytes / sizeof(T));
    int64_t const blocks = ceil_div(elements, a_block);
    return blocks > kMostBlocks ? 0 : unsigned(blocks);
}

cudaError_t leaky_relu(Attributes const& a, Tensor const& x, Tensor const& y, cudaStream_t on)
{
    int64_t const elements = x.elements();
    bool const stream = streams(2 * elements * size_of(x.type));
    return with_type(x.type, [&](auto tag) {
        using T = typename decltype(tag)::type;
        leaky_relu_kernel<T, kElementwisePacks><<<elementwise_blocks<T>(elements), kElementwiseThreads, 0, on>>>(
            static_cast<T const*>(x.data), static_cast<T*>(y.data), elements, a.alpha, stream);
        return cudaGetLastError();
    });
}

SlopeGeometry slope_geometry(Tensor const& x, Tensor const& slope)
{
    struct Axis
    {
        int64_t extent, stride;
    };
    std::vector<Axis> axes; // innermost first
    int64_t stride = 1;
    for (int i = x.rank - 1; i >= 0; --i)
    {
        int const j = i - (x.rank - slope.rank);
        int64_t const own = j >= 0 ? slope.dims[j] : 1;
        Axis const axis{x.dims[i], own == 1 ? 0 : stride};
        stride *= own;
        if (axis.extent == 1)
            continue;
        if (!axes.empty() && axis.stride == axes.back().stride * (axis.stride ? axes.back().extent : 1)
            && (axis.stride != 0) == (axes.back().stride != 0))
            axes.back().extent *= axis.extent;
        else
            axes.push_back(axis);
    }
    if (axes.empty())
        axes.push_back(Axis{1, 0});
    SlopeGeometry g{};
    g.rank = int(axes.size());
    for (int i = 0; i < g.rank; ++i)
    {
        Axis const& axis = axes[g.rank - 1 - i];
        g.extents[i] = FastDiv<uint64_t>(uint64_t(axis.extent));
        if (axis.extent < (int64_t(1) << 31))
            g.extents32[i] = FastDiv<uint32_t>(uint32_t(axis.extent));
        g.strides[i] = axis.stride;
    }
    return g;
}

cudaError_t prelu(Tensor const& x, Tensor const& slope, Tensor const& y, cudaStream_t on)
{
    int64_t const elements = x.elements();
    bool const stream = streams(2 * elements * size_of(x.type));
    SlopeGeometry const g = slope_geometry(x, slope);
    return with_type(x.type, [&](auto tag) {
        using T = typename decltype(tag)::type;
        prelu_kernel<T, kElementwisePacks><<<elementwise_blocks<T>(elements), kElementwiseThreads, 0, on>>>(
            static_cast<T const*>(x.data), scalars(slope), static_cast<T*>(y.data), elements, g, stream);
        return cudaGetLastError();
    });
}

int axis_in(Attributes const& a, int rank)
{
    return a.axis < 0 ? a.axis + rank : a.axis;
}

std::string number(int64_t n)
{
    return std::to_string(n);
}

// Elements of a small input, or -1 while an extent is unknown.
int64_t known_elements(Tensor const& t)
{
    for (int i = 0; i < t.rank; ++i)
        if (t.dims[i] < 0)
            return -1;
    return t.elements();
}

std::string check_per_channel(Tensor const& x, int axis, Tensor const& t, char const* what)
{
    int64_t const have = known_elements(t), want = x.dims[axis];
    if (have >= 0 && want >= 0 && have != want)
        return std::string(what) + " has " + number(have) + " elements, axis " + number(axis) + " of the input "
            + number(want);
    if (t.type != x.type && t.type != Type::kFloat)
        return std::string(what) + " must be fp32 or of the input's type";
    return "";
}

std::string check_pads(Attributes const& a, Tensor const& x)
{
    if (a.pads_count != 2 * x.rank)
        return "pads has " + number(a.pads_count) + " entries, the input has " + number(x.rank) + " axes";
    for (int i = 0; i < x.rank; ++i)
    {
        int64_t const begin = a.pads[i], end = a.pads[i + x.rank];
        if (x.dims[i] >= 0 && x.dims[i] + std::min<int64_t>(begin, 0) + std::min<int64_t>(end, 0) <= 0
            && (begin != 0 || end != 0))
            return "the pads of axis " + number(i) + " crop all of its " + number(x.dims[i]) + " elements";
    }
    return "";
}

std::string check_slope(Tensor const& x, Tensor const& slope)
{
    if (slope.rank > x.rank)
        return "slope has more axes than the input";
    for (int j = 0; j < slope.rank; ++j)
    {
        int64_t const have = slope.dims[j], want = x.dims[j + x.rank - slope.rank];
        if (have >= 0 && want >= 0 && have != 1 && have != want)
            return "slope does not broadcast to the input: " + number(have) + " against " + number(want);
    }
    return slope.type == x.type || slope.type == Type::kFloat ? "" : "slope must be fp32 or of the input's type";
}

} // namespace

// ----------------------------------------------------------------------------------------------- the interface

int64_t growth(Kind kind, Attributes const& a, int axis)
{
    return kind == Kind::kSurgeonReflectPad ? int64_t(a.pads[axis]) + a.pads[axis + a.pads_count / 2] : 0;
}

std::string check(Kind kind, Attributes const& a, Tensor const* inputs, int count)
{
    PluginInfo const& info = plugin_info(kind);
    Tensor const& x = inputs[0];
    if (count < info.fewest_inputs || count > info.most_inputs)
        return "it takes " + number(info.fewest_inputs) + " to " + number(info.most_inputs) + " inputs, not "
            + number(count);
    if (x.rank > kMaxRank)
        return "the input has more than " + number(kMaxRank) + " axes";
    switch (kind)
    {
    case Kind::kSurgeonL2Norm:
    {
        int const axis = axis_in(a, x.rank);
        if (axis < 0 || axis >= x.rank)
            return "axis " + number(a.axis) + " is none of the input's " + number(x.rank);
        return count == 2 ? check_per_channel(x, axis, inputs[1], "weight") : "";
    }
    case Kind::kSurgeonInstanceNorm:
    {
        if (x.rank < 3 || x.rank > 5)
            return "the input must have 3 to 5 axes, not " + number(x.rank);
        if (count == 2)
            return "scale comes without bias";
        std::string const wrong = count == 3 ? check_per_channel(x, 1, inputs[1], "scale") : "";
        return wrong.empty() && count == 3 ? check_per_channel(x, 1, inputs[2], "bias") : wrong;
    }
    case Kind::kSurgeonReflectPad: return check_pads(a, x);
    case Kind::kSurgeonPRelu: return check_slope(x, inputs[1]);
    default: return "";
    }
}

bool takes_channels_last(Kind kind, Attributes const& a, int rank, int64_t const* dims)
{
    if (rank != 4 || dims[1] <= 0 || dims[1] % 8 != 0)
        return false;
    switch (kind)
    {
    case Kind::kSurgeonL2Norm: return axis_in(a, rank) == 1;
    case Kind::kSurgeonReflectPad: return a.pads_count == 8 && a.pads[1] == 0 && a.pads[5] == 0;
    case Kind::kSurgeonLeakyRelu: return true;
    default: return false;
    }
}

size_t workspace_bytes(Kind kind, int rank, int64_t const* dims)
{
    if (kind != Kind::kSurgeonInstanceNorm || rank < 3)
        return 0;
    int64_t length = 1;
    for (int i = 2; i < rank; ++i)
        length *= std::max<int64_t>(dims[i], 1);
    int64_t const vectors = window_vectors(length, vector_elements(Type::kFloat));
    if (vectors <= kTileVectors)
        return 0;
    int64_t const parts = std::max(int64_t(chunks_of(vectors).count) + 1, ceil_div(vectors, int64_t(kShareVectors)));
    return size_t(std::max<int64_t>(dims[0], 1) * std::max<int64_t>(dims[1], 1) * parts) * sizeof(Moments);
}

cudaError_t run(Kind kind, Attributes const& a, Tensor const* inputs, int count, Tensor const& output,
    void* workspace, cudaStream_t on)
{
    Tensor const& x = inputs[0];
    if (output.elements() == 0)
        return cudaSuccess;
    if (!aligned(x.data) || !aligned(output.data))
        return cudaErrorMisalignedAddress;
    switch (kind)
    {
    case Kind::kSurgeonL2Norm:
    {
        int const axis = axis_in(a, x.rank);
        int64_t outer = 1, inner = 1;
        for (int i = 0; i < x.rank; ++i)
            (i < axis ? outer : inner) *= i == axis ? 1 : x.dims[i];
        if (x.layout == Layout::kChannelsLast8)
        {
            outer *= inner;
            inner = 1;
        }
        return l2norm(x.type, x.data, count == 2 ? scalars(inputs[1]) : Scalars{}, output.data, outer, x.dims[axis],
            inner, Norm{NormMode(a.mode), a.epsilon}, on);
    }
    case Kind::kSurgeonInstanceNorm:
    {
        int64_t const rows = x.dims[0] * x.dims[1], length = x.elements() / rows;
        bool const affine = count == 3;
        InstanceNormParams const params{affine ? scalars(inputs[1]) : Scalars{},
            affine ? scalars(inputs[2]) : Scalars{}, x.dims[1], a.epsilon, a.slope};
        RowsPlan const plan = plan_rows(x.type, rows, length, device());
        return launch_instance_norm(plan, x.type, x.data, output.data, rows, length, params, workspace, on);
    }
    case Kind::kSurgeonReflectPad: return launch_pad(plan_pad(a, x, output), a, x, output, on);
    case Kind::kSurgeonLeakyRelu: return leaky_relu(a, x, output, on);
    case Kind::kSurgeonPRelu: return prelu(x, inputs[1], output, on);
    case Kind::kCount: break;
    }
    return cudaErrorInvalidValue;
}

} // namespace surgeon
