#include "launch.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace surgeon
{

namespace
{

int packs_of(TilesPlan const& plan, int64_t channels)
{
    return int(ceil_div(channels, int64_t(tiles_rows(plan.x)) * plan.blocks));
}

// The vectors of a channel that a block has.
int vectors_of(TilesPlan const& plan) { return tiles_parts(plan.x) * plan.box; }

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
    // The last tile of a channel has up to `extra` columns more, since nothing follows.
    int64_t const most = (vectors_of(plan) * vec - 2 * g.extra) / step * step,
                  inside = std::max(inner - g.extra, int64_t(1));
    g.width = int(ceil_div(ceil_div(inside, ceil_div(inside, most)), step) * step);
    g.tiles = unsigned(ceil_div(inside, int64_t(g.width)));
    g.items = unsigned(outer * g.tiles);
    g.over_tiles = FastDiv<uint32_t>(g.tiles);
    g.packs = packs_of(plan, channels);
    int const boxes = tiles_parts(plan.x);
    g.box = std::min(whole_lines(ceil_div(g.width + 2 * g.extra, vec * boxes)), plan.box);
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
    int64_t const units = tiles_rows(plan.x) * tiles_parts(plan.x);
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

cudaError_t launch_part(TilesPlan const& plan, Type type, void const* x, Scalars weight, void* y, int64_t outer,
    int64_t channels, int64_t inner, Norm norm, unsigned* tickets, cudaStream_t on)
{
    ChannelTiles const g = channel_tiles(plan, type, outer, channels, inner);
    ChannelMaps maps{};
    int64_t const step = int64_t(tiles_rows(plan.x)) * plan.blocks * inner;
    cudaError_t const status = tensor_maps(
        maps, type, x, outer * channels * inner, step, g.packs, g.box * vector_elements(type), kLineBytes);
    if (status != cudaSuccess)
        return status;
    return with_type(type, [&](auto tag) {
        using T = typename decltype(tag)::type;
        auto const go = [&](auto width, auto packs) {
            constexpr int X = decltype(width)::value, R = decltype(packs)::value;
            // As much memory for any plan: how many clusters there are takes long to ask.
            if constexpr (tiles_have(X, sizeof(T)))
                return launch_resident(l2norm_tiles_kernel<T, X, R>, plan.blocks, tiles_threads(X) + kTilesAdders,
                    most_tiles_bytes(), g.items, on, maps, weight, static_cast<T*>(y), g, norm, tickets);
            else
                return cudaErrorInvalidValue;
        };
        auto const with_packs = [&](auto width) {
            switch (g.packs)
            {
            case 5: return go(width, std::integral_constant<int, 5>{});
            case 6: return go(width, std::integral_constant<int, 6>{});
            case 7: return go(width, std::integral_constant<int, 7>{});
            case 8: return go(width, std::integral_constant<int, 8>{});
            default: return go(width, std::integral_constant<int, 4>{});
            }
        };
        switch (plan.x)
        {
        case 8: return with_packs(std::integral_constant<int, 8>{});
        case 16: return with_packs(std::integral_constant<int, 16>{});
        case 24: return with_packs(std::integral_constant<int, 24>{});
        case 32: return with_packs(std::integral_constant<int, 32>{});
        case 40: return with_packs(std::integral_constant<int, 40>{});
        case 64: return with_packs(std::integral_constant<int, 64>{});
        }
        return cudaErrorInvalidValue;
    });
}

} // namespace

bool tiles_fit(TilesPlan const& plan, Type type, int64_t channels)
{
    return kStAsync && device().clusters && tiles_have(plan.x, int(size_of(type))) && plan.blocks >= 1
        && plan.blocks <= kMostBlocksInCluster
        && tiles_rows(plan.x) * plan.blocks * size_of(type) % kSectorBytes == 0
        && packs_of(plan, channels) <= kMostTilesPacks && plan.lag >= 1 && plan.lag <= kMostTilesLag
        && plan.lag + 1 < plan.stages && plan.stages <= kMostTilesStages
        && block_bytes(plan, type, channels) <= most_tiles_bytes();
}

// With as many stages as there are; where these are enough, a tile's sums have the time of two tiles, but in a single
// block, whose sums are soon there if it has few.
TilesPlan tiles_over(int blocks, int x, int box, Type type, int64_t channels)
{
    constexpr int kEnough = 4, kFew = 4;
    for (int lag = kMostTilesLag; lag > 0; --lag)
    {
        TilesPlan plan{blocks, x, box, 0, lag};
        int64_t const left = most_tiles_bytes() - memory_bytes(plan, type);
        plan.stages = int(std::clamp<int64_t>(left / stage_bytes(plan, channels), 0, kMostTilesStages));
        bool const soon = blocks == 1 && packs_of(plan, channels) <= kFew;
        if ((lag == 1 || (plan.stages >= kEnough && !soon)) && tiles_fit(plan, type, channels))
            return plan;
    }
    return kNoTiles;
}

// Fitted to 14,000 timings of 640 shapes and types. Memory costs more where pieces of channels are short, since they
// end inside lines, and where channels cut vectors. A tile costs a block a time, in bytes that pass meanwhile: for
// itself, for a thread's vectors, whole or not, more where copies are single lines, and for the columns that are brought
// together; and multiprocessors are left over that are too few for one more cluster. The slower of the two decides.
double speed_of(TilesPlan const& plan, Type type, int64_t channels, int64_t inner)
{
    constexpr double kWay = 1.015, kPiece = 14.2, kTile = 10100, kFloats = 1.67, kHalves = 2.96, kLine = 0.83,
                     kColumn = 11.8, kSentColumn = 6.9, kSharp = 13;
    constexpr double kIdle[] = {0.13, 0.035, 0.145, 0.12, 0.23, 0.28, 0.23, 0.025}; // by blocks of a cluster
    constexpr double kSplit = 31.6; // bytes of a channel
    if (plan.blocks == 0)
        return 0;
    int const columns = vectors_of(plan) * vector_elements(type);
    int64_t const bytes = inner * size_of(type);
    double const piece = double(bytes) / channel_tiles(plan, type, 1, channels, inner).tiles,
                 of_block = piece * channels / plan.blocks,
                 of_line = tiles_lanes(plan.x) == kVectorsOfLine ? kLine : 0,
                 vectors = (type == Type::kFloat ? kFloats : kHalves) + of_line,
                 split = bytes % kVectorBytes == 0 ? 0 : kSplit;
    double const memory = kWay + kPiece / piece + split / bytes;
    double const work = (kTile + vectors * tiles_threads(plan.x) * packs_of(plan, channels)
                            + (kColumn + kSentColumn * plan.blocks) * columns)
        / of_block / (1 - kIdle[plan.blocks - 1]);
    return std::pow(std::pow(memory, kSharp) + std::pow(work, kSharp), -1 / kSharp);
}

namespace
{

Ranking<TilesPlan> ranked(Type type, int64_t channels, int64_t inner)
{
    constexpr int kWays[][2]{ // vectors of a block and of a copy
        {64, 32}, {64, 24}, {40, 8}, {32, 32}, {32, 24}, {24, 8}, {16, 16}, {8, 8}};
    Ranking<TilesPlan> plans;
    for (auto const& way : kWays)
        for (int blocks = 1; blocks <= kMostBlocksInCluster; ++blocks)
        {
            TilesPlan const plan = tiles_over(blocks, way[0], way[1], type, channels);
            plans.consider(plan, speed_of(plan, type, channels, inner));
        }
    return plans;
}

} // namespace

Ranking<TilesPlan> const& rank_tiles(Type type, int64_t channels, int64_t inner)
{
    return planned_once<ranked>(type, channels, inner);
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
