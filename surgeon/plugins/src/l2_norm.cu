#include "launch.h"

#include <algorithm>

namespace surgeon
{

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
    size_t const sums = ALONE ? 0 : size_t(plan.x) * (plan.y + 2) * VEC;
    size_t const shared = (size_t(kept_weights(int(channels))) + sums) * sizeof(float);
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
    return cudaLaunchKernelEx(&config, l2norm_cluster_columns_kernel<T, R>, x, weight, y, outer * channels * inner,
        inner, int(channels), tile, int(tiles), norm, stream);
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

namespace
{

constexpr int kMostStagedVectors = 384; // of a row: 48 KiB a block

// Rows that begin inside a vector, and rows so short that a thread's vectors would lie far apart.
StagedPlan plan_staged_rows(Type type, int64_t length)
{
    int const vec = vector_elements(type);
    int64_t const vectors = window_vectors(length, vec);
    if (vectors > kMostStagedVectors || (length % vec == 0 && vectors >= 16))
        return StagedPlan{0};
    return StagedPlan{std::min(next_power_of_two(ceil_div(vectors, int64_t(2))), 32)};
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

} // namespace

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
    StagedPlan const staged = plan_staged_rows(type, channels);
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

} // namespace surgeon
