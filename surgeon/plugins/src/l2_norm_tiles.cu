#include "launch.h"

#include <algorithm>
#include <numeric>

namespace surgeon
{

namespace
{

ChannelTiles channel_tiles(TilesPlan const& plan, Type type, int64_t outer, int64_t channels, int64_t inner)
{
    // Tiles begin at multiples of `step`, so that is what all of their pieces' places in a sector are multiples of.
    int64_t const sector = kSectorBytes / size_of(type), step = std::gcd(inner, int64_t(kLineBytes / size_of(type)));
    ChannelTiles g{};
    g.elements = outer * channels * inner;
    g.inner = inner;
    g.channels = int(channels);
    g.extra = int(std::max(sector - step, int64_t(0)));
    int64_t const most = (plan.x * vector_elements(type) - 2 * g.extra) / step * step;
    g.tiles = unsigned(ceil_div(inner, most));
    g.width = int(ceil_div(ceil_div(inner, int64_t(g.tiles)), step) * step);
    g.items = unsigned(outer * g.tiles);
    int64_t const spanned = ceil_div(int64_t(vector_elements(type)), channels * inner); // outer indices, by a vector
    g.within = unsigned(std::max(outer - spanned, int64_t(0)) * g.tiles);
    g.over_tiles = FastDiv<uint32_t>(g.tiles);
    return g;
}

int64_t tiles_bytes(TilesPlan const& plan, Type type)
{
    TilesMemory const memory(plan.x, vector_elements(type), int(kSectorBytes / size_of(type)), plan.blocks);
    return int64_t(kTilesStages) * kTilesThreads * kTilesPacks * kVectorBytes + memory.floats() * int64_t(sizeof(float));
}

} // namespace

TilesPlan plan_tiles(Type type, int64_t channels, int x)
{
    int const y = kTilesThreads / x;
    TilesPlan const plan{next_power_of_two(ceil_div(channels, int64_t(y) * kTilesPacks)), x};
    bool const fits = plan.blocks <= kMostBlocksInCluster && y * size_of(type) % kSectorBytes == 0
        && tiles_bytes(plan, type) <= most_shared_of_block();
    return fits && kStAsync && device().clusters ? plan : TilesPlan{0, 0};
}

cudaError_t launch_l2norm_tiles(TilesPlan const& plan, Type type, void const* x, Scalars weight, void* y,
    int64_t outer, int64_t channels, int64_t inner, Norm norm, unsigned* tickets, cudaStream_t on)
{
    if (inner >= (int64_t(1) << 30) || outer * inner > kMostBlocks)
        return cudaErrorInvalidValue;
    ChannelTiles const g = channel_tiles(plan, type, outer, channels, inner);
    return with_type(type, [&](auto tag) {
        using T = typename decltype(tag)::type;
        auto const go = [&](auto width) {
            constexpr int X = decltype(width)::value;
            if constexpr (kTilesThreads / X * sizeof(T) % kSectorBytes == 0)
                return launch_resident(l2norm_tiles_kernel<T, X>, plan.blocks, kTilesThreads + kTilesAdders,
                    tiles_bytes(plan, type), g.items, on, static_cast<T const*>(x), weight, static_cast<T*>(y), g, norm,
                    tickets);
            return cudaErrorInvalidValue;
        };
        switch (plan.x)
        {
        case 8: return go(std::integral_constant<int, 8>{});
        case 16: return go(std::integral_constant<int, 16>{});
        case 32: return go(std::integral_constant<int, 32>{});
        case 64: return go(std::integral_constant<int, 64>{});
        }
        return cudaErrorInvalidValue;
    });
}

} // namespace surgeon
