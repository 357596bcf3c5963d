#include "launch.h"

#include <algorithm>
#include <numeric>

namespace surgeon
{

namespace
{

int packs_of(TilesPlan const& plan, int64_t channels)
{
    return int(ceil_div(channels, int64_t(kTilesThreads / plan.x) * plan.blocks));
}

// The vectors of a channel that a block has.
int vectors_of(TilesPlan const& plan) { return plan.x / std::min(plan.x, kMostTilesBox) * plan.box; }

int whole_lines(int vectors) { return int(ceil_div(vectors, kVectorsOfLine) * kVectorsOfLine); }

ChannelTiles channel_tiles(TilesPlan const& plan, Type type, int64_t outer, int64_t channels, int64_t inner)
{
    // Tiles begin at multiples of `step`, so that is what all of their pieces' places in a sector are multiples of.
    int64_t const sector = kSectorBytes / size_of(type), step = std::gcd(inner, int64_t(kLineBytes / size_of(type)));
    int const vec = vector_elements(type);
    ChannelTiles g{};
    g.inner = inner;
    g.channels = int(channels);
    g.extra = int(std::max(sector - step, int64_t(0)));
    int64_t const most = (vectors_of(plan) * vec - 2 * g.extra) / step * step;
    g.tiles = unsigned(ceil_div(inner, most));
    g.width = int(ceil_div(ceil_div(inner, int64_t(g.tiles)), step) * step);
    g.items = unsigned(outer * g.tiles);
    g.over_tiles = FastDiv<uint32_t>(g.tiles);
    g.packs = packs_of(plan, channels);
    g.box = std::min(whole_lines(ceil_div(g.width + 2 * g.extra, vec)), plan.box);
    g.unit = whole_lines(g.packs * g.box);
    g.stages = plan.stages;
    g.lag = plan.lag;
    return g;
}

int64_t memory_bytes(TilesPlan const& plan, Type type)
{
    TilesMemory const memory(
        plan.x, vector_elements(type), int(kSectorBytes / size_of(type)), plan.blocks, plan.lag + 1);
    return memory.floats() * int64_t(sizeof(float));
}

int64_t stage_bytes(TilesPlan const& plan, int64_t channels)
{
    int64_t const units = kTilesThreads / std::min(plan.x, kMostTilesBox);
    return units * whole_lines(packs_of(plan, channels) * plan.box) * kVectorBytes;
}

int64_t block_bytes(TilesPlan const& plan, Type type, int64_t channels)
{
    return memory_bytes(plan, type) + plan.stages * stage_bytes(plan, channels);
}

int64_t most_tiles_bytes()
{
    constexpr int64_t kBarriers = 1 << 10; // of the kernel, beyond what others have
    return most_shared_of_block() - kBarriers;
}

// What a byte of x costs beyond its way through memory, fitted to 1,400 timings: every piece of a channel ends inside
// lines; a tile's sums, exchange and waits cost a block as much as so many bytes do; and multiprocessors are left over
// that are too few for one more cluster.
double cost_of(TilesPlan const& plan, Type type, int64_t channels, int64_t inner)
{
    constexpr int kTogether = 16; // multiprocessors that can be of one cluster
    constexpr double kPiece = 10, kTile = 1600, kColumn = 2, kSentColumn = 0.2, kIdle = 0.25;
    int const columns = vectors_of(plan) * vector_elements(type);
    double const piece = double(inner * size_of(type)) / channel_tiles(plan, type, 1, channels, inner).tiles,
                 tile = piece * channels / plan.blocks, idle = double(kTogether % plan.blocks) / kTogether;
    return kPiece / piece + (kTile + (kColumn + kSentColumn * plan.blocks) * columns) / tile + kIdle * idle;
}

} // namespace

// Channels that cut vectors lose what each end costs; short ones of halves much more than that.
double speed_of(TilesPlan const& plan, Type type, int64_t channels, int64_t inner)
{
    constexpr int64_t kShort = 720;
    constexpr double kFloats = 0.151, kHalves = 0.126, kMost = 0.978, kSoft = 0.021, kFewHalves = 0.75;
    constexpr double kSplit = 33; // bytes of a channel
    if (plan.blocks == 0)
        return 0;
    int64_t const bytes = inner * size_of(type);
    bool const split = bytes % kVectorBytes != 0;
    if (split && type != Type::kFloat && bytes < kShort)
        return kFewHalves;
    double const bound = (type == Type::kFloat ? kFloats : kHalves) / cost_of(plan, type, channels, inner);
    return least(bound, kMost, kSoft) * (1 - (split ? kSplit / bytes : 0));
}

namespace
{

cudaError_t launch_part(TilesPlan const& plan, Type type, void const* x, Scalars weight, void* y, int64_t outer,
    int64_t channels, int64_t inner, Norm norm, unsigned* tickets, cudaStream_t on)
{
    ChannelTiles const g = channel_tiles(plan, type, outer, channels, inner);
    ChannelMaps maps{};
    int64_t const step = int64_t(kTilesThreads / plan.x) * plan.blocks * inner;
    cudaError_t const status = tensor_maps(
        maps, type, x, outer * channels * inner, step, g.packs, g.box * vector_elements(type), kLineBytes);
    if (status != cudaSuccess)
        return status;
    return with_type(type, [&](auto tag) {
        using T = typename decltype(tag)::type;
        auto const go = [&](auto width, auto packs) {
            return launch_resident(l2norm_tiles_kernel<T, decltype(width)::value, decltype(packs)::value>, plan.blocks,
                kTilesThreads + kTilesAdders, block_bytes(plan, type, channels), g.items, on, maps, weight,
                static_cast<T*>(y), g, norm, tickets);
        };
        auto const with_packs = [&](auto width) {
            if (g.packs <= 4)
                return go(width, std::integral_constant<int, 4>{});
            if (g.packs == 5)
                return go(width, std::integral_constant<int, 5>{});
            if (g.packs == 6)
                return go(width, std::integral_constant<int, 6>{});
            return go(width, std::integral_constant<int, kMostTilesPacks>{});
        };
        switch (plan.x)
        {
        case 8: return with_packs(std::integral_constant<int, 8>{});
        case 16: return with_packs(std::integral_constant<int, 16>{});
        case 32: return with_packs(std::integral_constant<int, 32>{});
        case 64: return with_packs(std::integral_constant<int, 64>{});
        }
        return cudaErrorInvalidValue;
    });
}

} // namespace

bool tiles_fit(TilesPlan const& plan, Type type, int64_t channels)
{
    return kStAsync && device().clusters && plan.blocks >= 1 && plan.blocks <= kMostBlocksInCluster
        && kTilesThreads / plan.x * plan.blocks * size_of(type) % kSectorBytes == 0
        && packs_of(plan, channels) <= kMostTilesPacks && plan.lag >= 1 && plan.lag <= kMostTilesLag
        && plan.lag + 1 < plan.stages && plan.stages <= kMostTilesStages
        && block_bytes(plan, type, channels) <= most_tiles_bytes();
}

// With as many stages as there are; small tiles have the time of two of them for their sums.
TilesPlan tiles_over(int blocks, int x, int box, Type type, int64_t channels)
{
    constexpr int kSmall = 5;
    TilesPlan plan{blocks, x, box, 0, 1};
    if (packs_of(plan, channels) > kMostTilesPacks)
        return kNoTiles;
    if (packs_of(plan, channels) <= kSmall)
        plan.lag = 2;
    int64_t const left = most_tiles_bytes() - memory_bytes(plan, type);
    plan.stages = int(std::clamp<int64_t>(left / stage_bytes(plan, channels), 0, kMostTilesStages));
    return tiles_fit(plan, type, channels) ? plan : kNoTiles;
}

TilesPlan plan_tiles(Type type, int64_t channels, int64_t inner)
{
    constexpr int kWays[][2] = {{64, 32}, {32, 32}, {32, 24}, {16, 16}, {8, 8}}; // vectors of a block and of a copy
    TilesPlan best = kNoTiles;
    double lowest = 0;
    for (auto const& way : kWays)
        for (int blocks = 1; blocks <= kMostBlocksInCluster; ++blocks)
        {
            TilesPlan const plan = tiles_over(blocks, way[0], way[1], type, channels);
            if (plan.blocks == 0)
                continue;
            double const cost = cost_of(plan, type, channels, inner);
            if (best.blocks == 0 || cost < lowest)
                best = plan, lowest = cost;
        }
    return best;
}

cudaError_t launch_l2norm_tiles(TilesPlan const& plan, Type type, void const* x, Scalars weight, void* y,
    int64_t outer, int64_t channels, int64_t inner, Norm norm, unsigned* tickets, cudaStream_t on)
{
    // So many images at once that a copy's place in them has 31 bits, and whole vectors.
    int64_t const image = channels * inner, vec = vector_elements(type),
                  part = std::min(kMostBlocks / image / vec * vec, kMostBlocks / inner / vec * vec);
    if (!tiles_fit(plan, type, channels) || inner >= (int64_t(1) << 30) || part == 0)
        return cudaErrorInvalidValue;
    cudaError_t status = cudaSuccess;
    for (int64_t first = 0; first < outer && status == cudaSuccess; first += part)
    {
        int64_t const bytes = first * image * size_of(type);
        status = launch_part(plan, type, static_cast<char const*>(x) + bytes, weight, static_cast<char*>(y) + bytes,
            std::min(part, outer - first), channels, inner, norm, tickets, on);
    }
    return status;
}

} // namespace surgeon
